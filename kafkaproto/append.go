package kafkaproto

import (
	"encoding/binary"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// Encoders of Kafka's primitives, for the answers that are written by hand. Each appends to dst and returns it.

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }

func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendUvarint(dst []byte, v int) []byte { return binary.AppendUvarint(dst, uint64(v)) }

// appendCount writes the count of a non-null array.
func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return appendUvarint(dst, n+1)
	}
	return appendInt32(dst, int32(n))
}

// appendString writes a non-null string of at most 32,767 bytes.
func appendString[S ~string | ~[]byte](dst []byte, s S, flexible bool) []byte {
	if flexible {
		return append(appendUvarint(dst, len(s)+1), s...)
	}
	return append(appendInt16(dst, int16(len(s))), s...)
}

// appendNull writes a null string.
func appendNull(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return appendInt16(dst, -1)
}

// appendText writes a sentence for people, null when it is empty. Long ones are cut: the old encoding has 15 bits for lengths.
func appendText(dst []byte, s string, flexible bool) []byte {
	const most = 1 << 10
	if s == "" {
		return appendNull(dst, flexible)
	}
	return appendString(dst, s[:min(len(s), most)], flexible)
}

// appendNoTags writes an empty tag section where there is one.
func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

// leaderHint is who leads a partition now, for clients that asked the wrong broker (KIP-951). Leader NoBroker: unset.
type leaderHint struct {
	leader ids.BrokerID
	epoch  ids.LeaderEpoch
}

// appendLeader writes the CurrentLeader struct as a tag with its number and size.
func (h leaderHint) appendLeader(dst []byte, tag byte) []byte {
	const size = 4 + 4 + 1
	dst = append(dst, tag, size)
	dst = appendInt32(dst, int32(h.leader))
	dst = appendInt32(dst, int32(h.epoch))
	return append(dst, 0)
}

// appendEndpoints writes the tag section of a whole answer: nothing, or tag 0 with the addresses of the brokers that hints of the
// answer name (NodeEndpoints).
func appendEndpoints(dst []byte, nodes []cluster.Node) []byte {
	if len(nodes) == 0 {
		return append(dst, 0)
	}
	content := appendUvarint(nil, len(nodes)+1)
	for i := range nodes {
		n := &nodes[i]
		content = appendInt32(content, int32(n.Broker))
		content = appendString(content, n.KafkaHost, true)
		content = appendInt32(content, n.KafkaPort)
		if n.Rack == "" {
			content = appendNull(content, true)
		} else {
			content = appendString(content, n.Rack, true)
		}
		content = append(content, 0)
	}
	dst = append(dst, 1, 0)
	dst = appendUvarint(dst, len(content))
	return append(dst, content...)
}
