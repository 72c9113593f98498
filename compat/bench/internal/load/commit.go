package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/bench/internal/hist"
	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
)

const (
	// commitTimeout bounds one request of Commit, and what is behind at the end of a part: a cold server may take long to catch up.
	commitTimeout = 3 * time.Minute
	// beatEvery is how many commits of all groups there are to a heartbeat: a member that commits each second sends one every three, as
	// clients do by default.
	beatEvery = 3
	// maxOwed bounds the requests that a member has not been answered.
	maxOwed = 64
)

// commits is the state of a run of Commit.
type commits struct {
	members []*committer
	beat    int // whose heartbeat is next
	sent    int64

	answered atomic.Int64
	failed   atomic.Pointer[error]
	from     atomic.Int64 // the first intended time that counts, in nanoseconds after epoch
	mu       sync.Mutex   // guards ack, which the readers of all members add to
	ack      hist.Hist
	wg       sync.WaitGroup
}

// committer is the one member of a group, on a connection of its own.
type committer struct {
	conn   *rawkafka.Conn
	commit *kmsg.OffsetCommitRequest
	beat   *kmsg.HeartbeatRequest
	owed   chan owed
}

// owed is a request that is not answered yet.
type owed struct {
	intended time.Time
	req      kmsg.Request
}

// runCommit is Commit: the groups take turns, so that each commits all Partitions of the topic Rate/Groups times a second, as a member of
// a generation and with heartbeats between.
func runCommit(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Groups <= 0 || spec.Rate <= 0 {
		return nil, errors.New("commits need groups and a rate")
	}
	c := &commits{}
	c.from.Store(1 << 62)
	defer c.close()
	for i := range spec.Groups {
		m, err := newCommitter(ctx, spec, fmt.Sprintf("committer-%04d", i))
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", i, err)
		}
		c.members = append(c.members, m)
		c.wg.Go(func() { c.read(m) })
	}
	if spec.WarmSeconds > 0 {
		pace(ctx, false, max(spec.WarmRate, spec.Rate), seconds(spec.WarmSeconds), c.send)
		if err := c.drain(ctx); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	res := &Result{}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	c.from.Store(int64(time.Since(epoch)))
	res.Records = pace(ctx, true, spec.Rate, seconds(spec.Seconds), c.send)
	err = c.drain(ctx)
	if err := errors.Join(err, m.end(res)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.ack.Count(); n != res.Records {
		return nil, fmt.Errorf("%d commits were sent, %d answered", res.Records, n)
	}
	ack := QuantilesOf(&c.ack)
	res.Ack = &ack
	return res, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// newCommitter connects and becomes the one member of a group.
func newCommitter(ctx context.Context, spec *Spec, group string) (*committer, error) {
	conn, err := rawkafka.Dial(spec.Broker, 10*time.Second)
	if err != nil {
		return nil, err
	}
	member, generation, err := joinAlone(ctx, conn, group)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	m := &committer{conn: conn, commit: rawkafka.CommitRequest(group, spec.Topic, make([]int64, spec.Partitions)), owed: make(chan owed, maxOwed)}
	m.commit.MemberID, m.commit.Generation = member, generation
	m.beat = kmsg.NewPtrHeartbeatRequest()
	m.beat.Version = 4
	m.beat.Group, m.beat.MemberID, m.beat.Generation = group, member, generation
	return m, nil
}

// joinAlone joins a group that has no members, waiting for its coordinator where it takes that long to be there.
func joinAlone(ctx context.Context, conn *rawkafka.Conn, group string) (member string, generation int32, err error) {
	if err := conn.AwaitCoordinator(ctx, group); err != nil {
		return "", 0, err
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version = 7
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 45_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	for range 2 { // the first is answered with a member id to come again with
		resp, err := conn.Do(join, commitTimeout)
		if err != nil {
			return "", 0, err
		}
		j := resp.(*kmsg.JoinGroupResponse)
		join.MemberID, generation = j.MemberID, j.Generation
		switch {
		case j.ErrorCode == 0:
			return join.MemberID, generation, syncAlone(conn, group, join.MemberID, generation)
		case j.ErrorCode != memberIDRequired:
			return "", 0, fmt.Errorf("join: error code %d", j.ErrorCode)
		}
	}
	return "", 0, errors.New("join: no place for the member id that was given out")
}

// memberIDRequired is the error code of MEMBER_ID_REQUIRED.
const memberIDRequired = 79

func syncAlone(conn *rawkafka.Conn, group, member string, generation int32) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	consumer, balancer := "consumer", "range"
	req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, member, generation, &consumer, &balancer
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	resp, err := conn.Do(req, commitTimeout)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		return fmt.Errorf("sync: error code %d", code)
	}
	return nil
}

// send is the sender of pace: groups take turns.
func (c *commits) send(i int64, intended time.Time) {
	m := c.members[i%int64(len(c.members))]
	for j := range m.commit.Topics[0].Partitions {
		m.commit.Topics[0].Partitions[j].Offset++
	}
	c.write(m, m.commit, intended)
	if i%beatEvery == 0 {
		m := c.members[c.beat%len(c.members)]
		c.beat++
		c.write(m, m.beat, intended)
	}
}

func (c *commits) write(m *committer, req kmsg.Request, intended time.Time) {
	if c.failed.Load() != nil {
		return
	}
	select {
	case m.owed <- owed{intended, req}:
	default:
		c.fail(fmt.Errorf("%d requests of one member are not answered", maxOwed))
		return
	}
	c.sent++
	if err := m.conn.Send(req, commitTimeout); err != nil {
		c.fail(err)
	}
}

func (c *commits) fail(err error) { c.failed.CompareAndSwap(nil, &err) }

// read takes the answers of one member until there are no more to come.
func (c *commits) read(m *committer) {
	for o := range m.owed {
		resp, err := m.conn.Receive(o.req, commitTimeout)
		now := time.Now()
		if err == nil {
			err = refusal(resp)
		}
		if err != nil {
			c.fail(err)
		}
		if _, is := resp.(*kmsg.OffsetCommitResponse); is && int64(o.intended.Sub(epoch)) >= c.from.Load() {
			c.mu.Lock()
			c.ack.Add(now.Sub(o.intended))
			c.mu.Unlock()
		}
		c.answered.Add(1)
	}
}

// refusal is the error in an answer.
func refusal(resp kmsg.Response) error {
	switch resp := resp.(type) {
	case *kmsg.HeartbeatResponse:
		if resp.ErrorCode != 0 {
			return fmt.Errorf("heartbeat: error code %d", resp.ErrorCode)
		}
	case *kmsg.OffsetCommitResponse:
		return rawkafka.CommitError(resp)
	}
	return nil
}

// drain waits until everything sent is answered.
func (c *commits) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for c.failed.Load() == nil && c.answered.Load() < c.sent {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d requests sent, %d answered: %w", c.sent, c.answered.Load(), ctx.Err())
		case <-tick.C:
		}
	}
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// close ends the readers and the connections.
func (c *commits) close() {
	for _, m := range c.members {
		close(m.owed)
		_ = m.conn.Close()
	}
	c.wg.Wait()
}
