package raw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error codes of group answers that helpers act on.
const (
	coordinatorLoading      int16 = 14
	coordinatorNotAvailable int16 = 15
	notCoordinator          int16 = 16
	memberIDRequired        int16 = 79
)

// quietTime is how long an answer is waited for that must not come. It is only ever a lower bound: a server that answers too
// early is caught by what its answer says as well.
const quietTime = 100 * time.Millisecond

// member is one member of a classic group. Its connection is its own, since a join or a sync occupies it until it is answered.
type member struct {
	*client
	group, id  string
	instance   *string
	generation int32 // of the last join
	leader     bool  // by the last join
	version    int16 // of JoinGroup
	// Session and rebalance timeouts: far above what tests take, except where they are what is tested.
	session, rebalance time.Duration
	protocolType       string
	protocols          []kmsg.JoinGroupRequestProtocol

	waiting chan answer // of what was begun and has not ended
}

// answer is what came back for a request.
type answer struct {
	resp kmsg.Response
	err  error
}

// newGroup is the id of a group that nobody has used, once its coordinator answers for it.
func newGroup(t *testing.T) string { return newGroupAt(t, dial(t)) }

func newGroupAt(t *testing.T, c *client) string {
	t.Helper()
	group := strings.Replace(newName(t), "raw.", "g-", 1)
	c.awaitCoordinator(group)
	return group
}

// awaitCoordinator looks for a group's coordinator as clients do, until it serves the group. It returns the errors that were
// seen on the way.
func (c *client) awaitCoordinator(group string) []int16 {
	c.t.Helper()
	var seen []int16
	note := func(code int16) bool {
		if code != 0 && !slices.Contains(seen, code) {
			seen = append(seen, code)
		}
		return !slices.Contains([]int16{coordinatorLoading, coordinatorNotAvailable, notCoordinator}, code)
	}
	await(c.t, "a coordinator of "+group, func() bool {
		found := c.findCoordinator(group)
		if found.ErrorCode != 0 && note(found.ErrorCode) {
			c.t.Fatalf("coordinator of %s: %s %s", group, name(found.ErrorCode), str(found.ErrorMessage))
		}
		if found.ErrorCode != 0 {
			return false
		}
		return note(c.describe(group).ErrorCode) // not Heartbeat, which Kafka answers with 0 while it loads
	})
	return seen
}

// findCoordinator is FindCoordinator v4 for a group.
func (c *client) findCoordinator(group string) kmsg.FindCoordinatorResponseCoordinator {
	c.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group}
	return do[*kmsg.FindCoordinatorResponse](c, req).Coordinators[0]
}

// newMember is a dynamic consumer with one protocol, "range", that has not joined.
func newMember(t *testing.T, group string) *member { return newMemberOn(dial(t), group) }

func newMemberOn(c *client, group string) *member {
	m := &member{
		client: c, group: group, generation: -1, version: 9, session: 30 * time.Second, rebalance: 30 * time.Second,
		protocolType: "consumer",
	}
	m.offer("range", string(subscription()))
	return m
}

// offer sets the member's protocols: name, metadata, name, metadata.
func (m *member) offer(namesAndMetadata ...string) {
	m.protocols = nil
	for pair := range slices.Chunk(namesAndMetadata, 2) {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = pair[0], []byte(pair[1])
		m.protocols = append(m.protocols, p)
	}
}

// subscription is what a consumer of these topics sends as its metadata.
func subscription(topics ...string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics, s.Generation = 1, topics, -1
	return s.AppendTo(nil)
}

// static makes the member a static one.
func (m *member) static(instance string) *member {
	m.instance = &instance
	return m
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = m.version, m.group, m.id, m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), int32(m.rebalance.Milliseconds())
	req.ProtocolType, req.Protocols = m.protocolType, m.protocols
	return req
}

// begin sends a request whose answer may take its time. Until end, the connection belongs to the goroutine that reads it.
func (m *member) begin(req kmsg.Request) {
	m.t.Helper()
	if m.waiting != nil {
		m.t.Fatalf("%s while another request waits", kmsg.NameForKey(req.Key()))
	}
	correlation, err := m.Send(req)
	if err != nil {
		m.t.Fatal(err)
	}
	waiting := make(chan answer, 1)
	m.waiting = waiting
	go func() { // ends with the answer, or with the connection
		resp, err := m.Receive(req, correlation)
		waiting <- answer{resp, err}
	}()
}

// end waits for the answer to what was begun.
func (m *member) end() kmsg.Response {
	m.t.Helper()
	a := <-m.waiting
	m.waiting = nil
	if a.err != nil {
		m.t.Fatal(a.err)
	}
	return a.resp
}

// answered tells whether the answer to what was begun is there.
func (m *member) answered() bool { return len(m.waiting) == 1 }

// silent tells whether it is not, and does not come at once either.
func (m *member) silent() bool {
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	select {
	case a := <-m.waiting:
		m.waiting <- a // for end
		return false
	case <-quiet.C:
		return true
	}
}

// admit gets a dynamic member the id that it has to come back with (JoinGroup v4 and later).
func (m *member) admit() *member {
	m.t.Helper()
	resp := do[*kmsg.JoinGroupResponse](m.client, m.joinRequest())
	if resp.ErrorCode != memberIDRequired || resp.MemberID == "" {
		m.t.Fatalf("join v%d without a member id: %s, member id %q", m.version, name(resp.ErrorCode), resp.MemberID)
	}
	m.id = resp.MemberID
	return m
}

func (m *member) beginJoin() {
	m.t.Helper()
	if m.id == "" && m.instance == nil && m.version >= 4 {
		m.admit()
	}
	m.begin(m.joinRequest())
}

func (m *member) endJoin() *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := m.end().(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == 0 {
		m.id, m.generation, m.leader = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID
	}
	return resp
}

func (m *member) join() *kmsg.JoinGroupResponse {
	m.t.Helper()
	m.beginJoin()
	return m.endJoin()
}

// mustJoin is join that has to succeed.
func (m *member) mustJoin() *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := m.join()
	m.noError("join", resp.ErrorCode)
	return resp
}

func (m *member) noError(what string, code int16) {
	m.t.Helper()
	if code != 0 {
		m.t.Fatalf("%s by %s: %s", what, m.id, name(code))
	}
}

// syncRequest is SyncGroup v5; parts is the assignment by member id, which only leaders give.
func (m *member) syncRequest(parts map[string]string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 5, m.group, m.generation, m.id, m.instance
	req.ProtocolType, req.Protocol = &m.protocolType, &m.protocols[0].Name
	for id, part := range parts {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte(part)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func (m *member) beginSync(parts map[string]string) {
	m.t.Helper()
	m.begin(m.syncRequest(parts))
}

func (m *member) endSync() *kmsg.SyncGroupResponse {
	m.t.Helper()
	return m.end().(*kmsg.SyncGroupResponse)
}

func (m *member) sync(parts map[string]string) *kmsg.SyncGroupResponse {
	m.t.Helper()
	m.beginSync(parts)
	return m.endSync()
}

// beat is a heartbeat by the member, on a connection that need not be its own.
func (m *member) beat(c *client) int16 {
	c.t.Helper()
	return c.heartbeat(m.group, m.id, m.instance, m.generation)
}

// heartbeat is Heartbeat v4.
func (c *client) heartbeat(group, id string, instance *string, generation int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, group, id, instance, generation
	return do[*kmsg.HeartbeatResponse](c, req).ErrorCode
}

// leave is LeaveGroup v5 for members; an id "instance:x" names a static one by its instance id alone.
func (c *client) leave(group string, ids ...string) *kmsg.LeaveGroupResponse {
	c.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, group
	for _, id := range ids {
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.MemberID = id
		if instance, ok := strings.CutPrefix(id, "instance:"); ok {
			rm.MemberID, rm.InstanceID = "", &instance
		}
		req.Members = append(req.Members, rm)
	}
	return do[*kmsg.LeaveGroupResponse](c, req)
}

// left is the answer to a leave: the group's error, and each member's.
func left(resp *kmsg.LeaveGroupResponse) string {
	codes := make([]int16, len(resp.Members))
	for i, m := range resp.Members {
		codes[i] = m.ErrorCode
	}
	return fmt.Sprintf("%s [%s]", name(resp.ErrorCode), names(codes...))
}

// describe is DescribeGroups v5 for one group.
func (c *client) describe(group string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 5, []string{group}
	return do[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
}

// awaitState waits until a group is in a state with so many members.
func (c *client) awaitState(group, state string, members int) {
	c.t.Helper()
	await(c.t, fmt.Sprintf("%s to be %s with %d members", group, state, members), func() bool {
		d := c.describe(group)
		return d.State == state && len(d.Members) == members
	})
}

// form makes a group of n members that is Stable; the first member is its leader. Member i is assigned "part i".
func form(t *testing.T, n int, configure func(i int, m *member)) []*member {
	t.Helper()
	return formGroup(t, newGroup(t), n, configure)
}

func formGroup(t *testing.T, group string, n int, configure func(i int, m *member)) []*member {
	t.Helper()
	members := gather(t, group, n, configure)
	settle(members)
	return members
}

// gather is form up to CompletingRebalance. Those who come later get their ids first, and the leader comes back last, so that
// all of them are in one generation however fast they are.
func gather(t *testing.T, group string, n int, configure func(i int, m *member)) []*member {
	t.Helper()
	members := make([]*member, n)
	for i := range members {
		members[i] = newMember(t, group)
		if configure != nil {
			configure(i, members[i])
		}
	}
	members[0].mustJoin()
	if n == 1 {
		return members
	}
	for _, m := range members[1:] {
		if m.instance == nil && m.version >= 4 {
			m.admit()
		}
	}
	for _, m := range members[1:] {
		m.beginJoin()
	}
	dial(t).awaitState(group, "PreparingRebalance", n)
	regather(members)
	return members
}

// regather has every member join, those who are not waiting already, and checks that all are in one generation under one leader.
func regather(members []*member) {
	members[0].t.Helper()
	for _, m := range members {
		if m.waiting == nil {
			m.beginJoin()
		}
	}
	leaders := 0
	for _, m := range members {
		m.noError("join", m.endJoin().ErrorCode)
		if m.leader {
			leaders++
		}
		if m.generation != members[0].generation {
			m.t.Fatalf("generations %d and %d", m.generation, members[0].generation)
		}
	}
	if leaders != 1 {
		members[0].t.Fatalf("%d leaders", leaders)
	}
}

// settle has every member sync; the leader assigns "part i" to member i.
func settle(members []*member) {
	members[0].t.Helper()
	parts := map[string]string{}
	for i, m := range members {
		parts[m.id] = fmt.Sprintf("part %d", i)
	}
	for _, m := range members {
		if m.leader {
			m.beginSync(parts)
		} else {
			m.beginSync(nil)
		}
	}
	for i, m := range members {
		resp := m.endSync()
		m.noError("sync", resp.ErrorCode)
		if want := fmt.Sprintf("part %d", i); string(resp.MemberAssignment) != want {
			m.t.Fatalf("member %d was assigned %q", i, resp.MemberAssignment)
		}
	}
}

// ticking calls f twice a second, first at once, until done returns true, and returns how long that took. It fails the test
// after 20 s. It is for sessions, which somebody has to keep alive while the test waits.
func ticking(t *testing.T, what string, done func() bool, f func()) time.Duration {
	t.Helper()
	const limit = 20 * time.Second
	begin := time.Now()
	beats, looks := time.NewTicker(500*time.Millisecond), time.NewTicker(10*time.Millisecond)
	defer beats.Stop()
	defer looks.Stop()
	for f(); !done(); {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		select {
		case <-beats.C:
			f()
		case <-looks.C:
		}
	}
	return time.Since(begin)
}
