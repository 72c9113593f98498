package recordbatch

import "math"

// RebuildOptions says what compaction keeps of a batch.
type RebuildOptions struct {
	// Keep decides of each record; nil keeps all. The record is valid during the call.
	Keep func(r *Record) bool
	// DeleteHorizon, if not negative, is the time in milliseconds after which tombstones may go. It is set if a kept record is a
	// tombstone (or the batch a control batch) and the batch has no horizon yet (KIP-534).
	DeleteHorizon int64
	// KeepEmpty keeps the header of a batch none of whose records are kept: for the last batch of a producer, whose sequence
	// must stay known.
	KeepEmpty bool
	// MaxDecodedBytes limits the decompressed records. 0 means DefaultMaxDecodedBytes.
	MaxDecodedBytes int
}

// RebuildResult is what Rebuild did.
type RebuildResult struct {
	// Kept is the number of records kept.
	Kept int
	// Tombstones is the number of kept records with a null value.
	Tombstones int
	// Changed says that the bytes appended differ from the batch given.
	Changed bool
	// Header is that of the batch appended; the zero Header if none was.
	Header Header
}

// Rebuild appends to dst what compaction leaves of batch, exactly one stored batch whose checksum is good. Offsets stay: base offset,
// last offset delta, producer fields and the deltas of the kept records are unchanged; the record count, under CreateTime the largest
// timestamp, the length and the checksum follow the records. If everything is kept and no horizon is to be set the bytes are
// copied as they are; if nothing is kept nothing is appended, or with KeepEmpty a header alone.
//
// With a new delete horizon base_timestamp becomes the horizon and every timestamp delta moves, so that record timestamps stay
// (KIP-534).
//
// Errors: those of Open and of Iterator.Err; dst is returned as given.
func Rebuild(dst, batch []byte, o RebuildOptions) ([]byte, RebuildResult, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return dst, RebuildResult{}, err
	}
	if o.MaxDecodedBytes <= 0 {
		o.MaxDecodedBytes = DefaultMaxDecodedBytes
	}
	decoded, encoded := getScratch(), getScratch()
	defer putScratch(decoded)
	defer putScratch(encoded)
	records, err := Open(decoded.b, h, batch, o.MaxDecodedBytes)
	if err != nil {
		return dst, RebuildResult{}, err
	}
	if h.Codec() != CodecNone {
		decoded.b = records
	}

	// The first pass copies the kept records as they are; most batches need no other.
	var r RebuildResult
	largest := NoTimestamp
	it := Records(h, records)
	for it.Next() {
		if o.Keep != nil && !o.Keep(&it.Record) {
			continue
		}
		r.Kept++
		if it.Record.Value == nil {
			r.Tombstones++
		}
		largest = max(largest, it.Record.Timestamp)
		encoded.b = append(encoded.b, it.Record.raw...)
	}
	if err := it.Err(); err != nil {
		return dst, RebuildResult{}, err
	}
	_, hasHorizon := h.DeleteHorizon()
	setHorizon := o.DeleteHorizon >= 0 && !hasHorizon && r.Kept > 0 && (r.Tombstones > 0 || h.IsControl())
	switch {
	case r.Kept == int(h.RecordCount) && !setHorizon:
		if r.Kept == 0 && !o.KeepEmpty {
			return dst, r, nil
		}
		r.Header = h
		return append(dst, batch...), r, nil
	case r.Kept == 0:
		r.Changed = true
		if !o.KeepEmpty {
			return dst, r, nil
		}
		return appendEmpty(dst, h, r)
	}

	r.Changed = true
	n := h
	n.RecordCount = int32(r.Kept)
	if !h.LogAppendTime() {
		n.MaxTimestamp = largest
	}
	kept := encoded.b
	if setHorizon {
		shifted := getScratch()
		defer putScratch(shifted)
		if records, ok := shiftTimestamps(shifted.b, n, kept, o.DeleteHorizon); ok {
			shifted.b, kept = records, records
			n.BaseTimestamp = o.DeleteHorizon
			n.Attributes |= attributeDeleteHorizon
		}
	}
	out, err := appendBatch(dst, &n, kept, DefaultLevel)
	if err != nil {
		return dst, RebuildResult{}, err
	}
	r.Header = n
	return out, r, nil
}

// appendEmpty appends the header of h for a batch without records.
func appendEmpty(dst []byte, h Header, r RebuildResult) ([]byte, RebuildResult, error) {
	h.RecordCount = 0
	h.Attributes &^= codecMask
	out, err := appendBatch(dst, &h, nil, DefaultLevel)
	if err != nil {
		return dst, RebuildResult{}, err
	}
	r.Header = h
	return out, r, nil
}

// shiftTimestamps appends records of a batch with header h, relative to base instead of its base timestamp. It fails if a delta
// overflows, as it can with the timestamps of a hostile producer: the batch then goes without a horizon, and its tombstones stay.
func shiftTimestamps(dst []byte, h Header, records []byte, base int64) ([]byte, bool) {
	shift, ok := addTimestamp(h.BaseTimestamp, -base)
	if !ok {
		return nil, false
	}
	for it := Records(h, records); it.Next(); {
		delta, ok := addTimestamp(shift, it.Record.timestampDelta)
		if !ok {
			return nil, false
		}
		dst = it.Record.appendMoved(dst, delta, it.Record.OffsetDelta)
	}
	return dst, true
}

// RecompressOptions says what Recompress changes.
type RecompressOptions struct {
	// Codec is that of the new batch, at Level as for CompressLevel.
	Codec Codec
	// Level is as for CompressLevel; the zero value is the codec's default.
	Level int
	// Renumber gives the records the offset deltas 0, 1, 2, ….
	Renumber bool
	// MaxDecodedBytes limits the decompressed records. 0 means DefaultMaxDecodedBytes.
	MaxDecodedBytes int
}

// Recompress appends to dst the records of batch, exactly one batch, under another codec (compression.type) or with other offset
// deltas. Header fields but codec, length, checksum and, with Renumber, last offset delta stay. The checksum of batch is
// not looked at, so its header may have been patched before.
//
// Errors: those of Open, with Renumber those of Iterator.Err; dst is returned as given.
func Recompress(dst, batch []byte, o RecompressOptions) ([]byte, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return dst, err
	}
	if !o.Codec.Known() {
		return dst, ErrCodec
	}
	if o.MaxDecodedBytes <= 0 {
		o.MaxDecodedBytes = DefaultMaxDecodedBytes
	}
	decoded := getScratch()
	defer putScratch(decoded)
	records, err := Open(decoded.b, h, batch, o.MaxDecodedBytes)
	if err != nil {
		return dst, err
	}
	if h.Codec() != CodecNone {
		decoded.b = records
	}
	if o.Renumber {
		renumbered := getScratch()
		defer putScratch(renumbered)
		lenient := h
		lenient.LastOffsetDelta = math.MaxInt32 // what is wrong with the deltas is why we are here
		it := Records(lenient, records)
		for it.Next() {
			renumbered.b = it.Record.appendMoved(renumbered.b, it.Record.timestampDelta, int32(it.Record.Index))
		}
		if err := it.Err(); err != nil {
			return dst, err
		}
		records = renumbered.b
		h.LastOffsetDelta = h.RecordCount - 1
	}
	h.Attributes = h.Attributes&^codecMask | int16(o.Codec)
	out, err := appendBatch(dst, &h, records, o.Level)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// appendBatch appends a batch of h and the encoded records, compressed as h says, and fills in the length and checksum of h.
func appendBatch(dst []byte, h *Header, records []byte, level int) ([]byte, error) {
	start := len(dst)
	dst = AppendHeader(dst, *h)
	dst, err := CompressLevel(dst, h.Codec(), records, level)
	if err != nil {
		return nil, err
	}
	if err := seal(dst[start:], h); err != nil {
		return nil, err
	}
	return dst, nil
}
