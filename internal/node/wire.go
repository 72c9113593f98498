package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/raftstore"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/kafkaproto"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
)

// What the packages ask of each other, proved where they are wired.
var _ broker.Metadata = (*controller.Controller)(nil)

// openJournal opens the node's journal and takes the clean mark: from here on a crash reads as one.
func (n *Node) openJournal() error {
	found, err := hasEntries(n.path("shards"))
	if err != nil {
		return err
	}
	n.journal, err = journal.Open(vfs.OS{}, n.path("journal"), journal.Options{MarksUnknown: found, Logger: n.parts.Named("journal")})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	n.clean = n.journal.TakeClean()
	return nil
}

// hasEntries says that a directory exists and holds something.
func hasEntries(dir string) (bool, error) {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	names, err := d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil // the directory is empty
	}
	return len(names) > 0, errors.Join(err, d.Close())
}

// register makes the configured tenants, announces this node and makes the topics of the server's own. It returns the node's number.
func (n *Node) register(ctx context.Context) (ids.BrokerID, error) {
	if err := n.ensureTenants(ctx); err != nil {
		return ids.NoBroker, err
	}
	host, port, err := n.advertised()
	if err != nil {
		return ids.NoBroker, err
	}
	res, err := n.propose(ctx, cluster.RegisterNode{ID: ids.NodeID(n.config.NodeID), KafkaHost: host, KafkaPort: port, Clean: n.clean})
	if err != nil {
		return ids.NoBroker, fmt.Errorf("register the node: %w", err)
	}
	return res.Node.Broker, n.ensureGroupsTopic(ctx)
}

// propose has a command applied, and folds a refusal of the whole into the error.
func (n *Node) propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	res, err := n.controller.Propose(ctx, cmd)
	if err == nil {
		err = res.Err
	}
	return res, err
}

// ensureTenants makes the tenants that the configuration lets people act for, each with the default namespace.
func (n *Node) ensureTenants(ctx context.Context) error {
	names := make([]string, 0, len(n.config.Kafka.PlainUsers)+1)
	if t := n.config.Kafka.AnonymousTenant; t != "" {
		names = append(names, t)
	}
	for _, u := range n.config.Kafka.PlainUsers {
		names = append(names, u.Tenant)
	}
	for _, name := range names {
		if n.controller.Image().Tenant(name) == nil {
			if _, err := n.propose(ctx, cluster.CreateTenant{Name: name}); err != nil {
				return fmt.Errorf("create tenant %s: %w", name, err)
			}
		}
		if n.controller.Image().Namespace(name, n.config.Kafka.DefaultNamespace) == nil {
			cmd := cluster.CreateNamespace{Tenant: name, Name: n.config.Kafka.DefaultNamespace}
			if _, err := n.propose(ctx, cmd); err != nil {
				return fmt.Errorf("create namespace %s of tenant %s: %w", cmd.Name, name, err)
			}
		}
	}
	return nil
}

// advertised is the address that Metadata gives to Kafka clients; "" and 0 when the listener is off.
func (n *Node) advertised() (host string, port int32, err error) {
	addr := n.config.Kafka.Advertise
	if addr == "" {
		addr = n.addrs.Kafka
	}
	if addr == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("advertised address: %w", err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("advertised address %s: %w", addr, err)
	}
	return host, int32(number), nil
}

// openController opens the metadata: the embedded store, of which a lone member elects itself at once.
func (n *Node) openController(ctx context.Context) error {
	c, err := controller.Open(ctx, controller.Options{
		Store: raftstore.Opener(raftstore.Options{Dir: n.path("raft"), Node: ids.NodeID(n.config.NodeID), Logger: n.parts, Registerer: n.registry}),
		// The tenant that a new cluster has is the one that people use without saying so.
		Tenant: n.config.Kafka.AnonymousTenant, Namespace: n.config.Kafka.DefaultNamespace,
		Defaults: n.topicDefaults(),
		Logger:   n.parts, Registerer: n.registry,
	})
	if err != nil {
		return fmt.Errorf("open controller: %w", err)
	}
	n.controller = c
	return nil
}

// topicDefaults are the configurations of a topic that overrides nothing: Kafka's defaults, and the node's own storage settings.
func (n *Node) topicDefaults() *cluster.TopicConfig {
	s := &n.config.Storage
	c := cluster.DefaultTopicConfig()
	c.SegmentBytes = s.SegmentBytes
	c.RetentionBytes = s.RetentionBytes
	c.RetentionMs = max(s.Retention.Milliseconds(), -1)
	c.IndexIntervalBytes = int32(s.IndexSpacingBytes)
	c.Preallocate = s.Preallocate
	return c
}

// openBroker makes the data plane; Start opens its shards.
func (n *Node) openBroker(self ids.BrokerID, now func() time.Time) error {
	n.pool = buf.NewPool(n.config.MemoryBudgetBytes / poolShare)
	n.shared = n.newShared(now)
	n.shared.Syncer.Start()
	var err error
	n.broker, err = broker.New(broker.Options{
		Metadata: n.controller, Self: self, Shared: n.shared, Dir: n.path("shards"),
		CommitOnSync:         n.config.Storage.SyncMode == "on_commit",
		MaxDecodedBytes:      int(n.config.MaxBatchDecodedBytes),
		MaintenanceInterval:  n.config.Storage.RetentionInterval,
		OpenWorkers:          n.config.Storage.OpenParallel,
		AutoCreateNamespaces: true, // a single node
		DefaultPartitions:    int32(n.config.Kafka.DefaultPartitions),
		Quotas:               n.config.Quotas,
		PublishQueueDepth:    n.config.Native.QueueDepth,
		PublishWorkers:       n.config.Native.Workers,
		PublishBytes:         n.config.Native.InflightBytes,
		PublishQueueWait:     n.config.Native.QueueWait,
		AckWait:              n.config.Native.AckWait,
		QuorumTimeout:        n.config.QuorumTimeout,
		CommitConcurrency:    n.config.Native.CommitConcurrency,
		Logger:               n.parts, Registerer: n.registry, Now: now,
	})
	if err != nil {
		return fmt.Errorf("make broker: %w", err)
	}
	return nil
}

// poolShare is the part of the memory budget that buffers may keep while nobody uses them.
const poolShare = 4

func (n *Node) newShared(now func() time.Time) *log.Shared {
	s := &n.config.Storage
	mode := map[string]log.SyncMode{"none": log.SyncNone, "periodic": log.SyncPeriodic, "on_commit": log.SyncOnCommit}[s.SyncMode]
	metrics := log.NewMetrics(n.registry)
	return &log.Shared{
		FS: vfs.OS{}, Pool: n.pool, Journal: n.journal, Logger: n.parts, Now: now,
		VerifyAllOnOpen: s.VerifyAllOnOpen, RepairChecksumTail: s.RepairChecksumTail, Preallocate: s.Preallocate,
		MaxDecodedBytes:          int(n.config.MaxBatchDecodedBytes),
		MaxProducers:             s.ProducersPerShard,
		ProducerExpiry:           s.ProducerExpiry,
		CompactionBytesPerSecond: s.CompactionBytesPerSec,
		Metrics:                  metrics,
		Files:                    log.NewFileCache(s.MaxOpenFiles, metrics),
		Tail:                     log.NewTailCache(orOff(s.HotTailBytes), n.pool, metrics),
		Syncer:                   log.NewSyncer(mode, s.SyncInterval, s.SyncWorkers),
	}
}

// serveKafka lets the Kafka listener answer.
func (n *Node) serveKafka(ln net.Listener, now func() time.Time) error {
	k := &n.config.Kafka
	opts := kafkaproto.Options{
		Broker: n.broker, Pool: n.pool, Logger: n.parts, Registerer: n.registry, Groups: n.groups,
		DefaultNamespace: k.DefaultNamespace, AutoCreate: k.AutoCreateTopics,
		MaxConnections:           orUnlimited(k.MaxConnections, math.MaxInt32),
		MaxConnectionsPerAddress: orUnlimited(k.MaxConnectionsPerIP, -1),
		AuthTimeout:              k.AuthTimeout,
		MaxRequestBytes:          int(k.MaxRequestBytes),
		MemoryBudgetBytes:        n.config.MemoryBudgetBytes,
		CommitTimeout:            n.config.QuorumTimeout,
		SyncOnCommit:             n.config.Storage.SyncMode == "on_commit",
		Now:                      now,
	}
	// An anonymous listener is one without logins, as Kafka's are: tokens are taken where passwords are.
	if k.AnonymousTenant == "" || len(k.PlainUsers) > 0 {
		opts.Verifier = &kafkaVerifier{
			image: n.controller.Image, static: newStaticVerifier(k.PlainUsers), tokens: n.verifiers.broker, bind: k.TLS && n.config.TLS.BindSubject,
		}
	}
	if k.AnonymousTenant != "" {
		opts.Anonymous = &kafkaproto.Caller{Tenant: k.AnonymousTenant, Principal: "anonymous"}
	}
	if k.TLS {
		conf, err := n.clientTLS(now)
		if err != nil {
			return err
		}
		opts.TLSConfig, opts.BindCertificates = conf, n.config.TLS.BindSubject
	}
	server, err := kafkaproto.New(opts)
	if err != nil {
		return fmt.Errorf("make Kafka listener: %w", err)
	}
	n.kafka = server
	n.wg.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, kafkaproto.ErrServerClosed) {
			n.failed <- fmt.Errorf("listen for Kafka clients: %w", err)
		}
	})
	return nil
}

// orUnlimited turns a setting's 0, which is "unlimited", into what an option says for that.
func orUnlimited(limit, unlimited int) int {
	if limit == 0 {
		return unlimited
	}
	return limit
}

// orOff turns a setting's 0, which is "off", into what an option says for that.
func orOff(bytes int64) int64 {
	if bytes == 0 {
		return -1
	}
	return bytes
}
