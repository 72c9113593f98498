package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/kafkaproto"
)

// verifiers check tokens: one for each part of the system that a token can be meant for.
type verifiers struct {
	broker *auth.Verifier // Kafka and native listeners
	api    *auth.Verifier
}

// newVerifiers makes the verifiers over the tenants of the node's own image. Nothing is fetched for a tenant that a client names.
func newVerifiers(image func() *cluster.Image, now func() time.Time) (verifiers, error) {
	var v verifiers
	var err error
	keys := imageKeys{image}
	if v.broker, err = auth.NewVerifier(auth.VerifierOptions{Audience: auth.AudienceBroker, Keys: keys, Now: now}); err != nil {
		return v, err
	}
	v.api, err = auth.NewVerifier(auth.VerifierOptions{Audience: auth.AudienceControlPlane, Keys: keys, Now: now})
	return v, err
}

// imageKeys are the tenants' published keys as this node's image of the metadata has them.
type imageKeys struct{ image func() *cluster.Image }

var _ auth.KeySource = imageKeys{}

// Keys returns the keys of a tenant, the one that signs first.
func (k imageKeys) Keys(_ context.Context, tenant string) ([]auth.Key, error) {
	t := k.image().Tenant(tenant)
	if t == nil {
		return nil, auth.ErrUnknownTenant
	}
	keys := make([]auth.Key, len(t.Keys))
	for i := range t.Keys {
		keys[i] = auth.Key{ID: t.Keys[i].ID, Public: t.Keys[i].Public, Incarnation: t.Incarnation}
	}
	return keys, nil
}

// callerOf is what an identity may do, in the broker's terms.
func callerOf(id *auth.Identity) *broker.Caller {
	return &broker.Caller{
		Tenant: id.Tenant, Incarnation: id.Incarnation, Principal: id.Principal, Rights: rights{tenant: id.Tenant, grants: id.Grants},
	}
}

// rights are the grants of a token as the broker asks for them.
type rights struct {
	tenant string
	grants *auth.Grants
}

var _ broker.Rights = rights{}

// tokenActions are the broker's actions as tokens name them.
var tokenActions = [...]auth.Action{
	broker.StreamPublish: auth.StreamPublish, broker.StreamSubscribe: auth.StreamSubscribe, broker.StreamManage: auth.StreamManage,
	broker.NamespaceManage: auth.NamespaceManage, broker.TenantManage: auth.TenantManage,
	broker.GroupConsume: auth.GroupConsume, broker.GroupManage: auth.GroupManage,
}

// Allowed decides for the token's own tenant.
func (r rights) Allowed(action broker.Action, namespace, stream string) bool {
	if int(action) >= len(tokenActions) {
		return false
	}
	a := tokenActions[action]
	if namespace == "" && (action == broker.GroupConsume || action == broker.GroupManage) {
		return r.grants.AllowedKafkaGroup(a, r.tenant, stream)
	}
	return r.grants.Allowed(a, r.tenant, namespace, stream)
}

// kafkaVerifier checks SASL PLAIN: the user name is the tenant, the password one that was configured for it, or else a token.
type kafkaVerifier struct {
	image  func() *cluster.Image
	static *staticVerifier
	tokens *auth.Verifier
	bind   bool // a client's certificate must be the principal's
}

var _ kafkaproto.Verifier = (*kafkaVerifier)(nil)

// VerifyPlain returns the caller. A token's end is not the connection's: it is looked at once, as on the native listener, and whoever
// connected in time goes on.
func (v *kafkaVerifier) VerifyPlain(ctx context.Context, user, password string) (kafkaproto.Identity, error) {
	id, err := v.static.VerifyPlain(ctx, user, password)
	if err == nil {
		t := v.image().Tenant(user)
		if t == nil {
			return kafkaproto.Identity{}, errWrongLogin // it was deleted; the next start makes it again
		}
		id.Caller.Incarnation = t.Incarnation
		if v.bind {
			id.CheckCertificate = (&auth.Identity{Principal: user}).CheckCertificate
		}
		return id, nil
	}
	if strings.Count(password, ".") != 2 { // no token at all: a password, as far as anybody can tell
		return kafkaproto.Identity{}, err
	}
	token, err := v.tokens.Verify(ctx, user, password)
	if err != nil {
		return kafkaproto.Identity{}, err
	}
	out := kafkaproto.Identity{Caller: *callerOf(token)}
	if v.bind {
		out.CheckCertificate = token.CheckCertificate
	}
	return out, nil
}

// clientTLS is the TLS configuration of the client listeners, with the certificate that they all show. It is made at first use.
func (n *Node) clientTLS(now func() time.Time) (*tls.Config, error) {
	if n.tls == nil {
		kafka := n.config.Kafka.Advertise
		if kafka == "" {
			kafka = n.addrs.Kafka
		}
		conf, err := serverTLS(&n.config, certificateHosts(kafka, n.addrs.Native), now())
		if err != nil {
			return nil, err
		}
		files := &certificateFiles{logger: n.logger, now: now, metrics: n.metrics.certificate}
		files.certFile, files.keyFile = certificatePaths(&n.config)
		files.watch(conf)
		n.tls = conf
	}
	return n.tls.Clone(), nil
}

// apiTLS is the TLS configuration of the API; nil without a certificate of its own, which makes it plain HTTP.
func (n *Node) apiTLS(now func() time.Time) (*tls.Config, error) {
	c := &n.config.TLS
	if c.APICertFile == "" {
		return nil, nil // none: plain HTTP
	}
	pair, err := tls.LoadX509KeyPair(c.APICertFile, c.APIKeyFile)
	if err != nil {
		return nil, fmt.Errorf("api_tls_cert and api_tls_key: %w", err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	metrics := *n.metrics.certificate
	metrics.expires = prometheus.NewGauge(prometheus.GaugeOpts{Name: "unregistered"}) // the registered one is the client listeners'
	files := &certificateFiles{certFile: c.APICertFile, keyFile: c.APIKeyFile, logger: n.logger, now: now, metrics: &metrics}
	files.watch(conf)
	return conf, nil
}
