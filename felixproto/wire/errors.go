package wire

import (
	"strings"

	"github.com/felixlog/felix/internal/errcode"
)

// ErrTooLong says that a value cannot be written because its length field cannot hold its size: a name, key or batch of one's own.
var ErrTooLong = errcode.New(errcode.InvalidRequest, "wire: too long for its length field")

// Fault is what was wrong with an input. The set is closed, so its names serve as metric labels.
type Fault uint8

// The faults.
const (
	FaultNone         Fault = iota
	FaultMagic              // a frame does not begin with the magic
	FaultVersion            // a frame of another version
	FaultTooLarge           // a frame above the limit
	FaultFlags              // an unknown flag, or flags that make no layout
	FaultShortHeader        // the stream ended inside a header
	FaultTruncated          // a length or count says more than there is, or the stream ended inside a payload
	FaultTrailing           // bytes behind the end of a binary payload
	FaultTooMany            // a count above its limit
	FaultUTF8               // text that is not UTF-8
	FaultValue              // a binary field with a value that means nothing
	FaultJSON               // not a JSON object
	FaultTooDeep            // JSON nested too deep, or too many keys in one object
	FaultDuplicateKey       // a key stands twice in a JSON object
	FaultType               // a JSON object without a string type
	FaultMissing            // a required field is missing or null
	FaultField              // a field of the wrong type, out of range, not base64, or against a rule of its message
	FaultExclusive          // two fields that exclude each other, or none of two of which one is needed
	faultCount
)

var faultNames = [faultCount]string{
	"none", "magic", "version", "too_large", "flags", "short_header", "truncated", "trailing", "too_many", "utf8", "value", "json",
	"too_deep", "duplicate_key", "type", "missing", "field", "exclusive",
}

var faultTexts = [faultCount]string{
	"no fault", "not a Felix frame", "unknown frame version", "frame too large", "unknown or contradictory frame flags",
	"stream ended inside a frame header", "truncated", "bytes behind the end", "count above the limit", "invalid UTF-8", "invalid value",
	"not a JSON object", "JSON too deep or too wide", "duplicate key", "no message type", "missing field", "invalid field",
	"fields exclude each other or one is missing",
}

// String is the fault's name: lower-case words with underscores.
func (f Fault) String() string {
	if f >= faultCount {
		return "unknown"
	}
	return faultNames[f]
}

// Verdict is what may become of the stream that an input came on.
type Verdict uint8

// The verdicts.
const (
	// Continue: the stream is at a frame boundary and the failure can be told apart from others: answer invalid_request and read on.
	Continue Verdict = iota
	// EndStream: answer invalid_request where an answer is possible, then end the stream.
	EndStream
	// AbortStream: nothing sensible can be answered: reset the stream.
	AbortStream
)

// DecodeError says why an input was refused. Its kind is always errcode.InvalidRequest. It holds nothing of the input but names of
// our own and the request id, so its text may be logged and sent.
type DecodeError struct {
	// Fault is what was wrong.
	Fault Fault
	// Verdict is what may become of the stream.
	Verdict Verdict
	// Type is the type of the JSON message, if it is one that we know.
	Type string
	// Field is the JSON field that is meant, if it is one.
	Field string
	// RequestID is what an answer can name, if it could be read: from the prefix of an acked publish or from a JSON message.
	RequestID Opt[uint64]
	// Acked says that a JSON publish asks for an answer, whether or not in a way that is understood.
	Acked bool
}

// Error is the sentence.
func (e *DecodeError) Error() string {
	var b strings.Builder
	b.WriteString("wire: ")
	if e.Type != "" {
		b.WriteString(e.Type + ": ")
	}
	if e.Fault < faultCount {
		b.WriteString(faultTexts[e.Fault])
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String()
}

// Kind is InvalidRequest.
func (e *DecodeError) Kind() errcode.Kind { return errcode.InvalidRequest }

// UnknownTypeError says that a JSON message has a type that its receiver does not take. A server answers Unsupported if the client
// offered FeatureUnsupported, else it ends the stream; the frame itself was sound.
type UnknownTypeError struct {
	// Type is the type as received, at most 255 bytes.
	Type string
	// RequestID is the message's request_id, if it has one that is an unsigned integer.
	RequestID Opt[uint64]
}

// Error is the sentence.
func (e *UnknownTypeError) Error() string { return "wire: unknown message type" }

// Kind is UnsupportedVersion.
func (e *UnknownTypeError) Kind() errcode.Kind { return errcode.UnsupportedVersion }

// Opt is a value that may be absent.
type Opt[T any] struct {
	// Value is the zero value when Set is false.
	Value T
	// Set says that the field is there.
	Set bool
}

// Some is a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or is the value, or otherwise if it is absent.
func (o Opt[T]) Or(otherwise T) T {
	if o.Set {
		return o.Value
	}
	return otherwise
}
