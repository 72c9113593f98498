package api

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// shares bounds what each of many holders has at once; who wants more waits. A holder that has nothing costs nothing. Its methods may run
// concurrently.
type shares struct {
	each int

	mu      sync.Mutex
	holders map[string]*holder // guarded by mu
}

type holder struct {
	slots chan struct{}
	users int // guarded by shares.mu: who holds or waits
}

func newShares(each int) *shares { return &shares{each: each, holders: map[string]*holder{}} }

// take waits for one of the holder's slots until ctx ends, and returns what gives it back.
func (s *shares) take(ctx context.Context, name string) (func(), error) {
	s.mu.Lock()
	h := s.holders[name]
	if h == nil {
		h = &holder{slots: make(chan struct{}, s.each)}
		s.holders[name] = h
	}
	h.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(s.holders, name)
		}
	}
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, unavailable()
	}
}

// slot waits for one of a number of slots until ctx ends, and returns what gives it back.
func slot(ctx context.Context, slots chan struct{}) (func(), error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, unavailable()
	}
}

// limitListener closes connections above a number on arrival, and those above a number from one address, 0: any number. Loopback counts for
// the whole alone: what stands in front of the server for others is there.
func limitListener(ln net.Listener, limit, perAddress int) net.Listener {
	return &limited{Listener: ln, limit: limit, perAddress: perAddress, byAddress: map[netip.Addr]int{}}
}

type limited struct {
	net.Listener
	limit, perAddress int

	mu        sync.Mutex
	open      int                // guarded by mu
	byAddress map[netip.Addr]int // guarded by mu; no entry for loopback
}

// Accept returns the next connection that there is room for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if addr := addressOf(conn.RemoteAddr()); l.admit(addr) {
			return &limitedConn{Conn: conn, dismiss: func() { l.dismiss(addr) }}, nil
		}
		_ = conn.Close() // nothing was promised to it
	}
}

func (l *limited) admit(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limit || l.perAddress > 0 && !addr.IsLoopback() && l.byAddress[addr] >= l.perAddress {
		return false
	}
	l.open++
	if !addr.IsLoopback() {
		l.byAddress[addr]++
	}
	return true
}

func (l *limited) dismiss(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if addr.IsLoopback() {
		return
	}
	if l.byAddress[addr]--; l.byAddress[addr] <= 0 {
		delete(l.byAddress, addr)
	}
}

// addressOf is a peer's address without port; an IPv4 address in IPv6 form counts as IPv4.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

type limitedConn struct {
	net.Conn
	dismiss func()
	once    sync.Once
}

// CloseWrite ends what is sent, if the connection can: net/http does that after an answer to a request that it does not read to its end, so
// that the answer is not lost in a reset.
func (c *limitedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close closes the connection and makes room.
func (c *limitedConn) Close() error {
	c.once.Do(c.dismiss)
	return c.Conn.Close()
}
