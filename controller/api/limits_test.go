package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/felixlog/felix/internal/cluster"
)

// listening serves the rig's API on a port of its own until the test ends.
func (r *rig) listening() string {
	r.t.Helper()
	ln, err := new(net.ListenConfig).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.s.Serve(ln) }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what stands still is cut off
		_ = r.s.Close(ctx)
		if err := <-ended; !errors.Is(err, ErrServerClosed) {
			r.t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

// TestStalledBodies: bodies that do not arrive hold up nobody but their own account.
func TestStalledBodies(t *testing.T) {
	r := newRig(t)
	addr := r.listening()
	stalls := r.token(acme, "stream.manage:stream:acme/ns/*")
	for range maxWork + maxReadsPerAccount {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST %s/streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", nsPath, stalls); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for len(r.s.reads) < maxReadsPerAccount {
		if time.Now().After(deadline) {
			t.Fatalf("%d bodies are being read", len(r.s.reads))
		}
		time.Sleep(time.Millisecond)
	}
	if n := len(r.s.work); n != 0 {
		t.Errorf("%d bodies that have not arrived are worked on", n)
	}
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/other/namespaces/ns/streams", r.admin(other), `{"stream":"s"}`)
}

// unread is the connection of a client that does not read its answer.
type unread struct {
	header http.Header
	began  chan<- struct{}
	read   <-chan struct{}
}

func (u *unread) Header() http.Header { return u.header }
func (u *unread) WriteHeader(int)     {}

func (u *unread) Write(b []byte) (int, error) {
	u.began <- struct{}{}
	<-u.read
	return len(b), nil
}

// TestUnreadAnswers: a call whose answer is not read holds nothing that others wait for.
func TestUnreadAnswers(t *testing.T) {
	r := newRig(t)
	admin, began, read := r.admin(acme), make(chan struct{}, 2*maxWork), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(read)
	for i := range maxWork + 1 {
		wg.Go(func() {
			r.s.httpAPI.Handler.ServeHTTP(&unread{http.Header{}, began, read}, request(http.MethodPost, nsPath+"/streams", admin, fmt.Sprintf(`{"stream":"s%d"}`, i)))
		})
	}
	for i := range maxWork + 1 {
		select {
		case <-began:
		case <-time.After(time.Minute):
			t.Fatalf("%d calls are answered, and %d bodies are worked on", i, len(r.s.work))
		}
	}
	if n, shares := len(r.s.work), len(r.s.readers.holders); n != 0 || shares != 0 {
		t.Errorf("answered calls hold %d slots and the shares of %d accounts", n, shares)
	}
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/other/namespaces/ns/streams", r.admin(other), `{"stream":"s"}`)
}

// slowFor makes one tenant's new namespaces wait.
type slowFor struct {
	Controller
	tenant  string
	waiting atomic.Int32
	goOn    chan struct{}
}

func (s *slowFor) Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	inner := cmd
	if g, ok := cmd.(cluster.Guarded); ok {
		inner = g.Command
	}
	if c, ok := inner.(cluster.CreateNamespace); ok && c.Tenant == s.tenant {
		s.waiting.Add(1)
		<-s.goOn
	}
	return s.Controller.Propose(ctx, cmd)
}

// TestWorkOfOneAccount: an account has its share of what is worked on, and the others' calls are answered meanwhile.
func TestWorkOfOneAccount(t *testing.T) {
	slow := &slowFor{tenant: acme, goOn: make(chan struct{})}
	r := newRig(t, func(o *Options) {
		slow.Controller, o.Controller = o.Controller, slow
		o.WriteTimeout = 10 * time.Minute
	})
	admin := r.admin(acme)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(slow.goOn)
	for i := range maxWork {
		wg.Go(func() {
			r.s.httpAPI.Handler.ServeHTTP(httptest.NewRecorder(), request(http.MethodPost, "/v1/tenants/acme/namespaces", admin, fmt.Sprintf(`{"namespace":"n%d"}`, i)))
		})
	}
	users := func() int {
		r.s.readers.mu.Lock()
		defer r.s.readers.mu.Unlock()
		if h := r.s.readers.holders[acme+"/p:test"]; h != nil {
			return h.users
		}
		return 0
	}
	for deadline := time.Now().Add(time.Minute); users() < maxWork || slow.waiting.Load() < maxReadsPerAccount; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls hold the account's share or wait for it, %d bodies are worked on", users(), len(r.s.work))
		}
	}
	if n := len(r.s.work); n != maxReadsPerAccount {
		t.Errorf("%d bodies of one account are worked on, want %d", n, maxReadsPerAccount)
	}
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/other/namespaces", r.admin(other), `{"namespace":"n"}`)
}

// panicky makes every proposal panic.
type panicky struct{ Controller }

func (panicky) Propose(context.Context, cluster.Command) (cluster.Result, error) { panic("a fault") }

// TestPanic: a call that panics is answered 500 and logged with its route and where it was, and what it took is given back.
func TestPanic(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	r := newRig(t, func(o *Options) { o.Controller, o.Logger = panicky{o.Controller}, zap.New(core) })
	admin := r.admin(acme)
	for range maxWork + 1 {
		res := r.sendTo(r.s.httpAPI.Handler, request(http.MethodPost, nsPath+"/streams", admin, `{"stream":"s"}`))
		if res.status != http.StatusInternalServerError || res.code() != codeInternal || strings.Contains(res.text, "fault") {
			t.Errorf("got %s", res)
		}
	}
	all := logs.FilterMessage("call panicked").All()
	if len(all) != maxWork+1 {
		t.Fatalf("%d entries, want %d", len(all), maxWork+1)
	}
	fields := all[0].ContextMap()
	if stack, _ := fields["stack"].(string); fields["route"] != "/v1/tenants/{tenant}/namespaces/{namespace}/streams" || fields["panic"] != "a fault" || !strings.Contains(stack, "panicky") {
		t.Errorf("logged %v", fields)
	}
	if len(r.s.work) != 0 || len(r.s.reads) != 0 || len(r.s.readers.holders) != 0 || len(r.s.addresses.holders) != 0 {
		t.Error("something is held still")
	}
}

// TestShares: one who has its share waits, another does not, and nothing is left of who has nothing.
func TestShares(t *testing.T) {
	s := newShares(2)
	var held []func()
	for _, name := range []string{"a", "a", "b"} {
		release, err := s.take(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.take(ended, "a"); err == nil {
		t.Error("more than the share is given")
	}
	got := make(chan func(), 1)
	go func() {
		release, err := s.take(context.WithoutCancel(t.Context()), "a")
		if err != nil {
			t.Error(err)
		}
		got <- release
	}()
	held[0]()
	(<-got)()
	held[1]()
	held[2]()
	if len(s.holders) != 0 {
		t.Errorf("%d holders are left", len(s.holders))
	}
}

// addressed is a listener whose connections say where they come from.
type addressed struct {
	net.Listener
	conns chan net.Conn
}

func (l addressed) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

type addressedConn struct {
	net.Conn
	from   string
	closed chan struct{}
}

func (c addressedConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1}
}

func (c addressedConn) Close() error {
	close(c.closed)
	return nil
}

// TestConnectionsOfAnAddress: each address has a share of the connections, in whichever form it is written; loopback has none.
func TestConnectionsOfAnAddress(t *testing.T) {
	in := addressed{conns: make(chan net.Conn, 16)}
	ln := limitListener(in, 7, 2)
	var made []addressedConn
	for _, from := range []string{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2", "127.0.0.1", "127.0.0.1", "::1", "::1"} {
		c := addressedConn{from: from, closed: make(chan struct{})}
		made = append(made, c)
		in.conns <- c
	}
	var open []net.Conn
	for range 7 {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	select {
	case <-made[2].closed:
	default:
		t.Error("a third connection of one address is taken")
	}
	if err := open[0].Close(); err != nil {
		t.Error(err)
	}
	again := addressedConn{from: "192.0.2.1", closed: make(chan struct{})}
	in.conns <- again
	if conn, err := ln.Accept(); err != nil || conn.RemoteAddr().String() != "192.0.2.1:1" {
		t.Errorf("room that was made is not given: %v", err)
	}
	close(in.conns)
	for _, conn := range open[1:] {
		_ = conn.Close()
	}
}

// TestLongAnswer: a listing of more than a piece is sent in pieces and is whole, and a short one says how long it is.
func TestLongAnswer(t *testing.T) {
	r := newRig(t)
	r.makeStreams(0, 1500)
	addr := r.listening()
	for limit, inPieces := range map[int]bool{1: false, 1500: true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s%s/streams?limit=%d", addr, nsPath, limit), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.admin(acme))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Items      []streamBody `json:"items"`
			NextCursor string       `json:"next_cursor"`
		}
		err = json.NewDecoder(resp.Body).Decode(&out)
		_ = resp.Body.Close()
		if err != nil || len(out.Items) != limit || (out.NextCursor == "") != (limit == 1500) {
			t.Errorf("limit %d: %d items, %v", limit, len(out.Items), err)
		}
		if (resp.ContentLength < 0) != inPieces {
			t.Errorf("limit %d: content length %d", limit, resp.ContentLength)
		}
	}
}
