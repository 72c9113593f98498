package errcode

import (
	"errors"
	"fmt"
)

// Error is a failure of one kind with a sentence for people. Use it as a sentinel: errors.Is compares by identity.
type Error struct {
	kind Kind
	text string
}

// New makes a sentinel of kind k. The text is "package: what happened", lower case, no stop.
func New(k Kind, text string) *Error { return &Error{kind: k, text: text} }

// Newf makes an error of kind k for one occurrence, with formatted text; %w wraps a cause.
func Newf(k Kind, format string, args ...any) error {
	return &wrapped{kind: k, err: fmt.Errorf(format, args...)}
}

// Error is the sentence.
func (e *Error) Error() string { return e.text }

// Kind is the row this error belongs to.
func (e *Error) Kind() Kind { return e.kind }

type wrapped struct {
	kind Kind
	err  error
}

func (w *wrapped) Error() string { return w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }
func (w *wrapped) Kind() Kind    { return w.kind }

// Kinder is what every error of a known kind implements.
type Kinder interface {
	error
	Kind() Kind
}

// Of returns the kind of err: OK for nil, the outermost Kinder's kind in its chain, else Internal.
func Of(err error) Kind {
	if err == nil {
		return OK
	}
	var k Kinder
	if errors.As(err, &k) {
		return k.Kind()
	}
	return Internal
}

// NotLeaderError says that this node does not lead a shard, and who does as far as it knows.
type NotLeaderError struct {
	Leader int32 // broker number, -1 unknown
	Epoch  int32 // leader epoch of that leadership, -1 unknown
}

// Error is the sentence.
func (e *NotLeaderError) Error() string {
	return fmt.Sprintf("not the leader: broker %d leads at leader epoch %d", e.Leader, e.Epoch)
}

// Kind is NotLeader.
func (e *NotLeaderError) Kind() Kind { return NotLeader }

// RangeError says that an offset lies outside what can be read.
type RangeError struct {
	Requested int64
	Start     int64 // log start offset
	End       int64 // exclusive bound of what may be asked for
}

// Error is the sentence.
func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d out of range [%d, %d]", e.Requested, e.Start, e.End)
}

// Kind is OffsetOutOfRange.
func (e *RangeError) Kind() Kind { return OffsetOutOfRange }

// TooOld reports whether the offset lies below the log start offset, as opposed to past the end.
func (e *RangeError) TooOld() bool { return e.Requested < e.Start }

// RecordError says that records of a batch are not acceptable, naming one by its index in the batch.
type RecordError struct {
	Code  Kind
	Index int32 // index of the record in its batch, -1 when the batch as a whole is meant
	Text  string
}

// Error is the sentence.
func (e *RecordError) Error() string {
	if e.Index < 0 {
		return e.Text
	}
	return fmt.Sprintf("record %d: %s", e.Index, e.Text)
}

// Kind is the kind that the error was made with.
func (e *RecordError) Kind() Kind { return e.Code }
