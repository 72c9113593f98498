package cluster

import (
	"strings"

	"github.com/felixlog/felix/internal/errcode"
)

// Limits of names and sizes. The state machine enforces them, so they are the same on every node.
const (
	MaxNameLength         = 128 // tenant and namespace
	MaxTopicLength        = 249 // "<namespace>.<stream>", or the stream alone in the default namespace
	MaxPartitionsPerTopic = 100_000
	MaxPartitions         = 1_000_000 // in the whole cluster
	MaxOverrides          = 128       // configurations set on one topic
	MaxOverrideLength     = 8 << 10   // bytes of one configuration's value
)

// DefaultNamespace is the namespace whose streams Kafka clients name without a prefix, unless the node is configured otherwise.
const DefaultNamespace = "default"

// ValidateName checks the name of a tenant or namespace (kind says which, for the error): 1 to 128 of A-Z a-z 0-9 . _ -, the first
// a letter or digit. Error: errcode.InvalidTopic.
func ValidateName(kind, name string) error {
	switch {
	case name == "":
		return errcode.Newf(errcode.InvalidTopic, "the %s name is empty", kind)
	case len(name) > MaxNameLength:
		return errcode.Newf(errcode.InvalidTopic, "the %s name has %d characters, at most %d are allowed", kind, len(name), MaxNameLength)
	case !legal(name):
		return errcode.Newf(errcode.InvalidTopic, "%s name %q: only letters, digits, '.', '_' and '-' are allowed", kind, clip(name))
	case name[0] == '.' || name[0] == '_' || name[0] == '-':
		return errcode.Newf(errcode.InvalidTopic, "%s name %q: the first character must be a letter or a digit", kind, name)
	}
	return nil
}

// ValidateStreamName checks the name of a stream in a namespace: Kafka's topic rule for it, and 249 for the full name, which is the
// name alone in the default namespace. Error: errcode.InvalidTopic.
func ValidateStreamName(namespace, name string) error {
	full := len(name)
	if namespace != DefaultNamespace {
		full += len(namespace) + 1
	}
	switch {
	case name == "":
		return errcode.Newf(errcode.InvalidTopic, "the topic name is empty")
	case name == "." || name == "..":
		return errcode.Newf(errcode.InvalidTopic, "the topic name cannot be %q", name)
	case full > MaxTopicLength:
		return errcode.Newf(errcode.InvalidTopic, "the topic name has %d characters, at most %d are allowed", full, MaxTopicLength)
	case !legal(name):
		return errcode.Newf(errcode.InvalidTopic, "topic name %q: only letters, digits, '.', '_' and '-' are allowed", clip(name))
	}
	return nil
}

func legal(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// clip bounds what an error repeats of a name that may be anything.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ParseTopicName splits the name a Kafka client uses into namespace and stream, at the first dot; a name without a dot lives in
// defaultNamespace. Errors: errcode.InvalidTopic, also for a name that spells out the default namespace, which would
// give one topic two names.
func ParseTopicName(topic, defaultNamespace string) (namespace, stream string, err error) {
	namespace, stream, dotted := strings.Cut(topic, ".")
	if !dotted {
		namespace, stream = defaultNamespace, topic
	}
	if topic == "." || topic == ".." || len(topic) > MaxTopicLength {
		return "", "", ValidateStreamName(defaultNamespace, topic)
	}
	if dotted {
		if err := ValidateName("namespace", namespace); err != nil {
			return "", "", err
		}
		if namespace == defaultNamespace {
			return "", "", errcode.Newf(errcode.InvalidTopic,
				"topic %q: streams of the default namespace are named without it: %q", clip(topic), clip(stream))
		}
	}
	if err := ValidateStreamName(namespace, stream); err != nil {
		return "", "", err
	}
	return namespace, stream, nil
}

// TopicName is the name under which Kafka clients know a stream, "" when they cannot name it: a namespace with a dot, or a stream
// with a dot in the default namespace.
func TopicName(namespace, stream, defaultNamespace string) string {
	if namespace == defaultNamespace {
		if strings.IndexByte(stream, '.') >= 0 {
			return ""
		}
		return stream
	}
	if strings.IndexByte(namespace, '.') >= 0 || len(namespace)+1+len(stream) > MaxTopicLength {
		return ""
	}
	return namespace + "." + stream
}
