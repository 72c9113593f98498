package recordbatch

import "math"

// Record is one record of an opened batch. Its slices point into the opened records.
type Record struct {
	// Index is the position in the batch, from 0. After compaction it differs from OffsetDelta.
	Index int
	// Offset is the record's offset.
	Offset int64
	// OffsetDelta is Offset less the batch's base offset.
	OffsetDelta int32
	// Timestamp is in milliseconds, NoTimestamp if the record has none. Under LogAppendTime it is the batch's.
	Timestamp int64
	// Key is nil if it is null.
	Key []byte
	// Value is nil if it is null: a tombstone in a compacted topic.
	Value []byte
	// HeaderCount is the number of headers.
	HeaderCount int

	// headers are the encoded headers without their count.
	headers []byte
	// raw is the whole record with its length; body is where the key length begins in it.
	raw  []byte
	body int
	// timestampDelta is as stored.
	timestampDelta int64
}

// Headers returns an iterator over the headers, in the order in which the producer wrote them; names may repeat.
func (r *Record) Headers() HeaderIterator {
	return HeaderIterator{rest: r.headers, left: r.HeaderCount}
}

// RawHeaders are the encoded headers without their count, in the wire form of a record.
func (r *Record) RawHeaders() []byte { return r.headers }

// Size is the number of bytes of the record in the opened batch, its length field included.
func (r *Record) Size() int { return len(r.raw) }

// RecordHeader is a header of a record.
type RecordHeader struct {
	// Key is never null.
	Key []byte
	// Value is nil if it is null.
	Value []byte
}

// HeaderIterator yields the headers of a record. They were checked when the record was parsed, so there is no error.
type HeaderIterator struct {
	rest []byte
	left int
}

// Next returns the next header; ok is false after the last.
func (it *HeaderIterator) Next() (h RecordHeader, ok bool) {
	if it.left <= 0 {
		return RecordHeader{}, false
	}
	it.left--
	key, pos := parseBytes(it.rest, 0)
	value, pos := parseBytes(it.rest, pos)
	it.rest = it.rest[pos:]
	return RecordHeader{Key: key, Value: value}, true
}

// parseBytes reads a length and as many bytes, which are known to be there.
func parseBytes(p []byte, pos int) (b []byte, next int) {
	u, pos := uvarint32(p, pos)
	n := int(unzigzag32(u))
	if n < 0 {
		return nil, pos
	}
	return p[pos : pos+n : pos+n], pos + n
}

// fault is what is wrong with a record.
type fault uint8

const (
	faultNone fault = iota
	faultLength
	faultTimestamp
	faultOffset
	faultKey
	faultValue
	faultHeaderCount
	faultHeader
	faultTrailing
)

var faultTexts = [...]string{
	faultNone:        "nothing",
	faultLength:      "bad length",
	faultTimestamp:   "bad timestamp delta",
	faultOffset:      "bad offset delta",
	faultKey:         "bad key length",
	faultValue:       "bad value length",
	faultHeaderCount: "bad header count",
	faultHeader:      "bad header",
	faultTrailing:    "bytes left over in the record",
}

// span is where the parts of one record are, as positions in what was parsed. Positions fit 31 bits since a batch does.
type span struct {
	start          int // of the record, its length field first
	body           int // of the key length
	key, value     int // of the bytes
	headers        int // of the first header
	end            int // behind the record
	timestampDelta int64
	offsetDelta    int32
	keyLen         int32 // -1: null
	valueLen       int32 // -1: null
	headerCount    int32
}

// parse finds the record at p[pos:] and checks all of it, headers included. It allocates nothing; the fields of s are only
// meaningful if it returns faultNone. Each field tries the inlined short form first: this is what validating an uncompressed batch
// costs, a record at a time.
func (s *span) parse(p []byte, pos int) fault {
	s.start = pos
	u, next := shortVarint(p, pos)
	if next == 0 {
		if u, next = uvarint32(p, pos); next < 0 {
			return faultLength
		}
	}
	size := int(unzigzag32(u))
	if size < minRecordSize-1 || size > len(p)-next {
		return faultLength
	}
	end := next + size
	s.end = end
	p = p[:end]
	pos = next + 1 // past the attributes: unused, ignored as Kafka does

	if u, next = shortVarint(p, pos); next != 0 {
		s.timestampDelta = unzigzag64(uint64(u))
	} else {
		var wide uint64
		if wide, next = uvarint64(p, pos); next < 0 {
			return faultTimestamp
		}
		s.timestampDelta = unzigzag64(wide)
	}

	pos = next
	if u, next = shortVarint(p, pos); next == 0 {
		if u, next = uvarint32(p, pos); next < 0 {
			return faultOffset
		}
	}
	s.offsetDelta = unzigzag32(u)
	if s.offsetDelta < 0 {
		return faultOffset
	}

	pos = next
	s.body = pos
	if u, next = shortVarint(p, pos); next == 0 {
		if u, next = uvarint32(p, pos); next < 0 {
			return faultKey
		}
	}
	n := unzigzag32(u)
	s.key, s.keyLen = next, n
	if n < -1 || int(n) > len(p)-next {
		return faultKey
	}

	pos = next + int(max(n, 0))
	if u, next = shortVarint(p, pos); next == 0 {
		if u, next = uvarint32(p, pos); next < 0 {
			return faultValue
		}
	}
	n = unzigzag32(u)
	s.value, s.valueLen = next, n
	if n < -1 || int(n) > len(p)-next {
		return faultValue
	}

	pos = next + int(max(n, 0))
	// One zero byte and then the end: a record without headers.
	if pos == end-1 && p[pos] == 0 {
		s.headers, s.headerCount = end, 0
		return faultNone
	}
	return s.parseHeaders(p, pos)
}

// parseHeaders checks the headers at p[pos:], their count first; p ends with the record.
func (s *span) parseHeaders(p []byte, pos int) fault {
	u, pos := uvarint32(p, pos)
	if pos < 0 {
		return faultHeaderCount
	}
	count := unzigzag32(u)
	if count < 0 || int(count) > (len(p)-pos)/2 { // a header is two lengths at least
		return faultHeaderCount
	}
	s.headers, s.headerCount = pos, count
	for range count {
		if u, pos = uvarint32(p, pos); pos < 0 {
			return faultHeader
		}
		n := int(unzigzag32(u))
		if n < 0 || n > len(p)-pos {
			return faultHeader
		}
		if u, pos = uvarint32(p, pos+n); pos < 0 {
			return faultHeader
		}
		if n = int(unzigzag32(u)); n < -1 || n > len(p)-pos {
			return faultHeader
		}
		pos += max(n, 0)
	}
	if pos != len(p) {
		return faultTrailing
	}
	return faultNone
}

// record fills r from s, which was parsed from p, except for what depends on the batch.
func (s *span) record(r *Record, p []byte) {
	r.OffsetDelta = s.offsetDelta
	r.timestampDelta = s.timestampDelta
	r.Key, r.Value = nil, nil
	if s.keyLen >= 0 {
		end := s.key + int(s.keyLen)
		r.Key = p[s.key:end:end]
	}
	if s.valueLen >= 0 {
		end := s.value + int(s.valueLen)
		r.Value = p[s.value:end:end]
	}
	r.HeaderCount = int(s.headerCount)
	r.headers = p[s.headers:s.end:s.end]
	r.raw = p[s.start:s.end:s.end]
	r.body = s.body - s.start
}

// addTimestamp adds a delta to a base; ok is false if that overflows.
func addTimestamp(base, delta int64) (ms int64, ok bool) {
	ms = base + delta
	return ms, (ms < base) == (delta < 0)
}

// AppendRecord appends a record in its wire form. timestampDelta and offsetDelta are relative to the batch; a nil key, value or
// header value is null. It returns ErrTooLarge, and dst unchanged, if the record does not fit 31 bits.
func AppendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte, headers []RecordHeader) ([]byte, error) {
	body := bytesSize(key) + bytesSize(value) + varintSize(int64(len(headers)))
	for i := range headers {
		body += varintSize(int64(len(headers[i].Key))) + len(headers[i].Key) + bytesSize(headers[i].Value)
	}
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + body
	if size > math.MaxInt32-HeaderSize {
		return dst, ErrTooLarge
	}
	dst = appendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		dst = appendVarint(dst, int64(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendBytes(dst, headers[i].Value)
	}
	return dst, nil
}

// appendMoved appends r with other deltas; everything from the key on is copied.
func (r *Record) appendMoved(dst []byte, timestampDelta int64, offsetDelta int32) []byte {
	body := r.raw[r.body:]
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + len(body)
	dst = appendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	return append(dst, body...)
}

// bytesSize is the size of b with its length in front; a nil b is null.
func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}
