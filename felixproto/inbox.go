package felixproto

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
)

// inbox reads the frames of one stream, as many at once as have arrived. Its buffer grows by what has arrived, never by what a header
// claims, and where it is larger than freeFrame it comes out of the server's budget. One goroutine uses it.
type inbox struct {
	from io.Reader
	pool *buf.Pool
	// begin takes a large frame into the order of those that are read.
	begin func() *largeFrame
	// until bounds the time of a large frame: its memory is others' while it stalls. Zero: no bound. May be nil.
	until func(time.Time)

	ref        *buf.Ref // nil until something is read
	start, end int      // what is in ref and was not given out

	large    *largeFrame // of ref; nil: it is small
	deadline time.Time   // of large
	// seen is the size of the last large frame, up to mostSeen: who has sent one gets room for as much again at once, where growing by what
	// has arrived would copy all of it once more.
	seen int
}

const (
	// inboxStart is the first size of the buffer: what most requests fit in.
	inboxStart = 2 << 10
	// freeFrame is how large every stream's buffer may be without asking.
	freeFrame = 64 << 10
	// mostSeen bounds what a stream is given at once for what it has sent before.
	mostSeen = 512 << 10
)

// next returns the next frame. The payload is valid until the following call. Errors: io.EOF between frames; a *wire.DecodeError; what
// the stream fails with, or ctx.
func (in *inbox) next(ctx context.Context, maxPayload int) (wire.Header, []byte, error) {
	in.settle()
	if in.large != nil {
		in.large.whole.Store(false)
	}
	if err := in.want(ctx, wire.HeaderSize); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = &wire.DecodeError{Fault: wire.FaultShortHeader, Verdict: wire.AbortStream}
		}
		return wire.Header{}, nil, err
	}
	h, err := wire.ParseHeader(in.bytes(), maxPayload)
	if err != nil {
		return h, nil, err
	}
	total := wire.HeaderSize + int(h.Length)
	if err := in.want(ctx, total); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = &wire.DecodeError{Fault: wire.FaultTruncated, Verdict: wire.AbortStream}
		}
		return h, nil, err
	}
	if in.large != nil {
		in.large.whole.Store(true)
	}
	payload := in.bytes()[wire.HeaderSize:total:total]
	in.start += total
	if total > freeFrame {
		in.seen = min(total, mostSeen)
	}
	return h, payload, nil
}

func (in *inbox) bytes() []byte { return in.ref.Bytes()[in.start:in.end] }

// settle makes room: the buffer of a large frame is given back once it is not needed, with what came behind it kept.
func (in *inbox) settle() {
	if in.ref == nil {
		return
	}
	left := in.end - in.start
	switch {
	case in.ref.Cap() > freeFrame && left <= freeFrame:
		old, at := in.ref, in.start
		in.ref = nil
		var kept *buf.Ref
		if left > 0 {
			kept = in.pool.Get(max(left, inboxStart))
			copy(kept.Bytes(), old.Bytes()[at:at+left])
		}
		old.Release()
		in.close()
		in.ref, in.end = kept, left
	case left == 0:
		in.start, in.end = 0, 0
	}
}

// want reads until n bytes are there.
func (in *inbox) want(ctx context.Context, n int) error {
	for in.end-in.start < n {
		if err := in.room(ctx, n); err != nil {
			return err
		}
		b := in.ref.Bytes()
		got, err := in.from.Read(b[in.end:])
		in.end += got
		if in.large != nil {
			in.large.arrived.Add(int64(got))
		}
		if err != nil && in.end-in.start < n {
			if errors.Is(err, io.EOF) && in.end > in.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// room makes the buffer have space for at least one more byte of the n that are wanted.
func (in *inbox) room(ctx context.Context, n int) error {
	if in.ref == nil {
		in.ref = in.pool.Get(inboxStart)
	}
	b := in.ref.Bytes()
	if in.end < len(b) {
		return nil
	}
	if in.start > 0 {
		in.end = copy(b, b[in.start:in.end])
		in.start = 0
		return nil
	}
	size := min(max(n, inboxStart), max(2*len(b), in.seen))
	if size > freeFrame {
		if err := in.grow(ctx, size); err != nil {
			return err
		}
	}
	larger := in.pool.Get(size)
	if in.large != nil {
		in.large.hold(int64(larger.Cap()))
	}
	copy(larger.Bytes(), b[:in.end])
	in.ref.Release()
	in.ref = larger
	return nil
}

// grow has the budget hold a buffer of size bytes. The time that this takes is not the client's.
func (in *inbox) grow(ctx context.Context, size int) error {
	more, first := int64(size), in.large == nil
	if first {
		in.large = in.begin()
	} else {
		more = max(more-int64(in.ref.Cap()), 0)
	}
	waited, err := in.large.grow(ctx, more)
	if err != nil {
		return err
	}
	switch {
	case in.until == nil || waited == 0 && !first:
		return nil
	case first:
		in.deadline = time.Now().Add(largeFrameTime)
	default:
		in.deadline = in.deadline.Add(waited)
	}
	in.until(in.deadline)
	return nil
}

// close gives the buffer back.
func (in *inbox) close() {
	in.ref.Release()
	in.ref = nil
	in.start, in.end = 0, 0
	if in.large == nil {
		return
	}
	in.large.end()
	in.large = nil
	if in.until != nil {
		in.until(time.Time{})
	}
}
