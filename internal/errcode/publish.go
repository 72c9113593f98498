package errcode

import (
	"fmt"
	"time"
)

// SequenceReason says why a batch of a native idempotent producer was not written.
type SequenceReason uint8

// The reasons.
const (
	SequenceGap             SequenceReason = iota // beyond the next one: an earlier batch is missing
	SequenceUnknownProducer                       // nothing is known of the producer, and this is not its first batch
	SequenceExpired                               // older than what is remembered
	SequenceReused                                // remembered, with other payloads
)

var sequenceReasons = [...]string{
	SequenceGap: "sequence_gap", SequenceUnknownProducer: "unknown_producer", SequenceExpired: "sequence_expired",
	SequenceReused: "sequence_reused",
}

// String is the word of the native protocol.
func (r SequenceReason) String() string { return sequenceReasons[r] }

// SequenceError refuses a batch of a native idempotent producer. Nothing was written.
type SequenceError struct {
	Reason   SequenceReason
	Expected uint64 // with SequenceGap: the next sequence
}

// Error is the sentence.
func (e *SequenceError) Error() string {
	if e.Reason == SequenceGap {
		return fmt.Sprintf("%s: sequence %d is next", e.Reason, e.Expected)
	}
	return e.Reason.String()
}

// Kind is the kind of Kafka's rule that is closest.
func (e *SequenceError) Kind() Kind {
	switch e.Reason {
	case SequenceGap:
		return OutOfOrderSequence
	case SequenceUnknownProducer:
		return UnknownProducerID
	default:
		return DuplicateSequence
	}
}

// OffsetMismatchError refuses a write that was made for another offset than the shard's next. Nothing was written.
type OffsetMismatchError struct {
	Tail int64 // the shard's next offset
}

// Error is the sentence.
func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("offset mismatch: the next offset is %d", e.Tail)
}

// Kind is OffsetMismatch.
func (e *OffsetMismatchError) Kind() Kind { return OffsetMismatch }

// The reasons of an OverloadError, words of the native protocol.
const (
	PublishQueueFull = "publish_queue_full"
	TenantQuota      = "tenant_quota"
)

// OverloadError refuses a publish before anything of it was queued or written.
type OverloadError struct {
	Reason     string        // PublishQueueFull or TenantQuota
	RetryAfter time.Duration // how long to wait before the next try
}

// Error is the sentence.
func (e *OverloadError) Error() string {
	return fmt.Sprintf("overloaded: %s, retry after %v", e.Reason, e.RetryAfter.Round(time.Millisecond))
}

// Kind is Overloaded.
func (e *OverloadError) Kind() Kind { return Overloaded }
