package node

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Version is the release, set by the linker in a build of the Makefile.
var Version = "unknown"

// metrics are the process's own: life cycle and build. Names are those of spec operations.md 8.7.
type metrics struct {
	ready        prometheus.Gauge
	drainMillis  prometheus.Gauge
	drainForced  *prometheus.CounterVec
	startSeconds prometheus.Gauge
	certificate  *certificateMetrics
}

// Subsystems that a drain can have to cut off; the closed set of felix_drain_forced_total's label.
const (
	subsystemKafka      = "kafka"
	subsystemBroker     = "broker"
	subsystemController = "controller"
	subsystemAPI        = "api"
)

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		certificate: newCertificateMetrics(r),
		ready: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_ready_state", Help: "1 while the node is in rotation, 0 before it serves and once it drains.",
		}),
		drainMillis: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_drain_duration_ms", Help: "How long the drain took, or has taken so far.",
		}),
		drainForced: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_drain_forced_total", Help: "Parts that a drain had to cut off; more than 0 means that work was dropped.",
		}, []string{"subsystem"}),
		startSeconds: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_node_start_seconds", Help: "Time from the start of the process's main to a serving node.",
		}),
	}
	for _, s := range []string{subsystemKafka, subsystemBroker, subsystemController, subsystemAPI} {
		m.drainForced.WithLabelValues(s)
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "felix_build_info", Help: "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": Version, "go_version": goVersion()},
	}, func() float64 { return 1 })
	return m
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}

// newRegistry is the process's registry with the collectors of the Go runtime and of the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}
