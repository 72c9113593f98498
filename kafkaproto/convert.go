package kafkaproto

import (
	"strings"
	"unsafe"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// names translates between Kafka's topic names and our namespaces and streams: "a.b.c" is stream "b.c" of namespace "a"; a
// name without a dot is a stream of the default namespace. Every API translates through here, so that no two disagree.
type names struct {
	defaultNamespace string
}

// split returns the namespace and stream that a Kafka topic name means. Errors: kind InvalidTopic (17), also for a name that
// spells out the default namespace, which would give one topic two names. A legal name does not allocate.
func (n names) split(topic string) (namespace, stream string, err error) {
	namespace, stream, dotted := strings.Cut(topic, ".")
	switch {
	case !dotted:
		namespace, stream = n.defaultNamespace, topic
	case len(topic) > cluster.MaxTopicLength || topic == "." || topic == "..":
		return "", "", errTopicName
	case namespace == n.defaultNamespace:
		return "", "", errDefaultPrefix
	default:
		if err := cluster.ValidateName("namespace", namespace); err != nil {
			return "", "", err
		}
	}
	if err := cluster.ValidateStreamName(namespace, stream); err != nil {
		return "", "", err
	}
	return namespace, stream, nil
}

// join returns the Kafka topic name of a stream, "" when Kafka clients cannot name it: a namespace with a dot, or a stream with a
// dot in the default namespace.
func (n names) join(namespace, stream string) string {
	if namespace == n.defaultNamespace {
		if strings.IndexByte(stream, '.') >= 0 {
			return ""
		}
		return stream
	}
	if strings.IndexByte(namespace, '.') >= 0 || len(namespace)+1+len(stream) > cluster.MaxTopicLength {
		return ""
	}
	return namespace + "." + stream
}

// visible reports whether Kafka clients may know of t at all: durable, and not one of our own.
func visible(t *cluster.Topic) bool { return t != nil && t.Durable && !t.Internal }

var (
	errTopicName     = errcode.New(errcode.InvalidTopic, "topic names have at most 249 characters and are not '.' or '..'")
	errDefaultPrefix = errcode.New(errcode.InvalidTopic, "topics of the default namespace are named without it")
	// errNoTopic is for a name that stands for nothing Kafka clients may see (3).
	errNoTopic = errcode.New(errcode.UnknownShard, "this server does not host this topic")
	// errNoTopicID is the same for a topic id (100).
	errNoTopicID = errcode.New(errcode.UnknownTopicID, "no topic has this id")
	// errForbidden is for a topic that the caller has no right to, whether it exists or not (29).
	errForbidden = errcode.New(errcode.UnauthorizedTopic, "the principal has no right to this topic")
	// errInternalTopic is for writing to a topic that belongs to the server (17).
	errInternalTopic = errcode.New(errcode.InvalidTopic, "this topic is internal to the server")
)

// viewString lends the bytes of b as a string, without a copy. Only while b keeps its content.
func viewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
