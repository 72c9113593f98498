package groups

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/felixlog/felix/internal/ids"
)

// groupRecord is a group as it is stored: what the leader of a generation settled, or that the group is empty.
type groupRecord struct {
	Generation                     int32
	ProtocolType, Protocol, Leader string
	ChangedAt                      int64 // ms since 1970, of the last change of state
	Members                        []memberRecord
}

// memberRecord is one member of a groupRecord. The subscription is the member's metadata in the protocol chosen.
type memberRecord struct {
	ID, InstanceID, ClientID, ClientHost string
	SessionTimeoutMs, RebalanceTimeoutMs int32
	Subscription, Assignment             []byte
}

// Versions and kinds of what is stored. See FORMAT.md.
const (
	keyVersion   = 1
	valueVersion = 1
	// incarnationKeyVersion is the version of keys of tenants that have an incarnation; those of the first of a name are written as before.
	incarnationKeyVersion = 2

	kindGroup  = 1
	kindOffset = 2
)

// Bounds of what a record may claim. They are far above what the coordinator lets in.
const (
	maxStoredName    = 1 << 16
	maxStoredMembers = 1 << 20
)

var (
	// errNewerRecord is for a version or kind that this release does not know.
	errNewerRecord = errors.New("groups: record of an unknown version or kind")
	// errBadRecord is for bytes that are no record of the version that they claim.
	errBadRecord = errors.New("groups: malformed record")
)

// appendGroupID appends what names a group inside a key: tenant and group id, each behind its length, and the tenant's incarnation if it
// has one. Equal names give equal bytes, so it is also what groups are looked up by.
func appendGroupID(dst []byte, k Key) []byte {
	dst = appendText(dst, k.Tenant)
	dst = appendText(dst, k.Group)
	if k.Incarnation != 0 {
		dst = binary.AppendUvarint(dst, k.Incarnation)
	}
	return dst
}

func versionOf(k Key) byte {
	if k.Incarnation != 0 {
		return incarnationKeyVersion
	}
	return keyVersion
}

func appendGroupKey(dst []byte, k Key) []byte {
	return appendGroupID(append(dst, versionOf(k), kindGroup), k)
}

func appendOffsetKey(dst []byte, k Key, topic ids.TopicID, partition int32) []byte {
	dst = appendGroupID(append(dst, versionOf(k), kindOffset), k)
	dst = append(dst, topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(partition))
}

// recordKey is a parsed key. groupID aliases the key's bytes.
type recordKey struct {
	kind      byte
	groupID   []byte // as appendGroupID writes it
	topic     ids.TopicID
	partition int32
}

// parseKey reads a key. Errors: errNewerRecord, errBadRecord.
func parseKey(b []byte) (k recordKey, err error) {
	if len(b) < 2 {
		return k, errBadRecord
	}
	if b[0] != keyVersion && b[0] != incarnationKeyVersion || b[1] != kindGroup && b[1] != kindOffset {
		return k, errNewerRecord
	}
	k.kind = b[1]
	r := decoder{b: b[2:]}
	r.bytes(maxStoredName)
	r.bytes(maxStoredName)
	if b[0] == incarnationKeyVersion {
		r.incarnation()
	}
	k.groupID = b[2 : len(b)-len(r.b)]
	if k.kind == kindOffset {
		copy(k.topic[:], r.take(len(k.topic)))
		if p := r.take(4); p != nil {
			k.partition = int32(binary.BigEndian.Uint32(p))
		}
		if k.partition < 0 {
			r.bad = true
		}
	}
	return k, r.end()
}

// parseGroupID splits what appendGroupID wrote.
func parseGroupID(b []byte) (Key, error) {
	r := decoder{b: b}
	k := Key{Tenant: string(r.bytes(maxStoredName)), Group: string(r.bytes(maxStoredName))}
	if len(r.b) > 0 {
		k.Incarnation = r.incarnation()
	}
	return k, r.end()
}

// incarnation reads one, which is never 0 and written in as few bytes as it takes: there is one spelling of each key.
func (r *decoder) incarnation() uint64 {
	before := len(r.b)
	v := r.uvarint()
	if v == 0 || before-len(r.b) != len(binary.AppendUvarint(nil, v)) {
		r.bad = true
	}
	return v
}

func appendOffsetValue(dst []byte, o *offset) []byte {
	dst = append(dst, valueVersion)
	dst = binary.AppendVarint(dst, o.at)
	dst = binary.AppendVarint(dst, int64(o.leaderEpoch))
	dst = binary.AppendVarint(dst, o.committedAt)
	dst = binary.AppendVarint(dst, o.expiresAt())
	return appendText(dst, o.metadata())
}

// parseOffsetValue reads the value of an offset. It allocates only for metadata. Errors: errNewerRecord, errBadRecord.
func parseOffsetValue(b []byte) (o offset, err error) {
	r := decoder{b: b}
	if err := r.version(); err != nil {
		return o, err
	}
	o.at = r.varint()
	o.leaderEpoch = r.int32()
	o.committedAt = r.varint()
	expiresAt := r.varint()
	metadata := r.bytes(maxStoredName)
	o.setExtra(metadata, expiresAt)
	return o, r.end()
}

func appendGroupValue(dst []byte, g *groupRecord) []byte {
	dst = append(dst, valueVersion)
	dst = binary.AppendVarint(dst, int64(g.Generation))
	dst = appendText(dst, g.ProtocolType)
	dst = appendText(dst, g.Protocol)
	dst = appendText(dst, g.Leader)
	dst = binary.AppendVarint(dst, g.ChangedAt)
	dst = binary.AppendUvarint(dst, uint64(len(g.Members)))
	for i := range g.Members {
		m := &g.Members[i]
		dst = appendText(dst, m.ID)
		dst = appendText(dst, m.InstanceID)
		dst = appendText(dst, m.ClientID)
		dst = appendText(dst, m.ClientHost)
		dst = binary.AppendVarint(dst, int64(m.SessionTimeoutMs))
		dst = binary.AppendVarint(dst, int64(m.RebalanceTimeoutMs))
		dst = appendText(dst, m.Subscription)
		dst = appendText(dst, m.Assignment)
	}
	return dst
}

// minMemberBytes is the size of the smallest member: it bounds what a count can have allocated.
const minMemberBytes = 8

// parseGroupValue reads the value of a group. Nothing of the result aliases b. Errors: errNewerRecord, errBadRecord.
func parseGroupValue(b []byte) (*groupRecord, error) {
	r := decoder{b: b}
	if err := r.version(); err != nil {
		return nil, err
	}
	g := &groupRecord{Generation: r.int32(), ProtocolType: r.text(), Protocol: r.text(), Leader: r.text(), ChangedAt: r.varint()}
	n := r.uvarint()
	if n > maxStoredMembers || n > uint64(len(r.b)/minMemberBytes) {
		r.bad, n = true, 0
	}
	if n > 0 {
		g.Members = make([]memberRecord, n)
	}
	for i := range g.Members {
		g.Members[i] = memberRecord{
			ID: r.text(), InstanceID: r.text(), ClientID: r.text(), ClientHost: r.text(),
			SessionTimeoutMs: r.int32(), RebalanceTimeoutMs: r.int32(),
			Subscription: bytes.Clone(r.bytes(math.MaxInt32)), Assignment: bytes.Clone(r.bytes(math.MaxInt32)),
		}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return g, nil
}

// appendText appends bytes behind their length.
func appendText[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// decoder reads from the front of b. After something that is not there bad is set and zero values come out.
type decoder struct {
	b   []byte
	bad bool
}

// version reads the first byte of a value.
func (r *decoder) version() error {
	if len(r.b) == 0 {
		return errBadRecord
	}
	if r.b[0] != valueVersion {
		return errNewerRecord
	}
	r.b = r.b[1:]
	return nil
}

// end says that everything was there, and nothing more.
func (r *decoder) end() error {
	if r.bad || len(r.b) != 0 {
		return errBadRecord
	}
	return nil
}

func (r *decoder) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) varint() int64 {
	v, n := binary.Varint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) int32() int32 {
	v := r.varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.bad = true
		return 0
	}
	return int32(v)
}

// bytes reads bytes behind their length, at most limit. They alias the input.
func (r *decoder) bytes(limit int) []byte {
	n := r.uvarint()
	if n > uint64(limit) || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}

func (r *decoder) text() string { return string(r.bytes(maxStoredName)) }
