package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

var fakeName = client.Stream{Name: "s"}

// outcomes collects what became of records.
type outcomes struct {
	mu   sync.Mutex
	acks map[int]client.Ack
	errs map[int]error
	told []int // in the order in which they were told
}

func newOutcomes() *outcomes { return &outcomes{acks: map[int]client.Ack{}, errs: map[int]error{}} }

func (o *outcomes) of(i int) func(client.Ack, error) {
	return func(a client.Ack, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.told = append(o.told, i)
		if err != nil {
			o.errs[i] = err
		} else {
			o.acks[i] = a
		}
	}
}

// publishAll publishes "0", "1", ... of a few keys and waits for all answers.
func publishAll(t *testing.T, c *client.Client, n int, o client.PublisherOptions) *outcomes {
	t.Helper()
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, o)
	must(t, err)
	out := newOutcomes()
	for i := range n {
		must(t, p.PublishAsync(ctx, client.Record{Key: fmt.Appendf(nil, "k%d", i/3), Value: fmt.Append(nil, i)}, out.of(i)))
	}
	must(t, p.Wait(ctx))
	must(t, p.Close(ctx))
	if !slices.IsSorted(out.told) || len(out.told) != n {
		t.Fatalf("%d outcomes of %d, in order: %v", len(out.told), n, slices.IsSorted(out.told))
	}
	return out
}

// TestPublishFaults publishes through every kind of trouble: answers that are lost after and before the write, refusals, and all at once.
func TestPublishFaults(t *testing.T) {
	const n = 120
	for _, fault := range []struct {
		name string
		do   func(n int, p *wire.BinaryPublish) verdict
		sure bool // nothing that fails can have been written
	}{
		{"none", func(int, *wire.BinaryPublish) verdict { return verdict{} }, true},
		{"answer_lost", func(n int, _ *wire.BinaryPublish) verdict { return verdict{cut: n%7 == 3, apply: true} }, false},
		{"request_lost", func(n int, _ *wire.BinaryPublish) verdict { return verdict{cut: n%7 == 3} }, false},
		{"overloaded", func(n int, p *wire.BinaryPublish) verdict {
			if n%5 == 1 {
				return verdict{refuse: overloaded(p.RequestID)}
			}
			return verdict{}
		}, true},
		{"first_refused", func(n int, p *wire.BinaryPublish) verdict {
			if n == 0 {
				return verdict{refuse: overloaded(p.RequestID)}
			}
			return verdict{}
		}, true},
		{"garbage", func(n int, _ *wire.BinaryPublish) verdict {
			if n%9 == 4 {
				return verdict{raw: []byte("this is not a frame at all")}
			}
			return verdict{}
		}, false},
		{"answer_to_nothing", func(n int, _ *wire.BinaryPublish) verdict {
			if n%9 == 4 {
				return verdict{raw: wire.AppendMessage(nil, &wire.PublishOK{RequestID: 1 << 40})}
			}
			return verdict{}
		}, false},
		{"mixture", func(n int, p *wire.BinaryPublish) verdict {
			switch n % 11 {
			case 2:
				return verdict{refuse: overloaded(p.RequestID)}
			case 5:
				return verdict{cut: true, apply: true}
			case 8:
				return verdict{cut: true}
			}
			return verdict{}
		}, false},
	} {
		for _, g := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
			for name, partitioner := range map[string]client.Partitioner{"native": client.NativeHash, "murmur2": client.Murmur2} {
				t.Run(fmt.Sprintf("%s_%d_%s", fault.name, g, name), func(t *testing.T) {
					f := newFake(t, "n1")
					f.publish, f.explicit = fault.do, true
					out := publishAll(t, f.connect(), n, client.PublisherOptions{Guarantee: g, MaxBatchRecords: 2, Partitioner: partitioner})
					checkOutcomes(t, f, out, n, g, fault.sure)
					f.mu.Lock()
					defer f.mu.Unlock()
					if want := f.counted * int(partitioner); f.named != want {
						t.Errorf("%d of %d publishes named their shard, want %d", f.named, f.counted, want)
					}
				})
			}
		}
	}
}

func checkOutcomes(t *testing.T, f *fake, out *outcomes, n int, g client.Guarantee, sure bool) {
	t.Helper()
	log := f.stored()
	times := map[string]int{}
	last := -1
	for _, v := range log {
		times[v]++
		var i int
		_, err := fmt.Sscan(v, &i)
		must(t, err)
		// Batches of two may come again as a whole.
		if i < last && (g != client.AtLeastOnce || i < last-1) {
			t.Fatalf("record %d is stored after %d", i, last)
		}
		last = i
	}
	for i := range n {
		stored := times[fmt.Sprint(i)]
		err := out.errs[i]
		switch {
		case err != nil && g != client.AtMostOnce:
			t.Fatalf("record %d failed: %v", i, err)
		case err == nil && stored == 0:
			t.Fatalf("record %d was acknowledged and is not stored", i)
		case stored > 1 && g != client.AtLeastOnce:
			t.Fatalf("record %d is stored %d times", i, stored)
		case err == nil && log[out.acks[i].Offset] != fmt.Sprint(i):
			t.Fatalf("record %d was acknowledged at offset %d, where %q lies", i, out.acks[i].Offset, log[out.acks[i].Offset])
		case err != nil && stored > 0 && !errors.Is(err, client.ErrOutcomeUnknown):
			t.Fatalf("record %d is stored and failed with %v", i, err)
		case err != nil && sure && errors.Is(err, client.ErrOutcomeUnknown):
			t.Fatalf("record %d was refused, which leaves nothing open, and failed with %v", i, err)
		}
	}
}

// TestPublishFatal refuses some batches for good: they fail, and those behind them are stored in order under the numbers that became free.
func TestPublishFatal(t *testing.T) {
	for _, g := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			f := newFake(t, "n1")
			f.publish = func(_ int, p *wire.BinaryPublish) verdict {
				for v := range p.Payloads.All() {
					if strings.HasSuffix(string(v), "7") {
						return verdict{refuse: &wire.PublishError{RequestID: p.RequestID, Failure: wire.Failure{Message: "no sevens", Code: "invalid_request", Retry: "fatal"}}}
					}
				}
				return verdict{}
			}
			const n = 200
			out := publishAll(t, f.connect(), n, client.PublisherOptions{Guarantee: g, MaxBatchRecords: 1})
			var want []string
			for _, v := range numbers(0, n) {
				if !strings.HasSuffix(v, "7") {
					want = append(want, v)
				}
			}
			if got := f.stored(); !slices.Equal(got, want) {
				t.Errorf("stored %v", got)
			}
			for i, err := range out.errs {
				if i%10 != 7 || !errors.Is(err, client.ErrInvalidRequest) || errors.Is(err, client.ErrOutcomeUnknown) {
					t.Errorf("record %d failed with %v", i, err)
				}
			}
			if len(out.errs) != n/10 {
				t.Errorf("%d records failed", len(out.errs))
			}
		})
	}
}

// TestForgottenProducer has the server lose what it knows of producers: the publisher goes on under another identity, and only what may
// have been stored before fails.
func TestForgottenProducer(t *testing.T) {
	f := newFake(t, "n1")
	c := f.connect()
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{})
	must(t, err)
	for round := range 3 {
		for i := range 5 {
			_, err := p.Publish(ctx, client.Record{Value: fmt.Append(nil, round*5+i)})
			must(t, err)
		}
		f.forget()
	}
	if got := f.stored(); !slices.Equal(got, numbers(0, 15)) {
		t.Errorf("stored %v", got)
	}
	// A record that was applied, unanswered, and is then not known any more.
	f.set(func() {
		f.publish = func(int, *wire.BinaryPublish) verdict {
			f.publish = nil
			clear(f.expect)
			clear(f.places)
			return verdict{cut: true}
		}
	})
	_, err = p.Publish(ctx, client.Record{Value: []byte("lost")})
	if !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	_, err = p.Publish(ctx, client.Record{Value: []byte("after")})
	must(t, err)
	must(t, p.Close(ctx))
}

// TestRedirectedPublish has a shard change hands: idempotent publishes are refused with the leader's address, and go there.
func TestRedirectedPublish(t *testing.T) {
	first, second := newFake(t, "n1"), newFake(t, "n2")
	moved := false
	first.publish = func(n int, p *wire.BinaryPublish) verdict {
		if moved = moved || n == 5; moved {
			return verdict{refuse: &wire.PublishRefused{RequestID: p.RequestID, Reason: wire.RefusedNotLeader, NodeID: "n2", Addr: second.addr}}
		}
		return verdict{}
	}
	// What the old leader stored, the new one knows.
	second.publish = func(n int, _ *wire.BinaryPublish) verdict {
		if n == 0 {
			first.mu.Lock()
			second.log, second.expect, second.places = first.log, first.expect, first.places
			first.mu.Unlock()
		}
		return verdict{}
	}
	out := publishAll(t, first.connect(), 100, client.PublisherOptions{MaxBatchRecords: 1})
	if len(out.errs) != 0 {
		t.Fatalf("failed: %v", out.errs)
	}
	if got := second.stored(); !slices.Equal(got, numbers(0, 100)) {
		t.Errorf("stored %v", got)
	}
}

// TestOwnerRouting sends publishes and reads to the shard's owner, and by the entry when the owner cannot be reached.
func TestOwnerRouting(t *testing.T) {
	first, second := newFake(t, "n1"), newFake(t, "n2")
	first.owners = []wire.ShardOwner{{Shard: 0, NodeID: "n2", Addr: second.addr}}
	out := publishAll(t, first.connect(), 10, client.PublisherOptions{})
	if len(out.errs) != 0 || len(first.stored()) != 0 || len(second.stored()) != 10 {
		t.Errorf("%v failed, %d and %d stored", out.errs, len(first.stored()), len(second.stored()))
	}
	third := newFake(t, "n3")
	third.owners = []wire.ShardOwner{{Shard: 0, NodeID: "n9", Addr: "127.0.0.1:9"}}
	c := third.connect(func(cfg *client.Config) { cfg.DialTimeout = 5 * time.Second })
	if out := publishAll(t, c, 10, client.PublisherOptions{}); len(out.errs) != 0 || len(third.stored()) != 10 {
		t.Errorf("%v failed, %d stored", out.errs, len(third.stored()))
	}
}

// TestRequestRedirects follows a redirect, and gives up where it leads in a circle or nowhere.
func TestRequestRedirects(t *testing.T) {
	first, second := newFake(t, "n1"), newFake(t, "n2")
	ctx := limited(t)
	redirect := func(node, addr string) func(*fakeStream, wire.Message) bool {
		return func(st *fakeStream, m wire.Message) bool {
			if _, ok := m.(*wire.OffsetForTime); !ok {
				return false
			}
			st.send(&wire.NotLeader{Owner: wire.Owner{NodeID: node, Addr: addr}})
			return true
		}
	}
	first.request = redirect("n2", second.addr)
	second.request = func(st *fakeStream, m wire.Message) bool {
		r, ok := m.(*wire.OffsetForTime)
		if ok {
			st.send(&wire.OffsetValue{RequestID: r.RequestID, Offset: wire.Some[uint64](42)})
		}
		return ok
	}
	c := first.connect(func(cfg *client.Config) { cfg.RequestTimeout = time.Second })
	offset, err := c.OffsetForTime(ctx, fakeName, 0, time.Now())
	if err != nil || offset != 42 {
		t.Errorf("got %d, %v", offset, err)
	}
	second.set(func() { second.request = redirect("n1", first.addr) })
	first.set(func() { first.request = redirect("n2", second.addr) })
	var refused *client.Error
	if _, err := c.OffsetForTime(ctx, fakeName, 0, time.Now()); !errors.As(err, &refused) || refused.Code != client.CodeNotLeader {
		t.Errorf("in a circle: %v", err)
	}
	first.set(func() { first.request = redirect("n2", "") })
	if _, err := c.OffsetForTime(ctx, fakeName, 0, time.Now()); !errors.As(err, &refused) || refused.Code != client.CodeNotLeader {
		t.Errorf("to nowhere: %v", err)
	}
}

// TestBackPressure has a server that answers nothing: PublishAsync waits once the budget is used up, and its context ends that.
func TestBackPressure(t *testing.T) {
	f := newFake(t, "n1")
	f.publish = func(int, *wire.BinaryPublish) verdict { return verdict{silent: true} }
	c := f.connect()
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{MaxBufferedBytes: 9 * (100 + 4 + 64)})
	must(t, err)
	ctx := limited(t)
	out := newOutcomes()
	for i := range 9 {
		must(t, p.PublishAsync(ctx, client.Record{Value: make([]byte, 100)}, out.of(i)))
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := p.PublishAsync(short, client.Record{Value: make([]byte, 100)}, out.of(9)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	waitUntil(t, func() bool { return len(f.stored()) == 9 })
	if err := p.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := p.PublishAsync(ctx, client.Record{}, nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if len(out.errs) != 9 {
		t.Errorf("%d of 9 records failed with the publisher", len(out.errs))
	}
	for i, err := range out.errs {
		if !errors.Is(err, client.ErrClosed) || !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("record %d: %v", i, err)
		}
	}
}

// TestOverdueAnswer has a server that swallows a publish and lives on: the stream is given up and the batch sent again.
func TestOverdueAnswer(t *testing.T) {
	f := newFake(t, "n1")
	f.publish = func(n int, _ *wire.BinaryPublish) verdict { return verdict{silent: n == 0} }
	out := publishAll(t, f.connect(), 20, client.PublisherOptions{AnswerTimeout: 2 * time.Second})
	if len(out.errs) != 0 || !slices.Equal(f.stored(), numbers(0, 20)) {
		t.Errorf("%v failed, %v stored", out.errs, f.stored())
	}
}

// TestDeliveryTimeout gives a record up that the server refuses all the time.
func TestDeliveryTimeout(t *testing.T) {
	f := newFake(t, "n1")
	refuse := true
	f.publish = func(_ int, p *wire.BinaryPublish) verdict {
		if refuse {
			return verdict{refuse: overloaded(p.RequestID)}
		}
		return verdict{}
	}
	c := f.connect()
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{DeliveryTimeout: 100 * time.Millisecond})
	must(t, err)
	_, err = p.Publish(ctx, client.Record{Value: []byte("0")})
	if !errors.Is(err, client.ErrOverloaded) || errors.Is(err, client.ErrOutcomeUnknown) || !client.Retryable(err) {
		t.Errorf("got %v", err)
	}
	f.set(func() { refuse = false })
	_, err = p.Publish(ctx, client.Record{Value: []byte("1")})
	must(t, err)
	must(t, p.Close(ctx))
}

// TestToken has tokens expire: a refused one is asked for again, and a new one is used at once.
func TestToken(t *testing.T) {
	f := newFake(t, "n1")
	f.tokens = map[string]bool{"new": true}
	ctx := limited(t)
	cfg := f.config()
	if _, err := client.Connect(ctx, cfg); !errors.Is(err, client.ErrUnauthenticated) {
		t.Errorf("got %v", err)
	}
	var mu sync.Mutex
	asked := 0
	cfg.Token = client.TokenFunc(func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			return "old", nil
		}
		return "new", nil
	})
	c, err := client.Connect(ctx, cfg)
	must(t, err)
	must(t, c.Close())
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestNobodyThere ends in time where there is no server, and where there is one that says nothing.
func TestNobodyThere(t *testing.T) {
	f := newFake(t, "n1")
	cfg := f.config()
	cfg.Addrs, cfg.DialTimeout = []string{"127.0.0.1:9"}, 200*time.Millisecond
	var lost *client.ConnectionError
	if _, err := client.Connect(limited(t), cfg); !errors.As(err, &lost) || lost.Addr != "127.0.0.1:9" {
		t.Errorf("got %v", err)
	}
	f.set(func() {
		f.request = func(st *fakeStream, _ wire.Message) bool {
			<-st.conn.Context().Done()
			return true
		}
	})
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := client.Connect(short, f.config()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// The second of two addresses answers.
	f.set(func() { f.request = nil })
	cfg.Addrs, cfg.DialTimeout = append(cfg.Addrs, f.addr), 10*time.Second
	c, err := client.Connect(limited(t), cfg)
	must(t, err)
	must(t, c.Close())
	must(t, c.Close())
	if _, err := c.Shards(limited(t), fakeName); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := c.NewPublisher(fakeName, client.PublisherOptions{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// TestConnectionsAreTold: OnConnection hears of connections that are made, lost and not to be had, and of none that the client closes.
func TestConnectionsAreTold(t *testing.T) {
	f := newFake(t, "node-1")
	told := make(chan error, 1000)
	hear := func(addr string, err error) {
		if addr != f.addr {
			t.Errorf("got address %s, want %s", addr, f.addr)
		}
		told <- err
	}
	next := func(failed bool) {
		t.Helper()
		select {
		case err := <-told:
			if (err != nil) != failed {
				t.Errorf("got %v, want a failure: %t", err, failed)
			}
		case <-time.After(testTimeout):
			t.Fatal("nothing is told")
		}
	}
	c := f.connect(func(cfg *client.Config) { cfg.OnConnection = hear })
	next(false)
	f.cut()
	next(true)
	_, err := c.Servers(limited(t))
	must(t, err)
	next(false)
	must(t, c.Close())
	cfg := f.config()
	cfg.OnConnection, cfg.ServerName = hear, "felix.example"
	if _, err := client.Connect(limited(t), cfg); err == nil {
		t.Error("got a connection to another name")
	}
	next(true)
	if len(told) > 0 {
		t.Errorf("got %v as well", <-told)
	}
}
