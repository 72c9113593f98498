package peer_test

import (
	"context"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// TestLifeCycle starts the peer of the environment, kills it, restarts it on the same address, and stops it.
func TestLifeCycle(t *testing.T) {
	p, err := peer.FromEnv(peer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	begin := time.Now()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s started in %v on %s", p.Kind(), time.Since(begin).Round(time.Millisecond), p.Addr())
	addr := p.Addr()
	if p.PID() == 0 {
		return // a remote peer: its process is not ours
	}
	if err := p.Kill9(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once after the kill, once cleanly
		if err := p.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if p.Addr() != addr {
			t.Fatalf("address after a restart: %s, was %s", p.Addr(), addr)
		}
	}
}
