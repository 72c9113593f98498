package felixproto

import (
	"errors"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/errcode"
)

// isRefusal reports whether err is an answer that was decided on here.
func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// failureOf is what an error is on the wire, before it is known what the client understands.
func failureOf(err error) wire.Failure {
	var (
		r    *refusal
		over *errcode.OverloadError
	)
	switch {
	case errors.As(err, &r):
		retry := r.retry
		if retry == 0 {
			retry = r.code.Retry()
		}
		f := wire.Failure{Message: r.message, Code: r.code.String(), Retry: retry.String(), Reason: r.reason}
		if r.retryAfterMillis > 0 {
			f.RetryAfterMillis = wire.Some(r.retryAfterMillis)
		}
		return f
	case errors.As(err, &over):
		f := kindFailure(err)
		f.Reason = over.Reason
		if over.RetryAfter > 0 {
			f.RetryAfterMillis = wire.Some(uint64(max(over.RetryAfter/time.Millisecond, 1)))
		}
		return f
	}
	return kindFailure(err)
}

// kindFailure is what the row of an error's kind says.
func kindFailure(err error) wire.Failure {
	row := errcode.Of(err).Felix()
	return wire.Failure{Message: err.Error(), Code: wire.Code(row.Code).String(), Retry: wire.Retry(row.Retry).String(), Reason: row.Reason}
}

// readFailure is failureOf for a request that only reads: nothing was applied, whatever went wrong.
func readFailure(err error) error {
	if isRefusal(err) {
		return err
	}
	kind := errcode.Of(err)
	if kind == errcode.Internal {
		return &refusal{code: wire.CodeInternal, retry: wire.RetryNow, message: err.Error()}
	}
	if kind == errcode.StorageFailed || kind == errcode.CorruptBatch {
		return &refusal{code: wire.CodeStorage, retry: wire.RetryNow, message: err.Error()}
	}
	return err
}

// failure is what the stream's client is told of an error: to one that did not offer codes, the sentence alone.
func (st *stream) failure(err error) wire.Failure {
	f := failureOf(err)
	if !st.features.Has(wire.FeatureErrorCodes) {
		return wire.Failure{Message: f.Message}
	}
	return f
}
