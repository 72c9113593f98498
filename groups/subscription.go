package groups

import (
	"encoding/binary"

	"github.com/felixlog/felix/internal/cluster"
)

// topicName is what Kafka clients call a topic.
func (c *Coordinator) topicName(t *cluster.Topic) string {
	if t.Namespace == c.opts.DefaultNamespace {
		return t.Name
	}
	return t.Namespace + "." + t.Name
}

// subscriptions are the topics that the members of a group of consumers are subscribed to, by name. False: at least one member's
// subscription is not known or cannot be read.
func (e *entry) subscriptions() (map[string]bool, bool) {
	names := map[string]bool{}
	for _, m := range e.g.byID {
		if !parseSubscription(m.metadata(e.g.protocol), func(name []byte) { names[string(name)] = true }) {
			return nil, false
		}
	}
	return names, true
}

// parseSubscription calls yield for the topics in the metadata that a consumer joins with: a version and a list of names; what follows
// differs by version and does not matter here. It reports whether the bytes have that form. Source: Kafka's ConsumerProtocolSubscription.
func parseSubscription(b []byte, yield func(name []byte)) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 || int64(n) > int64(len(b)/2) {
		return false
	}
	for range n {
		if len(b) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) {
			return false
		}
		yield(b[:size])
		b = b[size:]
	}
	return true
}
