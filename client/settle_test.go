package client_test

import (
	"errors"
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
