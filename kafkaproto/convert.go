package kafkaproto

import (
	"strings"

	"github.com/felixlog/felix/internal/errcode"
)

// maxTopicName is the longest legal topic name, namespace included, in bytes.
const maxTopicName = 249

// names translates between Kafka's topic names and our namespaces and streams. A topic "a.b.c" is stream "b.c" of namespace
// "a"; a topic without a dot is a stream of the default namespace, whose streams never carry their namespace as a prefix.
// Every API translates through here, so that no two of them disagree about a name.
type names struct {
	defaultNamespace string
}

// errTopicName is what an illegal topic name gets (17).
var errTopicName = errcode.New(errcode.InvalidTopic, "topic names are 1 to 249 of [a-zA-Z0-9._-], not '.' or '..', and the default "+
	"namespace is not written as a prefix")

// split returns the namespace and stream that a Kafka topic name means. Errors: kind InvalidTopic. It does not allocate.
func (n names) split(topic string) (namespace, stream string, err error) {
	if !legalTopic(topic) {
		return "", "", errTopicName
	}
	namespace, stream, dotted := strings.Cut(topic, ".")
	if !dotted {
		return n.defaultNamespace, topic, nil
	}
	if namespace == "" || stream == "" || namespace == n.defaultNamespace {
		return "", "", errTopicName
	}
	return namespace, stream, nil
}

// join returns the Kafka topic name of a stream, and false when it has none: namespaces with a dot, streams of the default
// namespace whose name has one, and names that Kafka does not allow are not reachable from here.
func (n names) join(namespace, stream string) (string, bool) {
	topic := stream
	if namespace != n.defaultNamespace {
		topic = namespace + "." + stream
	}
	back, rest, err := n.split(topic)
	return topic, err == nil && back == namespace && rest == stream
}

func legalTopic(topic string) bool {
	if topic == "" || len(topic) > maxTopicName || topic == "." || topic == ".." {
		return false
	}
	for i := range len(topic) {
		switch c := topic[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
