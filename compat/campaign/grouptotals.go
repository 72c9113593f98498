package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// groupsTally counts what members meet that is no violation.
type groupsTally struct {
	pollErrors     atomic.Int64
	lostCommits    atomic.Int64 // without an answer
	refusedCommits atomic.Int64 // by partition: a rebalance was quicker, or the member was one no longer
	fetches        atomic.Int64 // of committed offsets, answered
}

// groupsTotals are the counts of a groups campaign, over interruptions.
type groupsTotals struct {
	Kills       int               `json:"kills"`
	StartKills  int               `json:"start_kills"`
	CleanStops  int               `json:"clean_stops"`
	Churn       map[churnWhat]int `json:"churn"`
	Acks        int64             `json:"acks"`
	Consumed    int64             `json:"consumed"`
	Repeated    int64             `json:"repeated"`
	Commits     int64             `json:"commits"`
	Refused     int64             `json:"refused"`
	Lost        int64             `json:"lost"`
	Late        int64             `json:"late"` // refused commits of members that were gone, and of generations that were over
	Assignments int64             `json:"assignments"`
	Fetches     int64             `json:"fetches"`
	Clean       int               `json:"clean"`
	Repaired    int               `json:"repaired"`
	UnownedMS   int64             `json:"unowned_ms"`
	SilenceMS   int64             `json:"silence_ms"`
}

func (t groupsTotals) String() string {
	millis := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return fmt.Sprintf("%d kills (%d while starting), %d clean restarts, %d groups, members: %d joins, %d leaves, %d crashes, %d cut off for more than a session; "+
		"%d assignments, %d acknowledged records, %d came to groups and %d again, %d commits acknowledged, %d refused, %d unanswered, "+
		"%d late ones refused, committed offsets looked at %d times, "+
		"longest without owner %v of %v, longest member without progress %v of %v, log verify %d clean %d to repair",
		t.Kills, t.StartKills, t.CleanStops, groupCount, t.Churn[churnJoin], t.Churn[churnLeave], t.Churn[churnCrash], t.Churn[churnCut],
		t.Assignments, t.Acks, t.Consumed, t.Repeated, t.Commits, t.Refused, t.Lost, t.Late, t.Fetches,
		millis(t.UnownedMS), unownedLimit, millis(t.SilenceMS), silentLimit, t.Clean, t.Repaired)
}

// groupsState is what an interrupted campaign leaves for the next run.
type groupsState struct {
	Commit     string          `json:"commit"`
	Totals     groupsTotals    `json:"totals"`
	Generation int             `json:"generation"` // of the writer's name
	Checkpoint map[int32]int64 `json:"checkpoint"`
	Next       []savedStream   `json:"next"`
	Groups     []savedGroup    `json:"groups"`
}
