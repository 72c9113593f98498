package recordbatch

import (
	"encoding/binary"
	"math"
)

const (
	// HeaderSize is the number of bytes before the records.
	HeaderSize = 61
	// LengthEnd is where the bytes begin that the length field counts: a batch is Length + LengthEnd bytes long.
	LengthEnd = 12
	// Magic is the magic byte of format v2.
	Magic = 2
	// NoTimestamp is the timestamp of a record that has none.
	NoTimestamp int64 = -1
	// NoProducerID is the producer id of a batch whose producer is not idempotent.
	NoProducerID int64 = -1
	// NoSequence is the base sequence of a batch whose producer is not idempotent.
	NoSequence int32 = -1
	// NoProducerEpoch is the producer epoch of a batch whose producer is not idempotent.
	NoProducerEpoch int16 = -1
	// NoLeaderEpoch is the leader epoch of a batch that no leader has stamped.
	NoLeaderEpoch int32 = -1

	// minLength is the smallest legal value of the length field: a header without records.
	minLength = HeaderSize - LengthEnd
	// minRecordSize is the size of the smallest record: every field one byte, no key, value or header.
	minRecordSize = 7
)

// Bits of Header.Attributes. Bits 7 to 15 are unused and ignored.
const (
	codecMask               int16 = 0x07
	attributeLogAppendTime  int16 = 0x08
	attributeTransactional  int16 = 0x10
	attributeControl        int16 = 0x20
	attributeDeleteHorizon  int16 = 0x40
	offsetOfLength                = 8
	offsetOfLeaderEpoch           = 12
	offsetOfMagic                 = 16
	offsetOfCRC                   = 17
	offsetOfAttributes            = 21
	offsetOfLastOffsetDelta       = 23
	offsetOfBaseTimestamp         = 27
	offsetOfMaxTimestamp          = 35
	offsetOfProducerID            = 43
	offsetOfProducerEpoch         = 51
	offsetOfBaseSequence          = 53
	offsetOfRecordCount           = 57
)

// Header is the head of a batch, field by field as on the wire.
type Header struct {
	// BaseOffset is the offset of the first record; 0 from producers, patched by the broker.
	BaseOffset int64
	// Length is the number of bytes after the length field: the whole batch less LengthEnd.
	Length int32
	// LeaderEpoch is the leader epoch that appended the batch; anything from producers, patched by the broker.
	LeaderEpoch int32
	// Magic is always 2 in a Header that ParseHeader returned.
	Magic int8
	// CRC is the CRC-32C of everything from the attributes on.
	CRC uint32
	// Attributes are bits; the methods read them.
	Attributes int16
	// LastOffsetDelta is the last offset of the batch less BaseOffset. It survives compaction, so it may exceed the last record's.
	LastOffsetDelta int32
	// BaseTimestamp is what record timestamps are relative to, in milliseconds; with bit 6 set also the delete horizon.
	BaseTimestamp int64
	// MaxTimestamp is the largest record timestamp, or under LogAppendTime the timestamp of every record, in milliseconds.
	MaxTimestamp int64
	// ProducerID is -1 if the producer is not idempotent.
	ProducerID int64
	// ProducerEpoch is -1 if the producer is not idempotent.
	ProducerEpoch int16
	// BaseSequence is the sequence number of the first record, -1 if the producer is not idempotent and in control batches.
	BaseSequence int32
	// RecordCount is the number of records present; 0 is legal in stored batches.
	RecordCount int32
}

// ParseHeader reads the header at the start of b. It looks at no byte behind the header, so the batch itself may be longer
// or shorter than b: see Header.Size. The checksum is not verified: see CheckCRC.
//
// Errors: ErrShort if b holds fewer than HeaderSize bytes, ErrOldFormat or ErrMagic if the magic byte is not 2, ErrLength if the
// length field is below the minimum or the size does not fit 31 bits.
func ParseHeader(b []byte) (Header, error) {
	if len(b) <= offsetOfMagic {
		return Header{}, ErrShort
	}
	if magic := b[offsetOfMagic]; magic != Magic {
		if magic < Magic {
			return Header{}, ErrOldFormat
		}
		return Header{}, ErrMagic
	}
	if len(b) < HeaderSize {
		return Header{}, ErrShort
	}
	b = b[:HeaderSize:HeaderSize]
	h := Header{
		BaseOffset:      int64(binary.BigEndian.Uint64(b)),
		Length:          int32(binary.BigEndian.Uint32(b[offsetOfLength:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[offsetOfLeaderEpoch:])),
		Magic:           Magic,
		CRC:             binary.BigEndian.Uint32(b[offsetOfCRC:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[offsetOfAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[offsetOfLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[offsetOfBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[offsetOfMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[offsetOfProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[offsetOfProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[offsetOfBaseSequence:])),
		RecordCount:     int32(binary.BigEndian.Uint32(b[offsetOfRecordCount:])),
	}
	if h.Length < minLength || h.Length > math.MaxInt32-LengthEnd {
		return Header{}, ErrLength
	}
	return h, nil
}

// AppendHeader appends the 61 bytes of h. It writes every field as it stands, Magic and CRC too.
func AppendHeader(dst []byte, h Header) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BaseOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Length))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.LeaderEpoch))
	dst = append(dst, byte(h.Magic))
	dst = binary.BigEndian.AppendUint32(dst, h.CRC)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Attributes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.LastOffsetDelta))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BaseTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.MaxTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.ProducerEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.BaseSequence))
	return binary.BigEndian.AppendUint32(dst, uint32(h.RecordCount))
}

// Size is the number of bytes of the whole batch.
func (h *Header) Size() int { return int(h.Length) + LengthEnd }

// Codec is the codec of the records. It may be one that does not exist: see Codec.Known.
func (h *Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// LogAppendTime says that every record has MaxTimestamp as its timestamp, which the broker set at append.
func (h *Header) LogAppendTime() bool { return h.Attributes&attributeLogAppendTime != 0 }

// IsTransactional says that the batch is part of a transaction.
func (h *Header) IsTransactional() bool { return h.Attributes&attributeTransactional != 0 }

// IsControl says that the batch holds a control record, which clients never show.
func (h *Header) IsControl() bool { return h.Attributes&attributeControl != 0 }

// HasProducer says that the producer is idempotent: id, epoch and sequence are meant.
func (h *Header) HasProducer() bool { return h.ProducerID >= 0 }

// DeleteHorizon returns the time in milliseconds after which compaction may drop the batch's tombstones, if one has been set
// (KIP-534).
func (h *Header) DeleteHorizon() (ms int64, ok bool) {
	return h.BaseTimestamp, h.Attributes&attributeDeleteHorizon != 0
}

// LastOffset is the offset of the last record that the batch was made with.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset is the offset behind the batch.
func (h *Header) NextOffset() int64 { return h.LastOffset() + 1 }

// LastSequence is the sequence number of the last record that the batch was made with, wrapped past 2^31-1 to 0; -1 if the batch
// has none.
func (h *Header) LastSequence() int32 {
	if h.BaseSequence < 0 {
		return NoSequence
	}
	return NextSequence(h.BaseSequence, h.LastOffsetDelta)
}

// NextSequence returns the sequence number n records after seq, both not negative: past 2^31-1 comes 0.
func NextSequence(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// SetBaseOffset patches the base offset of the batch at the start of b, which holds at least its header. The checksum does not
// cover it.
func SetBaseOffset(b []byte, offset int64) {
	binary.BigEndian.PutUint64(b, uint64(offset))
}

// SetLeaderEpoch patches the leader epoch of the batch at the start of b, which holds at least its header. The checksum does not
// cover it.
func SetLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[offsetOfLeaderEpoch:], uint32(epoch))
}

// SetMaxTimestamp patches the largest timestamp and the timestamp type of the batch at the start of b, which holds at least its
// header. The checksum covers both: call Recrc after the last such patch.
func SetMaxTimestamp(b []byte, ms int64, logAppendTime bool) {
	attributes := int16(binary.BigEndian.Uint16(b[offsetOfAttributes:])) &^ attributeLogAppendTime
	if logAppendTime {
		attributes |= attributeLogAppendTime
	}
	binary.BigEndian.PutUint16(b[offsetOfAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[offsetOfMaxTimestamp:], uint64(ms))
}

// SetTimestamps patches base and largest timestamp of the batch at the start of b to ms, and the timestamp type: of records whose
// timestamp deltas are 0. The checksum covers all three: call Recrc after the last such patch.
func SetTimestamps(b []byte, ms int64, logAppendTime bool) {
	binary.BigEndian.PutUint64(b[offsetOfBaseTimestamp:], uint64(ms))
	SetMaxTimestamp(b, ms, logAppendTime)
}

// SetProducer patches the producer fields of the batch at the start of b, which holds at least its header. The checksum covers them:
// call Recrc after the last such patch.
func SetProducer(b []byte, p Producer) {
	binary.BigEndian.PutUint64(b[offsetOfProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(b[offsetOfProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(b[offsetOfBaseSequence:], uint32(p.BaseSequence))
}

// Next cuts the first batch off b, which holds batches back to back: batch is the whole of it and rest is what follows. The
// checksum is not verified.
//
// Errors: those of ParseHeader, and ErrShort if b ends before the batch does. An empty b is ErrShort too.
func Next(b []byte) (h Header, batch, rest []byte, err error) {
	if h, err = ParseHeader(b); err != nil {
		return Header{}, nil, nil, err
	}
	size := h.Size()
	if size > len(b) {
		return h, nil, nil, ErrShort
	}
	return h, b[:size:size], b[size:], nil
}
