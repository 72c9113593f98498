package rawkafka

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/bench/null"
)

func TestAgainstTheThrowAwayServer(t *testing.T) {
	s, err := null.New(null.Options{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c, err := Dial(ln.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ApiVersions(time.Second); err != nil {
		t.Fatal(err)
	}
	m, err := c.Metadata([]string{"a", "b"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if ok, n := Led(m); !ok || n != 6 || len(m.Brokers) != 1 {
		t.Errorf("led %v, %d partitions, %d brokers", ok, n, len(m.Brokers))
	}
	if n, err := c.Fetch("a", 2, time.Second); err != nil || n == 0 {
		t.Errorf("fetched %d bytes, error %v", n, err)
	}
	m.Topics[0].Partitions[1].Leader = -1
	if ok, _ := Led(m); ok {
		t.Error("a partition without a leader counts as led")
	}
}
