package raftstore

import (
	"strconv"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	writeTimeouts prometheus.Counter
}

// newMetrics registers gauges that ask raft when they are scraped.
func newMetrics(reg prometheus.Registerer, r *raft.Raft) *metrics {
	f := promauto.With(reg)
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	gauge("felix_meta_raft_term", "Current term of the metadata log.", func() float64 { return float64(r.CurrentTerm()) })
	gauge("felix_meta_raft_is_leader", "1 while this member leads the metadata log.", func() float64 {
		return bit(r.State() == raft.Leader)
	})
	gauge("felix_meta_raft_leader_known", "1 while this member knows a leader of the metadata log.", func() float64 {
		_, id := r.LeaderWithID()
		return bit(id != "")
	})
	gauge("felix_meta_raft_last_log_index", "Index of the last entry in this member's metadata log.", func() float64 { return float64(r.LastIndex()) })
	gauge("felix_meta_raft_last_applied_index", "Index of the last entry handed to this member's state machine.", func() float64 {
		return float64(r.AppliedIndex())
	})
	gauge("felix_meta_raft_snapshot_index", "Index of the last entry that this member's newest snapshot covers.", func() float64 {
		return float64(lastSnapshot(r))
	})
	return &metrics{writeTimeouts: f.NewCounter(prometheus.CounterOpts{
		Name: "felix_meta_raft_write_timeouts_total", Help: "Metadata writes whose caller stopped waiting before the outcome was known.",
	})}
}

// lastSnapshot is raft's own figure, which it gives out only as text.
func lastSnapshot(r *raft.Raft) uint64 {
	v, err := strconv.ParseUint(r.Stats()["last_snapshot_index"], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func bit(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
