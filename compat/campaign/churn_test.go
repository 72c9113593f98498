package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPlanChurn plays many plans: what happens to a place makes sense in the order of the times, groups keep enough members, and the
// places are taken after the round as the plan says.
func TestPlanChurn(t *testing.T) {
	live := make([][]bool, groupCount)
	for g := range live {
		live[g] = []bool{true, false, true, true, false}
	}
	seen := map[churnWhat]int{}
	for round := range 500 {
		there := make([][]bool, groupCount)
		for g := range live {
			there[g] = slices.Clone(live[g])
		}
		cut := map[[2]int]bool{}
		last := time.Duration(0)
		for _, s := range planChurn(rand.New(rand.NewPCG(7, uint64(round))), live) {
			seen[s.what]++
			if s.at < last {
				t.Fatalf("round %d: a step at %v after one at %v", round, s.at, last)
			}
			last = s.at
			at := [2]int{s.group, s.place}
			if there[s.group][s.place] == (s.what == churnJoin) {
				t.Fatalf("round %d: %+v, and the place is taken: %v", round, s, there[s.group][s.place])
			}
			if cut[at] != (s.what == churnMend) {
				t.Fatalf("round %d: %+v, and the member is cut off: %v", round, s, cut[at])
			}
			switch s.what {
			case churnJoin:
				there[s.group][s.place] = true
			case churnLeave, churnCrash:
				there[s.group][s.place] = false
			case churnCut, churnMend:
				cut[at] = s.what == churnCut
			}
		}
		for g := range live {
			if !slices.Equal(there[g], live[g]) || count(live[g]) < groupLeast {
				t.Fatalf("round %d: group %d has %v, planned were %v", round, g, there[g], live[g])
			}
		}
		for at, off := range cut {
			if off {
				t.Fatalf("round %d: member %v is cut off for good", round, at)
			}
		}
		if limit := churnSpan + groupSession + 2*time.Second; last > limit {
			t.Fatalf("round %d: the last step is at %v, want at most %v", round, last, limit)
		}
	}
	for _, what := range []churnWhat{churnJoin, churnLeave, churnCrash, churnCut, churnMend} {
		if seen[what] < 100 {
			t.Errorf("%d steps are %s: too few", seen[what], what)
		}
	}
}

// TestPlanChurnRepeats: the same seed gives the same plan, which is what an interrupted campaign relies on.
func TestPlanChurnRepeats(t *testing.T) {
	plan := func() []churnStep {
		live := [][]bool{{true, true, true, false, false}, {true, false, true, false, true}}
		return planChurn(rand.New(rand.NewPCG(3, 4)), live)
	}
	if a, b := plan(), plan(); !slices.Equal(a, b) {
		t.Errorf("two plans of one seed: %v and %v", a, b)
	}
}
