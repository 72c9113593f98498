package api

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// Controller is the part of the control plane that requests are carried out by.
type Controller interface {
	// Image is the newest image; never nil.
	Image() *cluster.Image
	// Propose has a command ordered, made durable and applied, and returns its result once Image shows it.
	Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error)
}

// Verifier checks tokens: *auth.Verifier for the audience of the control plane.
type Verifier interface {
	Verify(ctx context.Context, tenant, token string) (*auth.Identity, error)
}

// Options say what a server is made of.
type Options struct {
	Controller Controller // required
	Verifier   Verifier   // required
	// TLS is the configuration of the API listener; nil is plain HTTP.
	TLS *tls.Config
	// Region is the name of the region in which the nodes of this cluster stand. Default "local".
	Region string
	// ClientAddr is the address of a node's native listener, "" when it has none or it is not known. nil: of no node.
	ClientAddr func(node ids.NodeID) string
	// Ready says why this member cannot serve; nil while it can. It is asked at most once a second, within ReadyTimeout. nil: always ready.
	Ready func(ctx context.Context) error
	// Bootstrap configures what ServeBootstrap answers.
	Bootstrap BootstrapOptions

	// MaxConnections bounds the connections of each listener; one more is closed on arrival. Default 1024.
	MaxConnections int
	// MaxConnectionsPerAddress bounds those of one address, loopback excepted. Default 128; negative: any number.
	MaxConnectionsPerAddress int
	// WriteTimeout bounds the wait for the metadata log. Default 10 s.
	WriteTimeout time.Duration
	// ReadyTimeout and ReadyCache bound the question for readiness and keep its answer. Defaults 2 s and 1 s.
	ReadyTimeout, ReadyCache time.Duration

	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Now        func() time.Time      // nil: time.Now
}

// BootstrapOptions configure the bootstrap listener.
type BootstrapOptions struct {
	// Token is the shared secret of its callers, Previous a second one that counts while it is changed. An empty Token turns every
	// call away.
	Token, Previous string
	// TLS is the configuration of the bootstrap listener; nil is plain HTTP.
	TLS *tls.Config
	// APIURL is where callers find the API, as in "https://felix.example:8443", for the address of a tenant's key set; empty: it is given
	// as a path.
	APIURL string
	// DevTokens serves development tokens: any principal's, for whoever has Token.
	DevTokens bool
	// Permissions are what a development principal of a tenant may do before its request narrows it. Required with DevTokens.
	Permissions func(tenant string) ([]auth.Permission, error)
	// TokenTTL is how long a development token lasts. Default 15 minutes.
	TokenTTL time.Duration
}

func (o Options) withDefaults() Options {
	if o.Region == "" {
		o.Region = "local"
	}
	if o.ClientAddr == nil {
		o.ClientAddr = func(ids.NodeID) string { return "" }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	if o.MaxConnectionsPerAddress == 0 {
		o.MaxConnectionsPerAddress = 128
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 2 * time.Second
	}
	if o.ReadyCache == 0 {
		o.ReadyCache = time.Second
	}
	if o.Bootstrap.TokenTTL == 0 {
		o.Bootstrap.TokenTTL = 15 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Controller == nil:
		return errors.New("api: no controller")
	case o.Verifier == nil:
		return errors.New("api: no verifier")
	case o.Bootstrap.DevTokens && o.Bootstrap.Permissions == nil:
		return errors.New("api: development tokens without permissions")
	case o.Bootstrap.Token == "" && o.Bootstrap.Previous != "":
		return errors.New("api: a previous bootstrap token without a present one")
	}
	return nil
}
