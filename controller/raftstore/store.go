package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/ids"
)

// Options say where and as whom a store runs.
type Options struct {
	// Dir is the store's own directory; made if missing, with access for the owner only.
	Dir string
	// Node is this member's name in the group. It must stay the same for a directory.
	Node ids.NodeID
	// SnapshotEntries is the number of entries after which a snapshot is taken. Default 500; 100 are kept behind it.
	SnapshotEntries uint64
	// SnapshotInterval is how often that is looked at. Default 10 s.
	SnapshotInterval time.Duration

	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

const (
	defaultSnapshotEntries  = 500
	defaultSnapshotInterval = 10 * time.Second
	keptEntries             = 100
	keptSnapshots           = 2
	// closeSnapshotEntries is the number of entries beyond the last snapshot from which on a clean stop takes one, so that the
	// next start need not replay them.
	closeSnapshotEntries = 50
)

func (o Options) withDefaults() Options {
	if o.SnapshotEntries == 0 {
		o.SnapshotEntries = defaultSnapshotEntries
	}
	if o.SnapshotInterval == 0 {
		o.SnapshotInterval = defaultSnapshotInterval
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Store is a member of a Raft group of one. It implements controller.Store.
type Store struct {
	logger    *zap.Logger
	metrics   *metrics
	raft      *raft.Raft
	fsm       *fsm
	logs      *logs
	transport *transport
	self      raft.Server
	dir       string

	wg      sync.WaitGroup // forward, and proposals that are waited for
	mu      sync.Mutex
	closed  bool                  // guarded by mu
	failure atomic.Pointer[error] // what stopped the store, if anything did
}

// Opener returns a function that opens the store for controller.Open.
func Opener(opts Options) controller.OpenStore {
	return func(ctx context.Context, m controller.Machine, first [][]byte) (controller.Store, error) {
		return Open(ctx, opts, m, first)
	}
}

// Open opens the store in opts.Dir, makes it with first as its first commands if there is none, elects this member, and returns when
// m has applied every command that the log holds. The caller closes it.
func Open(ctx context.Context, opts Options, m controller.Machine, first [][]byte) (*Store, error) {
	opts = opts.withDefaults()
	if opts.Dir == "" || opts.Node == "" {
		return nil, errors.New("raftstore: no directory or no node id")
	}
	self := raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(opts.Node), Address: raft.ServerAddress(opts.Node)}
	if err := prepare(opts.Dir, self, first); err != nil {
		return nil, err
	}
	s := &Store{logger: opts.Logger.Named("raftstore"), self: self, dir: opts.Dir}
	s.fsm = newFSM(m, s.stopped)
	if err := s.start(opts); err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes sure that there is a directory with a complete database in it.
func prepare(dir string, self raft.Server, first [][]byte) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("raftstore: %w", err)
	}
	switch _, err := os.Stat(filepath.Join(dir, dbName)); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("raftstore: %w", err)
	}
	// A directory with snapshots but without a log is not a new one: somebody lost a file.
	if left, err := os.ReadDir(filepath.Join(dir, snapshotsName)); err == nil && len(left) > 0 {
		return fmt.Errorf("raftstore: %s has snapshots but no %s: it is damaged, restore it from a backup", dir, dbName)
	}
	return createFiles(dir, self, first)
}

func (s *Store) start(opts Options) error {
	if err := breakSeal(opts.Dir); err != nil {
		return err
	}
	db, err := openDB(filepath.Join(opts.Dir, dbName), false)
	if err != nil {
		return err
	}
	logger := newRaftLogger(s.logger)
	files, err := raft.NewFileSnapshotStoreWithLogger(opts.Dir, keptSnapshots, logger)
	if err != nil {
		return errors.Join(fmt.Errorf("raftstore: snapshots: %w", err), db.Close())
	}
	snapshots, err := newPrivateSnapshots(files, opts.Dir)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if s.logs, err = newLogs(db, members(snapshots), s.stopped); err != nil {
		return errors.Join(fmt.Errorf("raftstore: %s: %w", filepath.Join(opts.Dir, dbName), err), db.Close())
	}
	// There is no other member yet: the network is one that reaches nobody. internal/peer takes its place.
	_, network := raft.NewInmemTransport(s.self.Address)
	s.transport = newTransport(network)
	conf := raft.DefaultConfig()
	conf.LocalID = s.self.ID
	conf.Logger = logger
	conf.SnapshotThreshold = opts.SnapshotEntries
	conf.SnapshotInterval = opts.SnapshotInterval
	conf.TrailingLogs = keptEntries
	conf.NoLegacyTelemetry = true
	conf.BatchApplyCh = true // proposals that come while a sync runs share the next one
	err = guarded(func() (err error) {
		s.raft, err = raft.NewRaft(conf, s.fsm, s.logs, s.logs, snapshots, s.transport)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("raftstore: %w", err), s.transport.close(), db.Close())
	}
	s.wg.Go(s.transport.forward)
	s.metrics = newMetrics(opts.Registerer, s.raft)
	return nil
}

// members is the number of servers in the newest snapshot, 0 when there is none.
func members(snapshots raft.SnapshotStore) int {
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		return 0 // raft lists them again and reports why it cannot
	}
	return len(list[0].Configuration.Servers)
}

// catchUp elects this member and waits until the machine has every command of the log.
func (s *Store) catchUp(ctx context.Context) error {
	servers := s.raft.GetConfiguration()
	if err := servers.Error(); err != nil {
		return fmt.Errorf("raftstore: %w", err)
	}
	list := servers.Configuration().Servers
	if len(list) != 1 || list[0].ID != s.self.ID {
		return fmt.Errorf("raftstore: the log in this directory belongs to %v, not to node %s alone", list, s.self.ID)
	}
	last, err := s.lastCommand()
	if err != nil {
		return err
	}
	s.transport.electNow(s.self)
	if err := s.awaitLeader(ctx); err != nil {
		return err
	}
	return s.fsm.waitFor(ctx, last)
}

// lastCommand is the position of the last command in the log beyond the last snapshot, 0 if there is none.
func (s *Store) lastCommand() (uint64, error) {
	first, err := s.logs.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("raftstore: %w", err)
	}
	var entry raft.Log
	covered := s.raft.AppliedIndex() // before the election: what the snapshot holds
	for i := s.raft.LastIndex(); i > covered && i >= first && i > 0; i-- {
		if err := s.logs.GetLog(i, &entry); err != nil {
			return 0, fmt.Errorf("raftstore: entry %d: %w", i, err)
		}
		if entry.Type == raft.LogCommand {
			return i, nil
		}
	}
	return 0, nil
}

func (s *Store) awaitLeader(ctx context.Context) error {
	for s.raft.State() != raft.Leader {
		if err := s.stopError(); err != nil {
			return err
		}
		select {
		case <-s.raft.LeaderCh():
		case <-ctx.Done():
			return fmt.Errorf("raftstore: no leader: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Propose is controller.Store's.
func (s *Store) Propose(ctx context.Context, command []byte) (any, error) {
	if err := s.stopError(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, controller.ErrClosed
	}
	done := make(chan raft.ApplyFuture, 1)
	// A future cannot be waited for together with a context, so each proposal waits on a goroutine. Proposals are rare.
	s.wg.Go(func() {
		f := s.raft.Apply(command, 0)
		_ = f.Error() // waits; the receiver asks again
		done <- f
	})
	s.mu.Unlock()
	select {
	case f := <-done:
		return s.outcome(f)
	case <-ctx.Done():
		s.metrics.writeTimeouts.Inc()
		return nil, fmt.Errorf("%w: %w", controller.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// Ready is controller.Store's.
func (s *Store) Ready() error {
	if err := s.stopError(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return controller.ErrClosed
	case s.raft.State() != raft.Leader:
		return controller.ErrNotController
	}
	return nil
}

func (s *Store) outcome(f raft.ApplyFuture) (any, error) {
	switch err := f.Error(); {
	case err == nil:
		if failed, ok := f.Response().(failure); ok {
			return nil, failed.err
		}
		return f.Response(), nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return nil, controller.ErrNotController
	case errors.Is(err, controller.ErrStopped):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", controller.ErrUnknownOutcome, err)
	}
}

// stopped latches what ended the store's service. The first caller's error counts.
func (s *Store) stopped(err error) {
	if s.failure.CompareAndSwap(nil, &err) {
		s.logger.Error("metadata log stopped", zap.Error(err))
		s.fsm.note(0, err) // whoever waits for the machine
	}
}

func (s *Store) stopError() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Close is controller.Store's. A log with many entries beyond its snapshot gets a snapshot first.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	if s.stopError() == nil && s.sinceSnapshot() >= closeSnapshotEntries {
		if err := s.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			s.logger.Warn("no metadata snapshot at the stop; the next start replays the log", zap.Error(err))
		}
	}
	err := s.raft.Shutdown().Error()
	err = errors.Join(err, s.transport.close())
	s.wg.Wait()
	if err = errors.Join(err, s.logs.Close()); err != nil || s.stopError() != nil {
		return err
	}
	return writeSeal(s.dir)
}

// sinceSnapshot is the number of entries that the last snapshot does not cover.
func (s *Store) sinceSnapshot() uint64 {
	return s.raft.LastIndex() - min(s.raft.LastIndex(), lastSnapshot(s.raft))
}
