package groups

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/felixlog/felix/internal/errcode"
)

type metrics struct {
	rebalances                  prometheus.Counter
	commits                     *prometheus.CounterVec
	committed                   prometheus.Counter
	offsetsExpired              prometheus.Counter
	writeFailures, loadFailures prometheus.Counter
	loadSeconds                 prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, c *Coordinator) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		rebalances: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_kafka_group_rebalances_total",
			Help: "Generations of Kafka groups whose assignment was settled.",
		}),
		commits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_kafka_offset_commits_total",
			Help: "Requests to commit offsets of Kafka groups by outcome.",
		}, []string{"error"}),
		offsetsExpired: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_kafka_offsets_expired_total",
			Help: "Committed offsets that were removed because their retention had passed.",
		}),
		writeFailures: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_kafka_group_write_failures_total",
			Help: "Batches of group records that the log refused or lost.",
		}),
		loadFailures: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_kafka_group_load_failures_total",
			Help: "Loads of an internal shard of groups that ended in an error.",
		}),
		loadSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "felix_kafka_group_load_seconds",
			Help:    "Time to load one internal shard of groups.",
			Buckets: []float64{0.001, 0.01, 0.1, 0.5, 1, 5, 30},
		}),
	}
	m.committed = m.commits.WithLabelValues(errcode.OK.String())
	if reg != nil {
		reg.MustRegister(newCollector(c))
	}
	return m
}

// commitDone counts a commit that was answered with err, nil when it is durable or had nothing to store.
func (m *metrics) commitDone(err error) {
	if err == nil {
		m.committed.Inc()
		return
	}
	m.commits.WithLabelValues(errcode.Of(err).String()).Inc()
}
