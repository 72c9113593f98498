package recordbatch

import (
	"math"

	"github.com/felixlog/felix/internal/errcode"
)

// DefaultMaxDecodedBytes is the limit on the decompressed records of one batch if none is given.
const DefaultMaxDecodedBytes = 16 << 20

// ValidateOptions says what a topic and an API version demand of a batch.
type ValidateOptions struct {
	// MaxBatchBytes is the largest size of the batch as sent, its header included (max.message.bytes). 0 means no limit.
	MaxBatchBytes int
	// MaxDecodedBytes limits the decompressed records, and with them the number of records that a batch can claim. 0 means
	// DefaultMaxDecodedBytes.
	MaxDecodedBytes int
	// DecodeBytes stops a decompression earlier than MaxDecodedBytes, with the same error; the other checks go by MaxDecodedBytes.
	// 0 means MaxDecodedBytes.
	DecodeBytes int
	// ZstdAllowed says that the API version knows zstd (Produce 7 and later).
	ZstdAllowed bool
	// AllowControl accepts control batches: for coordinators, never for clients.
	AllowControl bool
	// RequireKeys refuses records with a null key (compacted topics). It implies Open.
	RequireKeys bool
	// Open decompresses the records and checks each of them. Uncompressed records are always checked.
	Open bool
	// LogAppendTime says that the topic's timestamps are the broker's: the producer's are not bounded, since the caller
	// overwrites them.
	LogAppendTime bool
	// BoundTimestamps refuses timestamps outside [Now-TimestampBeforeMax, Now+TimestampAfterMax]. It has no meaning with
	// LogAppendTime. Records without a timestamp are not bounded. The records of a compressed batch that is not opened are not
	// known one by one: its max_timestamp stands for them.
	BoundTimestamps bool
	// Summed says that Sum is the checksum of the batch, taken by a Summer while its bytes arrived. Otherwise it is computed.
	Summed bool
	Sum    uint32
	// Now is the present in milliseconds.
	Now int64
	// TimestampBeforeMax is how far before Now a timestamp may lie, in milliseconds (message.timestamp.before.max.ms, by default
	// math.MaxInt64: unlimited). Not negative.
	TimestampBeforeMax int64
	// TimestampAfterMax is how far after Now a timestamp may lie, in milliseconds (message.timestamp.after.max.ms, by default an
	// hour). Not negative.
	TimestampAfterMax int64
}

// Result is what Validate found out about a batch that is good.
type Result struct {
	// Header is the batch's header as sent.
	Header Header
	// Opened says that every record was looked at.
	Opened bool
	// MaxTimestamp is the largest timestamp of the records if they were looked at, else what the header says.
	MaxTimestamp int64
	// FixMaxTimestamp says that the header differs from MaxTimestamp, or claims LogAppendTime in a topic with CreateTime: the
	// caller patches with SetMaxTimestamp and Recrc before it appends.
	FixMaxTimestamp bool
	// FixOffsets says that the offset deltas are not 0, 1, 2, …: the caller rewrites the batch with Recompress and Renumber.
	FixOffsets bool
}

// Validate checks b, exactly one batch as a client sent it, by the rules of a broker (spec/kafka.md 3.4, checks 1 to 13; what
// depends on the producer's state or on other replicas is not its business). It changes nothing. It allocates nothing unless it fails or
// opens compressed records.
//
// Errors are of the kinds unsupported_format, unsupported_codec, invalid_record, batch_too_large, corrupt_batch and
// invalid_timestamp. An *errcode.RecordError names a record if a record is at fault.
func Validate(b []byte, o ValidateOptions) (Result, error) {
	h, err := validateHeader(b, &o)
	if err != nil {
		return Result{}, err
	}
	r := Result{Header: h, MaxTimestamp: h.MaxTimestamp}
	w := walk{h: &h, requireKeys: o.RequireKeys, low: math.MinInt64, high: math.MaxInt64, max: NoTimestamp}
	if o.BoundTimestamps && !o.LogAppendTime {
		w.setBounds(&o)
	}
	switch {
	case h.Codec() == CodecNone:
		err = w.run(b[HeaderSize:])
	case o.Open || o.RequireKeys:
		err = w.open(b, o.decodeBytes())
	default:
		return r, w.closed(&r, &o)
	}
	if err != nil {
		return Result{}, err
	}
	r.Opened = true
	r.MaxTimestamp = w.max
	r.FixMaxTimestamp = !o.LogAppendTime && (w.max != h.MaxTimestamp || h.LogAppendTime())
	r.FixOffsets = w.gaps
	return r, nil
}

func (o *ValidateOptions) maxDecodedBytes() int {
	if o.MaxDecodedBytes > 0 {
		return o.MaxDecodedBytes
	}
	return DefaultMaxDecodedBytes
}

func (o *ValidateOptions) decodeBytes() int {
	if o.DecodeBytes > 0 {
		return min(o.DecodeBytes, o.maxDecodedBytes())
	}
	return o.maxDecodedBytes()
}

// validateHeader makes the checks that need no record, in the order in which Kafka makes them.
func validateHeader(b []byte, o *ValidateOptions) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Header{}, err
	}
	codec := h.Codec()
	if codec == CodecZstd && !o.ZstdAllowed {
		return Header{}, reject(errcode.UnsupportedCodec, "zstd needs a newer version of the produce API")
	}
	if h.BaseOffset != 0 {
		return Header{}, reject(errcode.InvalidRecord, "base offset is %d, must be 0", h.BaseOffset)
	}
	if o.MaxBatchBytes > 0 && h.Size() > o.MaxBatchBytes {
		return Header{}, reject(errcode.BatchTooLarge, "size %d is over the limit of %d bytes", h.Size(), o.MaxBatchBytes)
	}
	switch {
	case h.Size() > len(b):
		return Header{}, ErrShort
	case h.Size() < len(b):
		return Header{}, ErrLength
	}
	if o.Summed {
		if o.Sum != h.CRC {
			return Header{}, ErrCRC
		}
	} else if err := CheckCRC(b); err != nil {
		return Header{}, err
	}
	if h.RecordCount <= 0 || int64(h.RecordCount) != int64(h.LastOffsetDelta)+1 {
		return Header{}, reject(errcode.InvalidRecord, "record count %d does not fit last offset delta %d", h.RecordCount, h.LastOffsetDelta)
	}
	if h.IsControl() && !o.AllowControl {
		return Header{}, reject(errcode.InvalidRecord, "clients may not write control batches")
	}
	if h.HasProducer() && (h.ProducerEpoch < 0 || h.BaseSequence < 0 && !h.IsControl()) {
		return Header{}, reject(errcode.InvalidRecord, "producer %d has epoch %d and base sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	}
	if h.IsTransactional() && !h.HasProducer() {
		return Header{}, reject(errcode.InvalidRecord, "transactional batch without a producer id")
	}
	if !codec.Known() {
		return Header{}, ErrCodec
	}
	// A count that cannot be true would let one small batch take millions of offsets.
	room := o.maxDecodedBytes()
	if codec == CodecNone {
		room = len(b) - HeaderSize
	}
	if int64(h.RecordCount)*minRecordSize > int64(room) {
		return Header{}, reject(errcode.InvalidRecord, "record count %d is more than fits", h.RecordCount)
	}
	if h.LogAppendTime() && (o.LogAppendTime || h.MaxTimestamp == NoTimestamp) {
		return Header{}, rejectRecord(errcode.InvalidTimestamp, 0, "the producer must not set the timestamp type to LogAppendTime")
	}
	return h, nil
}

// walk goes through the records of a batch and checks each of them.
type walk struct {
	h           *Header
	requireKeys bool
	low, high   int64 // bounds of timestamps, inclusive

	max  int64 // largest timestamp so far
	gaps bool  // offset deltas are not 0, 1, 2, …
}

// setBounds turns the two distances into bounds. The largest distance, and what overflows, is unlimited.
func (w *walk) setBounds(o *ValidateOptions) {
	if low, ok := addTimestamp(o.Now, -o.TimestampBeforeMax); ok && o.TimestampBeforeMax != math.MaxInt64 {
		w.low = low
	}
	if high, ok := addTimestamp(o.Now, o.TimestampAfterMax); ok {
		w.high = high
	}
}

// closed checks the one timestamp that can be checked without opening the records.
func (w *walk) closed(r *Result, o *ValidateOptions) error {
	ms := r.Header.MaxTimestamp
	if ms != NoTimestamp && (ms < w.low || ms > w.high) {
		return reject(errcode.InvalidTimestamp, "max timestamp %d is outside [%d, %d]", ms, w.low, w.high)
	}
	r.FixMaxTimestamp = !o.LogAppendTime && r.Header.LogAppendTime()
	return nil
}

// open decompresses the records into a pooled buffer and goes through them.
func (w *walk) open(b []byte, maxBytes int) error {
	scratch := getScratch()
	defer putScratch(scratch)
	records, err := Open(scratch.b, *w.h, b, maxBytes)
	if err != nil {
		return err
	}
	scratch.b = records
	return w.run(records)
}

// run goes through the decompressed records.
func (w *walk) run(records []byte) error {
	var s span
	pos, base, claimed := 0, w.h.BaseTimestamp, w.h.LogAppendTime()
	low, high, largest := w.low, w.high, w.max
	for i := range int(w.h.RecordCount) {
		if f := s.parse(records, pos); f != faultNone {
			return rejectRecord(errcode.InvalidRecord, i, "%s", faultTexts[f])
		}
		pos = s.end
		if int(s.offsetDelta) != i {
			w.gaps = true
		}
		if s.keyLen < 0 && w.requireKeys {
			return rejectRecord(errcode.InvalidRecord, i, "a compacted topic needs a key in every record")
		}
		ms, ok := addTimestamp(base, s.timestampDelta)
		if !ok {
			return rejectRecord(errcode.InvalidRecord, i, "%s", faultTexts[faultTimestamp])
		}
		largest = max(largest, ms)
		if claimed {
			ms = w.h.MaxTimestamp
		}
		if (ms < low || ms > high) && ms != NoTimestamp {
			return rejectRecord(errcode.InvalidTimestamp, i, "timestamp %d is outside [%d, %d]", ms, low, high)
		}
	}
	w.max = largest
	if pos != len(records) {
		return rejectRecord(errcode.InvalidRecord, int(w.h.RecordCount)-1, "%d bytes behind the last record", len(records)-pos)
	}
	return nil
}
