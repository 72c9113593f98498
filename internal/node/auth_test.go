package node

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// withTenant adds a tenant with a signing key to a node, and returns what mints its tokens.
func withTenant(t *testing.T, n *Node, tenant string, seed byte) *auth.Signer {
	t.Helper()
	key := cluster.KeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	for _, cmd := range []cluster.Command{
		cluster.CreateTenant{Name: tenant, Key: key}, cluster.CreateNamespace{Tenant: tenant, Name: "default"},
	} {
		if _, err := n.propose(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	signer, err := auth.NewSigner(key.ID, key.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func mintTest(t *testing.T, by *auth.Signer, c auth.Claims, permissions ...string) string {
	t.Helper()
	list, err := auth.ParsePermissions(permissions)
	if err != nil {
		t.Fatal(err)
	}
	c.Permissions = list
	if c.Principal == "" {
		c.Principal = "p:alice"
	}
	if c.Audience == "" {
		c.Audience = auth.AudienceBroker
	}
	if c.Issued.IsZero() {
		c.Issued = time.Now()
	}
	if c.Expires.IsZero() {
		c.Expires = c.Issued.Add(time.Hour)
	}
	token, err := auth.Mint(c, by)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestTokenRights holds the adapter: every action of the broker's has one of the tokens'.
func TestTokenRights(t *testing.T) {
	for a := range broker.Action(len(tokenActions)) {
		if a.String() != tokenActions[a].String() {
			t.Errorf("%s is asked for as %s", a, tokenActions[a])
		}
	}
	list, err := auth.ParsePermissions([]string{
		"stream.subscribe:stream:t1/default/orders", "stream.publish:stream:t1/default/*", "ns.manage:namespace:t1/default",
		"group.manage:group:t1/default/orders/billing", "stream.manage:stream:t2/*/*",
	})
	if err != nil {
		t.Fatal(err)
	}
	caller := callerOf(&auth.Identity{Tenant: "t1", Principal: "p:alice", Grants: auth.NewGrants("t1", list)})
	tests := []struct {
		name              string
		action            broker.Action
		namespace, stream string
		want              bool
	}{
		{"subscribe", broker.StreamSubscribe, "default", "orders", true},
		{"subscribe_another", broker.StreamSubscribe, "default", "bills", false},
		{"publish", broker.StreamPublish, "default", "bills", true},
		{"publish_another_namespace", broker.StreamPublish, "other", "bills", false},
		{"manage_by_another_tenants_grant", broker.StreamManage, "default", "orders", false},
		{"namespace", broker.NamespaceManage, "default", "", true},
		{"another_namespace", broker.NamespaceManage, "other", "", false},
		{"tenant", broker.TenantManage, "", "", false},
		{"group_by_the_stream", broker.GroupConsume, "", "any", true},
		{"group_by_its_grant", broker.GroupManage, "", "billing", true},
		{"group_of_another_name", broker.GroupManage, "", "workers", false},
		{"no_action", broker.Action(200), "default", "orders", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := caller.Allowed(tt.action, tt.namespace, tt.stream); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if caller.Tenant != "t1" || caller.Principal != "p:alice" {
		t.Errorf("got %+v", caller)
	}
}

// TestKafkaTokenLogin is rows 83 to 85 against a running node, with what a token allows afterwards.
func TestKafkaTokenLogin(t *testing.T) {
	n := openTest(t, t.TempDir(), "FELIX_KAFKA_TLS=false", "FELIX_KAFKA_SASL_PLAIN_USERS=static:secret")
	acme, other := withTenant(t, n, "acme", 1), withTenant(t, n, "other", 2)
	all := []string{"ns.manage:namespace:acme/default"}
	connect := func(tenant, password string) *kgo.Client {
		return newClient(t, n.Addrs().Kafka, kgo.SASL(plain.Auth{User: tenant, Pass: password}.AsMechanism()), kgo.RetryTimeout(testTimeout))
	}
	writer := mintTest(t, acme, auth.Claims{Tenant: "acme"}, all...)
	produce(t, connect("acme", writer), "orders", 3)

	reader := connect("acme", mintTest(t, acme, auth.Claims{Tenant: "acme"}, "stream.subscribe:stream:acme/default/orders"))
	topics, err := kadm.NewClient(reader).ListTopics(t.Context())
	if err != nil || len(topics) != 1 {
		t.Errorf("a reader sees %v, %v, want its stream", topics.Names(), err)
	}
	if err := reader.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("a reader writes: got %v", err)
	}
	nobody := connect("acme", mintTest(t, acme, auth.Claims{Tenant: "acme"}))
	if topics, err := kadm.NewClient(nobody).ListTopics(t.Context()); err != nil || len(topics) != 0 {
		t.Errorf("who may do nothing sees %v, %v", topics.Names(), err)
	}

	now := time.Now()
	refused := []struct{ name, tenant, password, reason string }{
		{"row_84_another_tenant", "other", writer, "signature"},
		{"row_84_no_tenant", "nobody", writer, "unknown_tenant"},
		{"row_85_audience", "acme", mintTest(t, acme, auth.Claims{Tenant: "acme", Audience: auth.AudienceControlPlane}, all...), "audience"},
		{"row_85_expired", "acme", mintTest(t, acme, auth.Claims{Tenant: "acme", Issued: now.Add(-time.Hour), Expires: now.Add(-2 * time.Minute)}), "expired"},
		{"row_85_foreign", "acme", mintTest(t, other, auth.Claims{Tenant: "acme"}, all...), "signature"},
		{"row_85_other_tid", "acme", mintTest(t, acme, auth.Claims{Tenant: "other"}, "ns.manage:namespace:other/default"), "tenant_mismatch"},
		{"no_token", "acme", "secret", "none"},
		{"wrong_static_password", "static", "secret2", "none"},
		{"token_for_a_static_user", "static", writer, "signature"},
	}
	v := &kafkaVerifier{image: n.controller.Image, static: newStaticVerifier(n.config.Kafka.PlainUsers), tokens: n.verifiers.broker}
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			if err := connect(tt.tenant, tt.password).Ping(t.Context()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
				t.Errorf("got %v, want %v", err, kerr.SaslAuthenticationFailed)
			}
			// What the client reads does not say what was wrong; what is logged does, and neither holds the token.
			_, err := v.VerifyPlain(t.Context(), tt.tenant, tt.password)
			if errcode.Of(err) != errcode.AuthenticationFailed || auth.ReasonOf(err).String() != tt.reason {
				t.Errorf("got %v because of %v, want %s", err, auth.ReasonOf(err), tt.reason)
			}
			if logged := fmt.Sprintf("%v %+v", err, err); strings.Contains(logged, tt.password) || !strings.Contains(logged, "refused") && tt.reason != "none" {
				t.Errorf("the log says %q", logged)
			}
		})
	}
	produce(t, connect("static", "secret"), "orders", 1) // logins that were configured stay
}

// TestKafkaTokenWithCertificate is row 86.
func TestKafkaTokenWithCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caFile := filepath.Join(dir, "clients.pem")
	if err := writeSynced(caFile, pemBlock("CERTIFICATE", ca.cert.Raw)); err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.issue([]string{"localhost", "127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	if err := errors.Join(writeSynced(certFile, cert), writeSynced(keyFile, key)); err != nil {
		t.Fatal(err)
	}
	n := openTest(t, filepath.Join(dir, "data"), "FELIX_TLS_CLIENT_CA="+caFile, "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT=true",
		"FELIX_TLS_CERT="+certFile, "FELIX_TLS_KEY="+keyFile)
	acme := withTenant(t, n, "acme", 1)
	roots := x509.NewCertPool()
	conf, err := n.clientTLS(time.Now)
	if err != nil || conf.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Fatal("client certificates are not asked for", err)
	}
	roots.AddCert(ca.cert)
	ping := func(principal, actor string) error {
		token := mintTest(t, acme, auth.Claims{Tenant: "acme", Principal: principal, Actor: actor})
		return newClient(t, n.Addrs().Kafka, kgo.RetryTimeout(testTimeout), kgo.SASL(plain.Auth{User: "acme", Pass: token}.AsMechanism()),
			kgo.DialTLSConfig(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{clientCertificate(t, ca, "p:alice")}})).Ping(t.Context())
	}
	if err := ping("p:alice", ""); err != nil {
		t.Errorf("with a certificate of one's own: %v", err)
	}
	if err := ping("p:bob", "p:alice"); err != nil {
		t.Errorf("with the actor's certificate: %v", err)
	}
	if err := ping("p:bob", ""); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with a certificate of somebody else: got %v", err)
	}
}

// clientCertificate is one that names a principal in a URI.
func clientCertificate(t *testing.T, ca *authority, principal string) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse("felix:principal:" + principal)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{uri},
	}
	der, err := x509.CreateCertificate(nil, template, ca.cert, public, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func TestStaticLoginIsBoundToo(t *testing.T) {
	b := cluster.NewBuilder(cluster.NewImage(nil))
	b.PutTenant(cluster.Tenant{Name: "acme"})
	image := b.Build(1)
	v := &kafkaVerifier{image: func() *cluster.Image { return image }, static: newStaticVerifier([]Credential{{"acme", "secret"}}), bind: true}
	id, err := v.VerifyPlain(t.Context(), "acme", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if err := id.CheckCertificate(&x509.Certificate{DNSNames: []string{"other"}}); errcode.Of(err) != errcode.AuthenticationFailed {
		t.Errorf("got %v, want the certificate of somebody else refused", err)
	}
	if err := id.CheckCertificate(&x509.Certificate{DNSNames: []string{"acme"}}); err != nil {
		t.Error(err)
	}
}

func TestAPITLS(t *testing.T) {
	n := &Node{logger: zap.NewNop(), metrics: newMetrics(newRegistry())}
	if conf, err := n.apiTLS(time.Now); conf != nil || err != nil {
		t.Errorf("got %v, %v without a certificate, want plain HTTP", conf, err)
	}
	dir := t.TempDir()
	dev := developmentCert{dir}
	if err := dev.issue(certificateHosts(), time.Now()); err != nil {
		t.Fatal(err)
	}
	n.config.TLS.APICertFile, n.config.TLS.APIKeyFile = dev.cert(), dev.key()
	conf, err := n.apiTLS(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if pair, err := conf.GetCertificate(nil); err != nil || pair == nil {
		t.Errorf("got %v, %v", pair, err)
	}
}
