package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// soakLibrary is a client whose server is a slice of records in one partition.
type soakLibrary struct {
	agent.Library
	ends  func()                              // ends the work that the test looks at; called by whatever was asked
	fails error                               // of a produce, and of a membership
	spoil func([]agent.Record) []agent.Record // what a consume makes of its answer
	count int                                 // records that come to a member

	mu     sync.Mutex
	log    []agent.Record
	asked  int // consumes
	groups []agent.Group
	opened int
}

func (l *soakLibrary) Version() string { return "soak 1" }

func (l *soakLibrary) end() {
	if l.ends != nil {
		l.ends()
	}
}

func (l *soakLibrary) Watermarks(context.Context, agent.Request) (first, next int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, int64(len(l.log)), nil
}

func (l *soakLibrary) Produce(_ context.Context, req agent.Request) ([]int64, error) {
	l.end()
	if l.fails != nil {
		return nil, l.fails
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var offsets []int64
	for _, r := range req.Records {
		r.Offset = int64(len(l.log))
		offsets = append(offsets, r.Offset)
		l.log = append(l.log, r)
	}
	return offsets, nil
}

func (l *soakLibrary) Consume(_ context.Context, req agent.Request) ([]agent.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	got := slices.Clone(l.log[req.From:])
	if l.spoil != nil {
		got = l.spoil(got)
	}
	return got, nil
}

func (l *soakLibrary) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	l.mu.Lock()
	l.groups = append(l.groups, *req.Group)
	l.mu.Unlock()
	for range l.count {
		emit(agent.Event{Record: &agent.Record{}})
	}
	l.end()
	<-ctx.Done()
	return l.fails
}

func (l *soakLibrary) Admin(context.Context, agent.Request) (agent.Response, error) {
	return agent.Response{}, agent.ErrUnsupported
}

// client is the library as one of the soak's.
func (l *soakLibrary) client(f driver.Features) soakClient {
	return soakClient{name: "library", open: func(ctx context.Context) (*driver.Client, error) {
		l.mu.Lock()
		l.opened++
		l.mu.Unlock()
		return driver.Local(ctx, "library", l, f)
	}}
}

// testSoak is a soak without a server: one that has been up for long, or is down.
func testSoak(down bool) *soak {
	return &soak{check: newChecker(), had: map[string]int{}, made: map[string]int{}, addr: "nowhere", down: down, readyAt: time.Now().Add(-time.Hour)}
}

func TestSoakClients(t *testing.T) {
	var names, all []string
	for _, c := range soakClients {
		names = append(names, c.name)
		if c.crashes && !c.member {
			t.Errorf("%s crashes as a member, and is none", c.name)
		}
	}
	for _, o := range driver.All {
		all = append(all, o.Name)
	}
	if !slices.Equal(names, all) {
		t.Errorf("the soak has %q, want the suite's clients %q", names, all)
	}
}

func TestMemberGroup(t *testing.T) {
	for _, tt := range []struct {
		name     string
		client   string
		features driver.Features
		want     []string
	}{
		{"either", "librdkafka 2", driver.Features{}, []string{"campaign.soak-all", "campaign.soak-rdkafka"}},
		{"one-that-reads-in-groups-only", "kafkajs", driver.Features{GroupsOnly: true}, []string{"campaign.soak-all", "campaign.soak-kafkajs"}},
		{"own", "kafka-go", driver.Features{OldSubscriptions: true}, []string{"campaign.soak-kafka-go"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var got []string
			for range 100 {
				if group := memberGroup(tt.client, tt.features, random); !slices.Contains(got, group) {
					got = append(got, group)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("groups %q, want %q", got, tt.want)
			}
		})
	}
}

// TestTrip breaks round trips in one way each.
func TestTrip(t *testing.T) {
	for _, tt := range []struct {
		name     string
		features driver.Features
		spoil    func(asked int, records []agent.Record) []agent.Record
		fails    error
		want     string // part of the error; empty for none
		silences int64
	}{
		{name: "right"},
		{name: "without-offsets", features: driver.Features{NoOffsets: true}},
		{name: "silent-at-first", spoil: func(asked int, records []agent.Record) []agent.Record {
			return records[:min(2*asked, len(records))]
		}, silences: 2},
		{name: "a-record-is-missing", spoil: func(_ int, records []agent.Record) []agent.Record {
			return records[1:]
		}, want: "4 records from offset 3", silences: 2},
		{name: "a-record-too-many", spoil: func(_ int, records []agent.Record) []agent.Record {
			return append(records, records[0])
		}, want: "6 records from offset 3"},
		{name: "out-of-order", spoil: func(_ int, records []agent.Record) []agent.Record {
			slices.Reverse(records)
			return records
		}, want: "offset 7 holds"},
		{name: "another-value", spoil: func(_ int, records []agent.Record) []agent.Record {
			records[4].Value = []byte("other")
			return records
		}, want: `offset 7 holds "other"`},
		{name: "refused", fails: errors.New("no space"), want: "no space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &soakLibrary{fails: tt.fails, log: make([]agent.Record, 3)}
			if tt.spoil != nil {
				l.spoil = func(records []agent.Record) []agent.Record { return tt.spoil(l.asked, records) }
			}
			c := l.client(tt.features)
			client, err := c.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }() // of this process: it has nothing to say
			s := testSoak(false)
			err = s.trip(t.Context(), client, c, 0, 0)
			if got := errorText(err); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := s.counts.silences.Load(); got != tt.silences {
				t.Errorf("%d silences, want %d", got, tt.silences)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTripsInOutage: what fails while the server is down is counted, and else a violation.
func TestTripsInOutage(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		down                   bool
		fails                  error
		trips, outages, broken int64
	}{
		{name: "right", trips: 1},
		{name: "fails", fails: errors.New("lost"), broken: 1},
		{name: "fails-in-an-outage", down: true, fails: errors.New("lost"), outages: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stop, end := context.WithCancel(t.Context())
			l := &soakLibrary{fails: tt.fails, ends: end}
			s := testSoak(tt.down)
			if err := s.trips(t.Context(), stop, l.client(driver.Features{}), 0); err != nil {
				t.Fatal(err)
			}
			if trips, outages, broken := s.counts.trips.Load(), s.counts.tripsInOutage.Load(), int64(len(s.check.problems())); trips != tt.trips ||
				outages != tt.outages || broken != tt.broken {
				t.Errorf("%d trips, %d in an outage, %d violations, want %d, %d and %d", trips, outages, broken, tt.trips, tt.outages, tt.broken)
			}
			if got := int64(s.made["library"]); got != tt.trips {
				t.Errorf("%d trips in this life, want %d", got, tt.trips)
			}
		})
	}
}

// TestMemberships: one session of a client in a group, which the end of the soak ends.
func TestMemberships(t *testing.T) {
	for _, tt := range []struct {
		name            string
		down            bool
		features        driver.Features
		count           int
		fails           error
		had             int
		outages, broken int64
		opened          int
	}{
		{name: "right", count: 3, had: 1, opened: 1},
		{name: "without-records", opened: 1},
		{name: "in-its-own-group", count: 1, features: driver.Features{OldSubscriptions: true}, had: 1, opened: 1},
		{name: "fails", count: 3, fails: errors.New("lost"), broken: 1, opened: 2},
		{name: "fails-in-an-outage", down: true, fails: errors.New("lost"), outages: 1, opened: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stop, end := context.WithCancel(t.Context())
			l := &soakLibrary{fails: tt.fails, ends: end, count: tt.count}
			s := testSoak(tt.down)
			if err := s.memberLoop(t.Context(), stop, l.client(tt.features), rand.New(rand.NewPCG(3, 4))); err != nil {
				t.Fatal(err)
			}
			if sessions, had := s.counts.sessions.Load(), s.had["library"]; sessions != 1 || had != tt.had {
				t.Errorf("%d sessions, %d with records, want 1 and %d", sessions, had, tt.had)
			}
			if outages, broken := s.counts.sessionsInOutage.Load(), int64(len(s.check.problems())); outages != tt.outages || broken != tt.broken {
				t.Errorf("%d ended in an outage, %d violations, want %d and %d: %q", outages, broken, tt.outages, tt.broken, s.check.problems())
			}
			if l.opened != tt.opened {
				t.Errorf("%d clients, want %d: one whose session failed is replaced", l.opened, tt.opened)
			}
			if len(l.groups) != 1 || l.groups[0].Assignor != agent.Range || tt.features.OldSubscriptions && l.groups[0].ID != "campaign.soak-library" {
				t.Errorf("was a member of %+v", l.groups)
			}
		})
	}
}
