package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// malformedRate is how many malformed peers come in a second.
	malformedRate = 3
	// malformedOpen is how many may be there at once: some stay until the server ends them.
	malformedOpen = 48
	// malformedLimit is how long the server may take to end a stream or a connection that is over; a connection on which nobody
	// authenticates has 10 s of its own.
	malformedLimit = 25 * time.Second
)

// malformedPeer does one thing that no client does. An error says that the server did not do its part.
type malformedPeer struct {
	name string
	act  func(ctx context.Context, t nativeTarget, random *rand.Rand) error
}

var malformedPeers = []malformedPeer{
	{"datagrams", sendGarbage},
	{"silent", stayUnknown},
	{"other protocol", offerOther},
	{"vanished", vanish},
	{"token", onStream(false, wrongToken)},
	{"tenant", onStream(false, otherTenant)},
	{"unauthenticated", onStream(false, tooEarly)},
	{"header", onStream(false, throwAndEnd(badHeader))},
	{"length", onStream(false, throwAndEnd(hugeLength))},
	{"header inside", onStream(true, throwAndEnd(badHeader))},
	{"length inside", onStream(true, throwAndEnd(hugeLength))},
	{"garbage", onStream(false, throwAndEnd(randomBytes))},
	{"garbage inside", onStream(true, throwAndEnd(randomBytes))},
	{"flags", onStream(true, throwAndEnd(unknownFlags))},
	{"message", onStream(true, sayNonsense)},
	{"count", onStream(true, falseCount)},
	{"cut", onStream(true, cutFrame)},
	{"reset", onStream(true, resetInFrame)},
	{"drip", onStream(true, drip)},
	{"many streams", manyStreams},
	{"deaf", subscribeAndLeave},
}

// malformed lets malformed peers come until stop ends, and returns how many came.
func (c *nativeCampaign) malformed(ctx, stop context.Context, random *rand.Rand) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, malformedOpen)
	tick := time.NewTicker(time.Second / malformedRate)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-stop.Done():
			return
		}
		peer := malformedPeers[n%len(malformedPeers)]
		select {
		case room <- struct{}{}:
		case <-stop.Done():
			return
		}
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(n)))
		wg.Go(func() {
			defer func() { <-room }()
			began := time.Now()
			err := peer.act(ctx, c.target, own)
			c.hostile.Add(1)
			if err != nil && ctx.Err() == nil && !c.inOutage(began) {
				c.check.violate("a malformed peer (%s), after %v: %v", peer.name, time.Since(began).Round(time.Millisecond), err)
			}
		})
	}
}

// sendGarbage sends datagrams that are nothing, or the beginning of something.
func sendGarbage(ctx context.Context, t nativeTarget, random *rand.Rand) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for range 20 {
		b := make([]byte, 1+random.IntN(4096))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		switch random.IntN(4) {
		case 0: // a long header of version 1, perhaps a first packet
			if len(b) > 6 {
				b[0] |= 0xC0
				binary.BigEndian.PutUint32(b[1:], 1)
				b[5] %= 21
			}
		case 1: // of a version that nobody knows
			b[0] |= 0xC0
		case 2: // a short header
			b[0] = b[0]&0x3F | 0x40
		}
		if _, err := conn.Write(b); err != nil {
			return nil // an ICMP message: the server is away
		}
	}
	return nil
}

// stayUnknown connects and never authenticates: the server closes the connection and says why.
func stayUnknown(ctx context.Context, t nativeTarget, _ *rand.Rand) error {
	conn, err := t.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	limit := time.NewTimer(malformedLimit)
	defer limit.Stop()
	select {
	case <-conn.Context().Done():
	case <-limit.C:
		return errors.New("still connected")
	case <-ctx.Done():
		return nil
	}
	var closed *quic.ApplicationError
	if err := context.Cause(conn.Context()); !errors.As(err, &closed) || !closed.Remote || closed.ErrorCode != 1 {
		return fmt.Errorf("closed with %w", err)
	}
	return nil
}

// offerOther offers another protocol alone.
func offerOther(ctx context.Context, t nativeTarget, random *rand.Rand) error {
	conf, err := t.tls()
	if err != nil {
		return err
	}
	conf.NextProtos = []string{[]string{"h3", "felix-internal/1", "felix/2"}[random.IntN(3)]}
	conn, err := quic.DialAddr(ctx, t.addr, conf, &quic.Config{HandshakeIdleTimeout: nativeLimit})
	if err == nil {
		_ = conn.CloseWithError(0, "")
		return fmt.Errorf("a client of %s was let in", conf.NextProtos[0])
	}
	return nil
}

// vanish connects, subscribes to nothing, and is gone without a word: half of the connection stays until the server notices.
func vanish(ctx context.Context, t nativeTarget, _ *rand.Rand) error {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: udp}
	conf, err := t.tls()
	if err != nil {
		return errors.Join(err, udp.Close())
	}
	to, err := net.ResolveUDPAddr("udp", t.addr)
	if err != nil {
		return errors.Join(err, udp.Close())
	}
	dialCtx, cancel := context.WithTimeout(ctx, nativeLimit)
	defer cancel()
	conn, err := transport.Dial(dialCtx, to, conf, &quic.Config{})
	if err != nil {
		return errors.Join(err, udp.Close())
	}
	_, err = t.open(ctx, conn, offeredFeatures)
	_ = udp.Close() // nothing is said any more
	_ = transport.Close()
	return err
}

// onStream gives a peer a stream of a connection of its own, authenticated or not.
func onStream(
	known bool, act func(t nativeTarget, s *nativeStream, random *rand.Rand) error,
) func(context.Context, nativeTarget, *rand.Rand) error {
	return func(ctx context.Context, t nativeTarget, random *rand.Rand) error {
		conn, err := t.dial(ctx, 0)
		if err != nil {
			return err
		}
		defer func() { _ = conn.CloseWithError(0, "") }()
		var s *nativeStream
		if known {
			s, err = t.open(ctx, conn, offeredFeatures)
		} else {
			s, err = openRaw(ctx, conn)
		}
		if err != nil {
			return err
		}
		return act(t, s, random)
	}
}

// mustEnd reads whatever the server still says, up to the end of the stream.
func mustEnd(s *nativeStream) error {
	for {
		_, _, err := s.frame(malformedLimit)
		var (
			reset *quic.StreamError
			gone  *quic.ApplicationError
		)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.As(err, &reset), errors.As(err, &gone):
			return nil
		default:
			return fmt.Errorf("the stream was not ended: %w", err)
		}
	}
}

// mustRefuse wants an error of a code, and the end of the stream.
func mustRefuse(s *nativeStream, reply nativeReply, err error, codes ...string) error {
	if err != nil {
		return err
	}
	for _, code := range codes {
		if reply.Type == "error" && (reply.Code == code || reply.Code == "") {
			return mustEnd(s)
		}
	}
	return fmt.Errorf("answered with %w", reply.refusal())
}

func wrongToken(t nativeTarget, s *nativeStream, random *rand.Rand) error {
	token, err := t.read("token")
	if err != nil {
		return err
	}
	parts := strings.Split(token, ".")
	switch i := random.IntN(len(parts) + 2); i {
	case len(parts):
		token = ""
	case len(parts) + 1:
		token = strings.Repeat("a", 30_000)
	default:
		// Not the last character: its low bits may mean nothing.
		b := []byte(parts[i])
		at := random.IntN(len(b) - 1)
		if b[at]++; b[at] == 'Z'+1 || b[at] == 'z'+1 || b[at] == '9'+1 {
			b[at] = 'B'
		}
		parts[i] = string(b)
		token = strings.Join(parts, ".")
	}
	reply, err := s.ask(authMessage(nativeTenant, token, offeredFeatures))
	return mustRefuse(s, reply, err, "unauthenticated")
}

func otherTenant(t nativeTarget, s *nativeStream, _ *rand.Rand) error {
	token, err := t.read("token")
	if err != nil {
		return err
	}
	reply, err := s.ask(authMessage("somebody-else", token, offeredFeatures))
	return mustRefuse(s, reply, err, "unauthenticated", "forbidden")
}

// tooEarly asks for something before it has said who it is.
func tooEarly(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	if random.IntN(2) == 0 {
		reply, err := s.ask(map[string]any{"type": "topology"})
		return mustRefuse(s, reply, err, "unauthenticated")
	}
	p := nativePublish{request: 1, stream: streamOne, payloads: [][]byte{[]byte("not let in")}}
	if _, err := s.out.Write(p.appendTo(nil)); err != nil {
		return err
	}
	return mustEnd(s)
}

// throwAndEnd writes bytes and wants the stream to end.
func throwAndEnd(bytes func(random *rand.Rand) []byte) func(nativeTarget, *nativeStream, *rand.Rand) error {
	return func(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
		// The server may end the stream before all of it is written.
		_, _ = s.out.Write(bytes(random))
		return mustEnd(s)
	}
}

func badHeader(random *rand.Rand) []byte {
	h := appendHeader(nil, 0, 2)
	h[random.IntN(6)] ^= 1 << random.IntN(8) // of the magic or of the version
	return append(h, "{}"...)
}

func hugeLength(random *rand.Rand) []byte {
	sizes := []uint32{nativeMaxFrame + 1, 1 << 31, 1<<32 - 1}
	h := appendHeader(nil, []uint16{0, 0x0001, frameAcked}[random.IntN(3)], 0)
	binary.BigEndian.PutUint32(h[8:], sizes[random.IntN(len(sizes))])
	return append(h, make([]byte, random.IntN(1000))...)
}

func randomBytes(random *rand.Rand) []byte {
	b := make([]byte, nativeHeader+random.IntN(3000))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	b[0] &= 0x7F // no frame begins so
	b[1] |= 0x80
	return b
}

func unknownFlags(random *rand.Rand) []byte {
	flags := []uint16{0x8000, 0x0100, 0x0004, 0x0010, 0x8009, 0x0041 | 0x0100}
	return append(appendHeader(nil, flags[random.IntN(len(flags))], 4), 0, 0, 0, 0)
}

func brokenMessage(random *rand.Rand) []byte {
	texts := []string{
		"", "{", "null", "[]", "[[[[[[[[", `"subscribe"`, "\xff\xfe", `{"type":`, `{"type":1}`, `{"type":"subscribe"}`, strings.Repeat("[", 60_000),
		`{"type":"subscribe","tenant_id":"default","namespace":"default","stream":"x","shard":4294967296}`,
		`{"type":"publish","tenant_id":"default","namespace":"default","stream":"x","payload":"not base64!","request_id":1,"ack":"per_batch"}`,
		`{"type":"publish","type":"publish"}`, `{"type":"commit","changes":[` + strings.Repeat(`{},`, 5000) + `{}]}`,
	}
	text := texts[random.IntN(len(texts))]
	return append(appendHeader(nil, 0, len(text)), text...)
}

// sayNonsense says something that is no message, or none that makes sense, and ends its side. What the server could read it may answer
// and wait for more, so it is the end of the stream that it must follow.
func sayNonsense(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	_, _ = s.out.Write(brokenMessage(random)) // the server may end the stream before all of it is written
	_ = s.out.Close()
	return mustEnd(s)
}

// falseCount publishes with counts and lengths beyond the bytes. What can be told apart is answered as refused, or ends the stream.
func falseCount(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	p := nativePublish{request: 7, stream: streamOne, payloads: [][]byte{[]byte("x"), []byte("y")}}
	frame := p.appendTo(nil)
	// The count stands before two payloads of five bytes each; the first length after it.
	at := len(frame) - 10 - 4*random.IntN(2)
	binary.BigEndian.PutUint32(frame[at:], []uint32{3, 1 << 20, 1<<32 - 1}[random.IntN(3)])
	if _, err := s.out.Write(frame); err != nil {
		return err
	}
	a, err := s.answer(malformedLimit)
	if err == nil && (a.err == nil || a.request != 7) {
		return fmt.Errorf("a publish with a false count was answered with %+v", a)
	}
	return nil
}

// cutFrame ends its side within a frame.
func cutFrame(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	p := nativePublish{request: 7, stream: streamOne, payloads: [][]byte{make([]byte, 500)}}
	frame := p.appendTo(nil)
	if _, err := s.out.Write(frame[:1+random.IntN(len(frame)-1)]); err != nil {
		return err
	}
	if err := s.out.Close(); err != nil {
		return err
	}
	return mustEnd(s)
}

// resetInFrame gives its stream up within a frame.
func resetInFrame(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	p := nativePublish{request: 7, stream: streamOne, payloads: [][]byte{make([]byte, 100_000)}}
	frame := p.appendTo(nil)
	if _, err := s.out.Write(frame[:1+random.IntN(len(frame)-1)]); err != nil {
		return err
	}
	s.out.CancelWrite(quic.StreamErrorCode(random.Uint32()))
	return mustEnd(s)
}

// drip sends a frame byte by byte and gives up before its end.
func drip(_ nativeTarget, s *nativeStream, random *rand.Rand) error {
	p := nativePublish{request: 7, stream: streamOne, payloads: [][]byte{make([]byte, 50)}}
	frame := p.appendTo(nil)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, b := range frame[:1+random.IntN(len(frame)-1)] {
		<-tick.C
		if _, err := s.out.Write([]byte{b}); err != nil {
			return err
		}
	}
	return nil
}

// manyStreams opens many streams, says half a word on each, and leaves.
func manyStreams(ctx context.Context, t nativeTarget, _ *rand.Rand) error {
	conn, err := t.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	for range 200 {
		s, err := conn.OpenStream()
		if err != nil {
			return nil // no more credit
		}
		if _, err := s.Write([]byte("FLX1\x00")); err != nil {
			return err
		}
	}
	return nil
}

// subscribeAndLeave subscribes often, reads nothing, and leaves.
func subscribeAndLeave(ctx context.Context, t nativeTarget, random *rand.Rand) error {
	conn, err := t.dial(ctx, smallWindow)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(quic.ApplicationErrorCode(random.Uint32()), "left") }()
	for range 20 {
		s, err := t.open(ctx, conn, offeredFeatures)
		if err != nil {
			return err
		}
		reply, err := s.ask(map[string]any{
			"type": "subscribe", "tenant_id": nativeTenant, "namespace": nativeNamespace, "stream": streamQuiet, "start": "earliest",
		})
		if err != nil {
			return err
		}
		if reply.Type != "subscribed" {
			return reply.refusal()
		}
		if err := s.out.Close(); err != nil {
			return err
		}
	}
	return nil
}
