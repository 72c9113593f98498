package raw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
)

var _ = register(
	Case{ID: "61.split", What: "kcat -G twice on 3 partitions, 30 records", Want: "both have partitions; each record to one"},
	Case{ID: "61.leave", What: "one of the two ends cleanly, 30 more records", Want: "the other takes over at once; each record once"},
	Case{ID: "61.killed", What: "a third one joins, one of the two is killed (session timeout 6 s), 30 more records", Want: "the other takes over within the session timeout; nothing lost"},
	Case{ID: "70.find", What: "FindCoordinator v0 to v6 for a group", Want: "the address and number of a broker of Metadata, no error"},
	Case{ID: "70.find-many", What: "FindCoordinator v4 with a group, another, an empty id", Want: "an answer each: 0; 0; 0"},
	Case{ID: "70.find-type", What: "FindCoordinator v4 with key type 9", Want: "INVALID_REQUEST (42)"},
	Case{ID: "70.errors", What: "coordinator killed and back: errors until it serves the group", Want: "none but 14, 15, 16"},
	Case{ID: "70.offsets", What: "the same: committed offsets, with leader epoch and metadata", Want: "as before"},
	Case{ID: "70.generation", What: "the same, a Stable group: state, heartbeats, sync, commit of its members", Want: "Stable with 2 members; 0; 0; the same assignment; 0"},
	Case{ID: "70.static", What: "the same, a static member restarts afterwards", Want: "generation 2 at once; its assignment by sync; old id: FENCED_INSTANCE_ID (82)"},
	Case{ID: "70.next", What: "the same, then the leader rejoins", Want: "generation 3 with 2 members"},
	Case{ID: "70.midway", What: "killed between join and sync of the next generation: sync of an old member, of the new one; then all join", Want: "ILLEGAL_GENERATION (22); UNKNOWN_MEMBER_ID (25); one generation with 3 members"},
	Case{ID: "70.clean", What: "a clean restart: heartbeat of a member, committed offset", Want: "0; 5"},
	Case{ID: "70.deleted", What: "killed: a deleted group and a deleted offset", Want: "still gone: GROUP_ID_NOT_FOUND (69); -1"},
	Case{
		ID: "73.groups", What: "the same group id in two tenants: members, generations, states", Want: "acme: Stable with 1 member, generation 2; beta: Stable with 1 member, generation 1",
		OnlyFelix: "Kafka has no tenants",
	},
	Case{
		ID: "73.offsets", What: "the same group id and topic name in two tenants: committed offsets, all of them", Want: "acme: 1, 1 topic; beta: 2, 1 topic",
		OnlyFelix: "Kafka has no tenants",
	},
	Case{
		ID: "73.tools", What: "listing, describing, deleting and leaving across tenants", Want: "listed: own groups only; the other's member: UNKNOWN_MEMBER_ID (25); deleted: one's own alone",
		OnlyFelix: "Kafka has no tenants",
	},
	Case{ID: "74.large", What: "three members with 1 MiB of metadata each", Want: "join completes; leader receives all"},
	Case{ID: "74.many", What: "200 members with 5 KiB of metadata each", Want: "join completes; leader receives all; everyone gets its part"},
	Case{ID: "63.delay", What: "first join of an Empty group with an initial delay of 2 s, a second 0.3 s later", Want: "one generation for both, after the delay; the next rebalance without it"},
	Case{ID: "63.full", What: "group of at most 3 members: v3 and v9 of a fourth; a member rejoins; another group", Want: "GROUP_MAX_SIZE_REACHED (81); GROUP_MAX_SIZE_REACHED (81); 0; 0"},
	Case{ID: "69.retention", What: "offset committed for 1 ms (v2) and one for ever, of a group without members", Want: "-1; 2"},
	Case{ID: "69.retention-subscribed", What: "the same by members: of a topic that they subscribe to", Want: "1"},
	Case{ID: "69.retention-group", What: "all offsets of a group without members expired: DescribeGroups v6", Want: "GROUP_ID_NOT_FOUND (69)"},
)

// groupReader is one `kcat -G`.
type groupReader struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	read []string // values, in the order of arrival
	done sync.WaitGroup
}

// startGroupReader starts kcat in a group; it is killed with the test.
func startGroupReader(t *testing.T, group, topic string) *groupReader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, "kcat", "-b", server.Addr(), "-G", group, "-u", "-q", "-f", `%s\n`,
		"-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500", "-X", "auto.offset.reset=earliest",
		"-X", "auto.commit.interval.ms=100", "-X", "fetch.wait.max.ms=100", topic)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &groupReader{cmd: cmd}
	r.done.Go(func() { // ends with kcat
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.mu.Lock()
			r.read = append(r.read, lines.Text())
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		r.done.Wait()
		_ = cmd.Wait() // it was killed, or ended before
	})
	return r
}

// values are what was read so far.
func (r *groupReader) values() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.read)
}

func TestCase61GroupKcat(t *testing.T) {
	t.Parallel()
	c := dial(t)
	topic, group := c.topic(3), newGroup(t)
	produced := 0
	produce := func() {
		for range 10 {
			for partition := range int32(3) {
				c.mustProduce(topic, partition, values(fmt.Sprint(produced)))
				produced++
			}
		}
	}
	var readers []*groupReader
	times := func() map[string]int {
		out := map[string]int{}
		for _, r := range readers {
			for _, v := range r.values() {
				out[v]++
			}
		}
		return out
	}
	all := func() bool { return len(times()) == produced }
	repeated := func() int {
		n := 0
		for _, times := range times() {
			n += times - 1
		}
		return n
	}
	readers = append(readers, startGroupReader(t, group, topic), startGroupReader(t, group, topic))
	c.awaitState(group, "Stable", 2)
	owners := 0
	for _, m := range c.describe(group).Members {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(m.MemberAssignment); err != nil {
			t.Fatal(err)
		}
		if len(a.Topics) == 1 && len(a.Topics[0].Partitions) > 0 {
			owners++
		}
	}
	produce()
	await(t, "30 records", all)
	got := fmt.Sprintf("%d have partitions, %d and %d records", owners, len(readers[0].values()), len(readers[1].values()))
	if owners == 2 && len(readers[0].values()) > 0 && len(readers[1].values()) > 0 {
		got = "both have partitions"
	}
	if repeated() == 0 {
		got += "; each record to one"
	}
	expect(t, "61.split", got)

	begin := time.Now()
	if err := readers[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.awaitState(group, "Stable", 1)
	got = fmt.Sprintf("the other takes over after %v", time.Since(begin))
	if time.Since(begin) < 5*time.Second {
		got = "the other takes over at once"
	}
	produce()
	await(t, "30 more records", all)
	if repeated() == 0 {
		got += "; each record once"
	}
	expect(t, "61.leave", got)

	readers = append(readers, startGroupReader(t, group, topic))
	c.awaitState(group, "Stable", 2)
	produce()
	await(t, "30 more records", all)
	begin = time.Now()
	if err := readers[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	produce()
	await(t, "the records of the killed one's partitions", all)
	got = fmt.Sprintf("the other takes over after %v", time.Since(begin))
	if time.Since(begin) < 11*time.Second {
		got = "the other takes over within the session timeout"
	}
	expect(t, "61.killed", got+"; nothing lost")
}

func TestCase70GroupFindCoordinator(t *testing.T) {
	c := dial(t)
	group := newGroup(t)
	brokers := c.metadata(9).Brokers
	got := map[int16]string{}
	for version := range int16(7) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, group, []string{group}
		resp := do[*kmsg.FindCoordinatorResponse](c, req)
		node, host, port, code := resp.NodeID, resp.Host, resp.Port, resp.ErrorCode
		if version >= 4 {
			f := resp.Coordinators[0]
			node, host, port, code = f.NodeID, f.Host, f.Port, f.ErrorCode
		}
		got[version] = fmt.Sprintf("%s: %d at %s:%d", name(code), node, host, port)
		for _, b := range brokers {
			if code == 0 && b.NodeID == node && b.Host == host && b.Port == port {
				got[version] = "the address and number of a broker of Metadata, no error"
			}
		}
	}
	expect(t, "70.find", same(got))

	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group, group + "-2", ""}
	answers := map[string]int16{}
	for _, f := range do[*kmsg.FindCoordinatorResponse](c, req).Coordinators {
		answers[f.Key] = f.ErrorCode
	}
	expect(t, "70.find-many", "an answer each: "+names(answers[group], answers[group+"-2"], answers[""]))
	if len(answers) != 3 {
		t.Errorf("answers %v", answers)
	}
	req.CoordinatorKeys, req.CoordinatorType = []string{group}, 9
	expect(t, "70.find-type", name(do[*kmsg.FindCoordinatorResponse](c, req).Coordinators[0].ErrorCode))
}

// TestCase70GroupCoordinatorKilled holds every row that needs a restart: one after kill -9, one clean.
func TestCase70GroupCoordinatorKilled(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	steady := form(t, 2, func(i int, m *member) {
		if i == 1 {
			m.static("x")
		}
	})
	group := steady[0].group
	commit := commitRequest(8, group, topic, map[int32]int64{0: 5, 1: 6})
	text := "kept"
	commit.MemberID, commit.Generation, commit.Topics[0].Partitions[0].Metadata = steady[0].id, steady[0].generation, &text
	if codes := c.commit(commit); names(codes...) != "0; 0" {
		t.Fatal(names(codes...))
	}
	offsets := offsetsText(c.offsetFetch(c.offsetFetchRequest(8, group, topic, 0, 1)))

	gone, partly := newGroup(t), newGroup(t)
	c.mustCommit(gone, topic, map[int32]int64{0: 1})
	c.mustCommit(partly, topic, map[int32]int64{0: 1, 1: 1})
	if codes := c.deleteGroups(gone); codes[0] != 0 {
		t.Fatal(name(codes[0]))
	}
	if code, codes := c.offsetDelete(partly, topic); code != 0 || codes[0] != 0 {
		t.Fatal(name(code), names(codes...))
	}
	midway := form(t, 2, nil)
	midway = append(midway, newMember(t, midway[0].group))
	midway[2].beginJoin()
	c.awaitState(midway[0].group, "PreparingRebalance", 3)
	regather(midway)

	restart(t, true)
	c = dial(t)
	got := "none but 14, 15, 16"
	for _, g := range []string{group, gone, partly, midway[0].group} {
		for _, code := range c.awaitCoordinator(g) {
			if code != coordinatorLoading && code != coordinatorNotAvailable && code != notCoordinator {
				got = name(code)
			}
		}
	}
	expect(t, "70.errors", got)
	got = offsetsText(c.offsetFetch(c.offsetFetchRequest(8, group, topic, 0, 1)))
	if got == offsets {
		got = "as before"
	}
	expect(t, "70.offsets", got)
	afterKill(t, c, steady, commit)
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{gone}
	expect(t, "70.deleted", fmt.Sprintf("still gone: %s; %d",
		name(do[*kmsg.DescribeGroupsResponse](c, req).Groups[0].ErrorCode), c.fetched(partly, topic, 0)))

	for _, m := range midway {
		m.client = dial(t)
	}
	got = names(midway[0].sync(nil).ErrorCode, midway[2].sync(nil).ErrorCode)
	midway[2].id = ""
	midway[2].beginJoin()
	c.awaitState(midway[0].group, "PreparingRebalance", 3)
	regather(midway)
	settle(midway)
	expect(t, "70.midway", fmt.Sprintf("%s; one generation with %d members", got, len(c.describe(midway[0].group).Members)))

	restart(t, false)
	c = dial(t)
	c.awaitCoordinator(group)
	expect(t, "70.clean", fmt.Sprintf("%s; %d", name(steady[0].beat(c)), c.fetched(group, topic, 0)))
}

// afterKill goes on with a Stable group whose coordinator was killed, of a dynamic leader and a static follower.
func afterKill(t *testing.T, c *client, members []*member, commit *kmsg.OffsetCommitRequest) {
	t.Helper()
	for _, m := range members {
		m.client = dial(t)
	}
	d := c.describe(commit.Group)
	codes := []int16{members[0].beat(c), members[1].beat(c)}
	same := "the same assignment"
	for i, m := range members {
		if s := m.sync(nil); s.ErrorCode != 0 || string(s.MemberAssignment) != fmt.Sprintf("part %d", i) {
			same = fmt.Sprintf("sync: %s, %q", name(s.ErrorCode), s.MemberAssignment)
		}
	}
	expect(t, "70.generation", fmt.Sprintf("%s with %d members; %s; %s; %s", d.State, len(d.Members), names(codes...), same, name(c.commit(commit)[0])))

	old := members[1]
	members[1] = old.restarted()
	resp := members[1].join()
	got := fmt.Sprintf("generation %d at once", resp.Generation)
	if s := members[1].sync(nil); s.ErrorCode == 0 && string(s.MemberAssignment) == "part 1" {
		got += "; its assignment by sync"
	}
	expect(t, "70.static", fmt.Sprintf("%s; old id: %s", got, name(old.beat(c))))

	members[0].beginJoin()
	c.awaitState(commit.Group, "PreparingRebalance", 2)
	regather(members)
	settle(members)
	expect(t, "70.next", fmt.Sprintf("generation %d with %d members", members[0].generation, len(c.describe(commit.Group).Members)))
}

func TestCase73GroupTenants(t *testing.T) {
	for _, id := range []string{"73.groups", "73.offsets", "73.tools"} {
		if onlyFelix(t, id) && id == "73.tools" {
			return
		}
	}
	acme, beta := dialSASL(t, "acme", "acme-secret"), dialSASL(t, "beta", "beta-secret")
	group, only := newGroupAt(t, acme), newGroupAt(t, acme)
	beta.awaitCoordinator(group)
	topic := acme.topic(1)
	beta.createTopic(topic, 1)
	mine, theirs := newMemberOn(dialSASL(t, "acme", "acme-secret"), group), newMemberOn(dialSASL(t, "beta", "beta-secret"), group)
	mine.mustJoin()
	settle([]*member{mine})
	mine.mustJoin()
	settle([]*member{mine})
	theirs.mustJoin()
	settle([]*member{theirs})
	a, b := acme.describe(group), beta.describe(group)
	expect(t, "73.groups", fmt.Sprintf("acme: %s with %d member, generation %d; beta: %s with %d member, generation %d",
		a.State, len(a.Members), mine.generation, b.State, len(b.Members), theirs.generation))
	foreign := beta.heartbeat(group, mine.id, nil, mine.generation)

	acme.leave(group, mine.id)
	beta.leave(group, theirs.id)
	acme.mustCommit(group, topic, map[int32]int64{0: 1})
	beta.mustCommit(group, topic, map[int32]int64{0: 2})
	acme.mustCommit(only, topic, map[int32]int64{0: 3})
	_, allOfA := acme.offsetFetch(acme.offsetFetchRequest(8, group, ""))
	_, allOfB := beta.offsetFetch(beta.offsetFetchRequest(8, group, ""))
	expect(t, "73.offsets", fmt.Sprintf("acme: %d, %d topic; beta: %d, %d topic",
		acme.fetched(group, topic, 0), len(allOfA), beta.fetched(group, topic, 0), len(allOfB)))

	got := "listed: the other's too"
	listA, listB := acme.listGroups(5, nil, nil), beta.listGroups(5, nil, nil)
	_, both := listA[group]
	_, its := listB[group]
	_, seen := listA[only]
	if _, leak := listB[only]; both && its && seen && !leak {
		got = "listed: own groups only"
	}
	if codes := acme.deleteGroups(group); codes[0] != 0 {
		t.Fatal(name(codes[0]))
	}
	deleted := "deleted: the other's too"
	if beta.fetched(group, topic, 0) == 2 && acme.fetched(group, topic, 0) == -1 {
		deleted = "deleted: one's own alone"
	}
	expect(t, "73.tools", fmt.Sprintf("%s; the other's member: %s; %s", got, name(foreign), deleted))
}

func TestCase74GroupSize(t *testing.T) {
	for id, size := range map[string]struct{ members, metadata int }{"74.large": {3, 1 << 20}, "74.many": {200, 5 << 10}} {
		metadata := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), size.metadata) }
		members := gather(t, newGroup(t), size.members, func(i int, m *member) {
			m.protocolType = "large"
			m.offer("p", metadata(i))
		})
		// The leader is told once more, since gather has read its answer.
		lead := members[0].mustJoin()
		got := "join completes; leader receives all"
		byID := map[string]string{}
		for _, m := range lead.Members {
			byID[m.MemberID] = string(m.ProtocolMetadata)
		}
		for i, m := range members {
			if byID[m.id] != metadata(i) || len(byID) != len(members) {
				got = fmt.Sprintf("%d members listed, %d bytes of metadata for member %d", len(byID), len(byID[m.id]), i)
			}
		}
		if id == "74.many" {
			settle(members)
			got += "; everyone gets its part"
		}
		expect(t, id, got)
	}
}

// groupPeer is a second server with a delay before the first generation, small groups, and a look at expired offsets every
// second.
func groupPeer(t *testing.T) string {
	t.Helper()
	p, err := peer.FromEnv(peer.Options{
		KafkaProperties: map[string]string{
			"group.initial.rebalance.delay.ms": "2000", "group.max.size": "3", "offsets.retention.check.interval.ms": "1000",
		},
		FelixEnv: []string{
			"FELIX_KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=2000", "FELIX_KAFKA_GROUP_MAX_SIZE=3",
			"FELIX_KAFKA_OFFSETS_RETENTION_CHECK_INTERVAL_MS=1000",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return p.Addr()
}

func TestCase63GroupSettings(t *testing.T) {
	t.Parallel()
	addr := groupPeer(t)
	c := dialAddr(t, addr)
	group := newGroupAt(t, c)
	join := func(version int16) *member {
		m := newMemberOn(dialAddr(t, addr), group)
		m.version = version
		return m
	}
	first, second := join(3), join(3) // let in at once, so that one message each is all that has to be in time
	begin := time.Now()
	first.beginJoin()
	timer := time.NewTimer(300 * time.Millisecond)
	<-timer.C // what is tested is a time: the second member comes within the delay
	second.beginJoin()
	first.noError("join", first.endJoin().ErrorCode)
	took := time.Since(begin)
	second.noError("join", second.endJoin().ErrorCode)
	got := fmt.Sprintf("generations %d and %d after %v", first.generation, second.generation, took)
	if first.generation == 1 && second.generation == 1 && took > 1900*time.Millisecond {
		got = "one generation for both, after the delay"
	}
	members := []*member{first, second}
	settle(members)
	begin = time.Now()
	first.beginJoin()
	c.awaitState(group, "PreparingRebalance", 2)
	regather(members)
	if d := time.Since(begin); d < 1900*time.Millisecond {
		got += "; the next rebalance without it"
	} else {
		got += fmt.Sprintf("; the next rebalance after %v", d)
	}
	expect(t, "63.delay", got)
	settle(members)

	third := join(9)
	third.beginJoin()
	c.awaitState(group, "PreparingRebalance", 3)
	members = append(members, third)
	regather(members)
	settle(members)
	codes := []int16{join(3).join().ErrorCode, do[*kmsg.JoinGroupResponse](c, join(9).joinRequest()).ErrorCode, third.join().ErrorCode}
	other := newMemberOn(dialAddr(t, addr), newGroupAt(t, c))
	expect(t, "63.full", names(append(codes, other.join().ErrorCode)...))

	retention(t, c, addr)
}

// retention commits with the retention time that only OffsetCommit v2 to v4 have: the one of the configuration is in days.
func retention(t *testing.T, c *client, addr string) {
	t.Helper()
	topic, lasting := c.topic(1), c.topic(1)
	brief := func(group, topic string, m *member) {
		req := commitRequest(2, group, topic, map[int32]int64{0: 1})
		req.RetentionTimeMillis = 1
		if m != nil {
			req.MemberID, req.Generation = m.id, m.generation
		}
		if code := c.commit(req)[0]; code != 0 {
			t.Fatal(name(code))
		}
	}
	m := newMemberOn(dialAddr(t, addr), newGroupAt(t, c))
	m.offer("range", string(subscription(topic)))
	m.mustJoin()
	settle([]*member{m})
	brief(m.group, topic, m)
	group, short := newGroupAt(t, c), newGroupAt(t, c)
	c.mustCommit(group, lasting, map[int32]int64{0: 2})
	brief(group, topic, nil)
	brief(short, topic, nil)
	await(t, "the offset to expire", func() bool { return c.fetched(group, topic, 0) == -1 })
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{short}
	var code int16
	await(t, "the group to be gone", func() bool {
		code = do[*kmsg.DescribeGroupsResponse](c, req).Groups[0].ErrorCode
		return code != 0
	})
	expect(t, "69.retention", fmt.Sprintf("%d; %d", c.fetched(group, topic, 0), c.fetched(group, lasting, 0)))
	expect(t, "69.retention-subscribed", fmt.Sprint(c.fetched(m.group, topic, 0)))
	expect(t, "69.retention-group", name(code))
}
