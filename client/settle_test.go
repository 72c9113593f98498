package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// TestRenewKeepsUncertain has a record fail that may have been stored, with another such one behind it. That one must not go out again
// under the publisher's new identity, by which the server would not know it again.
func TestRenewKeepsUncertain(t *testing.T) {
	f := newFake(t, "n1")
	refuse := false
	f.publish = func(n int, p *wire.BinaryPublish) verdict {
		switch {
		case n == 0:
			return verdict{silent: true} // stored, and the answer is never sent
		case n == 1:
			refuse = true
			return verdict{cut: true, apply: true} // stored, and the answer lost
		case refuse:
			return verdict{refuse: overloaded(p.RequestID)} // for longer than DeliveryTimeout
		}
		return verdict{}
	}
	c := f.connect()
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{Ack: client.AckMessage, DeliveryTimeout: 500 * time.Millisecond})
	must(t, err)
	out := newOutcomes()
	first := out.of(0)
	must(t, p.PublishAsync(ctx, client.Record{Value: []byte("a")}, func(a client.Ack, err error) {
		f.set(func() { refuse = false })
		first(a, err)
	}))
	must(t, p.PublishAsync(ctx, client.Record{Value: []byte("b")}, out.of(1)))
	must(t, p.Close(ctx))
	for i := range 2 {
		if err := out.errs[i]; err != nil && (!errors.Is(err, client.ErrOutcomeUnknown) || client.Retryable(err)) {
			t.Errorf("record %d is stored; retryable is %v: %v", i, client.Retryable(err), err)
		}
	}
	if got := f.stored(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("stored %v", got)
	}
}

// TestClasslessRefusal has a server say no without a class after the write: its number is used up then, and the next record gets another.
func TestClasslessRefusal(t *testing.T) {
	for _, g := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
		f := newFake(t, "n1")
		f.publish = func(n int, p *wire.BinaryPublish) verdict {
			if n > 0 {
				return verdict{}
			}
			f.applyLocked(p)
			return verdict{refuse: &wire.PublishError{RequestID: p.RequestID, Failure: wire.Failure{Message: "no quorum in time"}}}
		}
		p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{Guarantee: g})
		must(t, err)
		ctx := limited(t)
		if _, err := p.Publish(ctx, client.Record{Value: []byte("a")}); !errors.Is(err, client.ErrOutcomeUnknown) || client.Retryable(err) {
			t.Errorf("guarantee %d: got %v, want an unknown outcome", g, err)
		}
		_, err = p.Publish(ctx, client.Record{Value: []byte("b")})
		must(t, err)
		if got := f.stored(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("guarantee %d: stored %v", g, got)
		}
		must(t, p.Close(ctx))
	}
}

// TestRetryable is about repeating by hand.
func TestRetryable(t *testing.T) {
	lost := &client.ConnectionError{Addr: "a", Err: errors.New("gone")}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&client.Error{Class: client.ClassRetry}, true},
		{&client.Error{Class: client.ClassRetryAfter}, true},
		{&client.Error{Class: client.ClassRedirect}, true},
		{&client.Error{Class: client.ClassOutcomeUnknown}, false},
		{&client.Error{Class: client.ClassFatal}, false},
		{&client.Error{}, false},
		{lost, true},
		{errors.Join(client.ErrOutcomeUnknown, lost), false},
		{errors.Join(client.ErrOutcomeUnknown, &client.Error{Class: client.ClassRetryAfter}), false},
		{client.ErrClosed, false},
	} {
		if got := client.Retryable(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestMovedWithoutAddress has a shard move and its old leader say so without the new one's address, as it does to publishers that are not
// idempotent.
func TestMovedWithoutAddress(t *testing.T) {
	for _, g := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
		n1, n2 := newFake(t, "n1"), newFake(t, "n2")
		moved := false
		n1.publish = func(_ int, p *wire.BinaryPublish) verdict {
			if !moved {
				return verdict{}
			}
			return verdict{refuse: &wire.PublishError{
				RequestID: p.RequestID, Failure: wire.Failure{Message: "moved", Code: "not_leader", Retry: "redirect"},
			}}
		}
		c := n1.connect(func(cfg *client.Config) { cfg.Addrs = append(cfg.Addrs, n2.addr) })
		p, err := c.NewPublisher(fakeName, client.PublisherOptions{Guarantee: g})
		must(t, err)
		ctx := limited(t)
		_, err = p.Publish(ctx, client.Record{Value: []byte("a")})
		must(t, err)
		owners := []wire.ShardOwner{{Shard: 0, NodeID: "n2", Addr: n2.addr}}
		n1.set(func() { moved, n1.owners = true, owners })
		n2.set(func() { n2.owners = owners })
		_, err = p.Publish(ctx, client.Record{Value: []byte("b")})
		if g == client.AtMostOnce {
			if !client.Retryable(err) {
				t.Errorf("got %v", err)
			}
			_, err = p.Publish(ctx, client.Record{Value: []byte("b")})
		}
		must(t, err)
		if got := n2.stored(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("guarantee %d: the new leader has stored %v", g, got)
		}
		must(t, p.Close(ctx))
	}
}

// TestTwoCloses closes a publisher without answers twice at the same time: neither cuts off what the other waits for.
func TestTwoCloses(t *testing.T) {
	f := newFake(t, "n1")
	release := make(chan struct{})
	f.publish = func(n int, _ *wire.BinaryPublish) verdict {
		if n == 0 {
			<-release
		}
		return verdict{}
	}
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{Guarantee: client.AtMostOnce, Ack: client.AckNone, MaxBatchRecords: 1})
	must(t, err)
	ctx := limited(t)
	const n = 100
	for i := range n {
		must(t, p.PublishAsync(ctx, client.Record{Value: fmt.Append(nil, i)}, nil))
	}
	must(t, p.Wait(ctx)) // all are handed over, and none is read
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- p.Close(ctx) }()
	}
	select {
	case err := <-closed:
		t.Errorf("a close has not waited: %v", err)
		closed <- err
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	must(t, <-closed)
	must(t, <-closed)
	waitUntil(t, func() bool { return len(f.stored()) == n })
}

// TestMovedUnanswered has a shard move, and nobody tell a publisher without answers: it looks by itself, and loses nothing of what it has
// handed to the old leader.
func TestMovedUnanswered(t *testing.T) {
	n1, n2 := newFake(t, "n1"), newFake(t, "n2")
	c := n1.connect(func(cfg *client.Config) { cfg.Addrs = append(cfg.Addrs, n2.addr) })
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{Guarantee: client.AtMostOnce, Ack: client.AckNone})
	must(t, err)
	p.SetRouteAge(time.Millisecond)
	ctx := limited(t)
	_, err = p.Publish(ctx, client.Record{Value: []byte("first")})
	must(t, err)
	owners := []wire.ShardOwner{{Shard: 0, NodeID: "n2", Addr: n2.addr}}
	n1.set(func() { n1.owners = owners })
	n2.set(func() { n2.owners = owners })
	n := 1
	waitUntil(t, func() bool {
		_, err := p.Publish(ctx, client.Record{Value: fmt.Append(nil, n)})
		must(t, err)
		n++
		return len(n2.stored()) > 0
	})
	must(t, p.Close(ctx))
	waitUntil(t, func() bool { return len(n1.stored())+len(n2.stored()) == n })
}
