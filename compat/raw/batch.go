package raw

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// headerBytes is the size of a record batch's header (magic 2).
const headerBytes = 61

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is a record header. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. A nil Key or Value is null, an empty one empty.
type Record struct {
	Key, Value     []byte
	Headers        []Header
	TimestampDelta int64
	// Offset is set by Stored.Records: the record's offset in the log.
	Offset int64
	// Timestamp is set by Stored.Records, milliseconds.
	Timestamp int64
}

// Batch is a record batch v2 to be. Make one with NewBatch: the zero value is an idempotent batch of producer 0.
type Batch struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Magic         int8
	Attributes    int16 // without the codec
	Codec         Codec
	BaseTimestamp int64
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Records       []Record
	// The fields below replace what Encode would compute.
	MaxTimestamp    *int64
	LastOffsetDelta *int32
	Count           *int32
}

// NewBatch makes a batch of no producer, not compressed, with the given base timestamp in milliseconds.
func NewBatch(timestamp int64, records ...Record) *Batch {
	return &Batch{
		LeaderEpoch: -1, Magic: 2, BaseTimestamp: timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Records: records,
	}
}

// Values makes records with values only.
func Values(values ...string) []Record {
	records := make([]Record, len(values))
	for i, v := range values {
		records[i].Value = []byte(v)
	}
	return records
}

// Idempotent makes the batch one of a producer.
func (b *Batch) Idempotent(id int64, epoch int16, sequence int32) *Batch {
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, epoch, sequence
	return b
}

// Encode returns the batch's bytes with the right length and CRC.
func (b *Batch) Encode() []byte {
	var records []byte
	maxTimestamp := b.BaseTimestamp
	for i, r := range b.Records {
		records = appendRecord(records, r, i)
		maxTimestamp = max(maxTimestamp, b.BaseTimestamp+r.TimestampDelta)
	}
	return b.EncodeRecords(Compress(b.Codec, records), maxTimestamp)
}

// EncodeRecords is Encode with the records section given as it goes to the wire.
func (b *Batch) EncodeRecords(records []byte, maxTimestamp int64) []byte {
	count := int32(len(b.Records))
	lastDelta := count - 1
	if b.LastOffsetDelta != nil {
		lastDelta = *b.LastOffsetDelta
	}
	if b.Count != nil {
		count = *b.Count
	}
	if b.MaxTimestamp != nil {
		maxTimestamp = *b.MaxTimestamp
	}
	be := binary.BigEndian
	out := be.AppendUint64(nil, uint64(b.BaseOffset))
	out = be.AppendUint32(out, uint32(headerBytes-12+len(records)))
	out = be.AppendUint32(out, uint32(b.LeaderEpoch))
	out = append(out, byte(b.Magic))
	out = be.AppendUint32(out, 0) // CRC, below
	out = be.AppendUint16(out, uint16(b.Attributes|int16(b.Codec)))
	out = be.AppendUint32(out, uint32(lastDelta))
	out = be.AppendUint64(out, uint64(b.BaseTimestamp))
	out = be.AppendUint64(out, uint64(maxTimestamp))
	out = be.AppendUint64(out, uint64(b.ProducerID))
	out = be.AppendUint16(out, uint16(b.ProducerEpoch))
	out = be.AppendUint32(out, uint32(b.BaseSequence))
	out = be.AppendUint32(out, uint32(count))
	return Seal(append(out, records...))
}

// Seal writes the CRC of the batch into it and returns it.
func Seal(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	return batch
}

func appendRecord(dst []byte, r Record, delta int) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, r.TimestampDelta)
	body = binary.AppendVarint(body, int64(delta))
	body = appendBytes(body, r.Key)
	body = appendBytes(body, r.Value)
	body = binary.AppendVarint(body, int64(len(r.Headers)))
	for _, h := range r.Headers {
		body = appendBytes(body, []byte(h.Key))
		body = appendBytes(body, h.Value)
	}
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// MessageSet returns a message set of one message of magic 0 or 1.
func MessageSet(magic int8, timestamp int64, value []byte) []byte {
	be := binary.BigEndian
	message := []byte{byte(magic), 0}
	if magic == 1 {
		message = be.AppendUint64(message, uint64(timestamp))
	}
	message = be.AppendUint32(message, 0xffffffff) // null key
	message = be.AppendUint32(message, uint32(len(value)))
	message = append(message, value...)
	out := be.AppendUint64(nil, 0)
	out = be.AppendUint32(out, uint32(4+len(message)))
	out = be.AppendUint32(out, crc32.ChecksumIEEE(message))
	return append(out, message...)
}

// Stored is a batch as a fetch returned it.
type Stored struct {
	Raw             []byte
	BaseOffset      int64
	LeaderEpoch     int32
	Magic           int8
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
	CRCValid        bool
}

// ParseBatches parses the batches of a fetch. A partial batch at the end is an error: both peers send whole ones.
func ParseBatches(b []byte) ([]Stored, error) {
	var out []Stored
	be := binary.BigEndian
	for len(b) > 0 {
		if len(b) < headerBytes {
			return out, fmt.Errorf("%d bytes after the last batch", len(b))
		}
		size := 12 + int(int32(be.Uint32(b[8:])))
		if size < headerBytes || size > len(b) {
			return out, fmt.Errorf("batch of %d bytes in %d", size, len(b))
		}
		raw := b[:size]
		out = append(out, Stored{
			Raw:             raw,
			BaseOffset:      int64(be.Uint64(raw)),
			LeaderEpoch:     int32(be.Uint32(raw[12:])),
			Magic:           int8(raw[16]),
			CRCValid:        be.Uint32(raw[17:]) == crc32.Checksum(raw[21:], castagnoli),
			Attributes:      int16(be.Uint16(raw[21:])),
			LastOffsetDelta: int32(be.Uint32(raw[23:])),
			BaseTimestamp:   int64(be.Uint64(raw[27:])),
			MaxTimestamp:    int64(be.Uint64(raw[35:])),
			ProducerID:      int64(be.Uint64(raw[43:])),
			ProducerEpoch:   int16(be.Uint16(raw[51:])),
			BaseSequence:    int32(be.Uint32(raw[53:])),
			Count:           int32(be.Uint32(raw[57:])),
		})
		b = b[size:]
	}
	return out, nil
}

// Codec is the compression codec of the batch.
func (s Stored) Codec() Codec { return Codec(s.Attributes & 7) }

// LogAppendTime tells whether bit 3 is set.
func (s Stored) LogAppendTime() bool { return s.Attributes&8 != 0 }

// Records decodes the batch's records with their offsets and timestamps.
func (s Stored) Records() ([]Record, error) {
	b, err := Decompress(s.Codec(), s.Raw[headerBytes:])
	if err != nil {
		return nil, err
	}
	var out []Record
	for range s.Count {
		d := decoder{b: b}
		body := decoder{b: d.bytes()}
		b = d.b
		body.byte()
		r := Record{TimestampDelta: body.varint()}
		r.Offset = s.BaseOffset + body.varint()
		r.Timestamp = s.BaseTimestamp + r.TimestampDelta
		if s.LogAppendTime() {
			r.Timestamp = s.MaxTimestamp
		}
		r.Key, r.Value = body.bytes(), body.bytes()
		for n := body.varint(); n > 0 && !body.bad; n-- {
			r.Headers = append(r.Headers, Header{Key: string(body.bytes()), Value: body.bytes()})
		}
		if d.bad || body.bad || len(body.b) > 0 {
			return out, fmt.Errorf("record %d of batch %d does not decode", len(out), s.BaseOffset)
		}
		out = append(out, r)
	}
	if len(b) > 0 {
		return out, fmt.Errorf("%d bytes after the last record of batch %d", len(b), s.BaseOffset)
	}
	return out, nil
}

// decoder reads varints; bad latches.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() {
	if len(d.b) == 0 {
		d.bad = true
		return
	}
	d.b = d.b[1:]
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes returns nil for null and a non-nil slice otherwise.
func (d *decoder) bytes() []byte {
	n := d.varint()
	if n < 0 {
		return nil
	}
	if n > int64(len(d.b)) {
		d.bad = true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
