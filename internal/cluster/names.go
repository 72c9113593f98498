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
	MaxRemembered         = 16_384    // deleted topic ids that an image still knows
	MaxOverrides          = 128       // configurations set on one topic
	MaxOverrideLength     = 8 << 10   // bytes of one configuration's value
	MaxDisplayNameLength  = 256       // bytes of what people are shown for a tenant or namespace
)

// Limits of what the whole cluster has. They bound the memory of every member and the size of a snapshot.
const (
	MaxTenants       = 10_000
	MaxNamespaces    = 100_000
	MaxTopics        = 250_000
	MaxQuotas        = 100_000   // client quotas of all tenants
	MaxOverrideBytes = 256 << 20 // names and values of the configurations set on all topics
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
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
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
