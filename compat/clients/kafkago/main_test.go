package main

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
)

// silentBroker takes connections and answers nothing.
type silentBroker struct {
	net.Listener
	open, taken atomic.Int64
	wg          sync.WaitGroup
}

func listenSilent(t *testing.T) *silentBroker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &silentBroker{Listener: listener}
	b.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.taken.Add(1)
			b.open.Add(1)
			b.wg.Go(func() {
				_, _ = io.Copy(io.Discard, conn) // ends when the client closes
				conn.Close()
				b.open.Add(-1)
			})
		}
	})
	return b
}

// TestCallsCloseTheirConnections: whatever a call opened is closed when it is over, and nothing dials any more. The library's transports
// go on asking for metadata until they are closed, each on a connection of its own, which in hours of calls no server would bear.
func TestCallsCloseTheirConnections(t *testing.T) {
	for name, call := range map[string]func(context.Context, agent.Request) error{
		"metadata": func(ctx context.Context, req agent.Request) error { _, err := library{}.Metadata(ctx, req); return err },
		"create":   func(ctx context.Context, req agent.Request) error { return library{}.Create(ctx, req) },
		"produce":  func(ctx context.Context, req agent.Request) error { _, err := library{}.Produce(ctx, req); return err },
		"admin":    func(ctx context.Context, req agent.Request) error { _, err := library{}.Admin(ctx, req); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			b := listenSilent(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := call(ctx, agent.Request{
				Op: agent.OpGroups, Bootstrap: b.Addr().String(), Topic: "t", Partitions: 1,
				Records: []agent.Record{{Value: []byte("v")}}, Group: &agent.Group{ID: "g"},
			})
			if err == nil {
				t.Error("a broker that answers nothing was enough")
			}
			for deadline := time.Now().Add(time.Minute); b.open.Load() > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d connections are still open", b.open.Load())
				}
			}
			taken := b.taken.Load()
			if taken == 0 {
				t.Error("nothing was dialled")
			}
			// The time of a few of the library's metadata requests. A busy machine can only make this miss something.
			time.Sleep(4 * time.Second)
			if now := b.taken.Load(); now != taken {
				t.Errorf("%d connections after the call was over", now-taken)
			}
			b.Close()
			b.wg.Wait()
		})
	}
}
