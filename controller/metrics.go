package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/felixlog/felix/internal/cluster"
)

type metrics struct {
	applied        prometheus.Counter
	proposalErrors prometheus.Counter
	version        prometheus.Gauge
	topics         prometheus.Gauge
	partitions     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		applied: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_controller_commands_applied_total", Help: "Metadata commands applied by this member since it started, replayed ones included.",
		}),
		proposalErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_controller_proposals_failed_total", Help: "Metadata commands of this member that were not taken or whose effect is unknown.",
		}),
		version: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_controller_metadata_version", Help: "Position of the last metadata command applied by this member.",
		}),
		topics: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_controller_topics", Help: "Topics of all tenants.",
		}),
		partitions: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_controller_partitions", Help: "Partitions of all topics.",
		}),
	}
}

func (m *metrics) observe(image *cluster.Image) {
	m.version.Set(float64(image.Version()))
	m.topics.Set(float64(image.TopicCount()))
	m.partitions.Set(float64(image.PartitionCount()))
}
