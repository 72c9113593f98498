package recordbatch

import (
	"encoding/binary"
	"math"
)

// Producer identifies an idempotent producer and the place of a batch in its sequence.
type Producer struct {
	// ID is not negative.
	ID int64
	// Epoch is not negative.
	Epoch int16
	// BaseSequence is the sequence number of the first record, -1 in control batches.
	BaseSequence int32
}

// BuilderOptions says what a batch is, apart from its records.
type BuilderOptions struct {
	// BaseOffset is the offset of the record with offset delta 0.
	BaseOffset int64
	// LeaderEpoch goes into the header as it is.
	LeaderEpoch int32
	// Codec compresses the records, at Level.
	Codec Codec
	// Level is as for CompressLevel; the zero value is the codec's default.
	Level int
	// Producer is nil if the producer is not idempotent.
	Producer *Producer
	// Transactional marks the batch as part of a transaction.
	Transactional bool
	// Control marks a control batch.
	Control bool
	// LogAppendTime gives every record AppendTime as its timestamp.
	LogAppendTime bool
	// AppendTime is in milliseconds.
	AppendTime int64
	// Unsummed leaves the checksum out: whoever stamps the batch afterwards makes it anyway (Recrc).
	Unsummed bool
}

// Builder makes one batch. The zero value is not usable: see NewBuilder and Reset.
type Builder struct {
	o       BuilderOptions
	dst     []byte
	start   int      // of the batch in dst
	scratch *scratch // the records, if they are to be compressed
	header  Header
	err     error
}

// NewBuilder returns a builder that appends its batch to dst.
func NewBuilder(dst []byte, o BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(dst, o)
	return b
}

// Reset makes b, new or used up, a builder that appends its batch to dst.
func (b *Builder) Reset(dst []byte, o BuilderOptions) {
	*b = Builder{o: o, dst: dst, start: len(dst)}
	b.header = Header{
		BaseOffset: o.BaseOffset, LeaderEpoch: o.LeaderEpoch, Magic: Magic, Attributes: int16(o.Codec),
		LastOffsetDelta: -1, BaseTimestamp: NoTimestamp, MaxTimestamp: NoTimestamp,
		ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence,
	}
	if p := o.Producer; p != nil {
		b.header.ProducerID, b.header.ProducerEpoch, b.header.BaseSequence = p.ID, p.Epoch, p.BaseSequence
	}
	if o.Transactional {
		b.header.Attributes |= attributeTransactional
	}
	if o.Control {
		b.header.Attributes |= attributeControl
	}
	if o.LogAppendTime {
		b.header.Attributes |= attributeLogAppendTime
		b.header.MaxTimestamp = o.AppendTime
	}
	b.dst = AppendHeader(b.dst, b.header)
	switch {
	case !o.Codec.Known():
		b.err = ErrCodec
	case o.Codec != CodecNone:
		b.scratch = getScratch()
	}
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.header.RecordCount) }

// Size is the number of bytes so far, header included, before compression.
func (b *Builder) Size() int {
	if b.scratch != nil {
		return HeaderSize + len(b.scratch.b)
	}
	return len(b.dst) - b.start
}

// Append adds a record at the next offset. Nil means null for key, value and header values. Nothing is kept of the arguments. An
// error (too large, timestamps too far apart) is kept and comes out of Build.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...RecordHeader) {
	if b.err != nil {
		return
	}
	h := &b.header
	if h.RecordCount == 0 {
		h.BaseTimestamp = timestamp
	}
	delta := timestamp - h.BaseTimestamp
	if (delta < 0) != (timestamp < h.BaseTimestamp) || h.RecordCount == math.MaxInt32 {
		b.err = ErrTooLarge
		return
	}
	to := &b.dst
	if b.scratch != nil {
		to = &b.scratch.b
	}
	*to, b.err = AppendRecord(*to, delta, h.RecordCount, key, value, headers)
	if b.err != nil {
		return
	}
	h.RecordCount++
	h.LastOffsetDelta++
	if !b.o.LogAppendTime {
		h.MaxTimestamp = max(h.MaxTimestamp, timestamp)
	}
	if b.Size() > math.MaxInt32-LengthEnd {
		b.err = ErrTooLarge
	}
}

// Build completes the batch and returns dst with it. The builder is used up. A batch without records is refused, since no
// broker takes one. On an error dst is returned as NewBuilder got it.
func (b *Builder) Build() ([]byte, error) {
	if b.scratch != nil {
		if b.err == nil {
			b.dst, b.err = CompressLevel(b.dst, b.o.Codec, b.scratch.b, b.o.Level)
		}
		putScratch(b.scratch)
		b.scratch = nil
	}
	if b.err == nil && b.header.RecordCount == 0 {
		b.err = errEmpty
	}
	if b.err == nil {
		b.err = b.seal()
	}
	if b.err != nil {
		return b.dst[:b.start], b.err
	}
	return b.dst, nil
}

func (b *Builder) seal() error {
	batch := b.dst[b.start:]
	if !b.o.Unsummed {
		return seal(batch, &b.header)
	}
	if len(batch) > math.MaxInt32-LengthEnd {
		return ErrTooLarge
	}
	b.header.Length = int32(len(batch) - LengthEnd)
	AppendHeader(batch[:0], b.header)
	return nil
}

// seal fills in the length and checksum of h and writes it over the head of batch.
func seal(batch []byte, h *Header) error {
	if len(batch) > math.MaxInt32-LengthEnd {
		return ErrTooLarge
	}
	h.Length = int32(len(batch) - LengthEnd)
	AppendHeader(batch[:0], *h)
	Recrc(batch)
	h.CRC = binary.BigEndian.Uint32(batch[offsetOfCRC:])
	return nil
}
