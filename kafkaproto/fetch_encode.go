package kafkaproto

import (
	"encoding/binary"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// encode writes the answer. Stored batches are spliced in, never copied. Partitions that follow each other with the same topic are
// grouped; in a session's answer a topic may come up more than once, which all clients take.
func (f *fetch) encode(r *response) {
	flexible := f.api.isFlexible(f.version)
	h := hints{view: f.view}
	dst := appendInt32(r.head, throttleMillis(f.throttle))
	if f.version >= 7 {
		dst = appendInt16(dst, wireCode(errcode.Of(f.topError), keyFetch, f.version))
		dst = appendInt32(dst, f.sessionID)
	}
	dst = appendCount(dst, f.countGroups(), flexible)
	for i := 0; i < len(f.parts); {
		n, told := f.group(i)
		if told > 0 {
			if f.version >= 13 {
				dst = append(dst, f.parts[i].id[:]...)
			} else {
				dst = appendString(dst, f.parts[i].name, flexible)
			}
			dst = appendCount(dst, told, flexible)
			for j := i; j < i+n; j++ {
				if p := &f.parts[j]; !p.leftOut {
					r.head = f.encodePart(dst, p, flexible)
					r.splice(f.chunks[p.firstChunk:p.endChunk])
					dst = f.encodePartTags(r.head, p, &h, flexible)
				}
			}
			dst = appendNoTags(dst, flexible)
		}
		i += n
	}
	if f.version >= 16 {
		dst = appendEndpoints(dst, h.nodes)
	} else {
		dst = appendNoTags(dst, flexible)
	}
	r.head = dst
}

// group returns how many partitions from i on are of one topic, and how many of them the answer tells of.
func (f *fetch) group(i int) (n, told int) {
	first := &f.parts[i]
	for j := i; j < len(f.parts); j++ {
		p := &f.parts[j]
		if p.id != first.id || p.name != first.name {
			break
		}
		n++
		if !p.leftOut {
			told++
		}
	}
	return n, told
}

func (f *fetch) countGroups() int {
	groups := 0
	for i := 0; i < len(f.parts); {
		n, told := f.group(i)
		if told > 0 {
			groups++
		}
		i += n
	}
	return groups
}

// encodePart writes a partition up to the length of its records, which are spliced in behind it.
func (f *fetch) encodePart(dst []byte, p *fetchPart, flexible bool) []byte {
	dst = appendInt32(dst, p.index)
	hw, stable, start := int64(-1), int64(-1), int64(-1)
	var code int16
	if p.err == nil {
		hw, stable, start = int64(p.bounds.HighWatermark), int64(p.bounds.LastStable), int64(p.bounds.Start)
	} else {
		code = wireCode(errcode.Of(p.err), keyFetch, f.version)
	}
	dst = appendInt16(dst, code)
	dst = appendInt64(dst, hw)
	dst = appendInt64(dst, stable)
	if f.version >= 5 {
		dst = appendInt64(dst, start)
	}
	// Aborted transactions: null to who did not ask for committed records only, else a list, which is empty.
	switch {
	case f.readCommitted:
		dst = appendCount(dst, 0, flexible)
	case flexible:
		dst = append(dst, 0)
	default:
		dst = appendInt32(dst, -1)
	}
	if f.version >= 11 {
		dst = appendInt32(dst, -1) // preferred_read_replica
	}
	// Never null, also when there is nothing: Java's consumer and others dereference it.
	if flexible {
		return appendUvarint(dst, p.bytes+1)
	}
	return appendInt32(dst, int32(p.bytes))
}

// encodePartTags writes what follows a partition's records.
func (f *fetch) encodePartTags(dst []byte, p *fetchPart, h *hints, flexible bool) []byte {
	if !flexible {
		return dst
	}
	hint := leaderHint{leader: ids.NoBroker}
	if f.version >= 16 {
		hint = h.find(p.err)
	}
	tags := 0
	if p.diverges {
		tags++
	}
	if hint.leader != ids.NoBroker {
		tags++
	}
	dst = append(dst, byte(tags))
	if p.diverges {
		const size = 4 + 8 + 1
		dst = append(dst, 0, size)
		dst = appendInt32(dst, int32(p.divergeEpoch))
		dst = append(appendInt64(dst, int64(p.divergeEnd)), 0)
	}
	if hint.leader != ids.NoBroker {
		dst = hint.appendLeader(dst, 1)
	}
	return dst
}

// surveyBatches goes through the headers of whole batches that follow each other: how many records they have, and the offset behind the
// last.
func surveyBatches(b []byte) (records int, next ids.Offset) {
	const (
		lengthAt, lengthEnd = 8, 12
		deltaAt             = 23
		countAt, headerSize = 57, 61
	)
	for len(b) >= headerSize {
		size := lengthEnd + int(binary.BigEndian.Uint32(b[lengthAt:]))
		records += int(binary.BigEndian.Uint32(b[countAt:]))
		next = ids.Offset(binary.BigEndian.Uint64(b)) + ids.Offset(binary.BigEndian.Uint32(b[deltaAt:])) + 1
		if size > len(b) {
			break
		}
		b = b[size:]
	}
	return records, next
}
