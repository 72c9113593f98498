package log

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/felixlog/felix/internal/errcode"
)

// Errors of a log. Match with errors.Is, or by kind with errcode.Of.
var (
	// ErrFailed is what everything but reads returns after a sync failed, until the log is opened anew.
	ErrFailed = errcode.New(errcode.StorageFailed, "log: stopped after a failed sync or an unrecoverable write")
	// ErrClosed is what everything returns after Close or Delete.
	ErrClosed = errcode.New(errcode.StorageFailed, "log: closed")
	// ErrFencedEpoch refuses an append at a leader epoch older than the newest in the log.
	ErrFencedEpoch = errcode.New(errcode.FencedEpoch, "log: leader epoch is older than the log's latest")
	// ErrOutOfOrderSequence refuses a batch that does not follow the producer's last one.
	ErrOutOfOrderSequence = errcode.New(errcode.OutOfOrderSequence, "log: sequence does not follow the producer's last")
	// ErrInvalidProducerEpoch refuses a batch of an older epoch of its producer.
	ErrInvalidProducerEpoch = errcode.New(errcode.InvalidProducerEpoch, "log: producer epoch is older than the known one")
	// ErrRecordListTooLarge refuses a batch that is larger than a segment.
	ErrRecordListTooLarge = errcode.New(errcode.RecordListTooLarge, "log: batch is larger than a segment")
	// ErrNothingWritten is the reason of appends that failed and left nothing behind, as on a full disk.
	ErrNothingWritten = errcode.New(errcode.Overloaded, "log: nothing written")
	// ErrNotNext refuses a replicated batch that does not start at the log end offset.
	ErrNotNext = errcode.New(errcode.InvalidRecord, "log: replicated batch does not start at the log end offset")
)

// DamageError says that stored bytes are not what was written, and where.
type DamageError struct {
	Log      string // as in Options.Name
	File     string
	Position int64 // byte position in File
	Reason   string
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("log %s: %s is damaged at byte %d: %s", e.Log, e.File, e.Position, e.Reason)
}

// Kind implements errcode.Kinder.
func (e *DamageError) Kind() errcode.Kind { return errcode.CorruptBatch }

// isFull says that an error is about space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isEOF says that a read met the end of the file.
func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
