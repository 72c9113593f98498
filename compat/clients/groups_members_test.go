package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// sessionMS is the session timeout of members that crash: the shortest that a server takes by its defaults.
const sessionMS = 6000

// member is one client process in a group; what it tells is kept.
type member struct {
	name   string
	client *driver.Client
	stop   func() (agent.Response, error)

	mu     sync.Mutex
	events []agent.Event
	owned  map[int32]bool
	joined bool // an assignment came, be it empty
	got    map[string]int
}

// join makes a client a member of a group. Leave or crash ends it; the end of the test does otherwise.
func join(t *testing.T, c *driver.Client, topic string, g agent.Group) *member {
	t.Helper()
	m := &member{name: c.Name, client: c, owned: map[int32]bool{}, got: map[string]int{}}
	m.stop = stream(t, c, agent.Request{Op: agent.OpMember, Topic: topic, Group: &g}, m.event)
	t.Cleanup(func() {
		_, err := m.stop() // a test that wants to know has asked before
		if t.Failed() {
			t.Logf("%s ended with %v and logged: %s", m.name, err, m.client.Log())
		}
	})
	return m
}

// joinAnother starts a further process of a client and makes it a member.
func joinAnother(t *testing.T, name, topic string, g agent.Group) *member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c, err := driver.Another(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a killed one has said how it ended
	return join(t, c, topic, g)
}

func (m *member) event(e agent.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
	if e.Owned != nil {
		for _, p := range e.Owned.Revoked {
			delete(m.owned, p)
		}
		for _, p := range e.Owned.Assigned {
			m.owned[p] = true
		}
		m.joined = true
	}
	if e.Record != nil {
		m.got[string(e.Record.Value)]++
	}
}

// leave ends the member cleanly.
func (m *member) leave(t *testing.T) {
	t.Helper()
	if _, err := m.stop(); err != nil {
		t.Errorf("%s leaves: %v", m.name, err)
	}
}

// crash kills the member's process. What it owned counts as given up.
func (m *member) crash(t *testing.T) {
	t.Helper()
	if err := m.client.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = m.stop() // it is gone
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := agent.Event{At: time.Now().UnixMicro(), Owned: &agent.Owned{}}
	for p := range m.owned {
		gone.Owned.Revoked = append(gone.Owned.Revoked, p)
	}
	m.events = append(m.events, gone)
	clear(m.owned)
}

// owns is how many partitions the member owns.
func (m *member) owns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned)
}

// received is how often each record came to the member.
func (m *member) received() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for value, n := range m.got {
		out[value] = n
	}
	return out
}

// settled waits until all members are in and own all partitions together.
func settled(t *testing.T, partitions int, members ...*member) {
	t.Helper()
	var seen string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("owned: %s", seen)
		}
	})
	eventually(t, 60*time.Second, fmt.Sprintf("%d members own %d partitions", len(members), partitions), func() bool {
		total, each := 0, true
		var parts []string
		for _, m := range members {
			n := m.owns()
			total += n
			each = each && (n > 0 || len(members) > partitions)
			parts = append(parts, fmt.Sprintf("%s %d", m.name, n))
		}
		seen = strings.Join(parts, ", ")
		return each && total == partitions
	})
}

// oneOwner checks by the members' own times that no partition had two owners at once, and that each record came to its owner.
func oneOwner(t *testing.T, members ...*member) {
	t.Helper()
	type step struct {
		agent.Event
		who int
	}
	var steps []step
	for who, m := range members {
		m.mu.Lock()
		for _, e := range m.events {
			steps = append(steps, step{e, who})
		}
		m.mu.Unlock()
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	owner := map[int32]int{}
	for _, s := range steps {
		switch {
		case s.Owned != nil:
			for _, p := range s.Owned.Revoked {
				delete(owner, p)
			}
			for _, p := range s.Owned.Assigned {
				if who, taken := owner[p]; taken && who != s.who {
					t.Errorf("partition %d went to member %d (%s) while member %d (%s) owned it", p, s.who, members[s.who].name, who, members[who].name)
				}
				owner[p] = s.who
			}
		case s.Record != nil:
			if who, taken := owner[s.Record.Partition]; !taken || who != s.who {
				t.Errorf("partition %d, offset %d came to member %d (%s), which did not own it", s.Record.Partition, s.Record.Offset, s.who, members[s.who].name)
			}
		}
	}
}

// all waits until every value has come to some member, and checks that it came once where once is set.
func all(t *testing.T, values []string, once bool, members ...*member) {
	t.Helper()
	var missing []string
	eventually(t, 60*time.Second, "every record comes to a member", func() bool {
		total := map[string]int{}
		for _, m := range members {
			for value, n := range m.received() {
				total[value] += n
			}
		}
		missing = missing[:0]
		for _, value := range values {
			if total[value] == 0 {
				missing = append(missing, value)
			}
			if once && total[value] > 1 {
				t.Fatalf("%s came %d times", value, total[value])
			}
		}
		return len(missing) == 0
	})
}

// produceRound writes one record to each partition and returns the values.
func produceRound(t *testing.T, topic, round string, partitions int) []string {
	t.Helper()
	cl := dial(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	var values []string
	for p := range partitions {
		value := fmt.Sprintf("%s/%d", round, p)
		values = append(values, value)
		records = append(records, &kgo.Record{Partition: int32(p), Value: []byte(value)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return values
}

// committedOffsets asks the server itself.
func committedOffsets(t *testing.T, group, topic string, partitions int) []int64 {
	t.Helper()
	found, err := kadm.NewClient(dial(t)).FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int64, partitions)
	for p := range out {
		out[p] = -1
		if o, ok := found.Lookup(topic, int32(p)); ok {
			out[p] = o.At
		}
	}
	return out
}

// needsGroups fails at a server without groups.
func needsGroups(t *testing.T) {
	t.Helper()
	if !served(t, kmsg.JoinGroup) {
		t.Fatal("the server has no groups")
	}
}

// able are the clients whose library has what a case asks for; lacks says why one has not.
func able(number string, lacks func(driver.Features) string) []*driver.Client {
	var clients []*driver.Client
	for _, c := range suite.clients {
		if why := lacks(c.Features); why != "" {
			suite.results.Without(number, c.Name, why)
			continue
		}
		clients = append(clients, c)
	}
	return clients
}

// sideBySide runs a case for several clients, a few at a time: most of it is waiting for timeouts.
func sideBySide(t *testing.T, number string, clients []*driver.Client, f func(t *testing.T, c *driver.Client)) {
	t.Helper()
	slots := make(chan struct{}, 6)
	t.Run("side-by-side", func(t *testing.T) {
		for _, c := range clients {
			forClient(t, number, c, func(t *testing.T, c *driver.Client) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				f(t, c)
			})
		}
	})
}

// refusedWith is the error number of a client's failed call, and whether the library lacks the call.
func refusedWith(err error) (code int, unsupported bool) {
	var refused *driver.CallError
	if errors.As(err, &refused) {
		return refused.Code, refused.Unsupported
	}
	return -1, false
}
