package wire

import "github.com/felixlog/felix/internal/errcode"

// Retry says what may be done after a failure. The numbers are those of binary acks; 0 is no class.
type Retry uint8

// The classes.
const (
	RetryNow            Retry = 1 // "retry": nothing applied, repeat
	RetryAfter          Retry = 2 // "retry_after": nothing applied, wait first
	RetryRedirect       Retry = 3 // "redirect": nothing applied, ask the owner
	RetryOutcomeUnknown Retry = 4 // "outcome_unknown": may have been applied, repeat only what is idempotent
	RetryFatal          Retry = 5 // "fatal": will fail again
)

var retryNames = [...]string{"", "retry", "retry_after", "redirect", "outcome_unknown", "fatal"}

// String is the name on the wire, empty for no class.
func (r Retry) String() string {
	if int(r) < len(retryNames) {
		return retryNames[r]
	}
	return retryNames[RetryFatal]
}

// orFatal reads an unknown class, or none where there must be one, as RetryFatal.
func (r Retry) orFatal() Retry {
	if r < RetryNow || r > RetryFatal {
		return RetryFatal
	}
	return r
}

// ParseRetry reads a class by its name: 0 for the empty one, RetryFatal for one that is not known.
func ParseRetry(name string) Retry {
	for r, known := range retryNames {
		if name == known {
			return Retry(r)
		}
	}
	return RetryFatal
}

// Code is why a request was refused. The numbers are those of binary acks; 0 is no code and is never sent.
type Code uint16

// The codes.
const (
	CodeUnauthenticated  Code = 1
	CodeForbidden        Code = 2
	CodeNotFound         Code = 3
	CodeInvalidRequest   Code = 4
	CodeShardUnavailable Code = 5
	CodeNotLeader        Code = 6
	CodeQuorumTimeout    Code = 7
	CodeLeadershipLost   Code = 8
	CodeUnacknowledged   Code = 9
	CodeOverloaded       Code = 10
	CodeLimitExceeded    Code = 11
	CodeDraining         Code = 12
	CodeInternal         Code = 13
	CodeStorage          Code = 14
	CodeStaleClaim       Code = 15
	CodeRevoked          Code = 16 // by name only: see AppendPublishAck
)

var codeNames = [...]string{
	"", "unauthenticated", "forbidden", "not_found", "invalid_request", "shard_unavailable", "not_leader", "quorum_timeout",
	"leadership_lost", "unacknowledged", "overloaded", "limit_exceeded", "draining", "internal", "storage", "stale_claim", "revoked",
}

var codeRetries = [...]Retry{
	0, RetryFatal, RetryFatal, RetryAfter, RetryFatal, RetryNow, RetryRedirect, RetryOutcomeUnknown,
	RetryOutcomeUnknown, RetryOutcomeUnknown, RetryAfter, RetryFatal, RetryNow, RetryOutcomeUnknown, RetryOutcomeUnknown, RetryNow, RetryFatal,
}

// String is the name on the wire, empty for no code and for one that is not known.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return ""
}

// Retry is the class that the code usually comes with; a sender may know better. It is 0 for no code and RetryFatal for an unknown one.
func (c Code) Retry() Retry {
	if int(c) < len(codeRetries) {
		return codeRetries[c]
	}
	return RetryFatal
}

// ParseCode reads a code by its name, false if it is not known.
func ParseCode(name string) (Code, bool) {
	for c, known := range codeNames {
		if c > 0 && name == known {
			return Code(c), true
		}
	}
	return 0, false
}

// Reasons in the detail of a failure. The set is open.
const (
	ReasonNotAssigned       = "not_assigned"        // with CodeShardUnavailable, as the next ones
	ReasonOwnerUnavailable  = "owner_unavailable"   // the owner is known and does not answer
	ReasonNotReady          = "not_ready"           // the owner is opening the shard
	ReasonStale             = "stale"               // the request named an older generation
	ReasonFenced            = "fenced"              // a newer generation has taken over
	ReasonMoving            = "moving"              // the shard changes hands, with a wait
	ReasonRegionNotRoutable = "region_not_routable" // the shard lies in a region that is not reached from here
	ReasonPublishQueueFull  = "publish_queue_full"  // with CodeOverloaded
	ReasonTenantQuota       = "tenant_quota"        // with CodeOverloaded, with a wait
)

// Failure is what a refusal says, in the messages Error and PublishError.
type Failure struct {
	// Message is a sentence for people.
	Message string
	// Code is the name of a Code, Retry of a Retry; the sets are open. Both are empty towards a client that did not offer
	// FeatureErrorCodes, and so is what follows.
	Code  string
	Retry string
	// Reason is the machine-readable reason, empty for none.
	Reason string
	// RetryAfterMillis is the suggested wait before another attempt.
	RetryAfterMillis Opt[uint64]
}

// Class is the class to act on: RetryFatal if it is one that is not known, 0 if none was sent.
func (f *Failure) Class() Retry { return ParseRetry(f.Retry) }

// NewFailure is what a failure of kind k says to a client that offered FeatureErrorCodes: code, class and reason of k's row in
// internal/errcode, and a sentence, which must be fit for clients.
func NewFailure(k errcode.Kind, message string) Failure {
	row := k.Felix()
	return Failure{Message: message, Code: Code(row.Code).String(), Retry: Retry(row.Retry).String(), Reason: row.Reason}
}
