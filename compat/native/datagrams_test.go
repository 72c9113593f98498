package native

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// forwarder passes datagrams between one client and a server, and notes the sizes of the client's.
type forwarder struct {
	addr string

	mu    sync.Mutex
	sizes []int // guarded by mu
}

func newForwarder(t *testing.T, target string) *forwarder {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{addr: front.LocalAddr().String()}
	first := make(chan *net.UDPAddr, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 1<<16)
		for known := false; ; {
			n, from, err := front.ReadFromUDP(b)
			if err != nil {
				return
			}
			f.mu.Lock()
			f.sizes = append(f.sizes, n)
			f.mu.Unlock()
			if !known {
				first <- from
				known = true
			}
			if _, err := back.Write(b[:n]); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	done := make(chan struct{})
	wg.Go(func() {
		var client *net.UDPAddr
		select {
		case client = <-first:
		case <-done:
			return
		}
		b := make([]byte, 1<<16)
		for {
			n, err := back.Read(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // the server was away for a moment
			}
			if _, err := front.WriteToUDP(b[:n], client); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		if err := errors.Join(front.Close(), back.Close()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return f
}

// sent is the sizes of the client's datagrams so far.
func (f *forwarder) sent() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.sizes...)
}
