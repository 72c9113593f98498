package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Exit statuses (spec control-api.md 12.3).
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitRefused     = 4
	exitMissing     = 5
	exitInterrupted = 130 // as a shell shows an end by an interrupt
)

// statusError is an error with the exit status that it means.
type statusError struct {
	status int
	err    error
}

// Error is the cause's sentence.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *statusError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &statusError{status: exitUsage, err: fmt.Errorf(format, args...)}
}

func missingErrorf(format string, args ...any) error {
	return &statusError{status: exitMissing, err: fmt.Errorf(format, args...)}
}

func refusedErrorf(format string, args ...any) error {
	return &statusError{status: exitRefused, err: fmt.Errorf(format, args...)}
}

func unreachableErrorf(format string, args ...any) error {
	return &statusError{status: exitUnreachable, err: fmt.Errorf(format, args...)}
}

func interruptedErrorf(format string, args ...any) error {
	return &statusError{status: exitInterrupted, err: fmt.Errorf(format, args...)}
}

// sentence is an error with a text for people in place of its cause's.
type sentence struct {
	text  string
	cause error
}

// Error is the text for people.
func (s *sentence) Error() string { return s.text }

// Unwrap is the cause.
func (s *sentence) Unwrap() error { return s.cause }

// statusOf chooses the exit status: the one that the error carries, or what the server or the network said.
func statusOf(err error) int {
	var s *statusError
	var refusal *kerr.Error
	var network net.Error
	var file *fs.PathError
	switch {
	case errors.As(err, &s):
		return s.status
	case errors.As(err, &file):
		return exitFailure // before the network: the reason in it passes for a network's
	case errors.As(err, &refusal):
		if missing(refusal) {
			return exitMissing
		}
		return exitRefused
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	default:
		return exitFailure
	}
}

// outputClosed says that whoever read the output has seen enough and left.
func outputClosed(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) && errors.Is(file, syscall.EPIPE)
}

func missing(e *kerr.Error) bool {
	return errors.Is(e, kerr.UnknownTopicOrPartition) || errors.Is(e, kerr.UnknownTopicID) || errors.Is(e, kerr.GroupIDNotFound)
}

// refusal is what a server said no to, with its own sentence where it gave one, and what to do about it.
func refusal(what string, err error, message string) error {
	if err == nil {
		return nil
	}
	text := message
	var k *kerr.Error
	if errors.As(err, &k) {
		if text == "" {
			text = k.Description
		}
		text = fmt.Sprintf("%s (%s)", text, k.Message)
	} else if text == "" {
		text = err.Error()
		var shards *kadm.ShardErrors
		if errors.As(err, &shards) && len(shards.Errs) > 0 {
			text = shards.Errs[0].Err.Error() // how the request was split among nodes says nothing to a person
		}
	}
	if advice := adviceFor(err); advice != "" {
		text += ": " + advice
	}
	return &statusError{status: statusOf(err), err: &sentence{text: what + ": " + text, cause: err}}
}

// adviceFor is the next step for failures that people meet often; empty when there is none to give.
func adviceFor(err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return "see felixctl topic list, or make it with felixctl topic create; a stream that is in memory alone (stream create --durable=false) " +
			"is not seen by Kafka clients: use felixctl pub and sub"
	case errors.Is(err, kerr.TopicAlreadyExists):
		return "use --if-not-exists if that is fine"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "a replication factor is at most the number of nodes"
	case errors.Is(err, kerr.InvalidTopicException):
		return "a name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and neither . nor .."
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return "the server asks for no login of this kind: leave out --tenant and --token, or name another listener with --brokers"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "check --tenant and --token"
	case errors.Is(err, kerr.GroupIDNotFound):
		return "see felixctl group list"
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.StaleMemberEpoch):
		return "the group has members: stop them first"
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		return "members of the group read the topic: stop them first"
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return "the login has no right to it"
	case errors.Is(err, kerr.MessageTooLarge):
		return "raise the topic's max.message.bytes (felixctl topic config NAME --set max.message.bytes=N)"
	default:
		return ""
	}
}
