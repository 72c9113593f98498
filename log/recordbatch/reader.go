package recordbatch

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/felixlog/felix/internal/errcode"
)

// pieceBytes is how much a RecordReader decodes at once, unless one record needs more.
const pieceBytes = 64 << 10

// RecordReader yields the records of one batch, decompressing in pieces, so that a large batch needs no large buffer. It holds pooled
// state: Close gives it back.
type RecordReader struct {
	// Record is the current record, valid with its slices until the next call of Next or Close.
	Record Record

	h       Header
	src     io.Reader // nil: buf is all there is
	release func()    // gives the decoder of src back
	buf     []byte
	pooled  *scratch // holds buf, unless the records are uncompressed
	pos     int      // of the next record in buf
	left    int      // bytes that may still be decoded
	eof     bool
	err     error
}

// NewRecordReader returns a reader of the records of batch, exactly one batch whose checksum is good. At most maxBytes are decoded.
//
// Errors: those of ParseHeader, ErrShort if batch is not whole, ErrCodec, and ErrDecompress if the codec's header is bad.
func NewRecordReader(batch []byte, maxBytes int) (*RecordReader, error) {
	h, batch, _, err := Next(batch)
	if err != nil {
		return nil, err
	}
	r := &RecordReader{h: h, left: maxBytes, Record: Record{Index: -1}}
	records := batch[HeaderSize:]
	if h.Codec() == CodecNone {
		if len(records) > maxBytes {
			return nil, ErrDecodedTooLarge
		}
		r.buf, r.eof = records, true
		return r, nil
	}
	if r.src, r.release, err = newDecoder(h.Codec(), records, maxBytes); err != nil {
		return nil, err
	}
	r.pooled = getScratch()
	r.buf = r.pooled.b
	return r, nil
}

// newDecoder returns a reader of the content of src, and what gives its pooled state back. Errors: ErrCodec, ErrDecompress.
func newDecoder(codec Codec, src []byte, maxBytes int) (r io.Reader, release func(), err error) {
	switch codec {
	case CodecGzip:
		z := gzipReaders.Get().(*gzipReader)
		if err := z.reset(src); err != nil {
			z.release()
			return nil, nil, err
		}
		return z, z.release, nil
	case CodecSnappy:
		b := newBlockReader(snappyBlocks(src, maxBytes))
		return b, b.release, nil
	case CodecLZ4:
		b := newBlockReader(lz4Blocks(src, maxBytes))
		return b, b.release, nil
	case CodecZstd:
		z := new(zstdReader)
		if err := z.reset(src, maxBytes); err != nil {
			return nil, nil, err
		}
		return z, z.release, nil
	default:
		return nil, nil, ErrCodec
	}
}

// DecodedSize returns how many bytes src decodes to, at most maxBytes. It decodes in pieces of at most 64 KiB (where the codec's blocks
// allow) and keeps none, so that neither memory nor time without a pause grows with what src decodes to; pause is called after each piece.
//
// Errors: as for Decompress.
func DecodedSize(codec Codec, src []byte, maxBytes int, pause func()) (int, error) {
	if codec == CodecNone {
		if len(src) > maxBytes {
			return 0, ErrDecodedTooLarge
		}
		return len(src), nil
	}
	r, release, err := newDecoder(codec, src, maxBytes)
	if err != nil {
		return 0, err
	}
	defer release()
	piece := getScratch()
	defer putScratch(piece)
	piece.b = slices.Grow(piece.b, pieceBytes)
	for total := 0; ; {
		n, err := r.Read(piece.b[:pieceBytes])
		pause()
		if total += n; total > maxBytes {
			return 0, ErrDecodedTooLarge
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case errors.Is(err, ErrDecodedTooLarge):
			return 0, ErrDecodedTooLarge
		case err != nil:
			return 0, ErrDecompress
		}
	}
}

// Header returns the batch's header.
func (r *RecordReader) Header() Header { return r.h }

// Next moves to the next record. It returns false behind the last one and at the first fault: see Err.
func (r *RecordReader) Next() bool {
	if r.err != nil {
		return false
	}
	index := r.Record.Index + 1
	if index >= int(r.h.RecordCount) {
		r.err = r.finish(index)
		return false
	}
	if r.err = r.whole(); r.err != nil {
		return false
	}
	var s span
	f := s.parse(r.buf, r.pos)
	if f == faultNone {
		f = r.h.place(&r.Record, &s, index)
	}
	if f != faultNone {
		r.err = rejectRecord(errcode.InvalidRecord, index, "%s", faultTexts[f])
		return false
	}
	s.record(&r.Record, r.buf)
	r.pos = s.end
	return true
}

// Err returns what ended the records early, or nil: an error of kind invalid_record, or those of Decompress.
func (r *RecordReader) Err() error { return r.err }

// Close gives the reader's state back. The current record is not valid afterwards. Close twice is fine.
func (r *RecordReader) Close() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
	if r.pooled != nil {
		r.pooled.b = r.buf
		putScratch(r.pooled)
		r.pooled = nil
	}
	r.buf, r.src, r.pos, r.eof = nil, nil, 0, true
}

// whole decodes until the record at pos is in buf, or all that there is.
func (r *RecordReader) whole() error {
	for !r.eof {
		u, next := uvarint32(r.buf, r.pos)
		if next < 0 {
			if len(r.buf)-r.pos >= 5 {
				return nil // five bytes are enough for a length: parse says what is wrong
			}
			if err := r.fill(1); err != nil {
				return err
			}
			continue
		}
		missing := int(unzigzag32(u)) - (len(r.buf) - next)
		if missing <= 0 {
			return nil
		}
		// A length beyond the limit may be a lie: decoding up to the limit tells.
		if err := r.fill(min(missing, r.left+1)); err != nil {
			return err
		}
	}
	return nil
}

// fill decodes at least need bytes more, or to the end. Room grows with what was decoded, not with what a length claims.
func (r *RecordReader) fill(need int) error {
	if r.pos > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.pos:])]
		r.pos = 0
	}
	for need > 0 && !r.eof {
		if len(r.buf) == cap(r.buf) {
			r.buf = slices.Grow(r.buf, max(pieceBytes, len(r.buf)))
		}
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		need -= n
		if r.left -= n; r.left < 0 {
			return ErrDecodedTooLarge
		}
		switch {
		case errors.Is(err, io.EOF):
			r.eof = true
		case errors.Is(err, ErrDecodedTooLarge):
			return ErrDecodedTooLarge
		case err != nil:
			return ErrDecompress
		}
	}
	return nil
}

// finish checks that nothing follows the last record.
func (r *RecordReader) finish(index int) error {
	if r.pos == len(r.buf) {
		if err := r.fill(1); err != nil {
			return err
		}
	}
	if r.pos != len(r.buf) {
		return rejectRecord(errcode.InvalidRecord, index, "bytes behind the last record")
	}
	return nil
}

// blockReader turns a codec that yields blocks into a reader that holds one of them, and as much of the decoded past as blocks may
// refer to.
type blockReader struct {
	next    nextBlock
	decoded []byte
	pos     int
	pooled  *scratch // gets decoded back
}

// nextBlock decodes the next block into past, behind the bytes that the block may refer to or over them; at is where its content
// begins in the result. The error is io.EOF behind the last block.
type nextBlock func(past []byte) (decoded []byte, at int, err error)

func newBlockReader(next nextBlock) *blockReader {
	s := getScratch()
	return &blockReader{next: next, decoded: s.b, pooled: s}
}

// release gives the buffer back.
func (b *blockReader) release() {
	b.pooled.b = b.decoded
	putScratch(b.pooled)
}

// Read implements io.Reader.
func (b *blockReader) Read(p []byte) (int, error) {
	for b.pos == len(b.decoded) {
		if past := len(b.decoded) - lz4DictBytes; past > 0 {
			b.decoded = b.decoded[:copy(b.decoded, b.decoded[past:])]
		}
		decoded, at, err := b.next(b.decoded)
		if err != nil {
			b.decoded, b.pos = b.decoded[:0], 0
			return 0, err
		}
		b.decoded, b.pos = decoded, at
	}
	n := copy(p, b.decoded[b.pos:])
	b.pos += n
	return n, nil
}

// lz4Blocks yields the blocks of an lz4 stream; they may refer to 64 KiB before them in their own frame.
func lz4Blocks(src []byte, maxBytes int) nextBlock {
	f := lz4Frames{src: src}
	total := 0
	return func(past []byte) ([]byte, int, error) {
		block, ok, err := f.next(total)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			return nil, 0, io.EOF
		}
		at := len(past)
		inFrame := min(total-f.frameBase, at)
		out, err := f.decode(past, at-inFrame, block, maxBytes-total)
		if err != nil {
			return nil, 0, err
		}
		total += len(out) - at
		return out, at, nil
	}
}

// snappyBlocks yields the blocks of a snappy stream: one if it is raw.
func snappyBlocks(src []byte, maxBytes int) nextBlock {
	x := xerial{src: src}
	raw := !bytes.HasPrefix(src, xerialMagic)
	total, done := 0, false
	return func(past []byte) ([]byte, int, error) {
		block := src
		if !raw {
			var err error
			if block, err = x.next(); err != nil {
				return nil, 0, err
			}
		}
		if done || block == nil {
			return nil, 0, io.EOF
		}
		done = raw
		out, err := unsnappyBlock(past[:0], block, maxBytes-total)
		if err != nil {
			return nil, 0, err
		}
		total += len(out)
		return out, 0, nil
	}
}
