package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/felixlog/felix/compat/bench/internal/native"
)

// BusSpec says where records are published and who receives them.
type BusSpec struct {
	// Native is the server that native clients use, NATS that of NATS clients; one is set.
	Native *native.Target `json:"native,omitempty"`
	NATS   string         `json:"nats,omitempty"`
	CAFile string         `json:"ca_file,omitempty"` // of NATS with TLS
	// Stream is published to and subscribed to.
	Stream string `json:"stream"`
	Acked  bool   `json:"acked,omitempty"` // native publishes are answered; core NATS has no answers
	// Fanout is how many subscribers there are, each with a connection of its own.
	Fanout int `json:"fanout,omitempty"`
	// Batch is how many records one publish has. NATS publishes them one by one.
	Batch int `json:"batch"`
	// Window is how many publishes may be under way: unanswered, or not yet with every subscriber.
	Window int `json:"window,omitempty"`
	// Connections, Streams and Subscriptions of Hold: connections, authenticated streams and subscriptions on each of them.
	Connections   int `json:"connections,omitempty"`
	Streams       int `json:"streams,omitempty"`
	Subscriptions int `json:"subscriptions,omitempty"`
}

// bus is clients of one server.
type bus interface {
	// subscribe adds a subscriber on a connection of its own. deliver is called for each record, from one goroutine; failed with why there
	// will be no more.
	subscribe(ctx context.Context, deliver func(payload []byte), failed func(error)) error
	// publish publishes a batch and does not keep it. One goroutine calls it.
	publish(payloads [][]byte) error
	// close ends all clients and returns when deliver is called no more.
	close()
}

// newBus connects the publisher.
func newBus(ctx context.Context, spec *BusSpec, failed func(error)) (bus, error) {
	if spec.Native != nil {
		return newNativeBus(ctx, spec, failed)
	}
	return newNATSBus(spec)
}

// nativeBus is native clients.
type nativeBus struct {
	spec  *BusSpec
	conns []*native.Conn
	out   *native.Stream
	frame []byte
	id    uint64
	wg    sync.WaitGroup
}

func newNativeBus(ctx context.Context, spec *BusSpec, failed func(error)) (*nativeBus, error) {
	b := &nativeBus{spec: spec}
	c, err := b.dial(ctx)
	if err != nil {
		return b, err
	}
	if b.out, err = c.Open(ctx); err != nil {
		return b, err
	}
	// Answers are read in any case: nobody else would see that a publish was refused.
	b.wg.Go(func() { failed(b.out.Acks(func(int, int64) {})) })
	return b, nil
}

func (b *nativeBus) dial(ctx context.Context) (*native.Conn, error) {
	c, err := b.spec.Native.Dial(ctx)
	if err == nil {
		b.conns = append(b.conns, c)
	}
	return c, err
}

func (b *nativeBus) subscribe(ctx context.Context, deliver func([]byte), failed func(error)) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	sub, err := c.Subscribe(ctx, b.spec.Stream)
	if err != nil {
		return err
	}
	b.wg.Go(func() {
		for {
			batch, err := sub.Next()
			if err != nil {
				failed(err)
				return
			}
			for e := range batch.All() {
				deliver(e.Payload)
			}
		}
	})
	return nil
}

func (b *nativeBus) publish(payloads [][]byte) (err error) {
	b.id++
	if b.frame, err = native.AppendPublish(b.frame[:0], b.spec.Stream, b.id, b.spec.Acked, payloads...); err != nil {
		return err
	}
	return b.out.Write(b.frame)
}

func (b *nativeBus) close() {
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.wg.Wait()
}

// natsBus is NATS clients.
type natsBus struct {
	spec  *BusSpec
	conns []*nats.Conn
}

func newNATSBus(spec *BusSpec) (*natsBus, error) {
	b := &natsBus{spec: spec}
	_, err := b.dial()
	return b, err
}

func (b *natsBus) dial() (*nats.Conn, error) {
	opts := []nats.Option{nats.NoReconnect()}
	if b.spec.CAFile != "" {
		if _, err := os.Stat(b.spec.CAFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.RootCAs(b.spec.CAFile))
	}
	c, err := nats.Connect(b.spec.NATS, opts...)
	if err == nil {
		b.conns = append(b.conns, c)
	}
	return c, err
}

func (b *natsBus) subscribe(_ context.Context, deliver func([]byte), failed func(error)) error {
	c, err := b.dial()
	if err != nil {
		return err
	}
	c.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { failed(fmt.Errorf("subscriber: %w", err)) })
	sub, err := c.Subscribe(b.spec.Stream, func(m *nats.Msg) { deliver(m.Data) })
	if err != nil {
		return err
	}
	// The load itself bounds what waits here.
	return errors.Join(sub.SetPendingLimits(-1, -1), c.Flush())
}

func (b *natsBus) publish(payloads [][]byte) error {
	for _, p := range payloads {
		if err := b.conns[0].Publish(b.spec.Stream, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *natsBus) close() {
	for _, c := range b.conns {
		c.Close()
	}
}
