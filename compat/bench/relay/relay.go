// Package relay is a bare QUIC server of the same shape as Felix's native front end, without a broker: what is published goes to everybody
// who has subscribed, whatever stream it names, and nowhere when nobody has. It keeps no log, checks no token and counts nothing.
//
// It is the floor that rows P9 to P13 compare with: the same QUIC library, windows, sockets (package internal/udp) and framing, and the
// same way to deliver, a queue for each subscriber that a goroutine drains in writes of up to 64 KiB while there is something to send.
package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/compat/bench/internal/native"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/udp"
)

// What Felix's listener has by default, but that windows grow without a budget.
const (
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20
	mostWindow       = 16 << 20
	mostStreams      = 1024
	socketBytes      = 8 << 20
	// largestPacket is the largest that the library makes: a constant of its own.
	largestPacket = 1452
	// writeBytes is how much is written to a subscriber at once.
	writeBytes = 64 << 10
)

// Server is a relay.
type Server struct {
	transport *quic.Transport
	listener  *quic.Listener
	wg        sync.WaitGroup

	mu   sync.Mutex
	subs []*subscriber // guarded by mu; replaced, never changed
	next atomic.Uint64 // subscription ids
}

// Options are what can be had otherwise than Felix has it, to see what it is worth. The zero value is Felix's.
type Options struct {
	PlainSocket  bool // datagrams are received one by one
	SocketBytes  int  // buffer of the socket each way
	WindowBytes  int  // what windows grow to
	LargePackets bool // the handshake is over packets of the largest size already
}

// Listen binds addr and begins to take connections.
func Listen(addr string, cert tls.Certificate, opts Options) (*Server, error) {
	at, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	socket, err := native.Socket(at, cmp.Or(opts.SocketBytes, socketBytes))
	if err != nil {
		return nil, err
	}
	var pc net.PacketConn = socket
	if !opts.PlainSocket {
		if pc, err = udp.New(socket); err != nil {
			return nil, errors.Join(err, socket.Close())
		}
	}
	s := &Server{transport: &quic.Transport{Conn: pc}}
	most := uint64(cmp.Or(opts.WindowBytes, mostWindow))
	conf := &quic.Config{
		Versions: []quic.Version{quic.Version1}, MaxIdleTimeout: 6 * time.Second, KeepAlivePeriod: 2 * time.Second,
		InitialStreamReceiveWindow: min(streamWindow, most), MaxStreamReceiveWindow: most,
		InitialConnectionReceiveWindow: min(connectionWindow, most), MaxConnectionReceiveWindow: most,
		MaxIncomingStreams: mostStreams, MaxIncomingUniStreams: mostStreams,
	}
	if opts.LargePackets {
		conf.InitialPacketSize, conf.DisablePathMTUDiscovery = largestPacket, true
	}
	s.listener, err = s.transport.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{native.Protocol}, MinVersion: tls.VersionTLS13}, conf)
	if err != nil {
		return nil, errors.Join(err, s.transport.Conn.Close())
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until ctx ends, and returns nil then.
func (s *Server) Serve(ctx context.Context) error {
	defer s.wg.Wait()
	for {
		conn, err := s.listener.Accept(ctx)
		if err != nil {
			_ = errors.Join(s.listener.Close(), s.transport.Close(), s.transport.Conn.Close())
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.wg.Go(func() { s.connection(conn) })
	}
}

func (s *Server) connection(conn *quic.Conn) {
	for {
		q, err := conn.AcceptStream(conn.Context())
		if err != nil {
			return
		}
		s.wg.Go(func() {
			_ = s.stream(conn, q) // how it ended does not matter here
			q.CancelRead(1)
			q.CancelWrite(1)
		})
	}
}

// stream serves one stream to its end, which is always an error.
func (s *Server) stream(conn *quic.Conn, q *quic.Stream) error {
	in := native.NewReader(q)
	var ack []byte
	for {
		h, payload, err := in.Next()
		if err != nil {
			return err
		}
		switch layout, _ := h.Flags.Layout(); layout {
		case wire.LayoutJSON:
			if err := s.message(conn, q, payload); err != nil {
				return err
			}
		case wire.LayoutPublish:
			id, events, err := parsePublish(h.Flags, payload)
			if err != nil {
				return err
			}
			s.publish(events)
			if h.Flags.Has(wire.FlagAcked) {
				ack = wire.AppendPublishAck(ack[:0], &wire.PublishAck{RequestID: id}, h.Flags)
				if _, err := q.Write(ack); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("a frame with flags 0x%04x", uint16(h.Flags))
		}
	}
}

// message answers what clients say before a load.
func (s *Server) message(conn *quic.Conn, q *quic.Stream, payload []byte) error {
	m, err := wire.ParseRequest(payload)
	if err != nil {
		return err
	}
	switch m.(type) {
	case *wire.Auth:
		_, err = q.Write(wire.AppendMessage(nil, &wire.AuthOK{}))
		return err
	case *wire.Subscribe:
		return s.subscribe(conn, q)
	default:
		return fmt.Errorf("a %T", m)
	}
}

// parsePublish finds the list of payloads, which an event frame has in the same form, and looks no further into it.
func parsePublish(flags wire.Flags, b []byte) (id uint64, events []byte, err error) {
	short := errors.New("a short publish")
	if flags.Has(wire.FlagAcked) {
		if len(b) < 9 {
			return 0, nil, short
		}
		id, b = binary.BigEndian.Uint64(b), b[9:]
	}
	for range 3 { // tenant, namespace, stream
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			return 0, nil, short
		}
		b = b[2+int(binary.BigEndian.Uint16(b)):]
	}
	if len(b) < 4 {
		return 0, nil, short
	}
	return id, b, nil
}
