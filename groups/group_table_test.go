package groups

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func scriptLimits() *limits {
	return &limits{minSession: 6 * time.Second, maxSession: 30 * time.Minute}
}

// joinAll makes a stable group of n dynamic members, m-0000 and up, of which the first leads, with what was asked for on the way.
func joinAll(t testing.TB, n int) *group {
	t.Helper()
	g := newGroup(Key{Tenant: "t", Group: "g"}, scriptLimits())
	g.limits.initialRebalanceDelay = 3 * time.Second
	var fx effects
	for i := range n {
		g.join(scriptStart, fmt.Sprintf("m-%04d", i), joinOf(""), func(*JoinResult) {}, &fx)
	}
	for at, ok := g.deadline(); ok && g.stage == stagePreparing; at, ok = g.deadline() {
		g.expire(at, &fx)
	}
	syncAll(t, g, &fx)
	return g
}

func joinOf(id string) *JoinRequest {
	return &JoinRequest{
		MemberID: id, SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute, ProtocolType: "consumer",
		Protocols: []Protocol{{Name: "range", Metadata: []byte("topics")}, {Name: "roundrobin", Metadata: []byte("topics")}},
	}
}

func syncAll(t testing.TB, g *group, fx *effects) {
	t.Helper()
	synced := 0
	for id := range g.byID {
		g.sync(scriptStart, &SyncRequest{MemberID: id, Generation: g.generation}, func(r *SyncResult) {
			if r.Err == nil {
				synced++
			}
		}, fx)
	}
	g.persisted(scriptStart, g.generation, nil, fx)
	deliver(fx)
	if g.stage != stageStable || synced != g.members() {
		t.Fatalf("%s, %d of %d members synced", g.state(), synced, g.members())
	}
}

func TestLoadGroup(t *testing.T) {
	part := func(id, instance string) memberRecord {
		return memberRecord{ID: id, InstanceID: instance, SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 60_000}
	}
	tests := []struct {
		name    string
		members []memberRecord
		leader  string
		state   string
		ids     []string
		leads   string
	}{
		{"empty", nil, "", "Empty", nil, ""},
		{"empty_with_a_leader", nil, "a", "Empty", nil, ""},
		{"sound", []memberRecord{part("b", ""), part("a", "x")}, "a", "Stable", []string{"a", "b"}, "a"},
		{"leader_is_nobody", []memberRecord{part("b", ""), part("a", "")}, "c", "Stable", []string{"a", "b"}, "b"},
		{"a_member_twice", []memberRecord{part("a", ""), part("a", "x"), part("b", "")}, "b", "Stable", []string{"a", "b"}, "b"},
		{"an_instance_twice", []memberRecord{part("a", "x"), part("b", "x")}, "b", "Stable", []string{"a"}, "a"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			rec := &groupRecord{Generation: 7, ProtocolType: "consumer", Protocol: "range", Leader: tc.leader, ChangedAt: 5, Members: tc.members}
			g := loadGroup(Key{Group: "g"}, rec, scriptLimits(), scriptStart)
			var got []string
			for _, m := range g.sorted() {
				got = append(got, m.id)
			}
			if diff := cmp.Diff(tc.ids, got); diff != "" || g.state() != tc.state || g.leader != tc.leads || g.generation != 7 {
				t.Errorf("%s, leader %q, generation %d; members (-want +got):\n%s", g.state(), g.leader, g.generation, diff)
			}
			if broken := brokenRule(g, scriptStart); broken != "" {
				t.Error(broken)
			}
			if at, ok := g.deadline(); ok != (len(tc.ids) > 0) || ok && !at.Equal(scriptStart.Add(10*time.Second)) {
				t.Errorf("deadline %v, %v", at, ok)
			}
		})
	}
}

// TestRecordComesBack is that a group which was loaded is stored as it was.
func TestRecordComesBack(t *testing.T) {
	want := joinAll(t, 5).record()
	got := loadGroup(Key{Group: "g"}, want, scriptLimits(), scriptStart).record()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
}

// TestRequestsAreCopied is that what a request brought may be overwritten after the call, and that what a record gives is its own.
func TestRequestsAreCopied(t *testing.T) {
	g := newGroup(Key{Group: "g"}, scriptLimits())
	var fx effects
	topics, part := []byte("topics"), []byte("part")
	r := joinOf("")
	r.Protocols[0].Metadata = topics
	var joined *JoinResult
	g.join(scriptStart, "m", r, func(res *JoinResult) { joined = res }, &fx)
	deliver(&fx)
	copy(topics, "xxxxxx")
	r.Protocols[0].Name = "x"
	var synced *SyncResult
	s := &SyncRequest{MemberID: "m", Generation: 1, Assignments: []Assignment{{"m", part}}}
	g.sync(scriptStart, s, func(res *SyncResult) { synced = res }, &fx)
	copy(part, "xxxx")
	g.persisted(scriptStart, 1, nil, &fx)
	deliver(&fx)
	if len(joined.Members) != 1 || string(joined.Members[0].Metadata) != "topics" || string(synced.Assignment) != "part" {
		t.Errorf("joined %q, assigned %q", joined.Members, synced.Assignment)
	}
	rec := g.record()
	loaded := loadGroup(g.key, rec, scriptLimits(), scriptStart)
	copy(rec.Members[0].Subscription, "xxxxxx")
	copy(rec.Members[0].Assignment, "xxxx")
	if d := loaded.describe().Members[0]; string(d.Metadata) != "topics" || string(d.Assignment) != "part" {
		t.Errorf("loaded metadata %q, assignment %q", d.Metadata, d.Assignment)
	}
}

func TestMillis(t *testing.T) {
	tests := []struct {
		name string
		d    time.Duration
		want int32
	}{
		{"negative", -time.Second, 0},
		{"fraction", 1999 * time.Microsecond, 1},
		{"minute", time.Minute, 60_000},
		{"beyond", math.MaxInt64, math.MaxInt32},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := millis(tc.d); got != tc.want {
				t.Errorf("millis(%v) = %d, want %d", tc.d, got, tc.want)
			}
		})
	}
}

// TestHeartbeatsAreCheap is that a heartbeat allocates nothing, and that however many there were, a session is looked at once.
func TestHeartbeatsAreCheap(t *testing.T) {
	g := joinAll(t, 1000)
	now := scriptStart
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Millisecond)
		if err := g.heartbeat(now, "m-0500", "", g.generation); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a heartbeat", n)
	}
	// Everybody sends one a second for an hour: the heap is turned once a session of ten seconds for each.
	looks := 0
	for range 3600 {
		now = now.Add(time.Second)
		for id := range g.byID {
			if err := g.heartbeat(now, id, "", g.generation); err != nil {
				t.Fatal(err)
			}
		}
		if at, ok := g.deadline(); ok && !at.After(now) {
			looks++
			var fx effects
			g.expire(now, &fx)
		}
	}
	if g.members() != 1000 || looks > 3600/9+1 {
		t.Errorf("%d members after an hour, %d looks", g.members(), looks)
	}
}

// TestBytesDoNotLeak is that a group which everybody left in one way or another holds nothing.
func TestBytesDoNotLeak(t *testing.T) {
	ends := map[string]func(g *group, fx *effects){
		"leave": func(g *group, fx *effects) {
			var all []Leaving
			for id := range g.byID {
				all = append(all, Leaving{MemberID: id})
			}
			g.leave(scriptStart, all, fx)
		},
		"session": func(g *group, fx *effects) { g.expire(scriptStart.Add(time.Hour), fx) },
		"abandon": func(g *group, fx *effects) { g.abandon(ErrNotCoordinator, fx) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			g := joinAll(t, 50)
			if g.bytes < 50*memberCost {
				t.Errorf("50 members count as %d bytes", g.bytes)
			}
			var fx effects
			end(g, &fx)
			if g.bytes != 0 || len(g.sessions.list) != 0 || len(g.supported) != 0 || g.members() != 0 {
				t.Errorf("%s: %d bytes, %d sessions, protocols %v, %d members", g.state(), g.bytes, len(g.sessions.list), g.supported, g.members())
			}
			if _, ok := g.deadline(); ok {
				t.Error("there is a deadline for nobody")
			}
		})
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	g := joinAll(b, 1000)
	now := scriptStart
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(10 * time.Microsecond)
		if err := g.heartbeat(now, "m-0500", "", g.generation); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRebalance is all of a rebalance of 1,000 members: joins, syncs, and the record.
func BenchmarkRebalance(b *testing.B) {
	g := joinAll(b, 1000)
	all := g.sorted()
	b.ReportAllocs()
	for b.Loop() {
		var fx effects
		for _, m := range all { // the leader comes first and begins it
			g.join(scriptStart, "", joinOf(m.id), func(*JoinResult) {}, &fx)
		}
		syncAll(b, g, &fx)
	}
}
