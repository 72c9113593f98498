package clients

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// groupName is a group of a client's own in a test.
func groupName(what string, c *driver.Client) string {
	return fmt.Sprintf("clients.%s.%d.%s", what, topics.Add(1), c.Name)
}

// TestCase62Resume: each client in a group of its own consumes, commits and leaves; the server is restarted; a new member resumes at
// the committed offset.
func TestCase62Resume(t *testing.T) {
	needsGroups(t)
	const partitions = 2
	topic := newTopic(t, partitions, nil)
	first := produceRound(t, topic, "first", partitions)
	groups := map[string]string{}
	for _, c := range suite.clients {
		name := groupName("62", c)
		groups[c.Name] = name
		forClient(t, "62", c, func(t *testing.T, c *driver.Client) {
			m := join(t, c, topic, agent.Group{ID: name})
			all(t, first, true, m)
			m.leave(t)
			if got := committedOffsets(t, name, topic, partitions); !slices.Equal(got, []int64{1, 1}) {
				t.Errorf("committed offsets %v after the member left, want 1 and 1", got)
			}
		})
	}
	if suite.peer.PID() != 0 {
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		if err := suite.peer.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	second := produceRound(t, topic, "second", partitions)
	for _, c := range suite.clients {
		forClient(t, "62", c, func(t *testing.T, c *driver.Client) {
			m := join(t, c, topic, agent.Group{ID: groups[c.Name], Commit: true})
			all(t, second, true, m)
			for _, value := range first {
				if m.received()[value] > 0 {
					t.Errorf("%s came again", value)
				}
			}
			eventually(t, 10*time.Second, "the second round is committed", func() bool {
				return slices.Equal(committedOffsets(t, groups[c.Name], topic, partitions), []int64{2, 2})
			})
			m.leave(t)
		})
	}
}

// TestCase67JoinCrashLeave: a group of three members of one client. One crashes and one leaves; what they owned goes to who is left,
// and every record comes.
func TestCase67JoinCrashLeave(t *testing.T) {
	needsGroups(t)
	sideBySide(t, "67", suite.clients, func(t *testing.T, c *driver.Client) {
		const partitions = 6
		topic := newTopic(t, partitions, nil)
		g := agent.Group{ID: groupName("67", c), Commit: true, SessionMS: sessionMS}
		a := joinAnother(t, c.Name, topic, g)
		settled(t, partitions, a)
		b, d := joinAnother(t, c.Name, topic, g), joinAnother(t, c.Name, topic, g)
		settled(t, partitions, a, b, d)
		all(t, produceRound(t, topic, "three", partitions), false, a, b, d)
		b.crash(t)
		settled(t, partitions, a, d)
		all(t, produceRound(t, topic, "two", partitions), false, a, b, d)
		left := time.Now()
		d.leave(t)
		settled(t, partitions, a)
		t.Logf("taken over %v after the leave", time.Since(left).Round(time.Millisecond))
		all(t, produceRound(t, topic, "one", partitions), false, a, b, d)
		a.leave(t)
		oneOwner(t, a, b, d)
	})
}

// TestCase61AllInOne: one member of every client in one group with the range assignor. All partitions are owned, no two members own
// one, and every record comes to one member.
func TestCase61AllInOne(t *testing.T) {
	needsGroups(t)
	clients := suite.clients
	partitions := 2 * len(clients)
	topic := newTopic(t, int32(partitions), nil)
	members := make([]*member, len(clients))
	g := agent.Group{ID: "clients.all-in-one", Assignor: agent.Range, Commit: true, SessionMS: 3 * sessionMS}
	// franz-go leads: it takes every other's subscription. The first member stays the leader as long as it is there.
	leader := slices.Index(clients, client(t, "franz-go"))
	members[leader] = join(t, clients[leader], topic, g)
	settled(t, partitions, members[leader])
	for i, c := range clients {
		if i != leader {
			members[i] = join(t, c, topic, g)
		}
	}
	settled(t, partitions, members...)
	for round := range 3 {
		all(t, produceRound(t, topic, fmt.Sprintf("round-%d", round), partitions), true, members...)
	}
	end := func(i int) {
		c := clients[i]
		forClient(t, "61", c, func(t *testing.T, _ *driver.Client) {
			if got := len(members[i].received()); got != 3*2 {
				t.Errorf("%d records, want 6: three of each of its two partitions", got)
			}
			members[i].leave(t)
		})
	}
	// Who cannot lead the others, nor be led by all of them, leaves first.
	for i, c := range clients {
		if c.Features.OldSubscriptions {
			suite.results.Without("61", c.Name, "its subscriptions name a version whose fields they lack, and it decodes none newer than its own: a lenient client must lead")
			end(i)
		}
	}
	for i, c := range clients {
		if !c.Features.OldSubscriptions {
			end(i)
		}
	}
	oneOwner(t, members...)
}

// TestCase65Static: a static member that restarts within its session timeout gets its partitions back without a rebalance: the other
// member is not told of any.
func TestCase65Static(t *testing.T) {
	needsGroups(t)
	clients := able("65", func(f driver.Features) string { return f.NoStatic })
	sideBySide(t, "65", clients, func(t *testing.T, c *driver.Client) {
		const partitions = 4
		topic := newTopic(t, partitions, nil)
		g := agent.Group{ID: groupName("65", c), Assignor: agent.Range, Commit: true, SessionMS: 5 * sessionMS}
		one, two := g, g
		one.Instance, two.Instance = "one", "two"
		a := joinAnother(t, c.Name, topic, one)
		b := joinAnother(t, c.Name, topic, two)
		settled(t, partitions, a, b)
		all(t, produceRound(t, topic, "before", partitions), false, a, b)
		before := b.changes()
		a.crash(t)
		values := produceRound(t, topic, "while-away", partitions)
		again := joinAnother(t, c.Name, topic, one)
		settled(t, partitions, again, b)
		all(t, values, false, b, again)
		if after := b.changes(); after != before {
			t.Errorf("the other member saw %d changes of ownership, want none", after-before)
		}
		again.leave(t)
		b.leave(t)
		oneOwner(t, a, b, again)
	})
}

// changes is how many assignments and revocations the member has told of.
func (m *member) changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, e := range m.events {
		if e.Owned != nil && len(e.Owned.Assigned)+len(e.Owned.Revoked) > 0 {
			n++
		}
	}
	return n
}

// TestCase66Cooperative: a group with the cooperative-sticky assignor goes from one member to three and back to two. A partition that
// stays where it is is never given up, so it keeps flowing, and none has two owners.
func TestCase66Cooperative(t *testing.T) {
	needsGroups(t)
	clients := able("66", func(f driver.Features) string { return f.NoCooperative })
	sideBySide(t, "66", clients, func(t *testing.T, c *driver.Client) {
		const partitions = 6
		topic := newTopic(t, partitions, nil)
		g := agent.Group{ID: groupName("66", c), Assignor: agent.CooperativeSticky, Commit: true, SessionMS: sessionMS}
		a := joinAnother(t, c.Name, topic, g)
		settled(t, partitions, a)
		b, d := joinAnother(t, c.Name, topic, g), joinAnother(t, c.Name, topic, g)
		settled(t, partitions, a, b, d)
		all(t, produceRound(t, topic, "three", partitions), false, a, b, d)
		d.leave(t)
		settled(t, partitions, a, b)
		all(t, produceRound(t, topic, "two", partitions), false, a, b, d)
		a.leave(t)
		b.leave(t)
		oneOwner(t, a, b, d)
		// From six to two of three members takes four away, and only those; the one that stays never gives up more.
		given := map[int32]bool{}
		a.mu.Lock()
		defer a.mu.Unlock()
		revocations := 0
		for _, e := range a.events[:len(a.events)-1] {
			if e.Owned == nil {
				continue
			}
			for _, p := range e.Owned.Revoked {
				given[p] = true
				revocations++
			}
		}
		if last := a.events[len(a.events)-1]; last.Owned == nil || len(last.Owned.Revoked) == 0 {
			t.Errorf("the last event is %+v, want what was given up in leaving", last)
		}
		if revocations > 4 || len(given) != revocations {
			t.Errorf("the first member gave up %d partitions %d times while it stayed, want at most 4, each once", len(given), revocations)
		}
	})
}

// TestCase69Reset: each client sets the committed offsets of a group without members, and a member starts there.
func TestCase69Reset(t *testing.T) {
	needsGroups(t)
	const partitions = 2
	topic := newTopic(t, partitions, nil)
	var rounds [][]string
	for round := range 3 {
		rounds = append(rounds, produceRound(t, topic, fmt.Sprintf("round-%d", round), partitions))
	}
	for _, c := range able("69", lacksAdmin) {
		forClient(t, "69", c, func(t *testing.T, c *driver.Client) {
			name := groupName("69", c)
			reset := agent.Request{Op: agent.OpReset, Topic: topic, Assign: []int32{0, 1}, From: 2, Group: &agent.Group{ID: name}}
			call(t, c, reset)
			if got := committedOffsets(t, name, topic, partitions); !slices.Equal(got, []int64{2, 2}) {
				t.Fatalf("committed offsets %v, want 2 and 2", got)
			}
			if got := call(t, c, agent.Request{Op: agent.OpCommitted, Topic: topic, Assign: []int32{0, 1}, Group: &agent.Group{ID: name}}).Offsets; !slices.Equal(got, []int64{2, 2}) {
				t.Errorf("the client reads committed offsets %v, want 2 and 2", got)
			}
			m := join(t, c, topic, agent.Group{ID: name, Commit: true})
			all(t, rounds[2], true, m)
			m.leave(t)
			for _, value := range slices.Concat(rounds[0], rounds[1]) {
				if m.received()[value] > 0 {
					t.Errorf("%s came, from before the offset that was set", value)
				}
			}
		})
	}
}

// TestAdmin walks through the calls that each client's admin side has: configs and the end of a topic, and groups.
func TestAdmin(t *testing.T) {
	groups := false
	t.Run("groups-served", func(t *testing.T) {
		needsGroups(t)
		groups = true
	})
	for _, c := range able("admin", lacksAdmin) {
		forClient(t, "admin", c, func(t *testing.T, c *driver.Client) {
			topic := newTopic(t, 1, nil)
			if res, ok := admin(t, c, agent.Request{Op: agent.OpAlter, Topic: topic, Config: map[string]string{"retention.ms": "7200000"}}); ok && res.Done {
				eventually(t, 10*time.Second, "the altered config is shown", func() bool {
					res, ok := admin(t, c, agent.Request{Op: agent.OpConfigs, Topic: topic})
					return !ok || res.Values["retention.ms"] == "7200000"
				})
			}
			if groups {
				adminGroups(t, c, topic)
			}
			if _, ok := admin(t, c, agent.Request{Op: agent.OpDelete, Topic: topic}); ok {
				eventually(t, 10*time.Second, "the deleted topic is gone", func() bool {
					m := call(t, client(t, "franz-go"), agent.Request{Op: agent.OpMetadata}).Metadata
					return !slices.ContainsFunc(m.Topics, func(listed agent.Topic) bool { return listed.Name == topic })
				})
			}
		})
	}
}

func lacksAdmin(f driver.Features) string {
	if f.NoCreate {
		return driver.NoAdmin
	}
	return ""
}

// adminGroups lists, describes and deletes a group: while it has a member, and when it is empty.
func adminGroups(t *testing.T, c *driver.Client, topic string) {
	t.Helper()
	name := groupName("admin", c)
	g := agent.Group{ID: name, Commit: true, SessionMS: sessionMS}
	values := produceRound(t, topic, "admin", 1)
	var m *member
	switch {
	case c.Features.OldSubscriptions:
		suite.results.Without("admin", c.Name, "describes groups whose members send subscriptions of version 0 and 1")
		m = joinAnother(t, c.Name, topic, g)
	case c.Name == "franz-go":
		m = join(t, client(t, "java"), topic, g)
	default:
		m = join(t, client(t, "franz-go"), topic, g)
	}
	all(t, values, true, m)
	group := &agent.Group{ID: name}
	if res, ok := admin(t, c, agent.Request{Op: agent.OpGroups}); ok {
		if !slices.ContainsFunc(res.Groups, func(g agent.GroupInfo) bool { return g.ID == name }) {
			t.Errorf("%s is not among %d groups", name, len(res.Groups))
		}
	}
	if res, ok := admin(t, c, agent.Request{Op: agent.OpDescribe, Group: group}); ok {
		if len(res.Groups) != 1 || res.Groups[0].ID != name || len(res.Groups[0].Members) != 1 {
			t.Errorf("described as %+v, want one group with one member", res.Groups)
		}
	}
	if code, unsupported := deleteGroup(t, c, group); !unsupported && code != 68 {
		t.Errorf("deletion of a group with a member: error %d, want 68", code)
	}
	m.leave(t)
	if code, unsupported := deleteGroup(t, c, group); !unsupported && code != 0 {
		t.Errorf("deletion of an empty group: error %d, want none", code)
	}
}

func deleteGroup(t *testing.T, c *driver.Client, group *agent.Group) (code int, unsupported bool) {
	t.Helper()
	_, err := try(t, c, agent.Request{Op: agent.OpDeleteGroup, Group: group})
	if err == nil {
		return 0, false
	}
	if code, unsupported = refusedWith(err); unsupported {
		suite.results.Without("admin", c.Name, "no call for "+agent.OpDeleteGroup)
	}
	return code, unsupported
}

// admin runs an admin operation; ok is false if the library has no such call. Any other failure ends the test.
func admin(t *testing.T, c *driver.Client, req agent.Request) (res agent.Response, ok bool) {
	t.Helper()
	res, err := try(t, c, req)
	if _, unsupported := refusedWith(err); unsupported {
		suite.results.Without("admin", c.Name, "no call for "+req.Op)
		return res, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return res, true
}
