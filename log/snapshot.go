package log

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/felixlog/felix/internal/ids"
)

// The producer snapshot; drawn in FORMAT.md.
const (
	snapshotMagic        = "FELIXPRD"
	snapshotVersion      = 1
	snapshotHeadBytes    = 32
	snapshotProducer     = 28
	snapshotBatch        = 24
	maxSnapshotBytes     = 1 << 30
	maxSnapshotProducers = 1 << 24
)

var errSnapshot = errors.New("producer snapshot is damaged")

// appendSnapshot encodes the producers as they are after all batches below off.
func (t *producerTable) appendSnapshot(dst []byte, off ids.Offset) []byte {
	at := len(dst)
	dst = append(dst, snapshotMagic...)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(off))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.len()))
	dst = append(dst, make([]byte, snapshotHeadBytes-24)...) // the checksum, and room
	for p := t.oldest; p != nil; p = p.newer {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.id))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.lastWrite))
		dst = binary.BigEndian.AppendUint16(dst, uint16(p.epoch))
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.sent)))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.lastSeq))
		dst = binary.BigEndian.AppendUint32(dst, 0) // room for transactions
		for i := range p.sent {
			b := &p.sent[i]
			dst = binary.BigEndian.AppendUint32(dst, uint32(b.first))
			dst = binary.BigEndian.AppendUint32(dst, uint32(b.last))
			dst = binary.BigEndian.AppendUint64(dst, uint64(b.base))
			dst = binary.BigEndian.AppendUint64(dst, uint64(b.timestamp))
		}
	}
	b := dst[at:]
	binary.BigEndian.PutUint32(b[24:], snapshotCRC(b))
	return dst
}

// snapshotCRC is the checksum over a snapshot, leaving out its own field.
func snapshotCRC(b []byte) uint32 {
	crc := crc32.Checksum(b[:24], castagnoli)
	return crc32.Update(crc, castagnoli, b[28:])
}

// loadSnapshot fills an empty table from a snapshot and returns the offset that it speaks of. The table is unusable after an error.
func (t *producerTable) loadSnapshot(b []byte) (ids.Offset, error) {
	if len(b) < snapshotHeadBytes || string(b[:8]) != snapshotMagic || binary.BigEndian.Uint16(b[8:]) != snapshotVersion ||
		binary.BigEndian.Uint16(b[10:]) != 0 || snapshotCRC(b) != binary.BigEndian.Uint32(b[24:]) {
		return 0, errSnapshot
	}
	off := ids.Offset(binary.BigEndian.Uint64(b[12:]))
	count := int(binary.BigEndian.Uint32(b[20:]))
	b = b[snapshotHeadBytes:]
	if off < 0 || count > maxSnapshotProducers || count > len(b)/snapshotProducer {
		return 0, errSnapshot
	}
	for range count {
		n, err := t.loadProducer(b)
		if err != nil {
			return 0, err
		}
		b = b[n:]
	}
	if len(b) != 0 {
		return 0, errSnapshot
	}
	return off, nil
}

func (t *producerTable) loadProducer(b []byte) (int, error) {
	if len(b) < snapshotProducer {
		return 0, errSnapshot
	}
	sent := int(binary.BigEndian.Uint16(b[18:]))
	n := snapshotProducer + sent*snapshotBatch
	id := int64(binary.BigEndian.Uint64(b))
	if len(b) < n || id < 0 || t.byID[id] != nil {
		return 0, errSnapshot
	}
	p := t.insert(id, int16(binary.BigEndian.Uint16(b[16:])))
	p.lastWrite = int64(binary.BigEndian.Uint64(b[8:]))
	p.lastSeq = int32(binary.BigEndian.Uint32(b[20:]))
	for at := snapshotProducer; at < n; at += snapshotBatch {
		p.remember(sentBatch{
			first: int32(binary.BigEndian.Uint32(b[at:])), last: int32(binary.BigEndian.Uint32(b[at+4:])),
			base: ids.Offset(binary.BigEndian.Uint64(b[at+8:])), timestamp: int64(binary.BigEndian.Uint64(b[at+16:])),
		}, t.window)
	}
	return n, nil
}
