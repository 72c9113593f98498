package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
)

// What the native protocol has that the campaign needs (docs/native-protocol.md).
const (
	nativeMagic     = 0x464C5831
	nativeHeader    = 12
	nativeMaxFrame  = 16 << 20
	nativeProtocol  = "felix/1"
	nativeTenant    = "default"
	nativeNamespace = "default"

	frameAcked      = 0x0009
	frameKeyed      = 0x0040
	frameIdempotent = 0x0100

	// What an ordinary client offers; the bit without which it is not told that it fell behind.
	offeredFlags    = 0x1FFF
	offeredFeatures = 0xFB77FFFF
	offerLagged     = 0x00200000
)

// nativeLimit is how long an answer may take. A publish may wait for room and for a slow disk, so it is generous.
const nativeLimit = 30 * time.Second

// nativeTarget is where a server listens, and what its development profile gives its clients.
type nativeTarget struct {
	addr, dir string // dir holds ca.pem, token and api-token
}

// read reads a file of the profile. The server renews tokens when it starts, so nothing of them is kept.
func (t nativeTarget) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.dir, name))
	return strings.TrimSpace(string(b)), err
}

// tls is a client's configuration that trusts the profile's authority alone.
func (t nativeTarget) tls() (*tls.Config, error) {
	pem, err := t.read("ca.pem")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("no certificate in ca.pem")
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{nativeProtocol}}, nil
}

// dial connects. window is what an event stream may carry unread; 0 leaves it to the library.
func (t nativeTarget) dial(ctx context.Context, window uint64) (*quic.Conn, error) {
	conf, err := t.tls()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nativeLimit)
	defer cancel()
	return quic.DialAddr(ctx, t.addr, conf, &quic.Config{
		KeepAlivePeriod: 2 * time.Second, MaxIdleTimeout: 6 * time.Second, MaxIncomingUniStreams: 64,
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
	})
}

// nativeReply is any message of the server; the fields that its type has.
type nativeReply struct {
	Type       string          `json:"type"`
	Message    string          `json:"message"`
	Code       string          `json:"code"`
	Retry      string          `json:"retry"`
	RequestID  uint64          `json:"request_id"`
	ProducerID uint64          `json:"producer_id"`
	Offset     *int64          `json:"offset"`
	ID         uint64          `json:"subscription_id"`
	Start      *int64          `json:"start_offset"`
	Live       *int64          `json:"live_offset"`
	Capacity   int             `json:"queue_capacity"`
	Reason     json.RawMessage `json:"reason"`
	Available  int64           `json:"available"`
	ResumeFrom *int64          `json:"resume_from"`
}

// refusal is the error that a reply is.
func (r nativeReply) refusal() error {
	return &nativeRefusal{code: r.Code, retry: r.Retry, text: fmt.Sprintf("%s %s %s", r.Type, r.Message, r.Reason)}
}

// nativeRefusal is what the server refused something with.
type nativeRefusal struct{ code, retry, text string }

func (r *nativeRefusal) Error() string { return fmt.Sprintf("%s (%s): %s", r.code, r.retry, r.text) }

// nativeStream is a stream of either kind.
type nativeStream struct {
	in  *bufio.Reader
	out *quic.Stream // nil for an event stream
	set func(time.Time) error
	buf []byte
}

// open opens a stream and authenticates it.
func (t nativeTarget) open(ctx context.Context, conn *quic.Conn, features uint32) (*nativeStream, error) {
	token, err := t.read("token")
	if err != nil {
		return nil, err
	}
	s, err := openRaw(ctx, conn)
	if err != nil {
		return nil, err
	}
	reply, err := s.ask(authMessage(nativeTenant, token, features))
	if err != nil {
		return nil, err
	}
	if reply.Type != "auth_ok" {
		return nil, reply.refusal()
	}
	return s, nil
}

// openRaw opens a stream and says nothing on it.
func openRaw(ctx context.Context, conn *quic.Conn) (*nativeStream, error) {
	ctx, cancel := context.WithTimeout(ctx, nativeLimit)
	defer cancel()
	q, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return &nativeStream{in: bufio.NewReader(q), out: q, set: q.SetReadDeadline}, nil
}

func authMessage(tenant, token string, features uint32) map[string]any {
	return map[string]any{
		"type": "auth", "tenant_id": tenant, "token": token, "client_flags": offeredFlags, "client_features": features, "client_features_hi": 1,
	}
}

// ask sends a message and reads the message that answers it.
func (s *nativeStream) ask(m map[string]any) (nativeReply, error) {
	if err := s.say(m); err != nil {
		return nativeReply{}, err
	}
	return s.hear(nativeLimit)
}

func (s *nativeStream) say(m map[string]any) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(appendHeader(nil, 0, len(payload)), payload...))
	return err
}

// hear reads a message.
func (s *nativeStream) hear(limit time.Duration) (nativeReply, error) {
	var r nativeReply
	flags, payload, err := s.frame(limit)
	if err != nil {
		return r, err
	}
	if flags != 0 {
		return r, fmt.Errorf("a frame with flags 0x%04x where a message belongs", flags)
	}
	return r, json.Unmarshal(payload, &r)
}

// frame reads a frame. The payload is good until the next call.
func (s *nativeStream) frame(limit time.Duration) (uint16, []byte, error) {
	if err := s.set(time.Now().Add(limit)); err != nil {
		return 0, nil, err
	}
	var h [nativeHeader]byte
	if _, err := io.ReadFull(s.in, h[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(h[8:])
	if binary.BigEndian.Uint32(h[:]) != nativeMagic || binary.BigEndian.Uint16(h[4:]) != 1 || size > nativeMaxFrame {
		return 0, nil, fmt.Errorf("the server sent a header %x", h)
	}
	if uint32(cap(s.buf)) < size {
		s.buf = make([]byte, size)
	}
	s.buf = s.buf[:size]
	_, err := io.ReadFull(s.in, s.buf)
	return binary.BigEndian.Uint16(h[6:]), s.buf, err
}

func appendHeader(b []byte, flags uint16, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, nativeMagic)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint16(b, flags)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// nativePublish is an acknowledged publish in the binary form.
type nativePublish struct {
	request            uint64
	stream             string
	key                []byte // nil for none
	idempotent         bool
	producer, sequence uint64
	payloads           [][]byte
}

func (p nativePublish) appendTo(b []byte) []byte {
	flags := uint16(frameAcked)
	body := binary.BigEndian.AppendUint64(nil, p.request)
	body = append(body, 2) // one answer for all
	if p.idempotent {
		flags |= frameIdempotent
		body = binary.BigEndian.AppendUint64(body, p.producer)
		body = binary.BigEndian.AppendUint64(body, p.sequence)
	}
	if p.key != nil {
		flags |= frameKeyed
		body = appendText(body, string(p.key))
	}
	for _, name := range []string{nativeTenant, nativeNamespace, p.stream} {
		body = appendText(body, name)
	}
	body = binary.BigEndian.AppendUint32(body, uint32(len(p.payloads)))
	for _, v := range p.payloads {
		body = binary.BigEndian.AppendUint32(body, uint32(len(v)))
		body = append(body, v...)
	}
	return append(appendHeader(b, flags, len(body)), body...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// nativeAnswer is what became of a publish.
type nativeAnswer struct {
	request uint64
	offset  int64 // of the first record; -1 if there is none
	err     error // a *nativeRefusal
}

// answer reads the answer of a publish, in either form.
func (s *nativeStream) answer(limit time.Duration) (nativeAnswer, error) {
	flags, payload, err := s.frame(limit)
	if err != nil {
		return nativeAnswer{}, err
	}
	if flags != 0 {
		return parseAck(flags, payload)
	}
	var r nativeReply
	if err := json.Unmarshal(payload, &r); err != nil {
		return nativeAnswer{}, err
	}
	a := nativeAnswer{request: r.RequestID, offset: -1}
	switch r.Type {
	case "publish_ok":
		if r.Offset != nil {
			a.offset = *r.Offset
		}
	case "publish_error", "publish_refused":
		a.err = r.refusal()
	default:
		return a, fmt.Errorf("%s where the answer of a publish belongs: %w", r.Type, r.refusal())
	}
	return a, nil
}

// Parts of a publish ack, by its flags.
const (
	ackBinary = 0x0010
	ackOwner  = 0x0080
	ackCode   = 0x0200
	ackDetail = 0x0400
	ackOffset = 0x1000
)

var (
	ackCodes = []string{
		"", "unauthenticated", "forbidden", "not_found", "invalid_request", "shard_unavailable", "not_leader", "quorum_timeout", "leadership_lost",
		"unacknowledged", "overloaded", "limit_exceeded", "draining", "internal", "storage",
	}
	ackClasses = []string{"", "retry", "retry_after", "redirect", "outcome_unknown", "fatal"}
)

// parseAck reads a binary publish ack.
func parseAck(flags uint16, payload []byte) (nativeAnswer, error) {
	r := nativeReader{b: payload}
	status, request, text := r.u8(), r.u64(), r.text()
	a := nativeAnswer{request: request, offset: -1}
	refused := &nativeRefusal{text: text}
	if flags&ackCode != 0 {
		refused.code, refused.retry = nth(ackCodes, int(r.u16())), nth(ackClasses, int(r.u8()))
	}
	if flags&ackDetail != 0 {
		refused.text += " " + r.text()
		_ = r.u64() // how long to wait
	}
	if flags&ackOwner != 0 {
		_, _, _ = r.text(), r.text(), r.u64()
	}
	if flags&ackOffset != 0 {
		a.offset = int64(r.u64())
	}
	if status != 0 {
		a.err = refused
	}
	if r.bad || len(r.b) > 0 || flags&ackBinary == 0 || status > 1 {
		return a, fmt.Errorf("an ack with flags 0x%04x: %x", flags, payload)
	}
	return a, nil
}

func nth(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("number %d", i)
}

// nativeReader takes fields from a payload; what is not there makes it bad.
type nativeReader struct {
	b   []byte
	bad bool
}

func (r *nativeReader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(n, 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *nativeReader) u8() byte     { return r.take(1)[0] }
func (r *nativeReader) u16() uint16  { return binary.BigEndian.Uint16(r.take(2)) }
func (r *nativeReader) u32() uint32  { return binary.BigEndian.Uint32(r.take(4)) }
func (r *nativeReader) u64() uint64  { return binary.BigEndian.Uint64(r.take(8)) }
func (r *nativeReader) text() string { return string(r.take(int(r.u16()))) }

// Parts of an event batch, by its flags.
const (
	eventShared  = 0x0004
	eventOffsets = 0x0020
	eventSkipped = 0x0800
)

// nativeEvents is a batch of events. Payloads are good until the next frame is read.
type nativeEvents struct {
	base    int64 // -1 without offsets
	skipped int64
	values  [][]byte
}

// parseEvents reads an event batch.
func parseEvents(flags uint16, payload []byte) (nativeEvents, error) {
	e := nativeEvents{base: -1}
	r := nativeReader{b: payload}
	if flags&eventOffsets != 0 {
		e.base = int64(r.u64())
	}
	if flags&eventSkipped != 0 {
		e.skipped = int64(r.u64())
	}
	count := r.u32()
	for i := uint32(0); i < count && !r.bad; i++ {
		e.values = append(e.values, r.take(int(r.u32())))
	}
	if r.bad || len(r.b) > 0 || flags&^(eventShared|eventOffsets|eventSkipped) != 0 || flags&eventShared == 0 {
		return e, fmt.Errorf("a batch of events with flags 0x%04x, %d events: %.100x", flags, count, payload)
	}
	return e, nil
}

// nativeSubscription is a subscription on a connection of its own.
type nativeSubscription struct {
	conn        *quic.Conn
	events      *nativeStream
	start, live int64 // -1 without offsets
	capacity    int
}

// subscribeRequest is where a subscription begins and how.
type subscribeRequest struct {
	stream   string
	shard    int32
	start    any    // "earliest", "latest" or {"offset": n}
	capacity int    // of the server's queue; 0 is the server's own
	window   uint64 // of flow control
	features uint32
}

// cursorError is the refusal of an offset.
type cursorError struct {
	reason    string
	available int64
}

func (e *cursorError) Error() string { return fmt.Sprintf("%s, available %d", e.reason, e.available) }

// subscribe connects and subscribes as the upstream client does: the sending side ends at once.
func (t nativeTarget) subscribe(ctx context.Context, o subscribeRequest) (sub *nativeSubscription, err error) {
	conn, err := t.dial(ctx, o.window)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.CloseWithError(0, "")
		}
	}()
	s, err := t.open(ctx, conn, o.features)
	if err != nil {
		return nil, err
	}
	m := map[string]any{
		"type": "subscribe", "tenant_id": nativeTenant, "namespace": nativeNamespace, "stream": o.stream, "start": o.start, "shard": o.shard,
	}
	if o.capacity > 0 {
		m["queue_capacity"] = o.capacity
	}
	if err := s.say(m); err != nil {
		return nil, err
	}
	if err := s.out.Close(); err != nil {
		return nil, err
	}
	reply, err := s.hear(nativeLimit)
	if err != nil {
		return nil, err
	}
	switch reply.Type {
	case "subscribed":
	case "subscribe_cursor_error":
		return nil, &cursorError{strings.Trim(string(reply.Reason), `"`), reply.Available}
	default:
		return nil, reply.refusal()
	}
	acceptCtx, cancel := context.WithTimeout(ctx, nativeLimit)
	defer cancel()
	q, err := conn.AcceptUniStream(acceptCtx)
	if err != nil {
		return nil, err
	}
	sub = &nativeSubscription{conn: conn, start: -1, live: -1, capacity: reply.Capacity}
	sub.events = &nativeStream{in: bufio.NewReader(q), set: q.SetReadDeadline}
	hello, err := sub.events.hear(nativeLimit)
	if err == nil && (hello.Type != "event_stream_hello" || hello.ID != reply.ID) {
		err = fmt.Errorf("the event stream of subscription %d begins with %s of %d", reply.ID, hello.Type, hello.ID)
	}
	if reply.Start != nil && reply.Live != nil {
		sub.start, sub.live = *reply.Start, *reply.Live
	}
	return sub, err
}

// next reads the next batch of events, or the message that ends the stream.
func (s *nativeSubscription) next(limit time.Duration) (nativeEvents, *nativeReply, error) {
	flags, payload, err := s.events.frame(limit)
	if err != nil {
		return nativeEvents{}, nil, err
	}
	if flags != 0 {
		e, err := parseEvents(flags, payload)
		return e, nil, err
	}
	var r nativeReply
	err = json.Unmarshal(payload, &r)
	return nativeEvents{}, &r, err
}

func (s *nativeSubscription) close() { _ = s.conn.CloseWithError(0, "") }
