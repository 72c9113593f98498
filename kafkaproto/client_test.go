package kafkaproto

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/felixlog/felix/internal/buf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a server over a fake node.
type harness struct {
	t    testing.TB
	node *fakeNode
	srv  *Server
	addr string
}

// newHarness serves opts on a free port. Without a verifier everybody is tenant t1.
func newHarness(t testing.TB, change func(*Options)) *harness {
	t.Helper()
	opts := Options{Pool: buf.NewPool(64 << 20), AutoCreate: true, Registerer: prometheus.NewRegistry()}
	if change != nil {
		change(&opts)
	}
	if opts.Verifier == nil && opts.Anonymous == nil {
		opts.Anonymous = &Caller{Tenant: testTenant, Principal: "anonymous"}
	}
	node := newFakeNode()
	srv, err := newServer(opts, node)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	h := &harness{t: t, node: node, srv: srv, addr: ln.Addr().String()}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		if used := srv.requests.used.Load(); used != 0 {
			t.Errorf("%d bytes of requests are not given back", used)
		}
		if n := srv.metrics.inFlight.Load(); n != 0 {
			t.Errorf("%d requests count as in flight", n)
		}
		if used := srv.answers.used.Load(); used != 0 {
			t.Errorf("%d bytes of answers are not given back", used)
		}
	})
	return h
}

// client speaks raw requests on one connection.
type client struct {
	t    testing.TB
	nc   net.Conn
	next int32

	tenant string         // whom it logged in as, in the walk over tenants
	walked map[int16]bool // APIs that the walk has asked
}

func (h *harness) dial() *client {
	h.t.Helper()
	nc, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { nc.Close() })
	return &client{t: h.t, nc: nc}
}

// encode frames a request.
func encode(req kmsg.Request, correlation int32) []byte {
	id := "test"
	b := kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, correlation)
	return b
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.next++
	c.write(encode(req, c.next))
	return c.next
}

// frame reads one answer without its size.
func (c *client) frame() []byte {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute))
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		c.t.Fatalf("read size: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		c.t.Fatalf("read frame: %v", err)
	}
	return b
}

// receive reads the answer to req, which must carry correlation.
func (c *client) receive(req kmsg.Request, correlation int32) kmsg.Response {
	c.t.Helper()
	b := c.frame()
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		c.t.Fatalf("correlation id %d, want %d", got, correlation)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != 18 {
		if b[0] != 0 {
			c.t.Fatalf("response header has tags: %x", b[0])
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("%T v%d: %v in %x", resp, resp.GetVersion(), err, b)
	}
	return resp
}

func (c *client) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	return c.receive(req, c.send(req))
}

// wantClosed checks that the server closes the connection without another byte.
func (c *client) wantClosed() {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := c.nc.Read(make([]byte, 64))
	var timeout net.Error
	if n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("read %d bytes, %v; want the connection closed", n, err)
	}
}

// wantSilent checks that nothing arrives for a moment.
func (c *client) wantSilent() {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.nc.Read(make([]byte, 64))
	if n > 0 || err == nil {
		c.t.Fatalf("read %d bytes, %v; want nothing yet", n, err)
	}
}

// eventually polls cond, for what happens on the server's goroutines.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
