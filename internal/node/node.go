package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/api"
	"github.com/felixlog/felix/felixproto"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/kafkaproto"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
)

// Node is a running server. Open makes it and Close ends it; everything between belongs to the parts.
type Node struct {
	config   Config
	logger   *zap.Logger // the node's own
	parts    *zap.Logger // what the parts name their own after
	registry *prometheus.Registry
	metrics  *metrics
	admin    *admin // nil when the port is off

	lock       *dirLock
	journal    *journal.Journal
	controller *controller.Controller
	shared     *log.Shared
	pool       *buf.Pool
	broker     *broker.Broker
	kafka      *kafkaproto.Server  // nil when the listener is off
	native     *felixproto.Server  // nil when the listener is off
	groups     *groups.Coordinator // nil when the listener is off
	api        *api.Server         // nil when neither the API nor bootstrap is on
	verifiers  verifiers
	// stopFollowing ends what tells the parts of newer images; nil before it began.
	stopFollowing context.CancelFunc
	tls           *tls.Config        // of the client listeners; nil until one needs it
	stopDev       context.CancelFunc // ends what keeps the development tokens fresh; nil outside that profile

	clean bool // the previous stop was clean
	addrs Addresses
	// failed gets the first error that a listener's loop ended with; it has room for one from each.
	failed chan error
	wg     sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// Options say what a node runs with besides its configuration.
type Options struct {
	Logger *zap.Logger
	// Began is when the process began, for the start time metric; zero leaves the metric at 0.
	Began time.Time
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Open starts a node and returns once it serves: the listeners answer, every shard found on disk was opened or refused, and the ready
// file is written. ctx bounds the start; cancelling it gives up and closes what was opened. The configuration must come from Load.
//
// The order is: certificates looked at, lock, listeners bound (not yet answering), journal, controller, registration, broker, coordinator of groups, listeners answering. Binding
// first costs nothing and lets a client's first connection wait in the backlog instead of being refused.
func Open(ctx context.Context, c Config, opts Options) (*Node, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	n := &Node{config: c, logger: opts.Logger.Named("node"), parts: opts.Logger, registry: newRegistry(), failed: make(chan error, 4)}
	n.metrics = newMetrics(n.registry)
	if err := n.open(ctx, opts); err != nil {
		return nil, errors.Join(err, n.abandon(ctx))
	}
	if !opts.Began.IsZero() {
		n.metrics.startSeconds.Set(opts.Now().Sub(opts.Began).Seconds())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, opts Options) error {
	tuneRuntime(&n.config)
	// Before anything is made or bound: most first starts that fail do so for a wrong path or a key that does not fit.
	if err := checkCertificates(&n.config); err != nil {
		return err
	}
	var err error
	if n.lock, err = lockDir(n.config.DataDir); err != nil {
		return err
	}
	fresh, err := checkIdentity(n.config.DataDir, n.config.NodeID)
	if err != nil {
		return err
	}
	if err := n.openAdmin(ctx); err != nil {
		return err
	}
	kafkaListener, err := n.bindKafka(ctx)
	if err != nil {
		return err
	}
	nativeSocket, err := n.bindNative(ctx)
	if err != nil {
		return errors.Join(err, closeListener(kafkaListener))
	}
	apis, err := n.bindAPI(ctx)
	if err != nil {
		return errors.Join(err, closeListener(kafkaListener), closeSocket(nativeSocket))
	}
	if err := n.openData(ctx, opts, kafkaListener, nativeSocket); err != nil {
		return errors.Join(err, closeListener(kafkaListener), closeSocket(nativeSocket), apis.close())
	}
	if fresh {
		if err := claimDir(n.config.DataDir, n.config.NodeID); err != nil {
			return errors.Join(err, apis.close())
		}
	}
	if n.config.Development {
		if err := n.openDevelopment(ctx, opts.Now); err != nil {
			return errors.Join(err, apis.close())
		}
	}
	// After the development tokens, so that whoever finds one finds its key as well.
	if err := n.serveAPI(apis, opts.Now); err != nil {
		return errors.Join(err, apis.close())
	}
	n.explainKeys()
	if n.admin != nil {
		n.admin.set(serving)
	}
	if n.config.ReadyFile != "" {
		if err := writeReady(n.config.ReadyFile, n.addrs); err != nil {
			return err
		}
	}
	n.logger.Info("serving", zap.String("node_id", n.config.NodeID), zap.String("kafka", n.addrs.Kafka), zap.String("native", n.addrs.Native),
		zap.String("api", n.addrs.API), zap.String("metrics", n.addrs.Metrics), zap.String("data_dir", n.config.DataDir), zap.String("start", n.startKind(fresh)))
	return nil
}

// explainKeys says what is missing where clients need tokens and no tenant has a key that could sign one: somebody who set everything up
// would otherwise only ever see logins refused.
func (n *Node) explainKeys() {
	k := &n.config.Kafka
	byToken := n.native != nil || n.api != nil || n.kafka != nil && k.AnonymousTenant == "" && len(k.PlainUsers) == 0
	if !byToken || slices.ContainsFunc(n.controller.Image().Tenants(), func(t *cluster.Tenant) bool { return len(t.Keys) > 0 }) {
		return
	}
	if n.config.API.Bootstrap {
		n.logger.Info("no tenant has a signing key yet: initialize one for the first tokens", zap.String("method", "POST"),
			zap.String("path", "/internal/bootstrap/tenants/{tenant}/initialize"), zap.String("bootstrap", n.addrs.Bootstrap))
		return
	}
	n.logger.Warn("no tenant has a signing key, so nobody can log in with a token: set FELIX_BOOTSTRAP_ENABLED and FELIX_BOOTSTRAP_TOKEN, and initialize a tenant")
}

// startKind is what this start followed, for the log.
func (n *Node) startKind(fresh bool) string {
	switch {
	case fresh:
		return "first"
	case n.clean:
		return "after a clean stop"
	default:
		return "after a crash"
	}
}

func closeListener(ln net.Listener) error {
	if ln == nil {
		return nil
	}
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// openAdmin binds and serves the metrics port, so that probes see a node that is starting.
func (n *Node) openAdmin(ctx context.Context) error {
	if n.config.AdminAPI == "" {
		return nil
	}
	ln, err := listen(ctx, n.config.AdminAPI)
	if err != nil {
		return listenError("metrics", "metrics-listen", err)
	}
	n.admin = newAdmin(n.registry, n.metrics, n.logger, isLoopback(ln.Addr().String()))
	n.admin.serve(context.WithoutCancel(ctx), ln, n.logger)
	n.addrs.Metrics = ln.Addr().String()
	return nil
}

func (n *Node) bindKafka(ctx context.Context) (net.Listener, error) {
	if n.config.Kafka.Listen == "" {
		return nil, nil // a listener that is off is no error
	}
	ln, err := listen(ctx, n.config.Kafka.Listen)
	if err != nil {
		return nil, listenError("Kafka clients", "kafka-listen", err)
	}
	n.addrs.Kafka = ln.Addr().String()
	return ln, nil
}

// listenError says what to do when a port is taken.
func listenError(what, flag string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen for %s: %w: is another node running? Choose another port with --%s", what, err, flag)
	}
	return fmt.Errorf("listen for %s: %w", what, err)
}

// listen binds a TCP address. Go takes 0.0.0.0 for every address, those of IPv6 too; here it is what was written.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	network := "tcp"
	if at, err := netip.ParseAddrPort(addr); err == nil && at.Addr().Is4() {
		network = "tcp4"
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, network, addr)
}

// openData opens everything that holds data and lets the Kafka listener answer on ln (nil when it is off).
func (n *Node) openData(ctx context.Context, opts Options, ln net.Listener, udp *net.UDPConn) error {
	if err := n.openJournal(); err != nil {
		return err
	}
	if err := n.openController(ctx); err != nil {
		return err
	}
	self, err := n.register(ctx)
	if err != nil {
		return err
	}
	if !n.config.Development {
		if err := n.endDevelopment(ctx); err != nil {
			return err
		}
	}
	if n.verifiers, err = newVerifiers(n.controller.Image, opts.Now); err != nil {
		return err
	}
	if err := n.openBroker(self, opts.Now); err != nil {
		return err
	}
	if ln != nil {
		if err := n.openGroups(ctx, opts.Now); err != nil {
			return err
		}
		if err := n.serveKafka(ln, opts.Now); err != nil {
			return err
		}
	}
	if udp != nil {
		if err := n.serveNative(ctx, udp, n.verifiers.broker, opts.Now); err != nil {
			return err
		}
	}
	n.follow(ctx)
	// Shards are opened while the listener answers: one that a client asks for first is opened for it at once.
	if err := n.broker.Start(ctx); err != nil {
		return fmt.Errorf("open shards: %w", err)
	}
	return nil
}

func (n *Node) path(parts ...string) string {
	return filepath.Join(append([]string{n.config.DataDir}, parts...)...)
}

// Addrs returns the bound addresses.
func (n *Node) Addrs() Addresses { return n.addrs }

// Failed gets an error when a listener ended by itself; the node should then be closed.
func (n *Node) Failed() <-chan error { return n.failed }
