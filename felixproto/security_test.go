package felixproto

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// The numbers of these tests are the rows of the security rules, section 13.1 and 13.2. Rows about tokens themselves are in package auth.

// TestHandshakes is rows 1 to 3.
func TestHandshakes(t *testing.T) {
	for _, c := range []struct {
		row     string
		require bool
		change  func(*tls.Config)
		ok      bool
		chosen  string
	}{
		{"2 another protocol", false, func(c *tls.Config) { c.NextProtos = []string{"h3"} }, false, ""},
		{"2 ours among others", false, func(c *tls.Config) { c.NextProtos = []string{"h3", Protocol} }, true, Protocol},
		{"2 that between servers", false, func(c *tls.Config) { c.NextProtos = []string{"felix-internal/1"} }, false, ""},
		{"3 none", false, func(c *tls.Config) { c.NextProtos = nil }, true, ""},
		{"3 none where it is required", true, func(c *tls.Config) { c.NextProtos = nil }, false, ""},
		{"3 ours where it is required", true, nil, true, Protocol},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := newRig(t, rigOptions{server: func(o *Options) { o.RequireALPN = c.require }})
			if c.change == nil {
				c.change = func(*tls.Config) {}
			}
			conn, err := r.dial(c.change)
			if (err == nil) != c.ok {
				t.Fatalf("handshake: %v", err)
			}
			if err != nil {
				return
			}
			if got := conn.q.ConnectionState().TLS.NegotiatedProtocol; got != c.chosen {
				t.Errorf("protocol %q, want %q", got, c.chosen)
			}
			conn.open("admin")
		})
	}
	t.Run("1 garbage datagrams", func(t *testing.T) {
		r := newRig(t, rigOptions{})
		udp, err := net.DialUDP("udp4", nil, r.addr)
		must(t, err)
		for i := range 200 {
			_, err := udp.Write([]byte(strings.Repeat("\xff\x00garbage", 1+i)))
			must(t, err)
		}
		must(t, udp.Close())
		r.connect().open("admin")
	})
}

// TestConnectionCaps is rows 6 and 7.
func TestConnectionCaps(t *testing.T) {
	for _, c := range []struct {
		row  string
		conf func(*Options)
	}{
		{"6 in all", func(o *Options) { o.MaxConnections = 2 }},
		{"7 of an address", func(o *Options) { o.MaxConnectionsPerAddress = 2 }},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := newRig(t, rigOptions{server: c.conf})
			first := r.connect()
			second := r.connect()
			_, err := r.dial()
			var refused *quic.TransportError
			if !errors.As(err, &refused) || refused.ErrorCode != quic.ConnectionRefused {
				t.Fatalf("third connection: %v", err)
			}
			second.open("admin")
			must(t, first.q.CloseWithError(0, ""))
			eventually(t, func() bool {
				_, err := r.dial()
				return err == nil
			})
		})
	}
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 12000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it never came")
}

// TestAuthDeadline is rows 8, 9 and 16.
func TestAuthDeadline(t *testing.T) {
	short := func(o *Options) { o.AuthTimeout = time.Second }
	closed := func(t *testing.T, c *rigConn) {
		t.Helper()
		select {
		case <-c.q.Context().Done():
		case <-time.After(time.Minute):
			t.Fatal("the connection stays")
		}
		var app *quic.ApplicationError
		if err := context.Cause(c.q.Context()); !errors.As(err, &app) || app.ErrorCode != 1 || app.ErrorMessage != "authentication timeout" {
			t.Errorf("closed with %v", err)
		}
	}
	t.Run("8 no stream", func(t *testing.T) {
		closed(t, newRig(t, rigOptions{server: short}).connect())
	})
	t.Run("9 streams that never authenticate", func(t *testing.T) {
		c := newRig(t, rigOptions{server: short}).connect()
		for range 3 {
			c.raw().write([]byte("FLX1"))
		}
		closed(t, c)
	})
	t.Run("16 one that stalls beside one that did", func(t *testing.T) {
		c := newRig(t, rigOptions{server: func(o *Options) { o.AuthTimeout = 5 * time.Second }}).connect()
		stalled := c.raw()
		stalled.write(wire.AppendHeader(nil, wire.Header{Length: 60000}))
		good := c.open("admin")
		stalled.ended()
		good.send(&wire.Topology{})
		expect[*wire.TopologyView](good)
	})
}

// TestUnauthenticatedStreamsWait is row 10.
func TestUnauthenticatedStreamsWait(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.PreAuthStreams = 2 }})
	c := r.connect()
	var held []*rigStream
	for range 2 {
		s := c.raw()
		s.write([]byte("FLX"))
		held = append(held, s)
	}
	third := c.raw()
	a := &wire.Auth{TenantID: "t1", Token: "admin", ClientFlags: wire.Some(plainFlags)}
	third.send(a)
	_ = third.q.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	if _, err := third.q.Read(make([]byte, 1)); err == nil {
		t.Fatal("a third unauthenticated stream was read")
	}
	held[0].q.CancelWrite(0)
	expect[*wire.AuthOK](third)
}

// TestBeforeAuth is rows 11 to 15 and 17 to 22.
func TestBeforeAuth(t *testing.T) {
	authText := func(text string) []byte {
		b := wire.BeginFrame(nil, 0)
		b = append(b, text...)
		wire.EndFrame(b)
		return b
	}
	publish, err := wire.AppendBinaryPublish(nil, &wire.BinaryPublish{TenantID: []byte("t1"), Namespace: []byte("default"), Stream: []byte("demo"), Payloads: wire.MakePayloads([]byte("x"))})
	must(t, err)
	header := func(change func([]byte)) []byte {
		b := wire.AppendHeader(nil, wire.Header{Length: 20})
		change(b)
		return b
	}
	login := func(tenant string) []byte {
		a := &wire.Auth{TenantID: tenant, Token: "admin", ClientFlags: wire.Some(plainFlags)}
		a.SetFeatures(plainFeatures)
		return wire.AppendMessage(nil, a)
	}
	for _, c := range []struct {
		row  string
		send []byte
		fin  bool
		want string // code of an error, "" for an end without an answer
		bare bool   // codes were not offered: the message alone is sent
	}{
		{row: "11 magic", send: header(func(b []byte) { b[0] = 'X' })},
		{row: "12 version", send: header(func(b []byte) { b[5] = 2 })},
		{row: "13 length 65537", send: header(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 65537) })},
		{row: "14 length 2^32-1", send: header(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<32-1) })},
		{row: "15 truncated header", send: []byte("FLX1\x00"), fin: true},
		{row: "17 publish", send: wire.AppendMessage(nil, &wire.Publish{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}}), want: "unauthenticated", bare: true},
		{row: "18 binary publish", send: publish, want: "unauthenticated", bare: true},
		{row: "19 invalid JSON", send: authText(`{"type":"auth",`), want: "invalid_request", bare: true},
		{row: "19 invalid UTF-8", send: authText("{\"type\":\"auth\",\"tenant_id\":\"\xff\",\"token\":\"x\"}"), want: "invalid_request", bare: true},
		{row: "20 no tenant", send: authText(`{"type":"auth","token":"x"}`), want: "invalid_request", bare: true},
		{row: "20 no token", send: authText(`{"type":"auth","tenant_id":"t1"}`), want: "invalid_request", bare: true},
		{row: "21 tenant with a slash", send: login("t1/../t2"), want: "unauthenticated"},
		{row: "21 tenant of 10 KiB", send: login(strings.Repeat("x", 10<<10)), want: "unauthenticated"},
		{row: "22 unknown tenant", send: login("t9"), want: "unauthenticated"},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			conn := r.connect()
			other := conn.open("admin")
			s := conn.raw()
			s.write(c.send)
			if c.fin {
				must(t, s.q.Close())
			}
			if c.want != "" {
				e := expect[*wire.Error](s)
				if c.bare && (e.Code != "" || e.Message == "") || !c.bare && e.Code != c.want {
					t.Errorf("got %+v, want %s", e, c.want)
				}
			}
			s.ended()
			other.send(&wire.Topology{})
			expect[*wire.TopologyView](other)
		})
	}
}

// TestDraining is row 38.
func TestDraining(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.connect()
	c.open("admin")
	r.server.draining.Store(true)
	s := c.raw()
	a := &wire.Auth{TenantID: "t1", Token: "admin", ClientFlags: wire.Some(plainFlags)}
	a.SetFeatures(plainFeatures)
	s.send(a)
	if e := expect[*wire.Error](s); e.Code != "draining" || e.Retry != "retry" {
		t.Errorf("typed client: %+v", e)
	}
	s.ended()
	old := c.raw()
	old.send(&wire.Auth{TenantID: "t1", Token: "admin"})
	old.ended()
	r.server.draining.Store(false)
}

// TestAfterAuth is rows 39 to 53, 61, 62 and 75, as far as they are about requests of streams.
func TestAfterAuth(t *testing.T) {
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	text := func(s string) []byte {
		b := wire.BeginFrame(nil, 0)
		b = append(b, s...)
		wire.EndFrame(b)
		return b
	}
	raw := func(flags wire.Flags, payload []byte) []byte {
		return append(wire.AppendHeader(nil, wire.Header{Flags: flags, Length: uint32(len(payload))}), payload...)
	}
	acked := func(tail string) []byte {
		b := binary.BigEndian.AppendUint64(nil, 99)
		b = append(b, 2)
		for _, s := range []string{"t1", "default", "demo"} {
			b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
			b = append(b, s...)
		}
		return append(b, tail...)
	}
	one := "\x00\x00\x00\x01\x00\x00\x00\x01x"
	for _, c := range []struct {
		row   string
		token string
		send  []byte
		code  string // of an Error
		ack   bool   // the answer is a failed publish ack with request id 99
		alive bool
	}{
		{row: "39 second auth", send: wire.AppendMessage(nil, &wire.Auth{TenantID: "t1", Token: "admin"}), code: "invalid_request", alive: true},
		{row: "41 unknown flag", send: raw(0x8000, []byte("{}")), code: "invalid_request"},
		{row: "41 event batch from a client", send: raw(wire.FlagSharedEventBatch, []byte("\x00\x00\x00\x00")), code: "invalid_request"},
		{row: "42 idempotent without acked", send: raw(0x0101, []byte("x")), code: "invalid_request"},
		{row: "42 keyed alone", send: raw(0x0040, []byte("x")), code: "invalid_request"},
		{row: "43 above the maximum", send: wire.AppendHeader(nil, wire.Header{Flags: 1, Length: 17 << 20}), code: "invalid_request"},
		{row: "44 count", send: raw(wire.FlagPublishBatch|wire.FlagAcked, acked("\xff\xff\xff\xff\x00\x00\x00\x01x")), code: "invalid_request", ack: true, alive: true},
		{row: "45 trailing bytes", send: raw(wire.FlagPublishBatch|wire.FlagAcked, acked(one+"y")), code: "invalid_request", ack: true, alive: true},
		{row: "46 invalid UTF-8", send: raw(wire.FlagPublishBatch|wire.FlagAcked, []byte(strings.Replace(string(acked(one)), "demo", "d\xffmo", 1))), code: "invalid_request", ack: true, alive: true},
		{row: "47 base64", send: text(`{"type":"stream_read","tenant_id":"t1"}`), code: "invalid_request", alive: true},
		{row: "47 a publish nobody waits for", send: text(`{"type":"publish","tenant_id":"t1","namespace":"default","stream":"demo","payload":"*","request_id":99}`), code: "invalid_request"},
		{row: "47 likewise in words", send: text(`{"type":"publish_batch","tenant_id":"t1","namespace":"default","stream":"demo","payloads":["*"],"request_id":99,"ack":"none"}`), code: "invalid_request"},
		{row: "50 a publish without one", send: text(`{"type":"publish","tenant_id":"t1","namespace":"default","stream":"demo","payload":"eA==","ack":"per_batch"}`), code: "invalid_request", alive: true},
		{row: "50 no request id", send: text(`{"type":"stream_read","tenant_id":"t1","namespace":"default","stream":"demo","shard":0,"from":0}`), code: "invalid_request", alive: true},
		{row: "51 another tenant", send: wire.AppendMessage(nil, &wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t2", Namespace: "default", Stream: "demo"}, RequestID: 1}), code: "forbidden", alive: true},
		{row: "52 no right", token: "writer", send: wire.AppendMessage(nil, &wire.StreamRead{StreamScope: at, RequestID: 1}), code: "forbidden", alive: true},
		{row: "52 no right, nothing there", token: "writer", send: wire.AppendMessage(nil, &wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "none"}, RequestID: 1}), code: "forbidden", alive: true},
		{row: "53 not there", send: wire.AppendMessage(nil, &wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "none"}, RequestID: 1}), code: "not_found", alive: true},
		{row: "61 shard", send: wire.AppendMessage(nil, &wire.Subscribe{StreamScope: at, Shard: 1}), code: "invalid_request", alive: true},
		{row: "75 inspect without the grant", token: "reader", send: wire.AppendMessage(nil, &wire.SubscriptionsList{RequestID: 1}), code: "forbidden", alive: true},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.stream("demo", 1, true)
			conn := r.connect()
			token := c.token
			if token == "" {
				token = "admin"
			}
			s := conn.open(token)
			s.write(c.send)
			if c.ack {
				if a := s.ack(); !a.Failed || a.RequestID != 99 || a.Code.String() != c.code {
					t.Errorf("ack %+v", a)
				}
			} else if e := expect[*wire.Error](s); e.Code != c.code || e.Retry == "" {
				t.Errorf("got %+v, want %s", e, c.code)
			}
			if !c.alive {
				s.ended()
				return
			}
			s.send(&wire.Topology{})
			expect[*wire.TopologyView](s)
		})
	}
}

// TestUnknownRequests is rows 48 and 49, and N10: caches and queue groups are not served.
func TestUnknownRequests(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.connect()
	s := c.open("admin")
	b := wire.BeginFrame(nil, 0)
	b = append(b, `{"type":"sing","request_id":3}`...)
	wire.EndFrame(b)
	s.write(b)
	if u := expect[*wire.Unsupported](s); u.RequestType != "sing" || u.RequestID != wire.Some(uint64(3)) {
		t.Errorf("got %+v", u)
	}
	s.send(&wire.CacheGet{CacheScope: wire.CacheScope{TenantID: "t1", Namespace: "default", Cache: "c"}, Key: "k", RequestID: wire.Some(uint64(4))})
	if u := expect[*wire.Unsupported](s); u.RequestType != "cache_get" || u.RequestID != wire.Some(uint64(4)) {
		t.Errorf("got %+v", u)
	}
	s.send(&wire.Extension{Name: "x", RequestID: wire.Some(uint64(5))})
	if u := expect[*wire.Unsupported](s); u.RequestType != "extension" || u.Extension != "x" {
		t.Errorf("got %+v", u)
	}
	old := c.openAs("t1", "admin", plainFlags, plainFeatures&^wire.FeatureUnsupported)
	old.write(b)
	old.ended()
}

// TestOneWayStreams is row 40, and what such a stream is for.
func TestOneWayStreams(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	out, err := c.q.OpenUniStream()
	must(t, err)
	_, err = out.Write(wire.AppendMessage(nil, &wire.Auth{TenantID: "t1", Token: "admin"}))
	must(t, err)
	for i := range 3 {
		b, err := wire.AppendBinaryPublish(nil, &wire.BinaryPublish{TenantID: []byte("t1"), Namespace: []byte("default"), Stream: []byte("demo"), Payloads: wire.MakePayloads([]byte(named(i)))})
		must(t, err)
		_, err = out.Write(b)
		must(t, err)
	}
	if got := events.payloads(3); got[0] != named(0) || got[2] != named(2) {
		t.Errorf("events %q", got)
	}
	_, err = out.Write(wire.AppendMessage(nil, &wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}}))
	must(t, err)
	select {
	case <-out.Context().Done():
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
}

// TestOldClient speaks as one from before negotiation: plain ok, plain errors.
func TestOldClient(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	s := r.connect().raw()
	s.send(&wire.Auth{TenantID: "t1", Token: "admin"})
	expect[*wire.OK](s)
	s.publish(1, "demo", "x")
	if ok := expect[*wire.PublishOK](s); ok.RequestID != 1 || ok.Offset.Set {
		t.Errorf("answer %+v", ok)
	}
	s.publish(2, "none", "x")
	if e := expect[*wire.PublishError](s); e.RequestID != 2 || e.Message == "" || e.Code != "" {
		t.Errorf("answer %+v", e)
	}
}

// TestUnackedPublishToNowhere is row 55 as native decision N13 has it: dropped and counted, and the stream goes on.
func TestUnackedPublishToNowhere(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	s := r.connect().open("reader")
	s.publishAs(&wire.BinaryPublish{Stream: []byte("demo")}, "forbidden")
	s.publishAs(&wire.BinaryPublish{Stream: []byte("none")}, "nowhere")
	s.send(&wire.Topology{})
	expect[*wire.TopologyView](s)
	if got := counter(t, r, "felix_quic_publishes_dropped_total"); got != 2 {
		t.Errorf("%v publishes counted as dropped", got)
	}
}

// TestSubscriptionCaps is rows 59 and 60.
func TestSubscriptionCaps(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.Subscriptions, o.SubscriptionsIn = 2, 3 }})
	r.stream("demo", 1, true)
	c := r.connect()
	try := func(token string) error {
		s := c.open(token)
		s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}})
		switch m := s.message().(type) {
		case *wire.Subscribed:
			return nil
		case *wire.Error:
			if m.Code != "limit_exceeded" || m.Retry != "fatal" {
				t.Errorf("got %+v", m)
			}
			return errors.New(m.Message)
		default:
			return fmt.Errorf("%T", m)
		}
	}
	must(t, try("admin"))
	must(t, try("admin"))
	if err := try("admin"); err == nil {
		t.Error("59: a third of one identity")
	}
	must(t, try("reader"))
	if err := try("reader"); err == nil || !strings.Contains(err.Error(), "across identities") {
		t.Errorf("60: %v", err)
	}
}

// TestTruncatedPayloadEndsQuietly is an end of the stream in the middle of a frame.
func TestTruncatedPayloadEndsQuietly(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.connect().open("admin")
	s.write(wire.AppendHeader(nil, wire.Header{Length: 100}))
	must(t, s.q.Close())
	if _, _, err := s.frame(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// counter sums the children of a counter.
func counter(t *testing.T, r *rig, name string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	must(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
