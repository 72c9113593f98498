// Package native is a client of the native protocol with as little between the caller and the connection as possible: raw QUIC, frames of
// package wire, and sockets that receive what the kernel has joined. Felix and the bare relay are driven with it alike.
package native

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/udp"
)

const (
	// Protocol is what both servers speak.
	Protocol = "felix/1"
	// Tenant is that of a development profile.
	Tenant = "default"
	// Namespace is that of a development profile.
	Namespace = "default"
	// HeaderBytes are before the payload of every frame; that of an acked publish begins with its id.
	HeaderBytes = wire.HeaderSize
	// socketBytes is the buffer that a socket asks for in each direction.
	socketBytes = 8 << 20
	// setUp bounds what happens before a load.
	setUp = 30 * time.Second

	flags    = wire.Flags(0x1FFF)
	features = wire.FeatureErrorCodes | wire.FeaturePublishPipeline | wire.FeatureAckOnCommit | wire.FeatureSubscriptionLagged | wire.FeatureSubscribeQueue
)

// Target is a server, and what its clients need.
type Target struct {
	Addr      string `json:"addr"`
	CAFile    string `json:"ca_file"`
	TokenFile string `json:"token_file,omitempty"` // none: the server asks for no token
}

// Conn is a connection on a socket of its own.
type Conn struct {
	target    Target
	token     string
	transport *quic.Transport
	q         *quic.Conn
}

// Dial connects.
func (t Target) Dial(ctx context.Context) (*Conn, error) {
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", t.CAFile)
	}
	token := []byte("none")
	if t.TokenFile != "" {
		if token, err = os.ReadFile(t.TokenFile); err != nil {
			return nil, err
		}
	}
	addr, err := net.ResolveUDPAddr("udp4", t.Addr)
	if err != nil {
		return nil, err
	}
	transport, err := Transport(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	conf := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS13}
	q, err := transport.Dial(ctx, addr, conf, &quic.Config{
		Versions: []quic.Version{quic.Version1}, KeepAlivePeriod: 2 * time.Second, MaxIdleTimeout: 6 * time.Second, MaxIncomingUniStreams: 1024,
		InitialStreamReceiveWindow: 16 << 20, MaxStreamReceiveWindow: 16 << 20, InitialConnectionReceiveWindow: 24 << 20, MaxConnectionReceiveWindow: 24 << 20,
	})
	if err != nil {
		return nil, errors.Join(err, closeTransport(transport))
	}
	return &Conn{target: t, token: strings.TrimSpace(string(token)), transport: transport, q: q}, nil
}

// Transport binds a socket for QUIC that receives joined datagrams. closeTransport ends both.
func Transport(at *net.UDPAddr) (*quic.Transport, error) {
	socket, err := Socket(at, socketBytes)
	if err != nil {
		return nil, err
	}
	pc, err := udp.New(socket)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &quic.Transport{Conn: pc}, nil
}

// Socket binds a socket with buffers of so many bytes each way, or what the system grants of that.
func Socket(at *net.UDPAddr, buffers int) (*net.UDPConn, error) {
	socket, err := net.ListenUDP("udp4", at)
	if err == nil {
		_, _ = socket.SetReadBuffer(buffers), socket.SetWriteBuffer(buffers)
	}
	return socket, err
}

func closeTransport(t *quic.Transport) error { return errors.Join(t.Close(), t.Conn.Close()) }

// Close ends the connection and its socket.
func (c *Conn) Close() error {
	return errors.Join(c.q.CloseWithError(0, ""), closeTransport(c.transport))
}

// Stream is a stream that has authenticated.
type Stream struct {
	q  *quic.Stream
	in *frames
}

// Open opens a stream and authenticates it.
func (c *Conn) Open(ctx context.Context) (*Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	q, err := c.q.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{q: q, in: newFrames(q)}
	auth := &wire.Auth{TenantID: Tenant, Token: c.token, ClientFlags: wire.Some(flags)}
	auth.SetFeatures(features)
	m, err := s.ask(auth)
	if err != nil {
		return nil, err
	}
	if _, ok := m.(*wire.AuthOK); !ok {
		return nil, fmt.Errorf("auth was answered with %T %+v", m, m)
	}
	return s, nil
}

// ask sends a message and reads its answer.
func (s *Stream) ask(m wire.Message) (wire.Message, error) {
	if _, err := s.q.Write(wire.AppendMessage(nil, m)); err != nil {
		return nil, err
	}
	_ = s.q.SetReadDeadline(time.Now().Add(setUp))
	defer func() { _ = s.q.SetReadDeadline(time.Time{}) }()
	return s.in.message()
}

// Write sends frames.
func (s *Stream) Write(b []byte) error {
	_, err := s.q.Write(b)
	return err
}

// Acks reads the answers of publishes until the stream ends, and hands out all that came at once: how many, and the last one's offset, -1
// without. A refusal is an error.
func (s *Stream) Acks(got func(n int, offset int64)) error {
	for {
		n, offset := 0, int64(-1)
		for {
			h, payload, err := s.in.next()
			if err != nil {
				return err
			}
			a, err := wire.ParsePublishAck(h.Flags, payload)
			if err != nil {
				return err
			}
			if a.Failed {
				return fmt.Errorf("a publish was refused: %s %s", a.Message, a.Reason)
			}
			if a.Offset.Set {
				offset = int64(a.Offset.Value)
			}
			n++
			if !s.in.whole() {
				break
			}
		}
		got(n, offset)
	}
}

// AppendPublish appends the frame of a publish; id counts only if acked.
func AppendPublish(dst []byte, stream string, id uint64, acked bool, payloads ...[]byte) ([]byte, error) {
	p := wire.BinaryPublish{
		RequestID: id, TenantID: []byte(Tenant), Namespace: []byte(Namespace), Stream: []byte(stream), Payloads: wire.MakePayloads(payloads...),
	}
	if acked {
		p.Ack = wire.AckPerBatch
	}
	return wire.AppendBinaryPublish(dst, &p)
}

// Subscription is a stream of events.
type Subscription struct{ in *frames }

// queueCapacity is how many published batches the server is asked to queue: the most that Felix grants.
const queueCapacity = 4096

// Subscribe subscribes from now on, on a stream of its own whose sending side ends at once.
func (c *Conn) Subscribe(ctx context.Context, stream string) (*Subscription, error) {
	s, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	m, err := s.ask(&wire.Subscribe{
		StreamScope: wire.StreamScope{TenantID: Tenant, Namespace: Namespace, Stream: stream}, Start: wire.Start{Kind: wire.StartLatest},
		QueueCapacity: wire.Some(uint32(queueCapacity)),
	})
	if err != nil {
		return nil, err
	}
	if _, ok := m.(*wire.Subscribed); !ok {
		return nil, fmt.Errorf("a subscribe was answered with %T %+v", m, m)
	}
	if err := s.q.Close(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	q, err := c.q.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	sub := &Subscription{newFrames(q)}
	m, err = sub.in.message()
	if err != nil {
		return nil, err
	}
	if _, ok := m.(*wire.EventStreamHello); !ok {
		return nil, fmt.Errorf("an event stream begins with %T %+v", m, m)
	}
	return sub, nil
}

// Next reads the next batch of events, which is good until the following call.
func (s *Subscription) Next() (wire.EventBatch, error) {
	h, payload, err := s.in.next()
	if err != nil {
		return wire.EventBatch{}, err
	}
	if h.Flags == 0 {
		return wire.EventBatch{}, fmt.Errorf("the subscription ended: %.300s", payload)
	}
	return wire.ParseEventBatch(h.Flags, payload)
}
