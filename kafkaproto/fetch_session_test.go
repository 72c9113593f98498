package kafkaproto

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// begin makes a session over partitions of topic and returns its id.
func begin(t *testing.T, c *client, topic string, partitions ...int32) int32 {
	t.Helper()
	req := fetchRequestFor(topic, partitions...)
	req.SessionEpoch = 0
	resp := c.ask(req).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 || resp.SessionID <= 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(partitions) {
		t.Fatalf("full fetch: %+v", resp)
	}
	return resp.SessionID
}

// next asks for what is new in a session; change may add and forget partitions.
func next(c *client, session, epoch int32, change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
	c.t.Helper()
	req := fetchRequestFor("x")
	req.Topics = nil
	req.SessionID, req.SessionEpoch = session, epoch
	if change != nil {
		change(req)
	}
	return c.ask(req).(*kmsg.FetchResponse)
}

// told lists the partitions of an answer.
func told(resp *kmsg.FetchResponse) (out []int32) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out = append(out, p.Partition)
		}
	}
	return out
}

func TestFetchSession(t *testing.T) { // case 48
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 3)
	c := h.dial()
	id := begin(t, c, "a", 0, 1)
	if resp := next(c, id, 1, nil); resp.ErrorCode != 0 || resp.SessionID != id || len(told(resp)) != 0 {
		t.Fatalf("nothing new: %+v", resp)
	}
	produced(t, h.node.shard(topic, 1), "x")
	resp := next(c, id, 2, nil)
	if got := told(resp); len(got) != 1 || got[0] != 1 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("one new record: %+v", resp)
	}
	advance := func(req *kmsg.FetchRequest) { // the client moves on, adds partition 2 and forgets partition 0
		more := fetchRequestFor("a", 1, 2)
		more.Topics[0].Partitions[0].FetchOffset = 1
		req.Topics = more.Topics
		gone := kmsg.NewFetchRequestForgottenTopic()
		gone.Topic, gone.Partitions = "a", []int32{0, 77}
		req.ForgottenTopics = append(req.ForgottenTopics, gone)
	}
	if got := told(next(c, id, 3, advance)); len(got) != 1 || got[0] != 2 {
		t.Fatalf("partition 2 is new: told %v", got)
	}
	produced(t, h.node.shard(topic, 0), "forgotten")
	if got := told(next(c, id, 4, nil)); len(got) != 0 {
		t.Fatalf("told %v of a forgotten partition", got)
	}
	sh := h.node.shard(topic, 2)
	sh.mu.Lock()
	sh.start, sh.hw, sh.end = 0, 0, 0
	sh.epoch = 4
	sh.mu.Unlock()

	if resp := next(c, id, 9, nil); resp.ErrorCode != 71 || len(resp.Topics) != 0 {
		t.Errorf("wrong epoch: %+v", resp)
	}
	if resp := next(c, id+1, 1, nil); resp.ErrorCode != 70 {
		t.Errorf("unknown session: %+v", resp)
	}
	if resp := next(c, 0, 1, nil); resp.ErrorCode != 70 {
		t.Errorf("session 0 with an epoch: %+v", resp)
	}
	if resp := next(c, id, 5, func(r *kmsg.FetchRequest) { r.SetVersion(13) }); resp.ErrorCode != 106 {
		t.Errorf("by ids in a session by names: %+v", resp)
	}
	final := fetchRequestFor("a", 0)
	final.SessionID = id
	if resp := c.ask(final).(*kmsg.FetchResponse); resp.ErrorCode != 0 || resp.SessionID != 0 || len(told(resp)) != 1 {
		t.Errorf("final epoch: %+v", resp)
	}
	if resp := next(c, id, 5, nil); resp.ErrorCode != 70 {
		t.Errorf("after the final epoch: %+v", resp)
	}
}

func TestFetchSessionErrorIsToldAgain(t *testing.T) {
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	c := h.dial()
	req := fetchRequestFor("a", 0, 9)
	req.SessionEpoch = 0
	id := c.ask(req).(*kmsg.FetchResponse).SessionID
	for epoch := int32(1); epoch < 4; epoch++ {
		resp := next(c, id, epoch, nil)
		if got := told(resp); len(got) != 1 || got[0] != 9 || resp.Topics[0].Partitions[0].ErrorCode != 3 {
			t.Fatalf("epoch %d: %+v", epoch, resp)
		}
	}
}

func TestFetchSessionWaits(t *testing.T) { // trap 45
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 2)
	c := h.dial()
	id := begin(t, c, "a", 0, 1)
	began := time.Now()
	if resp := next(c, id, 1, func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 50 }); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("got %+v", resp)
	}
	if took := time.Since(began); took < 40*time.Millisecond {
		t.Errorf("answered after %v with nothing new", took)
	}
	req := fetchRequestFor("x")
	req.Topics, req.SessionID, req.SessionEpoch, req.MaxWaitMillis = nil, id, 2, 20_000
	sent := c.send(req)
	eventually(t, "it waits", func() bool { return h.node.shard(topic, 0).waiting() == 1 })
	produced(t, h.node.shard(topic, 0), "x")
	if got := told(c.receive(req, sent).(*kmsg.FetchResponse)); len(got) != 1 || got[0] != 0 {
		t.Errorf("told %v", got)
	}
}

func TestFetchSessionServesPartitionsInTurn(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 3)
	for i := range int32(3) {
		produced(t, h.node.shard(topic, i), "a", "b", "c", "d", "e", "f")
	}
	c := h.dial()
	req := fetchRequestFor("a", 0, 1, 2)
	req.SessionEpoch, req.MaxBytes = 0, 1
	id := c.ask(req).(*kmsg.FetchResponse).SessionID
	served := map[int32]int{}
	for epoch := int32(1); epoch <= 6; epoch++ {
		resp := next(c, id, epoch, func(r *kmsg.FetchRequest) { r.MaxBytes = 1 })
		for _, p := range resp.Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				served[p.Partition]++
			}
		}
	}
	for i := range int32(3) {
		if served[i] != 2 {
			t.Errorf("served %v, want each partition twice", served)
			break
		}
	}
}

func TestFetchSessionSlots(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newFetchSessions(2, func() time.Time { return now })
	parts := func() []fetchPart { return []fetchPart{{name: "a", index: 0}, {name: "a", index: 1}} }
	me, you := sessionOwner{tenant: "t", principal: "me"}, sessionOwner{tenant: "t", principal: "you"}
	one, _ := s.create(me, false, parts())
	two, _ := s.create(me, false, parts())
	if one == nil || two == nil || one.id == two.id || one.id <= 0 {
		t.Fatal("two sessions were not made")
	}
	if three, _ := s.create(me, false, parts()); three != nil {
		t.Error("a third session was made in two slots")
	}
	if _, err := s.find(you, one.id); err == nil {
		t.Error("another principal found the session")
	}
	s.drop(you, one.id)
	now = now.Add(sessionEvictAfter / 2)
	if _, err := s.find(me, one.id); err != nil {
		t.Fatal(err)
	}
	now = now.Add(sessionEvictAfter/2 + time.Second)
	four, evicted := s.create(you, false, parts())
	if four == nil || !evicted {
		t.Fatal("the longest unused session did not make room")
	}
	if _, err := s.find(me, two.id); err == nil {
		t.Error("the wrong session was evicted")
	}
	if s.len() != 2 || s.parts != 4 {
		t.Errorf("%d sessions of %d partitions, want 2 of 4", s.len(), s.parts)
	}
	s.drop(you, four.id)
	s.drop(me, one.id)
	if s.len() != 0 || s.parts != 0 || s.oldest != nil || s.newest != nil {
		t.Errorf("left: %d sessions, %d partitions", s.len(), s.parts)
	}
}

func TestFetchSessionEpochWraps(t *testing.T) {
	f := &fetchSession{epoch: 1<<31 - 1}
	if err := f.advanceLocked(1<<31-1, false); err != nil || f.epoch != 1 {
		t.Errorf("epoch %d, %v; want 1", f.epoch, err)
	}
}

// TestFetchSessionAllocations: an incremental fetch over many partitions, none of which has news, allocates nothing for them.
func TestFetchSessionAllocations(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 200)
	for i := range int32(200) {
		h.node.shard(topic, i)
	}
	row := &dataAPIs()[1]
	caller := &Caller{Tenant: testTenant}
	f := &fetch{conn: new(conn)}
	setup := func(body []byte) fetchRequest {
		f.refs.Store(1)
		f.srv, f.api, f.version, f.view = h.srv, row, 12, h.node.Image()
		f.maxBytes = 1 << 20
		req, ok := f.decode(body)
		if !ok {
			t.Fatal("refused")
		}
		return req
	}
	var indices []int32
	for i := range int32(200) {
		indices = append(indices, i)
	}
	first := fetchRequestFor("a", indices...)
	first.SessionEpoch = 0
	req := setup(first.AppendTo(nil))
	f.openSession(caller, &req)
	id := f.sessionID
	f.dropParts()
	empty := fetchRequestFor("x")
	empty.Topics = nil
	empty.SessionID, empty.SessionEpoch = id, 1
	body := empty.AppendTo(nil)
	session := f.session
	if n := testing.AllocsPerRun(100, func() {
		session.epoch = 1
		req := setup(body)
		f.openSession(caller, &req)
		f.prepare(caller, -1)
		if f.read() != 0 || len(f.parts) != 200 || f.parts[7].err != nil {
			t.Fatal("not the session's partitions")
		}
		session.tell(f.parts, false)
		r := newResponse()
		r.begin(1, row, 12)
		f.encode(r)
		r.seal()
		r.release(h.srv.answers)
		f.dropParts()
		f.names = f.names[:0]
	}); n > 1+poolSlack {
		t.Errorf("%v allocations for 200 partitions without news, want at most 1", n)
	}
	h.srv.sessions.drop(sessionOwner{tenant: testTenant}, id)
}

func TestFetchSessionIsBounded(t *testing.T) {
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	c := h.dial()
	many := func(topic string, from, n int32) *kmsg.FetchRequest {
		req := fetchRequestFor(topic)
		req.Topics[0].Partitions = nil
		for i := range n {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition = from + i
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		return req
	}
	id := begin(t, c, "a", 0)
	grow := func(epoch, from, n int32) *kmsg.FetchResponse {
		return next(c, id, epoch, func(req *kmsg.FetchRequest) { req.Topics = many("a", from, n).Topics })
	}
	if resp := grow(1, 0, maxFetchParts); resp.ErrorCode != 0 {
		t.Fatalf("a session of %d partitions: error %d", maxFetchParts, resp.ErrorCode)
	}
	if resp := grow(2, 0, 10); resp.ErrorCode != 0 {
		t.Fatalf("changes to partitions that it has: error %d", resp.ErrorCode)
	}
	if resp := grow(3, maxFetchParts, 1); resp.ErrorCode != 70 {
		t.Errorf("one partition more: error %d, want 70", resp.ErrorCode)
	}
	if n := h.srv.sessions.len(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	h.srv.sessions.mu.Lock()
	left := h.srv.sessions.parts
	h.srv.sessions.mu.Unlock()
	if left != 0 {
		t.Errorf("%d partitions of sessions are left", left)
	}

	long := strings.Repeat("x", 250)
	req := fetchRequestFor(long, 0)
	req.SessionEpoch = 0
	if resp := c.ask(req).(*kmsg.FetchResponse); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Errorf("a session that remembers a name that no topic has: %+v", resp)
	}
	id = begin(t, c, "a", 0)
	if resp := next(c, id, 1, func(req *kmsg.FetchRequest) { req.Topics = many(long, 0, 1).Topics }); resp.ErrorCode != 70 {
		t.Errorf("the same in an incremental request: error %d, want 70", resp.ErrorCode)
	}
}

func TestFetchSessionsTogetherAreBounded(t *testing.T) {
	s := newFetchSessions(10, time.Now)
	owner := sessionOwner{tenant: "t", principal: "me"}
	var all []*fetchSession
	for range 4 {
		made, _ := s.create(owner, false, []fetchPart{{name: "a"}})
		all = append(all, made)
	}
	for i, f := range all {
		if want := i < 3; s.grew(f, maxSessionParts/4) != want {
			t.Errorf("session %d grew: %v, want %v", i, !want, want)
		}
	}
	if want := 3 * (1 + maxSessionParts/4); s.len() != 3 || s.parts != want {
		t.Errorf("%d sessions of %d partitions, want 3 of %d", s.len(), s.parts, want)
	}
}
