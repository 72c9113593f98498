package kafkaproto

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// steadyShard takes batches without keeping them and serves one batch for ever, so that what is measured is the front end.
type steadyShard struct {
	fakeShard
	chunk broker.Chunk
}

func (s *steadyShard) Append(broker.AppendInput) (broker.AppendResult, error) {
	return broker.AppendResult{Base: 5, Next: 6, AppendTime: -1, Records: 1}, nil
}

func (s *steadyShard) Bounds() broker.Bounds {
	return broker.Bounds{LastStable: 6, HighWatermark: 6, End: 6, Epoch: 3}
}

func (s *steadyShard) Wait(w *broker.Waiter) (bool, error) { return w.Until > 6, nil }

func (s *steadyShard) Read(_ ids.Offset, _ int, _ bool, dst []broker.Chunk) ([]broker.Chunk, int, error) {
	return append(dst, broker.Chunk{Data: s.chunk.Data, Ref: s.chunk.Ref.Retain()}), len(s.chunk.Data), nil
}

func (s *steadyShard) Available(ids.Offset, int) int { return len(s.chunk.Data) }

// steadyNode leads that one shard, whatever partition is asked for.
type steadyNode struct {
	*fakeNode
	only *steadyShard
}

func (n steadyNode) Shard(*cluster.Topic, int32) (shard, error) { return n.only, nil }

// steadyConn is a connection whose requests are handled by the caller, and whose answers go to a reader that drops them.
func steadyConn(tb testing.TB) *conn {
	tb.Helper()
	ref := buf.Wrap(makeBatch(tb, 1, make([]byte, 1024)))
	node := steadyNode{newFakeNode(), &steadyShard{chunk: broker.Chunk{Data: ref.Bytes(), Ref: ref}}}
	node.add("default", "a", 1)
	srv, err := newServer(Options{Pool: buf.NewPool(1 << 20), Anonymous: &Caller{Tenant: testTenant}}, node)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	far, err := new(net.Dialer).DialContext(tb.Context(), "tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	near, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		sink := make([]byte, 64<<10)
		for {
			if _, err := far.Read(sink); err != nil {
				return
			}
		}
	})
	c := newConn(srv, near, remoteAddr(near))
	tb.Cleanup(func() {
		ln.Close()
		c.shut(io.EOF)
		far.Close()
		wg.Wait()
		srv.wg.Wait()
	})
	return c
}

// handleBody handles one request that is in memory already.
func handleBody(c *conn, frame []byte) {
	ref := c.srv.opts.Pool.Get(len(frame))
	copy(ref.Bytes(), frame)
	c.handle(ref)
	ref.Release()
	c.srv.requests.free(&c.in.lease)
}

func TestRequestAllocations(t *testing.T) {
	c := steadyConn(t)
	acksOne := produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 1024)))
	acksOne.Acks = 1
	acksAll := produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 1024)))
	full := fetchRequestFor("a", 0)
	for _, tc := range []struct {
		name  string
		frame []byte
		most  float64
	}{
		{"produce acks=1", encode(acksOne, 1)[sizeBytes:], 0},
		{"produce acks=all, committed at once", encode(acksAll, 1)[sizeBytes:], 0},
		{"fetch", encode(full, 1)[sizeBytes:], 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handleBody(c, tc.frame)
			if n := testing.AllocsPerRun(200, func() { handleBody(c, tc.frame) }); n > tc.most+poolSlack {
				t.Errorf("%v allocations from frame to written answer, want at most %v", n, tc.most)
			}
		})
	}
}

func BenchmarkHandleProduce(b *testing.B) {
	c := steadyConn(b)
	req := produceRequestFor("a", 0, makeBatch(b, 1, make([]byte, 1024)))
	req.Acks = 1
	frame := encode(req, 1)[sizeBytes:]
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		handleBody(c, frame)
	}
}

func BenchmarkHandleFetch(b *testing.B) {
	c := steadyConn(b)
	frame := encode(fetchRequestFor("a", 0), 1)[sizeBytes:]
	b.ReportAllocs()
	for b.Loop() {
		handleBody(c, frame)
	}
}
