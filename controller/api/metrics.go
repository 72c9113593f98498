package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	rejected  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	bootstrap *prometheus.CounterVec
	inFlight  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		rejected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_controlplane_auth_rejected_total", Help: "Calls of the control API that were turned away, by reason.",
		}, []string{"reason"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "felix_controlplane_request_duration_seconds", Help: "Time to answer a call of the control API, by route and class of status.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"route", "class"}),
		bootstrap: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_bootstrap_attempts_total", Help: "Calls of the bootstrap listener, by outcome and reason.",
		}, []string{"outcome", "reason"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_controlplane_inflight_requests", Help: "Calls of the control API that are being answered.",
		}),
	}
	for _, reason := range []string{rejectMissing, rejectMalformed, rejectInvalid, rejectTenant, rejectForbidden} {
		m.rejected.WithLabelValues(reason)
	}
	m.seconds.WithLabelValues(noRoute, "4xx") // so that the metric is there before the first call
	return m
}

// noRoute stands for calls of what is not in the table.
const noRoute = "none"

// observe notes one call. route is a path of the table or noRoute, so that the labels stay a closed set.
func (m *metrics) observe(route string, status int, took time.Duration) {
	m.seconds.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Observe(took.Seconds())
}
