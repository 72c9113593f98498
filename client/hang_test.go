package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// hung makes a fake take connections and answer nothing, until the test ends.
func hung(t *testing.T, f *fake) {
	t.Helper()
	f.mu.Lock()
	t.Cleanup(f.mu.Unlock)
}

// TestEntryHangs has the server that the client enters by hang while its connection lives on: before anything was asked, and later.
func TestEntryHangs(t *testing.T) {
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprint(connected), func(t *testing.T) {
			first, second := newFake(t, "n1"), newFake(t, "n2")
			cfg := first.config()
			cfg.Addrs, cfg.DialTimeout = []string{first.addr, second.addr}, 5*time.Second
			if !connected {
				hung(t, first)
			}
			c, err := client.Connect(limited(t), cfg)
			must(t, err)
			defer func() { must(t, c.Close()) }()
			if connected {
				hung(t, first)
			}
			_, err = c.Shards(limited(t), client.Stream{Name: "other"})
			must(t, err)
		})
	}
}

// TestAnswersHang has a server authenticate and then not answer.
func TestAnswersHang(t *testing.T) {
	first, second := newFake(t, "n1"), newFake(t, "n2")
	first.request = func(st *fakeStream, _ wire.Message) bool {
		<-st.conn.Context().Done()
		return true
	}
	c := first.connect(func(cfg *client.Config) { cfg.Addrs, cfg.DialTimeout = append(cfg.Addrs, second.addr), 5*time.Second })
	_, err := c.Shards(limited(t), fakeName)
	must(t, err)
}

// TestOneOfFiveLives has all servers but the last one die: it is found, even if nobody has the time to try them all in one go.
func TestOneOfFiveLives(t *testing.T) {
	fakes := make([]*fake, 5)
	var addrs []string
	for i := range fakes {
		fakes[i] = newFake(t, fmt.Sprint("n", i))
		addrs = append(addrs, fakes[i].addr)
	}
	c := fakes[0].connect(func(cfg *client.Config) { cfg.Addrs, cfg.DialTimeout = addrs, 6*time.Second })
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{Guarantee: client.AtLeastOnce}) // the fakes share no producers
	must(t, err)
	_, err = p.Publish(ctx, client.Record{Value: []byte("a")})
	must(t, err)
	for _, f := range fakes[:4] {
		f.cut()
		_ = f.tr.Close()
	}
	_, err = p.Publish(ctx, client.Record{Value: []byte("b")})
	must(t, err)
	if got := fakes[4].stored(); fmt.Sprint(got) != "[b]" {
		t.Errorf("stored %v", got)
	}
	must(t, p.Close(ctx))
}

// TestDeadOwner has the owner of many shards be gone: their lanes find out together, not one after the other.
func TestDeadOwner(t *testing.T) {
	dead, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer func() { _ = dead.Close() }()
	const shards = 100 // by the dial timeout of one second each that is longer than the test may take
	f := newFake(t, "n1")
	f.shards = shards
	for i := range uint32(shards) {
		f.owners = append(f.owners, wire.ShardOwner{Shard: i, NodeID: "n2", Addr: dead.LocalAddr().String()})
	}
	c := f.connect(func(cfg *client.Config) { cfg.DialTimeout = time.Second })
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{})
	must(t, err)
	for i := range 1000 {
		must(t, p.PublishAsync(ctx, client.Record{Key: fmt.Append(nil, i)}, nil))
	}
	must(t, p.Close(ctx))
	if got := len(f.stored()); got != 1000 {
		t.Errorf("%d stored", got)
	}
}

// TestHungServer has a server stop reading: what waits for the transport fails in time too.
func TestHungServer(t *testing.T) {
	f := newFake(t, "n1")
	hang := make(chan struct{})
	defer close(hang)
	f.publish = func(int, *wire.BinaryPublish) verdict {
		<-hang
		return verdict{}
	}
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{
		Ack: client.AckMessage, AnswerTimeout: 500 * time.Millisecond, DeliveryTimeout: time.Second,
	})
	must(t, err)
	ctx := limited(t)
	var told atomic.Int32
	for range 8 {
		must(t, p.PublishAsync(ctx, client.Record{Value: make([]byte, 250<<10)}, func(_ client.Ack, err error) {
			if err != nil {
				told.Add(1)
			}
		}))
	}
	waitUntil(t, func() bool { return told.Load() == 8 })
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.Close(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
