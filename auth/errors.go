package auth

import (
	"errors"
	"fmt"
	"io"

	"github.com/felixlog/felix/internal/errcode"
)

// ErrUnknownTenant is what a KeySource answers for a tenant that does not exist, or whose id cannot be one.
var ErrUnknownTenant = errcode.New(errcode.AuthenticationFailed, "auth: unknown tenant")

// Reason is why a credential was refused. It is for logs and metrics (a closed set): the caller is never told.
type Reason uint8

// The reasons, in the order of the checks.
const (
	ReasonNone            Reason = iota
	ReasonMalformed              // not a token: parts, encoding, JSON, sizes, a claim that is missing or of another type
	ReasonAlgorithm              // signed with something other than Ed25519, or not at all
	ReasonUnknownTenant          // the tenant does not exist, or its id cannot be one
	ReasonKeysUnavailable        // the tenant's keys could not be had
	ReasonSignature              // no published key of the tenant verifies it
	ReasonIssuer                 // issued by somebody else
	ReasonAudience               // meant for another part of the system
	ReasonExpired                // its time is over
	ReasonNotYetValid            // its time has not come
	ReasonTenant                 // the token is of another tenant than the one named
	ReasonPermissions            // a permission is not in the grammar, or has an action that is not known
	ReasonRevoked                // the principal or its actor was revoked
	ReasonCertificate            // the client certificate belongs to somebody else
	reasonEnd
)

var reasonNames = [reasonEnd]string{
	"none", "malformed", "algorithm", "unknown_tenant", "keys_unavailable", "signature", "issuer", "audience", "expired",
	"not_yet_valid", "tenant_mismatch", "permissions", "revoked", "certificate",
}

// String is the reason as a word for logs and metric labels.
func (r Reason) String() string {
	if r >= reasonEnd {
		return "unknown"
	}
	return reasonNames[r]
}

// RefusedError is the refusal of a credential. Its sentence is public and the same for every reason but ReasonCertificate; Reason and
// Err are for the log. Neither holds any part of the credential.
type RefusedError struct {
	Reason Reason
	Err    error // what exactly was wrong; may be nil
}

func refused(r Reason, err error) *RefusedError { return &RefusedError{Reason: r, Err: err} }

// Error is the public sentence.
func (e *RefusedError) Error() string {
	if e.Reason == ReasonCertificate {
		return "the client certificate was not issued to the principal of the token"
	}
	return "the token was refused"
}

// Format writes the public sentence; %+v, which loggers use for errors, the detail too.
func (e *RefusedError) Format(f fmt.State, verb rune) {
	text := e.Error()
	if verb == 'v' && f.Flag('+') {
		text += " (" + e.Detail() + ")"
	}
	_, _ = io.WriteString(f, text) // the formatter keeps what could go wrong
}

// Kind is AuthenticationFailed.
func (e *RefusedError) Kind() errcode.Kind { return errcode.AuthenticationFailed }

// Unwrap is the detail.
func (e *RefusedError) Unwrap() error { return e.Err }

// Detail is the reason with what was exactly wrong, for a log line.
func (e *RefusedError) Detail() string {
	if e.Err == nil {
		return e.Reason.String()
	}
	return e.Reason.String() + ": " + e.Err.Error()
}

// ReasonOf returns why a credential was refused: ReasonNone for nil and for errors that are no refusal.
func ReasonOf(err error) Reason {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Reason
	}
	return ReasonNone
}

// DetailOf is the sentence about a refusal that a log may hold; for other errors it is their own.
func DetailOf(err error) string {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Detail()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
