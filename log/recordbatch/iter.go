package recordbatch

import "github.com/felixlog/felix/internal/errcode"

// Iterator yields the records of an opened batch without allocating. It is a value: copy it to remember a place.
//
//	it := recordbatch.Records(h, records)
//	for it.Next() {
//		use(&it.Record)
//	}
//	if err := it.Err(); err != nil { ... }
type Iterator struct {
	// Record is the current record, valid after Next returned true and until the next call of it. Its slices stay valid.
	Record Record

	records []byte
	pos     int
	h       Header
	err     error
}

// Records returns an iterator over the decompressed records of the batch whose header is h, as Open returns them.
func Records(h Header, records []byte) Iterator {
	return Iterator{h: h, records: records, Record: Record{Index: -1}}
}

// Next moves to the next record. It returns false behind the last one and at the first fault: see Err.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	index := it.Record.Index + 1
	if index >= int(it.h.RecordCount) {
		if it.pos != len(it.records) {
			it.err = rejectRecord(errcode.InvalidRecord, index, "%d bytes behind the last record", len(it.records)-it.pos)
		}
		return false
	}
	var s span
	if f := s.parse(it.records, it.pos); f != faultNone {
		it.err = rejectRecord(errcode.InvalidRecord, index, "%s", faultTexts[f])
		return false
	}
	if f := it.h.place(&it.Record, &s, index); f != faultNone {
		it.err = rejectRecord(errcode.InvalidRecord, index, "%s", faultTexts[f])
		return false
	}
	s.record(&it.Record, it.records)
	it.pos = s.end
	return true
}

// Err returns what ended the iteration early: an error of kind invalid_record that names the record, or nil.
func (it *Iterator) Err() error { return it.err }

// place fills what a record gets from its batch.
func (h *Header) place(r *Record, s *span, index int) fault {
	if s.offsetDelta > h.LastOffsetDelta {
		return faultOffset
	}
	r.Index = index
	r.Offset = h.BaseOffset + int64(s.offsetDelta)
	ms, ok := addTimestamp(h.BaseTimestamp, s.timestampDelta)
	if !ok {
		return faultTimestamp
	}
	if h.LogAppendTime() {
		ms = h.MaxTimestamp
	}
	r.Timestamp = ms
	return faultNone
}

// Open returns the decompressed records of batch, which is exactly one batch with header h and was checked. Uncompressed ones
// are returned in place; compressed ones are appended to dst[:0], which the result then owns. At most maxBytes are decoded.
//
// Errors: those of Decompress.
func Open(dst []byte, h Header, batch []byte, maxBytes int) ([]byte, error) {
	records := batch[HeaderSize:]
	if h.Codec() == CodecNone {
		return records, nil
	}
	return Decompress(dst[:0], h.Codec(), records, maxBytes)
}
