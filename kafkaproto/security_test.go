package kafkaproto

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// tokens is a verifier that knows tokens by their text.
type tokens map[string]struct {
	identity Identity
	err      error
}

func (v tokens) VerifyPlain(_ context.Context, _, token string) (Identity, error) {
	t, ok := v[token]
	if !ok {
		return Identity{}, errcode.New(errcode.AuthenticationFailed, "the signature of the token is not valid")
	}
	return t.identity, t.err
}

// TestS85TokensThatAreRefused is row 85: a token of another audience, an expired one, one of a stranger, and one of another tenant (row
// 84) are refused with 58 and a sentence that a person can act on, which never has the token in it, and the connection is closed.
func TestS85TokensThatAreRefused(t *testing.T) {
	refused := func(text string) error { return errcode.New(errcode.AuthenticationFailed, text) }
	h := newHarness(t, withVerifier(tokens{
		"tok-audience": {err: refused("the token is for felix-controlplane, not for felix-broker")},
		"tok-expired":  {err: refused("the token has expired")},
		"tok-ends":     {identity: Identity{Caller: Caller{Tenant: "t1", Principal: "p"}, Expires: time.Now().Add(-time.Second)}},
		"tok-tenant":   {identity: Identity{Caller: Caller{Tenant: "t2", Principal: "p"}}},
		"tok-good":     {identity: Identity{Caller: Caller{Tenant: "t1", Principal: "p"}}},
	}))
	h.node.add("default", "a", 1)
	for _, tt := range []struct{ name, token, text string }{
		{"wrong_audience", "tok-audience", "felix-controlplane"},
		{"expired", "tok-expired", "expired"},
		{"expired_since_it_was_checked", "tok-ends", "expired"},
		{"foreign", "tok-of-nobody", "signature"},
		{"of_another_tenant", "tok-tenant", "another tenant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := h.dial()
			handshake(c, 1, "PLAIN")
			resp := authenticate(c, 2, "\x00t1\x00"+tt.token)
			if resp.ErrorCode != 58 || resp.ErrorMessage == nil || resp.SessionLifetimeMillis != 0 {
				t.Fatalf("got %+v", resp)
			}
			if text := *resp.ErrorMessage; !strings.Contains(text, tt.text) || !strings.Contains(text, "The user name is the tenant") || strings.Contains(text, tt.token) {
				t.Errorf("got the sentence %q", text)
			}
			c.wantClosed()
		})
	}
	c := h.dial()
	handshake(c, 1, "PLAIN")
	if resp := authenticate(c, 2, "\x00t1\x00tok-good"); resp.ErrorCode != 0 {
		t.Errorf("the good one: %+v", resp)
	}
	if topics := c.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse).Topics; len(topics) != 1 {
		t.Errorf("%d topics", len(topics))
	}
}

// clientCA signs client certificates.
type clientCA struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newClientCA(t *testing.T) *clientCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &clientCA{t, cert, key}
}

// issue makes a certificate with names of any kind: "uri:x", "ip:x", or a DNS name.
func (ca *clientCA) issue(names ...string) tls.Certificate {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, name := range names {
		kind, rest, _ := strings.Cut(name, ":")
		switch kind {
		case "uri":
			u, err := url.Parse(rest)
			if err != nil {
				ca.t.Fatal(err)
			}
			tmpl.URIs = append(tmpl.URIs, u)
		case "ip":
			tmpl.IPAddresses = append(tmpl.IPAddresses, net.ParseIP(rest))
		default:
			tmpl.DNSNames = append(tmpl.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// boundHarness is a harness that asks for certificates of an authority and binds credentials to them.
func boundHarness(t *testing.T, ca *clientCA, v Verifier) *harness {
	t.Helper()
	conf := selfSigned(t)
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	conf.ClientCAs.AddCert(ca.cert)
	return newHarness(t, func(o *Options) { o.Verifier, o.TLSConfig, o.BindCertificates = v, conf, true })
}

// dialWith connects with a client certificate.
func (h *harness) dialWith(cert tls.Certificate) *client {
	h.t.Helper()
	c := h.dial()
	c.nc = tls.Client(c.nc, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}) //nolint:gosec // the certificate is the test's own
	return c
}

// principals logs everybody in as the principal that the password names, of the tenant that the user name does.
type principals struct{}

func (principals) VerifyPlain(_ context.Context, user, password string) (Identity, error) {
	return Identity{Caller: Caller{Tenant: user, Principal: password}}, nil
}

// TestS86CertificateOfAnother is row 86: a credential is refused beside a client certificate that was issued to another subject, and the
// sentence says so. Before that, what has no certificate of the authority does not get through the handshake (rows 4 and 5).
func TestS86CertificateOfAnother(t *testing.T) {
	ca := newClientCA(t)
	h := boundHarness(t, ca, principals{})
	for _, tt := range []struct {
		name, principal string
		names           []string
		ok              bool
	}{
		{"uri", "p1", []string{"uri:felix:principal:p1"}, true},
		{"one_of_several", "p1", []string{"other.example", "uri:felix:principal:p0", "uri:felix:principal:p1"}, true},
		{"dns_name", "svc.example", []string{"svc.example"}, true},
		{"wildcard", "svc.example", []string{"*.example"}, true},
		{"address", "192.0.2.1", []string{"ip:192.0.2.1"}, true},
		{"another_uri", "p1", []string{"uri:felix:principal:p2"}, false},
		{"longer_uri", "p1", []string{"uri:felix:principal:p11"}, false},
		{"other_case", "P1", []string{"uri:felix:principal:p1"}, false},
		{"another_scheme", "p1", []string{"uri:spiffe:principal:p1"}, false},
		{"another_dns_name", "svc.example", []string{"other.example"}, false},
		{"no_names", "p1", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := h.dialWith(ca.issue(tt.names...))
			c.t = t
			handshake(c, 1, "PLAIN")
			resp := authenticate(c, 2, "\x00t1\x00"+tt.principal)
			if tt.ok {
				if resp.ErrorCode != 0 {
					t.Fatalf("got %d %v", resp.ErrorCode, resp.ErrorMessage)
				}
				c.ask(kmsg.NewPtrMetadataRequest())
				return
			}
			if resp.ErrorCode != 58 || resp.ErrorMessage == nil || !strings.Contains(*resp.ErrorMessage, "certificate was issued to somebody else") {
				t.Errorf("got %d %v", resp.ErrorCode, resp.ErrorMessage)
			}
			c.wantClosed()
		})
	}
	for name, cert := range map[string]tls.Certificate{"none": {}, "another_authority": newClientCA(t).issue("uri:felix:principal:p1")} {
		t.Run(name, func(t *testing.T) {
			c := h.dialWith(cert)
			_, _ = c.nc.Write(encode(kmsg.NewPtrApiVersionsRequest(), 1)) // in TLS 1.3 the refusal may come after it
			_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := c.nc.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Error("it was let in")
			}
		})
	}
}

// TestBindingTakesAnAuthority: certificates that nobody must show bind nothing.
func TestBindingTakesAnAuthority(t *testing.T) {
	for name, conf := range map[string]*tls.Config{"plaintext": nil, "no authority": selfSigned(t)} {
		opts := Options{BindCertificates: true, TLSConfig: conf, Anonymous: &Caller{}, Pool: buf.NewPool(1 << 20)}.withDefaults()
		if err := opts.validate(); err == nil || !strings.Contains(err.Error(), "client certificates") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// namedRequests are the requests that name a topic, each with where its answer has the code.
var namedRequests = []struct {
	name string
	ask  func(c *client, topic string) int16
}{
	{"Produce", func(c *client, topic string) int16 {
		return c.ask(produceRequestFor(topic, 0, slices.Clone(oneRecord))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	}},
	{"Fetch", func(c *client, topic string) int16 {
		req := fetchRequestFor(topic, 0)
		req.MaxWaitMillis = 0
		return c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
	}},
	{"ListOffsets", func(c *client, topic string) int16 {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 7
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
		return c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode
	}},
	{"OffsetForLeaderEpoch", func(c *client, topic string) int16 {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version = 4
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
		return c.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0].ErrorCode
	}},
	{"Metadata", func(c *client, topic string) int16 {
		req := metadataFor(9, topic)
		req.AllowAutoTopicCreation = false
		return c.ask(req).(*kmsg.MetadataResponse).Topics[0].ErrorCode
	}},
	{"DescribeTopicPartitions", func(c *client, topic string) int16 {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 100
		req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
		return c.ask(req).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].ErrorCode
	}},
	{"DescribeConfigs", func(c *client, topic string) int16 {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
		return c.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode
	}},
	{"DeleteRecords", func(c *client, topic string) int16 {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0}}}}
		return c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
	}},
	{"DescribeProducers", func(c *client, topic string) int16 {
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		return c.ask(req).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ErrorCode
	}},
}

// TestS91InMemoryStreams is row 91: an in-memory stream is not there for Kafka clients, in whichever request it is named, by name or by
// id, and no listing shows it.
func TestS91InMemoryStreams(t *testing.T) {
	h := newRealHarness(t, nil)
	oneRecord = makeBatch(t, 1, []byte("x"))
	res, err := h.meta.Propose(t.Context(), cluster.CreateTopics{Topics: []cluster.NewTopic{
		{ID: ids.TopicID{1: 1}, Tenant: "default", Namespace: "default", Name: "memory", Partitions: 1, ReplicationFactor: 1, CreateNamespace: true},
	}})
	if err != nil || len(res.Items) != 1 || res.Items[0].Err != nil {
		t.Fatal(err, res.Items)
	}
	eventually(t, "the stream", func() bool { return h.b.Image().Topic("default", "default", "memory") != nil })
	memory := h.b.Image().Topic("default", "default", "memory")
	for _, r := range namedRequests {
		if got := r.ask(h.client, "memory"); got != 3 {
			t.Errorf("%s: %d, want 3", r.name, got)
		}
	}
	produce := produceRequestFor("", 0, oneRecord)
	produce.Version, produce.Topics[0].TopicID = 13, memory.ID
	if got := produceCode0(h.client, produce); got != "100@-1" {
		t.Errorf("produce by id: %s", got)
	}
	fetch := fetchRequestFor("", 0)
	fetch.Version, fetch.Topics[0].TopicID = 13, memory.ID
	if got := fetched(h.client, fetch); got != "100:-1" {
		t.Errorf("fetch by id: %s", got)
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 12
	if topics := h.ask(all).(*kmsg.MetadataResponse).Topics; len(topics) != 0 {
		t.Errorf("listed: %+v", topics)
	}
}

// TestS92WithoutTheRight is row 92: whoever has no right to a topic gets 29, the same for one that is there and for one that is not,
// nothing is written or told, and before authentication there is no answer at all.
func TestS92WithoutTheRight(t *testing.T) {
	h := newRealHarness(t, func(o *Options) {
		o.Anonymous, o.Verifier = nil, tokens{
			"all":     {identity: Identity{Caller: Caller{Tenant: "default", Principal: "all"}}},
			"nothing": {identity: Identity{Caller: Caller{Tenant: "default", Principal: "nothing", Rights: rights{"stream.subscribe default/other": true}}}},
		}
	})
	oneRecord = makeBatch(t, 1, []byte("x"))
	if res := h.b.CreateTopics(t.Context(), &Caller{Tenant: "default"}, []broker.NewTopic{{Namespace: "default", Stream: "there", Partitions: 1, ReplicationFactor: 1}}, false); res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	logIn := func(token string) *client {
		c := h.dial()
		handshake(c, 1, "PLAIN")
		if resp := authenticate(c, 2, "\x00default\x00"+token); resp.ErrorCode != 0 {
			t.Fatalf("got %+v", resp)
		}
		return c
	}
	c := logIn("nothing")
	for _, r := range namedRequests {
		for _, topic := range []string{"there", "missing"} {
			if got := r.ask(c, topic); got != 29 {
				t.Errorf("%s of a topic that is %s: %d, want 29", r.name, topic, got)
			}
		}
	}
	id := h.b.Image().Topic("default", "default", "there").ID
	fetch := fetchRequestFor("", 0)
	fetch.Version, fetch.Topics[0].TopicID = 13, id
	if got := fetched(c, fetch); got != "29:-1" && got != "100:-1" {
		t.Errorf("fetch by id: %s", got)
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 12
	if topics := c.ask(all).(*kmsg.MetadataResponse).Topics; len(topics) != 0 {
		t.Errorf("listed: %+v", topics)
	}
	silent := produceRequestFor("there", 0, slices.Clone(oneRecord)) // case 21: with acks=0 there is no answer to refuse with
	silent.Acks = 0
	d := logIn("nothing")
	d.send(silent)
	d.wantClosed()
	if got := fetched(logIn("all"), fetchRequestFor("there", 0)); got != "0:0" {
		t.Errorf("the topic afterwards: %s", got)
	}
	for _, req := range []kmsg.Request{produceRequestFor("there", 0, slices.Clone(oneRecord)), fetchRequestFor("there", 0), kmsg.NewPtrInitProducerIDRequest()} {
		c := h.dial()
		c.send(req)
		c.wantClosed()
	}
}
