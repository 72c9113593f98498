package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// fake is a scripted server: it answers as a healthy one does, unless a test tells it otherwise.
type fake struct {
	t     testing.TB
	node  string
	addr  string
	roots *x509.CertPool
	tr    *quic.Transport
	wg    sync.WaitGroup

	mu     sync.Mutex
	tokens map[string]bool // that are taken; nil takes all
	// explicit has the fake take publishes that name their shard. Set before anybody connects.
	explicit bool
	shards   uint32
	owners   []wire.ShardOwner
	conns    map[*quic.Conn]struct{}
	log      [][]byte // of the one shard
	expect   map[uint64]uint64
	places   map[uint64]map[uint64]uint64 // offset by producer and sequence
	lastID   uint64                       // of producers

	// publish decides on a publish before it is applied: a nil message has it applied and answered. The connection is closed if cut is set,
	// after applying it or before.
	publish func(n int, p *wire.BinaryPublish) verdict
	// request answers a message itself, if it returns true.
	request func(st *fakeStream, m wire.Message) bool
	counted int           // publishes
	named   int           // of them, those that named their shard
	gate    chan struct{} // what a script may wait for
}

// verdict is what a fake does about a publish.
type verdict struct {
	refuse wire.Message // answered instead of applying
	cut    bool         // the connection is closed and nothing answered
	apply  bool         // with cut: it is applied before
	raw    []byte       // sent instead of an answer
	silent bool         // applied, and not answered
}

func newFake(t testing.TB, node string) *fake {
	t.Helper()
	f := &fake{
		t: t, node: node, shards: 1, conns: map[*quic.Conn]struct{}{}, expect: map[uint64]uint64{}, places: map[uint64]map[uint64]uint64{},
		gate: make(chan struct{}),
	}
	cert, roots := fakeCertificate(t)
	f.roots = roots
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	f.addr = udp.LocalAddr().String()
	f.tr = &quic.Transport{Conn: udp}
	l, err := f.tr.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"felix/1"}}, &quic.Config{
		MaxIncomingStreams: 1024, MaxIdleTimeout: 6 * time.Second, KeepAlivePeriod: time.Second,
	})
	must(t, err)
	f.wg.Go(func() {
		for {
			q, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[q] = struct{}{}
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(q) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.cut()
		_ = f.tr.Close()
		_ = udp.Close()
		f.wg.Wait()
	})
	return f
}

var fakeCA struct {
	once  sync.Once
	cert  tls.Certificate
	roots *x509.CertPool
	err   error
}

// fakeCertificate is one for all fakes, so that a client that trusts one trusts the others.
func fakeCertificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	fakeCA.once.Do(func() {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ca := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err2 := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
		parsed, err3 := x509.ParseCertificate(der)
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		}
		leafDER, err4 := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
		fakeCA.err = errors.Join(err, err2, err3, err4)
		fakeCA.roots = x509.NewCertPool()
		fakeCA.roots.AddCert(parsed)
		fakeCA.cert = tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}
	})
	must(t, fakeCA.err)
	return fakeCA.cert, fakeCA.roots
}

// cut closes all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.conns {
		_ = q.CloseWithError(7, "cut")
	}
	clear(f.conns)
}

// scripts orders what a test has written into its fakes before it connects with what they read: all of them pass it.
var scripts sync.Mutex

func passScripts() {
	scripts.Lock()
	defer scripts.Unlock()
}

func (f *fake) serve(q *quic.Conn) {
	for {
		s, err := q.AcceptStream(context.Background())
		if err != nil {
			return
		}
		f.wg.Go(func() { (&fakeStream{f: f, conn: q, q: s}).serve() })
	}
}

// fakeStream is one stream of a client.
type fakeStream struct {
	f    *fake
	conn *quic.Conn
	q    *quic.Stream
	mu   sync.Mutex
}

func (st *fakeStream) send(m wire.Message) { st.write(wire.AppendMessage(nil, m)) }

func (st *fakeStream) write(b []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	_, _ = st.q.Write(b)
}

func (st *fakeStream) serve() {
	passScripts()
	defer func() { _ = st.q.Close() }()
	for first := true; ; first = false {
		h, payload, err := wire.ReadFrame(st.q, nil, wire.DefaultMaxFrameBytes)
		if err != nil {
			st.q.CancelRead(0)
			return
		}
		if layout, _ := h.Flags.Layout(); layout == wire.LayoutPublish {
			p, err := wire.ParseBinaryPublish(h.Flags, payload)
			if err != nil {
				st.f.t.Errorf("the client sent a bad publish: %v", err)
				return
			}
			st.f.publishOf(st, &p, false)
			continue
		}
		m, err := wire.ParseRequest(payload)
		if err != nil {
			st.f.t.Errorf("the client sent a bad message: %v", err)
			return
		}
		if auth, ok := m.(*wire.Auth); ok != first {
			st.f.t.Errorf("a %s as message %v of a stream", wire.TypeOf(m), first)
			return
		} else if ok {
			if !st.f.auth(st, auth) {
				return
			}
			continue
		}
		st.f.message(st, m)
	}
}

func (f *fake) auth(st *fakeStream, m *wire.Auth) bool {
	f.mu.Lock()
	ok := f.tokens == nil || f.tokens[m.Token]
	f.mu.Unlock()
	if !ok {
		st.send(&wire.Error{Failure: wire.Failure{Message: "no", Code: "unauthenticated", Retry: "fatal"}})
		return false
	}
	answer := &wire.AuthOK{ServerFlags: wire.KnownFlags, PublishWindow: wire.Some[uint32](256)}
	features := wire.Features(0x1_F42FFA23)
	if f.explicit {
		features |= wire.FeatureExplicitShard
	}
	answer.SetFeatures(features, m.Features())
	st.send(answer)
	return true
}

func (f *fake) message(st *fakeStream, m wire.Message) {
	f.mu.Lock()
	shards, owners, request := f.shards, f.owners, f.request
	f.mu.Unlock()
	if request != nil && request(st, m) {
		return
	}
	switch m := m.(type) {
	case *wire.Topology:
		st.send(&wire.TopologyView{})
	case *wire.StreamShards:
		st.send(&wire.StreamShardsView{Shards: shards, RequestID: m.RequestID})
	case *wire.ShardOwners:
		if owners == nil {
			for i := range shards {
				owners = append(owners, wire.ShardOwner{Shard: i, NodeID: f.node})
			}
		}
		st.send(&wire.ShardOwnersView{Owners: owners, RequestID: m.RequestID})
	case *wire.ProducerInit:
		f.mu.Lock()
		f.lastID++
		id := f.lastID
		f.mu.Unlock()
		st.send(&wire.ProducerInitOK{RequestID: m.RequestID, ProducerID: id})
	case *wire.PublishBatch:
		f.namedPublish(st, m.Shard, &wire.BinaryPublish{RequestID: m.RequestID.Value, Ack: m.Ack, Key: m.Key, Payloads: m.Payloads})
	case *wire.PublishIdempotent:
		f.namedPublish(st, m.Shard, &wire.BinaryPublish{
			RequestID: m.RequestID, Ack: wire.AckPerBatch, Key: m.Key, Payloads: m.Payloads,
			Idempotent: true, ProducerID: m.ProducerID, Sequence: m.Sequence,
		})
	default:
		st.send(&wire.Unsupported{RequestType: wire.TypeOf(m)})
	}
}

// namedPublish takes a publish that came as JSON, which is for those alone that name their shard.
func (f *fake) namedPublish(st *fakeStream, shard wire.Opt[uint32], p *wire.BinaryPublish) {
	f.mu.Lock()
	if !f.explicit || !shard.Set {
		f.t.Errorf("a publish as JSON to shard %+v", shard)
	}
	f.named++
	f.mu.Unlock()
	f.publishOf(st, p, true)
}

// publishOf takes a publish: by the test's script, then by the rules of producers. inJSON says that it is to be answered in JSON.
func (f *fake) publishOf(st *fakeStream, p *wire.BinaryPublish, inJSON bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.counted
	f.counted++
	var v verdict
	if f.publish != nil {
		v = f.publish(n, p)
	}
	if v.raw != nil {
		st.write(v.raw)
		return
	}
	if v.cut && !v.apply {
		_ = st.conn.CloseWithError(7, "cut")
		return
	}
	answer := v.refuse
	if answer == nil {
		answer = f.applyLocked(p)
	}
	switch {
	case v.cut:
		_ = st.conn.CloseWithError(7, "cut")
	case v.silent || p.Ack == wire.AckNone && !p.Idempotent:
	case p.Idempotent || inJSON:
		st.send(answer)
	default:
		st.write(wire.AppendPublishAck(nil, binaryAck(answer), wire.KnownFlags))
	}
}

// binaryAck is a JSON answer in its other form.
func binaryAck(m wire.Message) *wire.PublishAck {
	switch m := m.(type) {
	case *wire.PublishOK:
		return &wire.PublishAck{RequestID: m.RequestID, Offset: m.Offset}
	case *wire.PublishError:
		code, _ := wire.ParseCode(m.Code)
		return &wire.PublishAck{
			RequestID: m.RequestID, Failed: true, Code: code, Retry: m.Class(), Message: m.Message, Reason: m.Reason,
			RetryAfterMillis: m.RetryAfterMillis.Value,
		}
	}
	panic("no such ack")
}

func (f *fake) applyLocked(p *wire.BinaryPublish) wire.Message {
	if p.Idempotent {
		next, known := f.expect[p.ProducerID]
		switch at, remembered := f.places[p.ProducerID][p.Sequence]; {
		case remembered:
			return &wire.PublishOK{RequestID: p.RequestID, Offset: wire.Some(at)}
		case !known && p.Sequence != 0:
			return &wire.PublishRefused{RequestID: p.RequestID, Reason: wire.RefusedUnknownProducer}
		case p.Sequence != next:
			return &wire.PublishRefused{RequestID: p.RequestID, Reason: wire.RefusedSequenceGap, Expected: next}
		}
		if f.places[p.ProducerID] == nil {
			f.places[p.ProducerID] = map[uint64]uint64{}
		}
		f.places[p.ProducerID][p.Sequence] = uint64(len(f.log))
		f.expect[p.ProducerID] = p.Sequence + 1
	}
	at := uint64(len(f.log))
	for payload := range p.Payloads.All() {
		f.log = append(f.log, append([]byte(nil), payload...))
	}
	return &wire.PublishOK{RequestID: p.RequestID, Offset: wire.Some(at)}
}

// stored is what the fake has in its log.
func (f *fake) stored() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, len(f.log))
	for i, v := range f.log {
		out[i] = string(v)
	}
	return out
}

// forget loses what is remembered of producers, as a leader without their history does.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.expect)
	clear(f.places)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) config() client.Config {
	passScripts()
	return client.Config{
		Addrs: []string{f.addr}, RootCAs: f.roots, Token: client.StaticToken("t"), BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
	}
}

func (f *fake) connect(change ...func(*client.Config)) *client.Client {
	f.t.Helper()
	cfg := f.config()
	for _, c := range change {
		c(&cfg)
	}
	c, err := client.Connect(limited(f.t), cfg)
	must(f.t, err)
	f.t.Cleanup(func() { must(f.t, c.Close()) })
	return c
}

// events opens the event stream of a subscribe and answers it.
func (st *fakeStream) events(m *wire.Subscribe, start, live wire.Opt[uint64]) *fakeEvents {
	q, err := st.conn.OpenUniStream()
	if err != nil {
		return nil // the connection is gone
	}
	_, _ = q.Write(wire.AppendMessage(nil, &wire.EventStreamHello{SubscriptionID: m.SubscriptionID.Value}))
	st.send(&wire.Subscribed{SubscriptionID: m.SubscriptionID.Value, StartOffset: start, LiveOffset: live})
	return &fakeEvents{q: q, id: m.SubscriptionID.Value}
}

type fakeEvents struct {
	q  *quic.SendStream
	id uint64
}

func (e *fakeEvents) send(base, skipped uint64, values ...string) {
	list := make([][]byte, len(values))
	for i, v := range values {
		list[i] = []byte(v)
	}
	head := wire.EventHead{Flags: wire.FlagOffsets | wire.FlagSkipped, BaseOffset: base, SkippedBefore: skipped}
	_, _ = e.q.Write(wire.AppendEventBatch(nil, &head, 0, wire.MakePayloads(list...)))
}

func (e *fakeEvents) plain(values ...string) {
	list := make([][]byte, len(values))
	for i, v := range values {
		list[i] = []byte(v)
	}
	_, _ = e.q.Write(wire.AppendEventBatch(nil, &wire.EventHead{}, 0, wire.MakePayloads(list...)))
}

func (e *fakeEvents) last(m wire.Message) {
	_, _ = e.q.Write(wire.AppendMessage(nil, m))
	_ = e.q.Close()
}

func overloaded(id uint64) wire.Message {
	return &wire.PublishError{RequestID: id, Failure: wire.Failure{
		Message: "full", Code: "overloaded", Retry: "retry_after", Reason: "publish_queue_full", RetryAfterMillis: wire.Some[uint64](1),
	}}
}

func numbers(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(from + i)
	}
	return out
}
