package ids

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// Offset is the position of a record in a shard. Offsets start at 0 and never restart within one topic id.
// Names of variables say whether the value is inclusive (last…) or exclusive (end…, next…, high watermark).
type Offset int64

// NoOffset is the wire value for "no such offset".
const NoOffset Offset = -1

// LeaderEpoch counts the leaderships of one shard ("generation" in the native protocol). It only rises.
type LeaderEpoch int32

// NoEpoch is the wire value for an unknown leader epoch.
const NoEpoch LeaderEpoch = -1

// NodeID is the stable name of a node, chosen by whoever runs it.
type NodeID string

// BrokerID is the number under which Kafka clients know a node. The controller assigns it at registration; it is
// never reused for another NodeID. Valid numbers are 0 and above.
type BrokerID int32

// NoBroker is the wire value for "no leader".
const NoBroker BrokerID = -1

// TopicID is the random UUID of one incarnation of a stream or topic. Deleting and re-creating a name gives a new one.
// The zero value means "none" (KIP-516).
type TopicID [16]byte

// NewTopicID draws a random UUID (version 4), which is none of Kafka's reserved ones. As with Kafka's, its Base64 form does not begin with
// a dash, so that it can stand among the arguments of a command.
func NewTopicID() TopicID {
	for {
		var t TopicID
		_, _ = rand.Read(t[:]) // never fails
		t[6] = t[6]&0x0f | 0x40
		t[8] = t[8]&0x3f | 0x80
		if t.Base64()[0] != '-' {
			return t
		}
	}
}

// IsZero reports whether t is the "none" value.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// String is the canonical lower-case hex form with dashes.
func (t TopicID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], t[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], t[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], t[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], t[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], t[10:16])
	return string(b[:])
}

// Base64 is the unpadded URL-safe form that Kafka's tools print.
func (t TopicID) Base64() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// ErrBadTopicID is returned by ParseTopicID for text that is not a topic id.
var ErrBadTopicID = errors.New("ids: not a topic id")

// ParseTopicID reads the form that String writes.
func ParseTopicID(s string) (TopicID, error) {
	var t TopicID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return TopicID{}, fmt.Errorf("%w: %q", ErrBadTopicID, s)
	}
	compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(t[:], []byte(compact)); err != nil {
		return TopicID{}, fmt.Errorf("%w: %q", ErrBadTopicID, s)
	}
	return t, nil
}

// Compare orders topic ids by their bytes.
func (t TopicID) Compare(u TopicID) int { return cmp.Compare(string(t[:]), string(u[:])) }

// ShardID names one replicated log: a topic incarnation and a partition index of it, 0 and above.
type ShardID struct {
	Topic     TopicID
	Partition int32
}

// String is "<topic id>/<partition>", which is also the shard's directory below the data directory's shards folder.
func (s ShardID) String() string { return s.Topic.String() + "/" + strconv.Itoa(int(s.Partition)) }
