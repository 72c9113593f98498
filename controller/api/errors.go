package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// The codes of refusals, which are for programs, besides those of cluster.ConflictError.
const (
	codeInvalidRequest   = "invalid_request"
	codeUnauthenticated  = "unauthenticated"
	codeForbidden        = "forbidden"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeTooLarge         = "too_large"
	codeUnsupportedType  = "unsupported_media_type"
	codeExists           = cluster.ConflictExists
	codeUnplaceable      = "unplaceable"
	codeRegionNotAllowed = "region_not_allowed"
	codeLimitExceeded    = "limit_exceeded"
	codeUnavailable      = "unavailable"
	codeDraining         = "draining"
	codeInternal         = "internal"
)

// apiError is a refusal as the client sees it.
type apiError struct {
	status  int
	code    string
	message string
	index   int // of the item of a batch that is meant; -1: none
}

// Error is the sentence.
func (e *apiError) Error() string { return e.message }

func refuse(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...), index: -1}
}

func invalid(format string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, codeInvalidRequest, format, args...)
}

// unauthenticated is one answer for everything that is wrong with a token and for a tenant that does not exist.
func unauthenticated() *apiError {
	return refuse(http.StatusUnauthorized, codeUnauthenticated,
		"the token was not accepted, or the tenant does not exist: send Authorization: Bearer with a token of the tenant for audience felix-controlplane")
}

// forbidden names what would be needed, which says nothing about what exists.
func forbidden(right, object string) *apiError {
	return refuse(http.StatusForbidden, codeForbidden, "this takes the right %s on %s", right, object)
}

func notFound(format string, args ...any) *apiError {
	return refuse(http.StatusNotFound, codeNotFound, format, args...)
}

// errorBody is the JSON form of every refusal.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Index   *int   `json:"index,omitempty"`
}

// refusalOf turns any error into what the client is told. What is no refusal of a known kind is internal, and its text stays here.
func refusalOf(err error) *apiError {
	var a *apiError
	if errors.As(err, &a) {
		return a
	}
	var c *cluster.ConflictError
	if errors.As(err, &c) {
		return refuse(http.StatusConflict, c.Code, "%s", c.Text)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return unavailable()
	}
	switch errcode.Of(err) {
	case errcode.InvalidTopic, errcode.InvalidPartitions, errcode.InvalidConfig, errcode.InvalidRequest, errcode.RecordListTooLarge:
		return invalid("%s", err)
	case errcode.InvalidReplicationFactor:
		// What can never be was refused before it was proposed: there are not enough nodes for it now.
		return refuse(http.StatusConflict, codeUnplaceable, "%s", err)
	case errcode.PolicyViolation:
		return refuse(http.StatusConflict, codeLimitExceeded, "%s", err)
	case errcode.TopicExists:
		return refuse(http.StatusConflict, codeExists, "%s", err)
	case errcode.ResourceNotFound, errcode.UnknownShard, errcode.UnknownTopicID:
		return notFound("%s", err)
	case errcode.QuorumTimeout, errcode.NotController, errcode.StorageFailed, errcode.Overloaded, errcode.LeadershipLost, errcode.Draining:
		return unavailable()
	default:
		return refuse(http.StatusInternalServerError, codeInternal, "something went wrong here; the log of the server says what")
	}
}

func unavailable() *apiError {
	return refuse(http.StatusServiceUnavailable, codeUnavailable,
		"the metadata log did not answer in time; what was asked for may still take effect")
}
