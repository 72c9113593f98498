package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	groupCount  = 10
	groupPlaces = 5 // members of a group, at most
	// groupStatics is how many of the places are static members, the first ones.
	groupStatics = 2
	// groupLeast is how many members a group keeps, except while all of them are away.
	groupLeast = 2
	// churnSpan is in how long a part of a round the members come and go; the kill falls into it.
	churnSpan = 3500 * time.Millisecond
	// awayShare is how often all members of a group leave and come back, instead of what single ones do.
	awayShare = 0.05
)

// churnWhat is what happens to a member.
type churnWhat string

const (
	churnJoin  churnWhat = "join"
	churnLeave churnWhat = "leave"
	churnCrash churnWhat = "crash"
	churnCut   churnWhat = "cut"  // it loses its connection for longer than a session, and goes on
	churnMend  churnWhat = "mend" // and gets it back
)

// churnStep is one thing that happens to the member in a place.
type churnStep struct {
	at    time.Duration // since the round began
	group int
	place int
	what  churnWhat
}

// planChurn draws what happens in a round. live says which places are taken, and is left as it will be after the round. The steps come in
// the order of their times; for one place they make sense in that order: who is not there does not leave.
func planChurn(random *rand.Rand, live [][]bool) []churnStep {
	var steps []churnStep
	for g := range live {
		if random.Float64() < awayShare {
			steps = append(steps, planAway(random, g, live[g])...)
			continue
		}
		steps = append(steps, planGroup(random, g, live[g])...)
	}
	slices.SortStableFunc(steps, func(a, b churnStep) int { return cmp.Compare(a.at, b.at) })
	return steps
}

// planAway lets all members leave, so that the group is empty for a while, and come back.
func planAway(random *rand.Rand, group int, live []bool) []churnStep {
	leave := time.Duration(random.Int64N(int64(churnSpan / 2)))
	back := leave + 500*time.Millisecond + time.Duration(random.Int64N(int64(churnSpan)))
	var steps []churnStep
	for place, taken := range live {
		if taken {
			steps = append(steps, churnStep{leave, group, place, churnLeave}, churnStep{back, group, place, churnJoin})
		}
	}
	return steps
}

// planGroup draws what single members do: up to two things, one after the other.
func planGroup(random *rand.Rand, group int, live []bool) []churnStep {
	const part = churnSpan / 2
	var steps []churnStep
	busy := make([]bool, len(live)) // the place has a step to come
	for i := range random.IntN(3) {
		at := time.Duration(i)*part + time.Duration(random.Int64N(int64(part)))
		place, kind := random.IntN(len(live)), random.Float64()
		after := time.Duration(random.Int64N(int64(2 * time.Second)))
		add := func(at time.Duration, what churnWhat) { steps = append(steps, churnStep{at, group, place, what}) }
		switch {
		case busy[place]:
		case !live[place]:
			add(at, churnJoin)
			live[place] = true
		case kind < 0.15 && i == 0:
			busy[place] = true
			add(at, churnCut)
			add(at+groupSession+time.Second+after/2, churnMend)
		case kind < 0.4 || count(live) <= groupLeast:
			// It comes back: within its session, so that a static one has its place still.
			busy[place] = true
			what := churnCrash
			if random.IntN(2) == 0 {
				what = churnLeave
			}
			add(at, what)
			add(at+after, churnJoin)
		case kind < 0.7:
			add(at, churnLeave)
			live[place] = false
		default:
			add(at, churnCrash)
			live[place] = false
		}
	}
	return steps
}

func count(live []bool) int {
	n := 0
	for _, taken := range live {
		if taken {
			n++
		}
	}
	return n
}
