package felixproto

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// FuzzInbox: what the inbox gives out is what a plain reader of frames does, however the bytes arrive, and it holds no more than has
// arrived.
func FuzzInbox(f *testing.F) {
	auth := wire.AppendMessage(nil, &wire.Auth{TenantID: "t1", Token: "x"})
	publish, err := wire.AppendBinaryPublish(nil, &wire.BinaryPublish{TenantID: []byte("t1"), Namespace: []byte("n"), Stream: []byte("s"), Payloads: wire.MakePayloads(make([]byte, 5000))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(bytes.Clone(auth), publish...), true)
	f.Add(append(bytes.Clone(publish), auth[:20]...), false)
	f.Add(wire.AppendHeader(nil, wire.Header{Length: 1 << 31}), false)
	const most = 1 << 20
	f.Fuzz(func(t *testing.T, input []byte, slowly bool) {
		pool := buf.NewPool(1 << 20)
		var from io.Reader = bytes.NewReader(input)
		if slowly {
			from = iotest.OneByteReader(from)
		}
		budget := newFrameBudget(1 << 30)
		in := inbox{from: from, pool: pool, begin: func() *largeFrame { return budget.begin("t1", 1, func() {}) }}
		plain := bytes.NewReader(input)
		for {
			h, payload, err := in.next(t.Context(), most)
			wantHeader, want, wantErr := wire.ReadFrame(plain, nil, most)
			if (err == nil) != (wantErr == nil) || errors.Is(err, io.EOF) != errors.Is(wantErr, io.EOF) {
				t.Fatalf("got %v, want %v", err, wantErr)
			}
			if in.ref != nil && in.ref.Cap() > max(4*len(input), 2*inboxStart) {
				t.Fatalf("%d bytes are held for %d that arrived", in.ref.Cap(), len(input))
			}
			if err != nil {
				break
			}
			if h != wantHeader || !bytes.Equal(payload, want) {
				t.Fatalf("got %v %x, want %v %x", h, payload, wantHeader, want)
			}
		}
		if held := budget.inUse(); in.ref != nil && held > max(int64(in.ref.Cap()), freeFrame) {
			t.Fatalf("%d bytes are charged for %d", held, in.ref.Cap())
		}
		in.close()
		if budget.inUse() != 0 || len(budget.frames) != 0 {
			t.Fatalf("%d bytes are charged for nothing", budget.inUse())
		}
	})
}

// FuzzCutter: whatever a log holds is cut into frames whose events parse, in order and without a byte too many.
func FuzzCutter(f *testing.F) {
	for _, codec := range []recordbatch.Codec{recordbatch.CodecNone, recordbatch.CodecGzip, recordbatch.CodecLZ4} {
		b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{BaseOffset: 7, Codec: codec})
		for i := range 5 {
			b.Append(int64(i), nil, make([]byte, 40*i))
		}
		built, err := b.Build()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(built, int64(9))
	}
	f.Fuzz(func(t *testing.T, chunk []byte, from int64) {
		c := cutter{
			pool: buf.NewPool(1 << 20), stamped: true, maxEvents: 3, maxBytes: 200, maxEvent: 100, maxDecoded: 1 << 16,
			lost: func(ids.Offset, error) {},
		}
		c.begin(ids.Offset(max(from, 0)))
		place := c.next
		for _, fr := range c.cut(nil, chunk) {
			if fr.base < place || fr.count < 1 || fr.count > 3 || fr.skipped < 0 {
				t.Fatalf("frame of %d at %d behind %d, %d skipped", fr.count, fr.base, place, fr.skipped)
			}
			for k := range fr.count {
				events, count := fr.events(fr.base+ids.Offset(k), false)
				if p, err := wire.NewPayloads(count, events); err != nil || p.Count() != fr.count-k {
					t.Fatalf("%d events from %d on: %v", count, k, err)
				}
			}
			place = fr.next()
			fr.release()
		}
		if c.next < place {
			t.Fatalf("the cutter stands at %d, its last frame ends at %d", c.next, place)
		}
	})
}
