package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberCallLimit bounds a member's last commit when it leaves: beyond it the server is down, and it goes without.
const memberCallLimit = 5 * time.Second

// line is a client's way to the server. Cut, it closes what is open and lets nothing through until it is mended.
type line struct {
	dialer net.Dialer

	mu    sync.Mutex
	down  bool
	conns map[*lineConn]bool
}

// lineConn forgets itself when it is closed.
type lineConn struct {
	net.Conn
	line *line
}

var errCut = errors.New("the member's connection is cut")

func newLine() *line { return &line{conns: map[*lineConn]bool{}} }

func (l *line) dial(ctx context.Context, network, host string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errCut
	}
	conn, err := l.dialer.DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	c := &lineConn{Conn: conn, line: l}
	l.mu.Lock()
	down = l.down
	if !down {
		l.conns[c] = true
	}
	l.mu.Unlock()
	if down { // cut while it dialled
		return nil, errors.Join(errCut, conn.Close())
	}
	return c, nil
}

// Close closes the connection.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

// cut closes all connections, as the death of a process does.
func (l *line) cut() {
	l.mu.Lock()
	l.down = true
	open := maps.Clone(l.conns)
	l.mu.Unlock()
	for c := range open {
		_ = c.Close() // what the client makes of it is the point
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// memberOptions say what a member is.
type memberOptions struct {
	addr, topic string
	group       int
	name        string // client id
	instance    string // makes it static
	balancer    kgo.GroupBalancer
}

// groupMember is one life of a member: a franz-go client that polls, notes what came, and commits it. Rebalances wait for the end of each
// poll's records and their commit, so that what it notes is what it owns.
type groupMember struct {
	o     memberOptions
	check *groupChecker
	watch *memberWatch
	tally *groupsTally
	line  *line
	cl    *kgo.Client

	cancel context.CancelFunc // ends the polling
	wg     sync.WaitGroup
	done   chan struct{} // closed when the client is closed and everything of it is over

	mu      sync.Mutex
	at      map[int32]kgo.EpochOffset // what is to be committed
	crashed bool                      // what its callbacks say does not count any more
}

// startMember makes a member join. It returns at once.
func startMember(o memberOptions, check *groupChecker, tally *groupsTally) (*groupMember, error) {
	m := &groupMember{o: o, check: check, tally: tally, line: newLine(), done: make(chan struct{}), at: map[int32]kgo.EpochOffset{}}
	m.watch = check.started(o.group, o.name, time.Now())
	opts := []kgo.Opt{
		kgo.ClientID(o.name), kgo.ConsumerGroup(m.watch.group.name), kgo.ConsumeTopics(o.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.Balancers(o.balancer), kgo.Dialer(m.line.dial),
		kgo.SessionTimeout(groupSession), kgo.HeartbeatInterval(groupHeartbeat), kgo.RebalanceTimeout(groupRebalance),
		// Few fetches and commits: what counts is that they go on, not how many there are.
		kgo.FetchMinBytes(64 << 10), kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 150 * time.Millisecond }),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, got map[string][]int32) { m.assigned(cl, got[o.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.revoked(gone[o.topic], true) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.revoked(gone[o.topic], false) }),
	}
	if o.instance != "" {
		opts = append(opts, kgo.InstanceID(o.instance))
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	var err error
	if m.cl, err = dial(o.addr, opts...); err != nil {
		cancel()
		check.gone(m.watch, time.Now())
		return nil, err
	}
	m.wg.Go(func() { m.run(ctx) }) // leave and crash end it
	return m, nil
}

func (m *groupMember) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		m.poll(ctx)
	}
	if m.isCrashed() {
		// Without leaving: the group must find out. The context ends the client's wait for an answer that cannot come.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.cl.LeaveGroupContext(ended)
	}
	m.cl.CloseAllowingRebalance()
	if !m.isCrashed() {
		m.check.gone(m.watch, time.Now())
	}
}

// poll takes what there is and commits it. It does not wait for long, so that a commit that was refused is made again without new records.
func (m *groupMember) poll(ctx context.Context) {
	waitCtx, cancel := context.WithTimeout(ctx, time.Second)
	fetches := m.cl.PollFetches(waitCtx)
	cancel()
	for _, e := range fetches.Errors() {
		m.pollError(e.Err)
	}
	now := time.Now()
	fetches.EachRecord(func(r *kgo.Record) { m.took(r, now) })
	m.commit(ctx)
	m.cl.AllowRebalance()
}

// pollError counts what the library gives up to its user. Retriable errors are its own affair; loss of data is not.
func (m *groupMember) pollError(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrClientClosed) || m.isCrashed() {
		return
	}
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) {
		m.check.violate("%s: %s was told of lost data: %v", m.watch.group.name, m.o.name, err)
	}
	m.tally.pollErrors.Add(1)
}

func (m *groupMember) took(r *kgo.Record, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return
	}
	m.check.took(m.watch, r.Partition, r.Offset, now)
	m.at[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
}

// commit commits what was taken. What is refused or not answered stays to be committed, for as long as the member owns it.
func (m *groupMember) commit(ctx context.Context) {
	m.mu.Lock()
	at := maps.Clone(m.at)
	m.mu.Unlock()
	if len(at) == 0 {
		return
	}
	floors := m.check.floors(m.watch.group)
	m.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.o.topic: at},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				m.tally.lostCommits.Add(1)
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					m.committed(p.Partition, at[p.Partition].Offset, floors[p.Partition], p.ErrorCode)
				}
			}
		})
}

// committed takes the answer for one partition.
func (m *groupMember) committed(partition int32, offset, floor int64, code int16) {
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		m.check.committed(m.watch, partition, offset, floor, time.Now())
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.at[partition].Offset == offset {
			delete(m.at, partition)
		}
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID), kerr.IsRetriable(err):
		m.tally.refusedCommits.Add(1)
	default:
		m.check.violate("%s: a commit of %s was refused with %v", m.watch.group.name, m.o.name, err)
	}
}

func (m *groupMember) assigned(cl *kgo.Client, partitions []int32) {
	_, generation := cl.GroupMetadata()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.crashed {
		m.check.assigned(m.watch, generation, partitions, time.Now())
	}
}

// revoked gives partitions up, after a last commit if they are still the member's.
func (m *groupMember) revoked(partitions []int32, own bool) {
	if own && !m.isCrashed() {
		ctx, cancel := context.WithTimeout(context.Background(), memberCallLimit)
		m.commit(ctx)
		cancel()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		delete(m.at, p)
	}
	if !m.crashed {
		m.check.revoked(m.watch, partitions, time.Now())
	}
}

func (m *groupMember) isCrashed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashed
}

// leave lets the member leave the group as its library does: what it took is committed, and unless it is static the group is told.
func (m *groupMember) leave() {
	m.check.left(m.watch, time.Now())
	m.cancel()
}

// crash ends the member as the death of its process would: nothing is committed, left or said.
func (m *groupMember) crash() {
	m.mu.Lock()
	m.crashed = true
	m.mu.Unlock()
	m.line.cut()
	m.check.gone(m.watch, time.Now())
	m.cancel()
}

// cutOff takes the member's connection away while it goes on, or gives it back.
func (m *groupMember) cutOff(cut bool) {
	if cut {
		m.line.cut()
	} else {
		m.line.mend()
	}
	m.check.cutOff(m.watch, cut, time.Now())
}

// ended says whether the client of a member that leaves or has crashed is closed.
func (m *groupMember) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// await waits for the end of a member that leaves or has crashed.
func (m *groupMember) await(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("the client of %s has not ended after %v", m.o.name, limit)
	}
}
