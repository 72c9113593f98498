package recordbatch

import (
	"fmt"

	"github.com/felixlog/felix/internal/errcode"
)

var (
	// ErrShort says that the bytes end before the batch does: a torn tail, or not yet all of it.
	ErrShort = errcode.New(errcode.CorruptBatch, "record batch: cut short")
	// ErrCRC says that the checksum does not match the bytes.
	ErrCRC = errcode.New(errcode.CorruptBatch, "record batch: checksum does not match")
	// ErrLength says that the header's length field is not possible.
	ErrLength = errcode.New(errcode.CorruptBatch, "record batch: impossible length")
	// ErrMagic says that the magic byte is none that Kafka ever had.
	ErrMagic = errcode.New(errcode.CorruptBatch, "record batch: unknown magic")
	// ErrOldFormat says that the bytes are a message set of format 0 or 1, which is neither stored nor converted.
	ErrOldFormat = errcode.New(errcode.UnsupportedFormat, "record batch: message format older than v2")
	// ErrCodec says that the attributes name a codec that does not exist.
	ErrCodec = errcode.New(errcode.CorruptBatch, "record batch: unknown compression codec")
	// ErrDecompress says that the compressed bytes are not valid for their codec.
	ErrDecompress = errcode.New(errcode.CorruptBatch, "record batch: compressed records do not decode")
	// ErrDecodedTooLarge says that the records decode to more than the given limit.
	ErrDecodedTooLarge = errcode.New(errcode.BatchTooLarge, "record batch: records decode to more than the limit")
	// ErrTooLarge says that a batch being built does not fit the format's 31-bit length.
	// It also stands for timestamps that are too far apart for the format's deltas.
	ErrTooLarge = errcode.New(errcode.BatchTooLarge, "record batch: larger than the format allows")

	// errEmpty says that a builder was given no record.
	errEmpty = errcode.New(errcode.InvalidRecord, "record batch: no records")
)

// reject makes the error of a batch that is refused as a whole.
func reject(kind errcode.Kind, format string, args ...any) error {
	return &errcode.RecordError{Code: kind, Index: -1, Text: "record batch: " + fmt.Sprintf(format, args...)}
}

// rejectRecord makes the error of a batch that is refused for one of its records.
func rejectRecord(kind errcode.Kind, index int, format string, args ...any) error {
	return &errcode.RecordError{Code: kind, Index: int32(index), Text: fmt.Sprintf(format, args...)}
}
