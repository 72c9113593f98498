package felixproto

import (
	"errors"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/errcode"
)

// ErrServerClosed is returned by Serve after Close.
var ErrServerClosed = errors.New("felixproto: server closed")

// Failures that are made here.
var (
	errClosed        = errcode.New(errcode.NotLeader, "felixproto: the subscription is closed")
	errEventTooLarge = errcode.New(errcode.BatchTooLarge, "felixproto: record above the largest that is delivered")
	errNoCertificate = errcode.New(errcode.AuthenticationFailed, "felixproto: the client has presented no certificate")
	errForbidden     = errcode.New(errcode.UnauthorizedTopic, "forbidden")
	errOtherTenant   = errcode.New(errcode.UnauthorizedTopic, "forbidden: tenant mismatch")
)

// Application error codes of QUIC (felix-wire, 1.7; security rules, 13.1).
const (
	closeShutdown      = 0
	closeUnauthorised  = 1
	streamNoError      = 0
	streamProtocol     = 2
	closeUnauthoriseds = "authentication timeout"
)

// asRange reports whether err says that an offset is out of range.
func asRange(err error, out **errcode.RangeError) bool { return errors.As(err, out) }

// refusal is an answer that names a code of the protocol rather than a kind of ours.
type refusal struct {
	code             wire.Code
	retry            wire.Retry // 0: the code's usual one
	message          string
	reason           string
	retryAfterMillis uint64
}

// Error is the sentence.
func (r *refusal) Error() string { return r.message }

func invalid(message string) error { return &refusal{code: wire.CodeInvalidRequest, message: message} }

func notFound(message string) error { return &refusal{code: wire.CodeNotFound, message: message} }

func limitExceeded(message string) error {
	return &refusal{code: wire.CodeLimitExceeded, message: message}
}
