package native

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// relay stands between a client and a server: each connection of the client has one of its own to the server, and each stream likewise.
// What passes is noted.
type relay struct {
	notebook
	addr   string
	caFile string

	target string
	roots  *x509.CertPool
	wg     sync.WaitGroup
	conns  atomic.Int64

	helloMu    sync.Mutex
	hellos     []hello            // guarded by helloMu
	parameters qlog.ParametersSet // guarded by helloMu: the client's
}

// hello is what a client offers in its first message.
type hello struct {
	name      string
	protocols []string
	groups    []tls.CurveID
	suites    []uint16
	versions  []uint16
}

// initialMTU is the client's setting for its first datagrams.
const initialMTU = "FELIX_INITIAL_MTU=1200"

// relayStreams is the stream credit of both sides, that of the server.
const relayStreams = 1024

// newRelay starts a server with further settings and a relay before it, for one test. The server names the relay as its address, so that
// clients stay on it. They must start with datagrams of 1,200 bytes (initialMTU): the relay's QUIC library takes no larger ones.
func newRelay(t *testing.T, env ...string) (*relay, *server) {
	t.Helper()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, append(env, "FELIX_CLIENT_ADVERTISE_ADDR="+udp.LocalAddr().String())...)
	r := &relay{addr: udp.LocalAddr().String(), target: s.Bound("native"), roots: x509.NewCertPool()}
	r.caFile = filepath.Join(t.TempDir(), "ca.pem")
	ca, err := os.ReadFile(s.dev("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.roots.AppendCertsFromPEM(ca) {
		t.Fatal("the server's authority is no certificate")
	}
	pair, err := newCertificate(r.caFile)
	if err != nil {
		t.Fatal(err)
	}
	transport := &quic.Transport{Conn: udp}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		r.helloMu.Lock()
		defer r.helloMu.Unlock()
		r.hellos = append(r.hellos, hello{h.ServerName, h.SupportedProtos, h.SupportedCurves, h.CipherSuites, h.SupportedVersions})
		return configFor(h, pair), nil
	}}
	q := relayConfig()
	q.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return parameterTrace{r} }
	ln, err := transport.Listen(conf, q)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context() // over before the cleanup
	r.wg.Go(func() { r.accept(ctx, ln) })
	t.Cleanup(func() {
		if err := errors.Join(ln.Close(), transport.Close(), udp.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("close the relay: %v", err)
		}
		r.wg.Wait()
	})
	return r, s
}

func relayConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams: relayStreams, MaxIncomingUniStreams: relayStreams, MaxIdleTimeout: 30 * time.Second, KeepAlivePeriod: 5 * time.Second,
	}
}

// hello is the last client's first message.
func (r *relay) hello() hello {
	r.helloMu.Lock()
	defer r.helloMu.Unlock()
	return r.hellos[len(r.hellos)-1]
}

// clientParameters are the last client's transport parameters.
func (r *relay) clientParameters() qlog.ParametersSet {
	r.helloMu.Lock()
	defer r.helloMu.Unlock()
	return r.parameters
}

// connection is a server's connection request that goes through the relay.
func (r *relay) connection(s *server, name string) request {
	c := s.connection(name)
	c["addrs"], c["ca_file"] = r.addr, r.caFile
	return c
}

func (r *relay) accept(ctx context.Context, ln *quic.Listener) {
	for {
		client, err := ln.Accept(ctx)
		if err != nil {
			return // closed
		}
		r.wg.Go(func() { r.serve(ctx, client) })
	}
}

// serve relays one connection until either side's is over; the other is closed with the same code.
func (r *relay) serve(ctx context.Context, client *quic.Conn) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: r.roots, ServerName: "localhost", NextProtos: []string{protocolID}}
	server, err := quic.DialAddr(ctx, r.target, conf, relayConfig())
	if err != nil {
		_ = client.CloseWithError(0, "the server is away")
		return
	}
	n := int(r.conns.Add(1))
	var streams atomic.Int64
	like := func(uni bool, from direction, stream int) tap {
		return tap{book: &r.notebook, like: sighting{conn: n, stream: stream, uni: uni, from: from}}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := client.AcceptStream(ctx)
			if err != nil {
				return
			}
			out, err := server.OpenStreamSync(ctx)
			if err != nil {
				return
			}
			stream := int(streams.Add(1))
			wg.Go(func() { carry(in, out, like(false, fromClient, stream)) })
			wg.Go(func() { carry(out, in, like(false, fromServer, stream)) })
		}
	})
	oneWay := func(a, b *quic.Conn, from direction) {
		for {
			in, err := a.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			out, err := b.OpenUniStreamSync(ctx)
			if err != nil {
				return
			}
			stream := int(streams.Add(1))
			wg.Go(func() { carry(in, out, like(true, from, stream)) })
		}
	}
	wg.Go(func() { oneWay(client, server, fromClient) })
	wg.Go(func() { oneWay(server, client, fromServer) })
	select {
	case <-client.Context().Done():
	case <-server.Context().Done():
	case <-ctx.Done():
	}
	closeLike(server, client)
	closeLike(client, server)
	wg.Wait()
}

// closeLike closes a connection as the other one ended.
func closeLike(c, other *quic.Conn) {
	var app *quic.ApplicationError
	if errors.As(context.Cause(other.Context()), &app) {
		_ = c.CloseWithError(app.ErrorCode, app.ErrorMessage)
		return
	}
	_ = c.CloseWithError(0, "")
}

// sender and receiver are what carry needs of streams of either kind.
type (
	receiver interface {
		io.Reader
		CancelRead(quic.StreamErrorCode)
	}
	sender interface {
		io.WriteCloser
		CancelWrite(quic.StreamErrorCode)
		Context() context.Context
	}
)

// carry copies one direction of a stream with everything that ends it.
func carry(in receiver, out sender, t tap) {
	stop := context.AfterFunc(out.Context(), func() {
		var e *quic.StreamError
		if errors.As(context.Cause(out.Context()), &e) && e.Remote {
			s := t.like
			s.kind = fmt.Sprintf("stop %d", e.ErrorCode)
			t.book.note(s)
			in.CancelRead(e.ErrorCode)
		}
	})
	defer stop()
	b := make([]byte, 32<<10)
	for {
		n, err := in.Read(b)
		t.pass(b[:n])
		if n > 0 {
			if _, err := out.Write(b[:n]); err != nil {
				return // stopped or lost
			}
		}
		var reset *quic.StreamError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			t.end("fin")
			_ = out.Close()
			return
		case errors.As(err, &reset) && reset.Remote:
			t.end(fmt.Sprintf("reset %d", reset.ErrorCode))
			out.CancelWrite(reset.ErrorCode)
			return
		default:
			return
		}
	}
}

// parameterTrace keeps the client's transport parameters of all that the QUIC library tells.
type parameterTrace struct{ r *relay }

func (p parameterTrace) AddProducer() qlogwriter.Recorder { return p }
func (p parameterTrace) SupportsSchemas(string) bool      { return false }
func (p parameterTrace) Close() error                     { return nil }

func (p parameterTrace) RecordEvent(e qlogwriter.Event) {
	if set, ok := e.(qlog.ParametersSet); ok && set.Initiator == qlog.InitiatorRemote {
		p.r.helloMu.Lock()
		defer p.r.helloMu.Unlock()
		p.r.parameters = set
	}
}
