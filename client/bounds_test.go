package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// TestKeysAreBudgeted has keys that are large and values that are none: MaxBufferedBytes bounds them too.
func TestKeysAreBudgeted(t *testing.T) {
	f := newFake(t, "n1")
	f.publish = func(int, *wire.BinaryPublish) verdict { return verdict{silent: true} }
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{MaxBufferedBytes: 200_000})
	must(t, err)
	ctx := limited(t)
	key := bytes.Repeat([]byte("k"), 60_000)
	for i := range 3 {
		must(t, p.PublishAsync(ctx, client.Record{Key: append(key, fmt.Sprint(i)...)}, nil))
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := p.PublishAsync(short, client.Record{Key: append(key, '3')}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fourth key of 60,000 bytes: %v", err)
	}
	if err := p.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestLargeBatches has a publisher that may put more together than a frame takes.
func TestLargeBatches(t *testing.T) {
	f := newFake(t, "n1")
	release := make(chan struct{})
	f.publish = func(n int, _ *wire.BinaryPublish) verdict {
		if n == 0 {
			<-release
		}
		return verdict{}
	}
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{MaxBatchBytes: 64 << 20, MaxBufferedBytes: 128 << 20, MaxInFlight: 1})
	must(t, err)
	ctx := limited(t)
	out := newOutcomes()
	for i := range 21 {
		must(t, p.PublishAsync(ctx, client.Record{Value: make([]byte, 1<<20)}, out.of(i)))
	}
	close(release)
	must(t, p.Close(ctx))
	if len(out.errs) > 0 || len(f.stored()) != 21 {
		t.Errorf("%d stored, %v", len(f.stored()), out.errs)
	}
}

// TestTooLargeWrites refuses what does not fit a frame before anything is sent.
func TestTooLargeWrites(t *testing.T) {
	c := newFake(t, "n1").connect()
	ctx := limited(t)
	large := make([]byte, 13<<20) // as JSON it is above 16 MiB
	for name, write := range map[string]func() error{
		"value": func() error { _, err := c.PublishIf(ctx, fakeName, 0, nil, large); return err },
		"many":  func() error { _, err := c.PublishIf(ctx, fakeName, 0, nil, make([][]byte, 3_000_000)...); return err },
		"key":   func() error { _, err := c.PublishIf(ctx, fakeName, 0, make([]byte, 1<<16), nil); return err },
		"event": func() error { _, err := c.Commit(ctx, fakeName, client.Commit{Event: large}); return err },
		"change": func() error {
			_, err := c.Commit(ctx, fakeName, client.Commit{Changes: []client.Change{{Key: "k", Value: large}}})
			return err
		},
	} {
		if err := write(); !errors.Is(err, client.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPublishTooLate publishes with a context that is over: nothing is stored.
func TestPublishTooLate(t *testing.T) {
	f := newFake(t, "n1")
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{})
	must(t, err)
	ctx := limited(t)
	_, err = p.Publish(ctx, client.Record{Value: []byte("a")})
	must(t, err)
	over, cancel := context.WithCancel(ctx)
	cancel()
	for range 20 {
		if _, err := p.Publish(over, client.Record{Value: []byte("b")}); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if _, err := p.PublishBatch(over, nil, []byte("c")); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
	}
	must(t, p.Close(ctx))
	if got := f.stored(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("stored %v", got)
	}
}

// TestWaitIsToldAfter holds a function back that is told an outcome: Wait and Close wait for it.
func TestWaitIsToldAfter(t *testing.T) {
	for name, wait := range map[string]func(*client.Publisher, context.Context) error{
		"wait": (*client.Publisher).Wait, "close": (*client.Publisher).Close,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newFake(t, "n1").connect().NewPublisher(fakeName, client.PublisherOptions{})
			must(t, err)
			ctx := limited(t)
			gate, begun := make(chan struct{}), make(chan struct{})
			var told atomic.Bool
			must(t, p.PublishAsync(ctx, client.Record{Value: []byte("a")}, func(client.Ack, error) {
				close(begun)
				<-gate
				told.Store(true)
			}))
			<-begun
			waited := make(chan error, 1)
			go func() {
				err := wait(p, ctx)
				if !told.Load() {
					err = errors.Join(err, errors.New("the function had not returned"))
				}
				waited <- err
			}()
			select {
			case err := <-waited:
				t.Fatalf("it has not waited: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			close(gate)
			must(t, <-waited)
			must(t, p.Close(ctx))
		})
	}
}

// TestWaitUnderLoad waits while others go on publishing: for what came before alone.
func TestWaitUnderLoad(t *testing.T) {
	p, err := newFake(t, "n1").connect().NewPublisher(fakeName, client.PublisherOptions{})
	must(t, err)
	ctx := limited(t)
	// Each outcome has the next record published before it counts as told, so there is never a moment without one.
	var (
		stop atomic.Bool
		next func(client.Ack, error)
	)
	next = func(client.Ack, error) {
		if !stop.Load() {
			_ = p.PublishAsync(ctx, client.Record{Value: []byte("x")}, next)
		}
	}
	must(t, p.PublishAsync(ctx, client.Record{Value: []byte("x")}, next))
	for range 3 {
		must(t, p.Wait(ctx))
	}
	stop.Store(true)
	must(t, p.Close(ctx))
}
