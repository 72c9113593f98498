package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/felixlog/felix/internal/ids"
)

// The layout of headers and records is drawn in FORMAT.md of package log.
const (
	magic         = "FELIXJNL"
	formatVersion = 1
	headerBytes   = 40
	recordHeader  = 16
	// maxPayload bounds a record: 16 + 4 for the shard, 4 for the epoch, 1 + 255 for the node id, and room.
	maxPayload = 512
)

type kind uint8

const (
	kindMark         kind = 1
	kindStart        kind = 2
	kindFloor        kind = 3
	kindPromise      kind = 4
	kindForget       kind = 5
	kindClean        kind = 6  // the node stopped cleanly; counts only as the last record but notes
	kindOpened       kind = 7  // a clean stop has been taken note of
	kindSynced       kind = 8  // a note: says nothing but what its header says
	kindUnknownMarks kind = 9  // the journal is younger than shards it may meet: absent marks are unknown
	kindSyncFailed   kind = 10 // a sync of the shard failed: what is above its mark may be in the page cache alone, for ever
)

// record is one change, decoded. Which fields count depends on kind.
type record struct {
	kind   kind
	shard  ids.ShardID
	mark   Mark
	offset ids.Offset
	epoch  ids.LeaderEpoch
	leader ids.NodeID
	synced int64 // length of the file known to be synced when the record was written
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of the decoder. A short record may be a torn one; the caller decides what each means where it stands.
var (
	errShort   = errors.New("record is cut short")
	errDamaged = errors.New("checksum of a record does not match")
	errUnknown = errors.New("record of an unknown kind")
)

// appendRecord appends r to dst.
func appendRecord(dst []byte, r record) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recordHeader)...)
	switch r.kind {
	case kindMark:
		dst = appendShard(dst, r.shard)
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.mark.End))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.mark.Segment))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.mark.Bytes))
		dst = binary.BigEndian.AppendUint32(dst, r.mark.Headers)
	case kindStart, kindFloor:
		dst = appendShard(dst, r.shard)
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.offset))
	case kindPromise:
		dst = appendShard(dst, r.shard)
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.epoch))
		dst = append(dst, byte(len(r.leader)))
		dst = append(dst, r.leader...)
	case kindSyncFailed:
		dst = appendShard(dst, r.shard)
	case kindForget:
		dst = append(dst, r.shard.Topic[:]...)
	case kindClean, kindOpened, kindSynced, kindUnknownMarks:
	}
	b := dst[at:]
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-recordHeader))
	b[6] = byte(r.kind)
	binary.BigEndian.PutUint64(b[8:], uint64(r.synced))
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return dst
}

func appendShard(dst []byte, s ids.ShardID) []byte {
	dst = append(dst, s.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(s.Partition))
}

// parseRecord reads the record at the start of b and returns its length.
func parseRecord(b []byte) (r record, n int, err error) {
	if len(b) < recordHeader {
		return r, 0, errShort
	}
	payload := int(binary.BigEndian.Uint16(b[4:]))
	if payload > maxPayload {
		return r, 0, errDamaged
	}
	n = recordHeader + payload
	if len(b) < n {
		return r, 0, errShort
	}
	if crc32.Checksum(b[4:n], castagnoli) != binary.BigEndian.Uint32(b) {
		return r, 0, errDamaged
	}
	r.kind = kind(b[6])
	if b[7] != 0 {
		return r, 0, errUnknown
	}
	r.synced = int64(binary.BigEndian.Uint64(b[8:]))
	if err := r.parsePayload(b[recordHeader:n]); err != nil {
		return r, 0, err
	}
	return r, n, nil
}

// payloadBytes is the length of a payload by kind; of a promise it is the length before the node id.
var payloadBytes = map[kind]int{
	kindMark: 48, kindStart: 28, kindFloor: 28, kindPromise: 25, kindForget: 16,
	kindClean: 0, kindOpened: 0, kindSynced: 0, kindUnknownMarks: 0, kindSyncFailed: 20,
}

func (r *record) parsePayload(p []byte) error {
	want, known := payloadBytes[r.kind]
	if !known {
		return fmt.Errorf("%w: %d", errUnknown, r.kind)
	}
	if r.kind == kindPromise && len(p) >= want {
		want += int(p[24])
	}
	if len(p) != want || r.synced < 0 {
		return errDamaged
	}
	if len(p) >= 16 {
		copy(r.shard.Topic[:], p)
	}
	if len(p) >= 20 {
		r.shard.Partition = int32(binary.BigEndian.Uint32(p[16:]))
	}
	switch r.kind {
	case kindMark:
		r.mark = Mark{
			End:     ids.Offset(binary.BigEndian.Uint64(p[20:])),
			Segment: ids.Offset(binary.BigEndian.Uint64(p[28:])),
			Bytes:   int64(binary.BigEndian.Uint64(p[36:])),
			Headers: binary.BigEndian.Uint32(p[44:]),
		}
	case kindStart, kindFloor:
		r.offset = ids.Offset(binary.BigEndian.Uint64(p[20:]))
	case kindPromise:
		r.epoch = ids.LeaderEpoch(binary.BigEndian.Uint32(p[20:]))
		r.leader = ids.NodeID(p[25:])
	case kindForget, kindClean, kindOpened, kindSynced, kindUnknownMarks, kindSyncFailed:
	}
	return nil
}

// fileHeader is the start of a journal file.
type fileHeader struct {
	seq        uint64 // number of the file; the highest is the state
	checkpoint int64  // bytes from the start of the file that were synced before it got its name
}

func appendHeader(dst []byte, h fileHeader) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint16(dst, formatVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0) // flags
	dst = binary.BigEndian.AppendUint64(dst, h.seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.checkpoint))
	dst = append(dst, make([]byte, headerBytes-4-(len(dst)-at))...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// Errors of a file header.
var (
	errHeader  = errors.New("file header is damaged")
	errVersion = errors.New("format version is unknown")
)

func parseHeader(b []byte) (h fileHeader, err error) {
	if len(b) < headerBytes || string(b[:8]) != magic {
		return h, errHeader
	}
	// The version is looked at before the checksum: a newer version may have another header.
	if v := binary.BigEndian.Uint16(b[8:]); v != formatVersion {
		return h, fmt.Errorf("%w: %d", errVersion, v)
	}
	if crc32.Checksum(b[:headerBytes-4], castagnoli) != binary.BigEndian.Uint32(b[headerBytes-4:]) {
		return h, errHeader
	}
	if flags := binary.BigEndian.Uint16(b[10:]); flags != 0 {
		return h, fmt.Errorf("%w: flags %#x", errVersion, flags)
	}
	h.seq = binary.BigEndian.Uint64(b[12:])
	h.checkpoint = int64(binary.BigEndian.Uint64(b[20:]))
	if h.checkpoint < headerBytes {
		return h, errHeader
	}
	return h, nil
}
