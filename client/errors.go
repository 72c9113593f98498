package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// Code is why the server refused a request, as it is named on the wire. The set is open: a newer server may send others.
type Code string

// The codes.
const (
	CodeUnauthenticated  Code = "unauthenticated"   // no token, or one that is not valid for the tenant
	CodeForbidden        Code = "forbidden"         // the right is missing, or another tenant is meant
	CodeNotFound         Code = "not_found"         // no such tenant, namespace or stream, or not yet
	CodeInvalidRequest   Code = "invalid_request"   // malformed, or not possible for this stream
	CodeShardUnavailable Code = "shard_unavailable" // nobody serves the shard now; Error.Reason says why
	CodeNotLeader        Code = "not_leader"        // another server leads the shard, and its address is not known
	CodeQuorumTimeout    Code = "quorum_timeout"    // too few replicas have confirmed the write in time
	CodeLeadershipLost   Code = "leadership_lost"   // the shard has got another leader meanwhile
	CodeUnacknowledged   Code = "unacknowledged"    // the server has stopped waiting for the outcome
	CodeOverloaded       Code = "overloaded"        // no room, full disk, or above the tenant's rate; Error.Reason says which
	CodeLimitExceeded    Code = "limit_exceeded"    // a configured bound
	CodeDraining         Code = "draining"          // the server is stopping
	CodeInternal         Code = "internal"          // a defect of the server
	CodeStorage          Code = "storage"           // the disk has failed
	CodeStaleClaim       Code = "stale_claim"       // a queue group's claim is gone
	CodeRevoked          Code = "revoked"           // the principal's rights were withdrawn
	CodeUnsupported      Code = "unsupported"       // the server does not know the request
)

// Class says what may be done after a refusal. Only the class decides; codes may come with other classes than their usual ones.
type Class uint8

// The classes. ClassNone is that of an error without one, which old servers send.
const (
	ClassNone           Class = iota
	ClassRetry                // nothing was applied: do it again
	ClassRetryAfter           // nothing was applied: do it again after Error.RetryAfter, or a little
	ClassRedirect             // nothing was applied: the shard's leader is elsewhere
	ClassOutcomeUnknown       // it may have been applied: again only if twice does no harm
	ClassFatal                // nothing was applied, and the same request will fail again
)

// String is the class's name on the wire, empty for ClassNone.
func (c Class) String() string { return wire.Retry(c).String() }

// Error is a refusal by the server. Match it by code: errors.Is(err, client.ErrNotFound), or errors.As for its fields.
type Error struct {
	// Code is why, empty when the server sent none.
	Code Code
	// Class is what may be done about it.
	Class Class
	// Message is a sentence for people.
	Message string
	// Reason is a word for programs that goes with some codes, empty for none: "moving", "publish_queue_full", "tenant_quota", ...
	Reason string
	// RetryAfter is how long the server suggests to wait, 0 for nothing.
	RetryAfter time.Duration
}

// Error is the message behind the code and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("felix: ")
	if e.Code != "" {
		b.WriteString(string(e.Code))
		if e.Reason != "" {
			b.WriteString(" (" + e.Reason + ")")
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Is reports whether target is the sentinel of e's code, or ErrOutcomeUnknown and e's class is that.
func (e *Error) Is(target error) bool {
	if target == ErrOutcomeUnknown {
		return e.Class == ClassOutcomeUnknown
	}
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && *t == Error{Code: t.Code}
}

// Sentinels for errors.Is, a code each.
var (
	ErrUnauthenticated  error = &Error{Code: CodeUnauthenticated}
	ErrForbidden        error = &Error{Code: CodeForbidden}
	ErrNotFound         error = &Error{Code: CodeNotFound}
	ErrInvalidRequest   error = &Error{Code: CodeInvalidRequest}
	ErrShardUnavailable error = &Error{Code: CodeShardUnavailable}
	ErrOverloaded       error = &Error{Code: CodeOverloaded}
	ErrLimitExceeded    error = &Error{Code: CodeLimitExceeded}
	ErrDraining         error = &Error{Code: CodeDraining}
	ErrUnsupported      error = &Error{Code: CodeUnsupported}
)

// Failures that arise here and need no data.
var (
	// ErrClosed says that the Client, Publisher or Subscription is closed.
	ErrClosed = errors.New("felix: closed")
	// ErrOutcomeUnknown matches every error after which a write may or may not have happened: a lost answer, or a refusal of
	// ClassOutcomeUnknown.
	ErrOutcomeUnknown = errors.New("felix: it may or may not have been written")
	// ErrTooLarge says that a record does not fit a frame.
	ErrTooLarge = errors.New("felix: record too large")
	// ErrProtocol says that the server sent something that the protocol does not allow there.
	ErrProtocol = errors.New("felix: protocol violation by the server")
)

// ConnectionError says that a server could not be reached, or that the connection to it was lost. Repeating helps when it is back.
type ConnectionError struct {
	// Addr is the server's address.
	Addr string
	// Err is what the network said.
	Err error
}

// Error names the address.
func (e *ConnectionError) Error() string {
	return "felix: connection to " + e.Addr + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Reasons of a CursorError.
const (
	TooOld   = "too_old"   // retention has removed the offset
	InFuture = "in_future" // the offset is past the end of the shard
)

// CursorError says that an offset cannot be read.
type CursorError struct {
	Shard uint32
	// Reason is TooOld or InFuture.
	Reason string
	// Requested is the offset that was asked for.
	Requested int64
	// Available is the nearest one that can be read: the oldest that is kept, or the next one to be written.
	Available int64
}

// Error is a sentence.
func (e *CursorError) Error() string {
	return fmt.Sprintf("felix: shard %d: offset %d is %s, %d is available", e.Shard, e.Requested, strings.ReplaceAll(e.Reason, "_", " "), e.Available)
}

// LaggedError says that a subscription of a durable stream fell so far behind that the server stopped queueing for it. Nothing is lost:
// the subscription goes on from ResumeFrom with the next call, reading from the server's log.
type LaggedError struct {
	Shard uint32
	// ResumeFrom is the offset of the next event that will be delivered.
	ResumeFrom int64
}

// Error is a sentence.
func (e *LaggedError) Error() string {
	return fmt.Sprintf("felix: shard %d: the subscription fell behind, and resumes from offset %d", e.Shard, e.ResumeFrom)
}

// GapError says that a subscription of an ephemeral stream was interrupted: what was published meanwhile is lost to it. It goes on with
// the next call. Err is what interrupted it.
type GapError struct {
	Shard uint32
	Err   error
}

// Error is a sentence.
func (e *GapError) Error() string {
	return fmt.Sprintf("felix: shard %d: events may be missing, as an ephemeral stream has no history: %v", e.Shard, e.Err)
}

// Unwrap is the cause.
func (e *GapError) Unwrap() error { return e.Err }

// OffsetMismatchError refuses a conditional write: the shard's next offset is another one. Nothing was written.
type OffsetMismatchError struct {
	// Tail is the shard's next offset.
	Tail int64
}

// Error is a sentence.
func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("felix: not written: the shard's next offset is %d", e.Tail)
}

// SequenceError says that the server cannot place a batch of an idempotent publisher, because it has forgotten the publisher or
// remembers something else under the batch's number. The publisher goes on under a new identity; this batch is given up, and when it had
// been sent before over a connection that was lost, it may have been written then.
type SequenceError struct {
	// Reason is the server's word: unknown_producer, sequence_expired, sequence_reused or sequence_gap.
	Reason string
	// Uncertain says that the batch had been sent before.
	Uncertain bool
}

// Error is a sentence.
func (e *SequenceError) Error() string {
	return "felix: the server cannot place the batch: " + e.Reason
}

// Is reports whether target is ErrOutcomeUnknown and that is so.
func (e *SequenceError) Is(target error) bool { return target == ErrOutcomeUnknown && e.Uncertain }

// outcomeUnknown is a cause after which a write may have happened.
type outcomeUnknown struct{ err error }

func (e *outcomeUnknown) Error() string        { return ErrOutcomeUnknown.Error() + ": " + e.err.Error() }
func (e *outcomeUnknown) Unwrap() error        { return e.err }
func (e *outcomeUnknown) Is(target error) bool { return target == ErrOutcomeUnknown }

// notLeader sends a request elsewhere. It reaches callers only when there is no address to go to.
type notLeader struct {
	node, addr string
}

func (e *notLeader) Error() string {
	return "felix: not_leader: the shard is led by " + e.node + ", whose address is not known"
}

func failure(f *wire.Failure) error {
	return &Error{
		Code: Code(f.Code), Class: Class(f.Class()), Message: f.Message, Reason: f.Reason,
		RetryAfter: time.Duration(min(f.RetryAfterMillis.Or(0), maxRetryAfter)) * time.Millisecond,
	}
}

// maxRetryAfter bounds what a server can make a client wait, in milliseconds.
const maxRetryAfter = 60_000

// Retryable reports whether the same call may succeed later and repeating it cannot apply it twice.
func Retryable(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return false // whatever refused the last attempt
	}
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Class == ClassRetry || refused.Class == ClassRetryAfter || refused.Class == ClassRedirect
	}
	var lost *ConnectionError
	return errors.As(err, &lost)
}

// retryable reports whether a request may be sent again: again says that applying it twice does no harm.
func retryable(err error, again bool) bool {
	var (
		refused *Error
		lost    *ConnectionError
	)
	switch {
	case errors.As(err, &refused):
		return refused.Class >= ClassRetry && refused.Class <= ClassRedirect || again && refused.Class == ClassOutcomeUnknown
	case errors.As(err, &lost):
		return again || !errors.Is(err, ErrOutcomeUnknown)
	}
	return false
}
