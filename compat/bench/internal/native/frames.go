package native

import (
	"fmt"
	"io"

	"github.com/felixlog/felix/felixproto/wire"
)

// firstBuffer is the first size of a buffer: what an idle stream holds.
const firstBuffer = 512

// mostBuffer is how large a buffer grows for the sake of fewer reads; a larger frame makes it larger.
const mostBuffer = 256 << 10

// frames reads frames where they arrive, as many at once as there are.
type frames struct {
	from       io.Reader
	buf        []byte
	start, end int
}

func newFrames(from io.Reader) *frames { return &frames{from: from, buf: make([]byte, firstBuffer)} }

// next returns the next frame. The payload is good until the following call.
func (f *frames) next() (wire.Header, []byte, error) {
	if err := f.want(wire.HeaderSize); err != nil {
		return wire.Header{}, nil, err
	}
	h, err := wire.ParseHeader(f.buf[f.start:f.end], wire.DefaultMaxFrameBytes)
	if err != nil {
		return h, nil, err
	}
	total := wire.HeaderSize + int(h.Length)
	if err := f.want(total); err != nil {
		return h, nil, err
	}
	payload := f.buf[f.start+wire.HeaderSize : f.start+total]
	f.start += total
	return h, payload, nil
}

// whole reports whether the next frame is here already.
func (f *frames) whole() bool {
	h, err := wire.ParseHeader(f.buf[f.start:f.end], wire.DefaultMaxFrameBytes)
	return err == nil && f.end-f.start >= wire.HeaderSize+int(h.Length)
}

// want reads until n bytes are here.
func (f *frames) want(n int) error {
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	for f.end-f.start < n {
		switch {
		case f.end < len(f.buf):
		case f.start > 0:
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		default:
			larger := make([]byte, max(n, min(4*len(f.buf), mostBuffer), len(f.buf)+firstBuffer))
			copy(larger, f.buf[:f.end])
			f.buf = larger
		}
		got, err := f.from.Read(f.buf[f.end:])
		f.end += got
		if err != nil && f.end-f.start < n {
			return err
		}
	}
	return nil
}

// message reads a message.
func (f *frames) message() (wire.Message, error) {
	h, payload, err := f.next()
	if err != nil {
		return nil, err
	}
	if h.Flags != 0 {
		return nil, fmt.Errorf("a frame with flags 0x%04x where a message belongs", uint16(h.Flags))
	}
	return wire.ParseReply(payload)
}

// Reader is frames for a server: requests instead of replies.
type Reader struct{ frames }

// NewReader reads frames of a client.
func NewReader(from io.Reader) *Reader {
	return &Reader{frames{from: from, buf: make([]byte, firstBuffer)}}
}

// Next returns the next frame. The payload is good until the following call.
func (r *Reader) Next() (wire.Header, []byte, error) { return r.next() }
