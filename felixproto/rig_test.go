package felixproto

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
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
)

const rigBroker ids.BrokerID = 1

// rigMetadata is an image that a test changes by hand.
type rigMetadata struct {
	mu      sync.Mutex
	img     *cluster.Image
	changed chan struct{}
}

func newRigMetadata() *rigMetadata {
	m := &rigMetadata{changed: make(chan struct{})}
	b := cluster.NewBuilder(cluster.NewImage(nil))
	b.SetClusterID("test")
	b.PutNode(cluster.Node{ID: "n1", Broker: rigBroker, Live: true})
	for _, tenant := range []string{"t1", "t2"} {
		b.PutTenant(cluster.Tenant{Name: tenant})
		b.PutNamespace(cluster.Namespace{Tenant: tenant, Name: "default"})
	}
	m.img = b.Build(1)
	return m
}

func (m *rigMetadata) Image() *cluster.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.img
}

func (m *rigMetadata) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Propose hands out producer ids; nothing else is asked of it.
func (m *rigMetadata) Propose(_ context.Context, cmd cluster.Command) (cluster.Result, error) {
	c, ok := cmd.(cluster.AllocateProducerIDs)
	if !ok {
		return cluster.Result{}, errors.New("not in this test")
	}
	var first int64
	m.change(func(b *cluster.Builder) {
		first = b.Current().NextProducerID()
		b.SetNextProducerID(first + int64(c.Count))
	})
	return cluster.Result{First: first}, nil
}

func (m *rigMetadata) change(f func(*cluster.Builder)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := cluster.NewBuilder(m.img)
	f(b)
	m.img = b.Build(m.img.Version() + 1)
	close(m.changed)
	m.changed = make(chan struct{})
}

// rigVerifier takes tokens that are "principal" or "principal,permission,permission".
type rigVerifier struct{ grants map[string][]string }

func (v *rigVerifier) Verify(_ context.Context, tenant, token string) (*auth.Identity, error) {
	perms, ok := v.grants[tenant+"/"+token]
	if !ok {
		return nil, errcode.Newf(errcode.AuthenticationFailed, "no such token")
	}
	list, err := auth.ParsePermissions(perms)
	if err != nil {
		return nil, err
	}
	return &auth.Identity{Tenant: tenant, Principal: token, Grants: auth.NewGrants(tenant, auth.Expand(list)), Token: token}, nil
}

type rigRights struct {
	tenant string
	grants *auth.Grants
}

func (r rigRights) Allowed(a broker.Action, namespace, stream string) bool {
	action := map[broker.Action]auth.Action{broker.StreamPublish: auth.StreamPublish, broker.StreamSubscribe: auth.StreamSubscribe}[a]
	return r.grants.Allowed(action, r.tenant, namespace, stream)
}

// rig is a server over a real broker in memory.
type rig struct {
	t        testing.TB
	meta     *rigMetadata
	verifier *rigVerifier
	fs       *vfs.Mem
	shared   *log.Shared
	syncer   *log.Syncer
	broker   *broker.Broker
	server   *Server
	registry *prometheus.Registry
	addr     *net.UDPAddr
	roots    *x509.CertPool
	der      []byte // of the authority
	served   chan error
}

type rigOptions struct {
	sync   log.SyncMode
	idle   bool // syncs are not made until the test starts rig.syncer
	broker func(*broker.Options)
	server func(*Options)
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, meta: newRigMetadata(), fs: vfs.NewMem(), registry: prometheus.NewRegistry(), served: make(chan error, 1)}
	r.verifier = &rigVerifier{grants: map[string][]string{
		"t1/admin":  {"tenant.manage:tenant:t1", "node.view:cluster:*"},
		"t1/reader": {"stream.subscribe:stream:t1/default/*"},
		"t1/writer": {"stream.publish:stream:t1/default/*"},
		"t2/admin":  {"tenant.manage:tenant:t2"},
	}}
	j, err := journal.Open(r.fs, "data/journal", journal.Options{})
	must(t, err)
	r.syncer = log.NewSyncer(o.sync, time.Millisecond, 1)
	if !o.idle {
		r.syncer.Start()
	}
	t.Cleanup(r.syncer.Close)
	r.shared = &log.Shared{FS: r.fs, Journal: j, Syncer: r.syncer, Pool: buf.NewPool(16 << 20), Now: time.Now}
	bo := broker.Options{Metadata: r.meta, Self: rigBroker, Shared: r.shared, Dir: "data/shards", CommitOnSync: o.sync == log.SyncOnCommit}
	if o.broker != nil {
		o.broker(&bo)
	}
	r.broker, err = broker.New(bo)
	must(t, err)
	must(t, r.broker.Start(t.Context()))
	t.Cleanup(func() { must(t, r.broker.Close(context.Background())) })

	cert := r.certificate()
	so := Options{
		Broker: r.broker, Verifier: r.verifier, Pool: r.shared.Pool, NodeID: "n1", AckOnCommit: true, Registerer: r.registry,
		IdleTimeout: time.Minute, // the machine may have other things to do
		Caller: func(id *auth.Identity) *broker.Caller {
			return &broker.Caller{Tenant: id.Tenant, Principal: id.Principal, Rights: rigRights{id.Tenant, id.Grants}}
		},
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
	}
	if o.server != nil {
		o.server(&so)
	}
	r.server, err = New(so)
	must(t, err)
	udp, err := Listen(t.Context(), "127.0.0.1:0", 1<<20, 1<<20)
	must(t, err)
	r.addr, _ = udp.LocalAddr().(*net.UDPAddr)
	ctx := context.WithoutCancel(t.Context())
	go func() { r.served <- r.server.Serve(ctx, udp) }()
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.server.Close(ctx); err != nil {
		r.t.Error(err)
	}
	if err := <-r.served; !errors.Is(err, ErrServerClosed) {
		r.t.Error(err)
	}
}

// certificate is a server certificate of an authority of its own: some clients refuse a certificate that is its own authority.
func (r *rig) certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(r.t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	r.der, err = x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(r.t, err)
	parsed, err := x509.ParseCertificate(r.der)
	must(r.t, err)
	r.roots = x509.NewCertPool()
	r.roots.AddCert(parsed)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	must(r.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// stream makes a stream of tenant t1.
func (r *rig) stream(name string, shards int, durable bool, change ...func(*cluster.Topic)) *cluster.Topic {
	r.t.Helper()
	topic := &cluster.Topic{Tenant: "t1", Namespace: "default", Name: name, Durable: durable, Consistency: cluster.ConsistencyLeader}
	_, err := rand.Read(topic.ID[:])
	must(r.t, err)
	for range shards {
		topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: rigBroker, Replicas: []ids.BrokerID{rigBroker}})
	}
	for _, f := range change {
		f(topic)
	}
	r.meta.change(func(b *cluster.Builder) { must(r.t, b.PutTopic(topic)) })
	return r.meta.Image().TopicByID(topic.ID)
}

// delete removes a stream.
func (r *rig) delete(topic *cluster.Topic) {
	r.meta.change(func(b *cluster.Builder) { b.DeleteTopic(topic) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rigConn is a client's connection, by hand.
type rigConn struct {
	t  testing.TB
	q  *quic.Conn
	mu sync.Mutex
	// events are the event streams that came before anybody asked for them.
	events map[uint64]*rigEvents
}

func (r *rig) dial(change ...func(*tls.Config)) (*rigConn, error) {
	conf := &tls.Config{RootCAs: r.roots, ServerName: "localhost"}
	conf.NextProtos = []string{Protocol}
	for _, f := range change {
		f(conf)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	q, err := quic.DialAddr(ctx, r.addr.String(), conf, &quic.Config{
		HandshakeIdleTimeout: time.Minute, MaxIdleTimeout: time.Minute, KeepAlivePeriod: time.Second, MaxIncomingUniStreams: 1024,
		InitialStreamReceiveWindow: 1 << 20, MaxStreamReceiveWindow: 1 << 20,
		// A stream that is not read must not use up the window of the others.
		InitialConnectionReceiveWindow: 8 << 20, MaxConnectionReceiveWindow: 8 << 20,
	})
	if err != nil {
		return nil, err
	}
	c := &rigConn{t: r.t, q: q, events: map[uint64]*rigEvents{}}
	r.t.Cleanup(func() { _ = q.CloseWithError(0, "") })
	return c, nil
}

func (r *rig) connect() *rigConn {
	r.t.Helper()
	c, err := r.dial()
	must(r.t, err)
	return c
}

// What an ordinary client offers (felix-wire 3.2 and 3.3), and all there is.
const (
	plainFlags    = wire.Flags(0x1FFF)
	plainFeatures = wire.Features(0x7B77FFFF)
	allFeatures   = plainFeatures | wire.FeatureAckOnCommit | wire.FeatureRecordTimestamps | wire.FeatureInspect | wire.FeatureExtended
)

// rigStream is a bidirectional stream.
type rigStream struct {
	t  testing.TB
	c  *rigConn
	q  *quic.Stream
	ok *wire.AuthOK
}

func (c *rigConn) raw() *rigStream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	q, err := c.q.OpenStreamSync(ctx)
	must(c.t, err)
	return &rigStream{t: c.t, c: c, q: q}
}

// open opens a stream and authenticates it as an ordinary client.
func (c *rigConn) open(token string) *rigStream {
	return c.openAs("t1", token, plainFlags, plainFeatures)
}

func (c *rigConn) openAs(tenant, token string, flags wire.Flags, features wire.Features) *rigStream {
	c.t.Helper()
	s := c.raw()
	a := &wire.Auth{TenantID: tenant, Token: token, ClientFlags: wire.Some(flags)}
	a.SetFeatures(features)
	s.send(a)
	s.ok = expect[*wire.AuthOK](s)
	return s
}

func (s *rigStream) send(m wire.Message) {
	s.t.Helper()
	s.write(wire.AppendMessage(nil, m))
}

func (s *rigStream) write(b []byte) {
	s.t.Helper()
	_, err := s.q.Write(b)
	must(s.t, err)
}

// frame reads the next frame.
func (s *rigStream) frame() (wire.Header, []byte, error) {
	_ = s.q.SetReadDeadline(time.Now().Add(time.Minute))
	return wire.ReadFrame(s.q, nil, wire.DefaultMaxFrameBytes)
}

// message reads a JSON frame.
func (s *rigStream) message() wire.Message {
	s.t.Helper()
	h, payload, err := s.frame()
	must(s.t, err)
	if h.Flags != 0 {
		s.t.Fatalf("got a frame with flags %v, want a message", h.Flags)
	}
	m, err := wire.ParseReply(payload)
	must(s.t, err)
	return m
}

func expect[M wire.Message](s *rigStream) M {
	s.t.Helper()
	m := s.message()
	want, ok := m.(M)
	if !ok {
		s.t.Fatalf("got %T %+v, want %T", m, m, want)
	}
	return want
}

// ack reads a binary publish ack.
func (s *rigStream) ack() wire.PublishAck {
	s.t.Helper()
	h, payload, err := s.frame()
	must(s.t, err)
	a, err := wire.ParsePublishAck(h.Flags, payload)
	must(s.t, err)
	return a
}

// ended expects the stream to end without a further frame.
func (s *rigStream) ended() {
	s.t.Helper()
	h, payload, err := s.frame()
	var reset *quic.StreamError
	if !errors.Is(err, io.EOF) && !errors.As(err, &reset) {
		s.t.Fatalf("got %v %q %v, want the end of the stream", h, payload, err)
	}
}

func (s *rigStream) publish(id uint64, stream string, payloads ...string) {
	s.t.Helper()
	s.publishAs(&wire.BinaryPublish{RequestID: id, Ack: wire.AckPerBatch, Stream: []byte(stream)}, payloads...)
}

func (s *rigStream) publishAs(p *wire.BinaryPublish, payloads ...string) {
	s.t.Helper()
	list := make([][]byte, len(payloads))
	for i, v := range payloads {
		list[i] = []byte(v)
	}
	if p.TenantID == nil {
		p.TenantID = []byte("t1")
	}
	p.Namespace, p.Payloads = []byte("default"), wire.MakePayloads(list...)
	b, err := wire.AppendBinaryPublish(nil, p)
	must(s.t, err)
	s.write(b)
}

// rigEvents is an event stream.
type rigEvents struct {
	t   testing.TB
	q   *quic.ReceiveStream
	id  uint64
	got []wire.Event // of the last batch, not given out
}

// eventStream waits for the event stream of a subscription.
func (c *rigConn) eventStream(id uint64) *rigEvents {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.events[id] == nil {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		q, err := c.q.AcceptUniStream(ctx)
		cancel()
		must(c.t, err)
		_ = q.SetReadDeadline(time.Now().Add(time.Minute))
		_, payload, err := wire.ReadFrame(q, nil, wire.DefaultMaxFrameBytes)
		must(c.t, err)
		m, err := wire.ParseReply(payload)
		must(c.t, err)
		hello, ok := m.(*wire.EventStreamHello)
		if !ok {
			c.t.Fatalf("first frame of an event stream is %T", m)
		}
		c.events[hello.SubscriptionID] = &rigEvents{t: c.t, q: q, id: hello.SubscriptionID}
	}
	return c.events[id]
}

// batch reads the next event batch, or the last message of the stream.
func (e *rigEvents) batch() (*wire.EventBatch, wire.Message, error) {
	_ = e.q.SetReadDeadline(time.Now().Add(time.Minute))
	h, payload, err := wire.ReadFrame(e.q, nil, wire.DefaultMaxFrameBytes)
	if err != nil {
		return nil, nil, err
	}
	if h.Flags == 0 {
		m, err := wire.ParseReply(payload)
		return nil, m, err
	}
	b, err := wire.ParseEventBatch(h.Flags, payload)
	return &b, nil, err
}

// next reads the next event.
func (e *rigEvents) next() wire.Event {
	e.t.Helper()
	for len(e.got) == 0 {
		b, m, err := e.batch()
		must(e.t, err)
		if m != nil {
			e.t.Fatalf("got %T %+v, want events", m, m)
		}
		for ev := range b.All() {
			e.got = append(e.got, ev)
		}
	}
	ev := e.got[0]
	e.got = e.got[1:]
	return ev
}

// payloads reads n events.
func (e *rigEvents) payloads(n int) []string {
	e.t.Helper()
	out := make([]string, n)
	for i := range out {
		out[i] = string(e.next().Payload)
	}
	return out
}

// subscribe subscribes on a stream of its own, as the upstream client does: it ends its sending side at once.
func (c *rigConn) subscribe(token string, m *wire.Subscribe) (*wire.Subscribed, *rigEvents) {
	c.t.Helper()
	s := c.open(token)
	m.TenantID, m.Namespace = "t1", "default"
	s.send(m)
	must(c.t, s.q.Close())
	answer := expect[*wire.Subscribed](s)
	return answer, c.eventStream(answer.SubscriptionID)
}

func named(n int) string { return fmt.Sprintf("record %d", n) }
