package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// groupScript drives a checker of one group with two partitions; its clock stands still between steps.
type groupScript struct {
	c     *groupChecker
	now   time.Time
	found []string
}

func newGroupScript() *groupScript {
	s := &groupScript{now: time.Unix(1000, 0)}
	s.c = newGroupChecker(1, 2, func(format string, args ...any) { s.found = append(s.found, fmt.Sprintf(format, args...)) })
	s.c.serverUp(s.now)
	return s
}

// after lets time pass, looking at the bounds as the campaign does.
func (s *groupScript) after(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(lookEvery)
		s.c.look(s.now)
	}
}

func (s *groupScript) start(name string) *memberWatch { return s.c.started(0, name, s.now) }

func (s *groupScript) assign(m *memberWatch, generation int32, partitions ...int32) {
	s.c.assigned(m, generation, partitions, s.now)
}

// work lets a member take and commit the next record of a partition.
func (s *groupScript) work(m *memberWatch, p int32) {
	offset := m.group.next[p]
	floor := s.c.floors(m.group)[p]
	s.c.took(m, p, offset, s.now)
	s.c.committed(m, p, offset+1, floor, s.now)
}

// run lets a member work for a time.
func (s *groupScript) run(m *memberWatch, d time.Duration, partitions ...int32) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.after(time.Second)
		for _, p := range partitions {
			s.work(m, p)
		}
	}
}

func (s *groupScript) fetch(p int32, offset, floor int64) {
	s.c.fetched(s.c.groups[0], p, offset, floor)
}

func TestGroupChecker(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(s *groupScript)
		want string // part of the first violation; "" for none
	}{
		{"a quiet life", func(s *groupScript) {
			m := s.start("a")
			s.after(time.Second)
			s.assign(m, 1, 0, 1)
			s.run(m, 30*time.Second, 0, 1)
		}, ""},
		{"records again", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.c.took(m, 0, 0, s.now)
			s.c.took(m, 0, 1, s.now)
			s.c.took(m, 0, 0, s.now)
		}, ""},
		{"a record left out", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.c.took(m, 0, 0, s.now)
			s.c.took(m, 0, 2, s.now)
		}, "offset 2 came to a, and 1 to 1 came to no member"},
		{"committed beyond what was had", func(s *groupScript) { s.fetch(0, 1, -1) }, "committed is 1, the members have had only what is before 0"},
		{"an acknowledged commit is gone", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.work(m, 0)
			s.work(m, 0)
			s.fetch(0, 1, 2)
		}, "committed is 1, it was 2 before"},
		{"all commits are gone", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.work(m, 0)
			s.fetch(0, -1, s.c.floors(m.group)[0])
		}, "committed is -1, it was 1 before"},
		{"asked before it was acknowledged", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			floor := s.c.floors(m.group)[0]
			s.work(m, 0)
			s.fetch(0, -1, floor)
		}, ""},
		{"what was shown is gone", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.c.took(m, 0, 0, s.now)
			s.fetch(0, 1, -1)
			s.fetch(0, -1, s.c.floors(m.group)[0])
		}, "committed is -1, it was 1 before"},
		{"an old member commits", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 1, 0, 1)
			s.c.took(a, 0, 0, s.now)
			s.work(b, 0)
			s.c.committed(a, 0, 1, s.c.floors(a.group)[0], s.now)
		}, "a commit of 1 by a was accepted, 2 was committed before it was sent"},
		{"generation back for one member", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 5, 0, 1)
			s.c.revoked(m, []int32{0, 1}, s.now)
			s.assign(m, 4, 0, 1)
		}, "a was told generation 4 after 5 was known"},
		{"generation the same", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 5, 0, 1)
			s.assign(m, 5)
		}, ""},
		{"generation back for a new member", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 5, 0, 1)
			s.assign(s.start("b"), 1, 0)
		}, "b was told generation 1 after 5 was known"},
		{"generation back for one that rejoined", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(b, 3, 1)
			s.assign(a, 7, 0)
			s.c.revoked(b, []int32{1}, s.now)
			s.assign(b, 6, 1)
		}, "b was told generation 6 after 7 was known"},
		{"told of an older generation later", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 7, 0)
			s.assign(b, 6, 1) // its answer was under way
		}, ""},
		{"never owned", func(s *groupScript) {
			s.start("a")
			s.after(unownedLimit + time.Second)
		}, "partition 0 is owned by no member for"},
		{"owned in time", func(s *groupScript) {
			m := s.start("a")
			s.after(unownedLimit)
			s.assign(m, 1, 0, 1)
			s.run(m, 5*time.Second, 0, 1)
		}, ""},
		{"a crash is never noticed", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 1, 0)
			s.assign(b, 1, 1)
			s.run(b, 5*time.Second, 1)
			s.c.gone(a, s.now)
			s.run(b, unownedLimit+2*time.Second, 1)
		}, "partition 0 is owned by no member for"},
		{"another disturbance begins the bound anew", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 1, 0)
			s.assign(b, 1, 1)
			s.c.gone(a, s.now)
			s.run(b, unownedLimit-2*time.Second, 1)
			c := s.start("c")
			s.run(b, unownedLimit-2*time.Second, 1)
			s.assign(c, 2, 0)
			s.run(c, time.Second, 0)
		}, ""},
		{"nobody is there", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.c.gone(m, s.now)
			s.after(10 * unownedLimit)
		}, ""},
		{"the server is down", func(s *groupScript) {
			m := s.start("a")
			s.c.serverDown()
			s.after(10 * unownedLimit)
			s.c.serverUp(s.now)
			s.after(unownedLimit)
			s.assign(m, 1, 0, 1)
			s.run(m, time.Second, 0, 1)
		}, ""},
		{"a member hangs", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.run(m, time.Second, 0)
			s.after(silentLimit + time.Second)
		}, "a has had no record and no acknowledged commit for"},
		{"records without commits", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			for range 40 {
				s.after(time.Second)
				s.c.took(m, 0, m.group.next[0], s.now)
			}
		}, "a has had no record and no acknowledged commit for"},
		{"leaving hangs", func(s *groupScript) {
			m := s.start("a")
			s.assign(m, 1, 0, 1)
			s.c.left(m, s.now)
			s.after(silentLimit + time.Second)
		}, "a has been leaving for"},
		{"cut off", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 1, 0)
			s.assign(b, 1, 1)
			s.c.cutOff(a, true, s.now)
			s.run(b, 7*time.Second, 1)
			s.assign(b, 2, 0)
			s.run(b, 2*silentLimit, 0, 1)
			s.c.cutOff(a, false, s.now)
			s.run(b, unownedLimit, 0, 1)
		}, ""},
		{"cut off and never replaced", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(a, 1, 0)
			s.assign(b, 1, 1)
			s.c.cutOff(a, true, s.now)
			s.run(b, unownedLimit+2*time.Second, 1)
		}, "partition 0 is owned by no member for"},
		{"what the dead say does not count", func(s *groupScript) {
			a, b := s.start("a"), s.start("b")
			s.assign(b, 9, 1)
			s.c.gone(a, s.now)
			s.assign(a, 1, 0)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newGroupScript()
			tt.do(s)
			got := ""
			if len(s.found) > 0 {
				got = s.found[0]
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGroupAtRest(t *testing.T) {
	s := newGroupScript()
	want := func(n int, after string) {
		t.Helper()
		if got := s.c.unsettled(); len(got) != n {
			t.Errorf("%s: %d things to wait for, want %d: %q", after, len(got), n, got)
		}
	}
	a := s.start("a")
	want(3, "a member and two partitions") // it has not gone on, and nobody owns anything
	s.assign(a, 1, 0, 1)
	s.run(a, time.Second, 0, 1)
	want(0, "one member owns and works")
	b := s.start("b")
	want(2, "another one starts") // neither has gone on since
	s.c.revoked(a, []int32{1}, s.now)
	s.assign(b, 2, 1)
	s.run(b, time.Second, 1)
	s.work(a, 0)
	want(0, "both work")
	s.c.left(b, s.now)
	s.after(time.Second)
	s.work(a, 0)
	want(1, "one is leaving")
	s.c.gone(b, s.now)
	s.assign(a, 3, 1)
	s.run(a, time.Second, 0, 1)
	want(0, "it is gone and replaced")
	s.c.cutOff(a, true, s.now)
	want(3, "the last one is cut off")
	s.c.serverDown()
	want(1, "the server is down")
	if len(s.found) > 0 {
		t.Errorf("violations %q", s.found)
	}
}

func TestGroupLongestUnowned(t *testing.T) {
	s := newGroupScript()
	a, b := s.start("a"), s.start("b")
	s.assign(a, 1, 0)
	s.assign(b, 1, 1)
	s.c.gone(a, s.now)
	s.after(7 * time.Second)
	s.assign(b, 2, 0)
	if got := s.c.longestUnowned; got != 7*time.Second {
		t.Errorf("longest without owner %v, want 7s", got)
	}
}

func TestGroupSaveAndRestore(t *testing.T) {
	s := newGroupScript()
	m := s.start("a")
	s.assign(m, 4, 0, 1)
	for range 10 {
		s.work(m, 0)
	}
	saved := s.c.save()
	name := m.group.name
	for _, tt := range []struct {
		name      string
		committed []int64
		next      int64
		want      int // violations
	}{
		{"as it was", []int64{10, -1}, 10, 0},
		{"more was committed since", []int64{15, 3}, 15, 0},
		{"less is committed", []int64{9, -1}, 10, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newGroupScript()
			s.c.restore(saved, map[string][]int64{name: tt.committed})
			if g := s.c.groups[0]; g.next[0] != tt.next || g.generation != 4 || len(s.found) != tt.want {
				t.Errorf("next %d, generation %d, violations %q; want %d, 4 and %d of them", g.next[0], g.generation, s.found, tt.next, tt.want)
			}
		})
	}
}
