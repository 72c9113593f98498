package native

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
)

// stub is a server that says what a test wants it to, to see what the client makes of it. It authenticates everybody, answers discovery
// for streams of one shard, and notes what the client sends.
type stub struct {
	notebook
	addr, caFile string
	accepts      map[string]any // fields of auth_ok

	mu   sync.Mutex
	code uint16         // guarded by mu: of failed acks; 0: publishes succeed
	last map[string]any // guarded by mu: the last frame of event streams; nil: they stay open
	ends bool           // guarded by mu: publishes without an ack are answered with an error and the stream's end
	wg   sync.WaitGroup
}

// newStub starts a stub that advertises features, both words, beside all flags that the client offers.
func newStub(t *testing.T, features, high uint32) *stub {
	t.Helper()
	p := &stub{caFile: filepath.Join(t.TempDir(), "ca.pem")}
	p.accepts = map[string]any{"type": "auth_ok", "server_flags": 0x7FFF, "server_features": features}
	if high != 0 {
		p.accepts["server_features_hi"] = high
	}
	pair, err := newCertificate(p.caFile)
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p.addr = udp.LocalAddr().String()
	transport := &quic.Transport{Conn: udp}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		return configFor(h, pair), nil
	}}
	ln, err := transport.Listen(conf, relayConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context() // over before the cleanup
	p.wg.Go(func() {
		for {
			c, err := ln.Accept(ctx)
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.serve(ctx, c) })
		}
	})
	t.Cleanup(func() {
		if err := errors.Join(ln.Close(), transport.Close(), udp.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("close the stub: %v", err)
		}
		p.wg.Wait()
	})
	return p
}

// connection is what a client needs to connect. Its token means nothing here.
func (p *stub) connection(name string) request {
	return request{"client": name, "addrs": p.addr, "token": "any", "ca_file": p.caFile}
}

// fail has publishes fail with a code from now on.
func (p *stub) fail(code uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = code
}

// end has the next event streams end with a frame.
func (p *stub) end(last map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = last
}

// endStreams has publishes without an ack end their stream from now on.
func (p *stub) endStreams() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = true
}

func (p *stub) serve(ctx context.Context, c *quic.Conn) {
	defer func() { _ = c.CloseWithError(0, "") }()
	for n := 1; ; n++ {
		s, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		p.wg.Go(func() { p.stream(c, s, tap{book: &p.notebook, like: sighting{conn: 1, stream: n, from: fromClient}}) })
	}
}

// stream answers the frames of one stream.
func (p *stub) stream(c *quic.Conn, s *quic.Stream, t tap) {
	defer func() { _ = s.Close() }()
	for {
		head := make([]byte, frameHeader)
		if _, err := io.ReadFull(s, head); err != nil {
			return
		}
		payload := make([]byte, min(int(binary.BigEndian.Uint32(head[8:])), tapKeeps))
		if _, err := io.ReadFull(s, payload); err != nil {
			return
		}
		t.pass(head)
		t.pass(payload)
		reply, more := p.answer(c, binary.BigEndian.Uint16(head[6:]), payload)
		if _, err := s.Write(reply); err != nil || !more {
			s.CancelRead(0)
			return
		}
	}
}

// answer is the frame that answers another, nil for none, and whether the stream goes on.
func (p *stub) answer(c *quic.Conn, flags uint16, payload []byte) (reply []byte, more bool) {
	p.mu.Lock()
	code, last, ends := p.code, p.last, p.ends
	p.mu.Unlock()
	switch {
	case flags&0x0008 != 0:
		return ackFrame(payload[:8], code), true
	case flags != 0 && ends:
		return jsonFrame(map[string]any{"type": "error", "message": "as told", "code": "invalid_request", "retry": "fatal"}), false
	case flags != 0:
		return nil, true
	}
	return jsonFrame(replyTo(c, p.accepts, last, payload)), true
}

// replyTo is the answer to a message, nil for none.
func replyTo(c *quic.Conn, accepts, last map[string]any, payload []byte) map[string]any {
	kind, fields, _ := message(payload)
	if kind == "publish_width" {
		return nil
	}
	reply := map[string]any{"request_id": fields["request_id"]}
	switch kind {
	case "auth":
		return accepts
	case "topology":
		reply["type"], reply["brokers"] = "topology_view", []any{}
		delete(reply, "request_id")
	case "stream_shards":
		reply["type"], reply["shards"] = "stream_shards_view", 1
	case "shard_owners":
		reply["type"], reply["owners"] = "shard_owners_view", []any{map[string]any{"shard": 0, "generation": 0}}
	case "subscribe":
		if err := events(c, last); err != nil {
			return map[string]any{"type": "error", "message": err.Error()}
		}
		return map[string]any{"type": "subscribed", "subscription_id": 1, "start_offset": 0, "live_offset": 0}
	case "group_poll":
		reply["type"] = "group_records"
		reply["records"] = []any{map[string]any{"offset": 5, "payload": "eA==", "attempts": 2}}
	case "group_nack":
		reply["type"] = "cache_ok"
	default:
		return map[string]any{"type": "error", "message": "the stub knows no " + kind, "code": "internal", "retry": "fatal"}
	}
	return reply
}

// events opens an event stream, with its last frame if there is one.
func events(c *quic.Conn, last map[string]any) error {
	out, err := c.OpenUniStream()
	if err != nil {
		return err
	}
	b := jsonFrame(map[string]any{"type": "event_stream_hello", "subscription_id": 1})
	if last == nil {
		_, err := out.Write(b)
		return err
	}
	_, err = out.Write(append(b, jsonFrame(last)...))
	return errors.Join(err, out.Close())
}

// ackFrame answers an acknowledged publish.
func ackFrame(id []byte, code uint16) []byte {
	const reason = "as told"
	if code == 0 {
		return frame(0x0010, append(append([]byte{0}, id...), 0, 0))
	}
	b := append([]byte{1}, id...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(reason)))
	b = append(b, reason...)
	b = binary.BigEndian.AppendUint16(b, code)
	return frame(0x0210, append(b, 5)) // fatal
}

func jsonFrame(fields map[string]any) []byte {
	if fields == nil {
		return nil
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return frame(0, b)
}

func frame(flags uint16, payload []byte) []byte {
	b := append([]byte(frameMagic), 0, 1)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}
