package kafkaproto

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/felixlog/felix/internal/errcode"
)

// refusal is why a connection was closed, as felix_kafka_refused_total says it.
type refusal uint8

const (
	refusedNot refusal = iota
	refusedClosing
	refusedUnknownAPI
	refusedUnsupportedAPI
	refusedFrameSize
	refusedConnections
	refusedPerAddress
	refusedAuthTimeout
	refusedUnauthenticatedFrameSize
	refusedUnauthenticated
	refusedMalformed
	refusalCount
)

var refusalNames = [refusalCount]string{
	"none", "closing", "unknown_api", "unsupported_api", "frame_size", "connection_limit", "per_ip_limit", "auth_timeout",
	"unauthenticated_frame_size", "unauthenticated", "malformed",
}

// String is the metric's label.
func (r refusal) String() string { return refusalNames[r] }

// metrics are those of the operations specification, section 8.5, and our own for memory and sessions.
type metrics struct {
	connections prometheus.Gauge
	connected   prometheus.Counter
	refused     [refusalCount]prometheus.Counter

	requests *prometheus.CounterVec
	// byAPI holds the children of requests that have been used, by API key and kind: the whole matrix would be mostly
	// zeros on the metrics page.
	byAPI []*[kindSlots]atomic.Pointer[prometheus.Counter]

	fetchRecords, fetchBytes   prometheus.Counter
	fetchData, fetchTimeout    prometheus.Counter
	fetchWait                  prometheus.Histogram
	aheadUsed, aheadUnused     prometheus.Counter
	produceRecords             prometheus.Counter
	produceBytes               prometheus.Counter
	produceDuplicates          prometheus.Counter
	produceErrors              *prometheus.CounterVec
	commitTimeouts, commitLost prometheus.Counter
	inFlight                   atomic.Int64 // requests read and not yet answered
	authFailures, topicsMade   prometheus.Counter
	sessionsMade, sessionsLost prometheus.Counter
}

const kindSlots = 128

func newMetrics(reg prometheus.Registerer, apis *apiTable, sessions func() int) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	refused := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_kafka_refused_total", Help: "Connections closed for what arrived on them, by reason.",
	}, []string{"reason"})
	waits := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_kafka_fetch_waits_total", Help: "Fetches that waited for records, by how the wait ended.",
	}, []string{"outcome"})
	aheads := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_kafka_fetch_read_ahead_total", Help: "Reads ahead of consumers that work through a log, by whether the records were asked for in time.",
	}, []string{"outcome"})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "felix_kafka_fetch_sessions", Help: "Incremental fetch sessions remembered.",
	}, func() float64 { return float64(sessions()) })
	uncommitted := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_broker_publish_quorum_failed_total",
		Help: "Partition entries written but not committed before their time limit or the end of the leadership.",
	}, []string{"reason"})
	m := &metrics{
		commitTimeouts: uncommitted.WithLabelValues("quorum_timeout"),
		commitLost:     uncommitted.WithLabelValues("leadership_lost"),
		connections:    f.NewGauge(prometheus.GaugeOpts{Name: "felix_kafka_connections", Help: "Open Kafka connections."}),
		connected:      counter("felix_kafka_connections_total", "Kafka connections accepted."),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_kafka_requests_total", Help: "Kafka requests by API and first error in the answer.",
		}, []string{"api", "error"}),
		byAPI:             make([]*[kindSlots]atomic.Pointer[prometheus.Counter], len(apis.byKey)),
		fetchRecords:      counter("felix_kafka_fetch_records_total", "Records sent to Kafka consumers, those before the asked offset in a batch included."),
		fetchBytes:        counter("felix_kafka_fetch_bytes_total", "Bytes of batches sent to Kafka consumers."),
		fetchData:         waits.WithLabelValues("data"),
		fetchTimeout:      waits.WithLabelValues("timeout"),
		aheadUsed:         aheads.WithLabelValues("used"),
		aheadUnused:       aheads.WithLabelValues("unused"),
		produceRecords:    counter("felix_kafka_produce_records_total", "Records appended for Kafka producers."),
		produceBytes:      counter("felix_kafka_produce_bytes_total", "Bytes of batches appended for Kafka producers, as sent."),
		produceDuplicates: counter("felix_kafka_produce_duplicate_records_total", "Records that an idempotent producer sent again and that were not written again."),
		produceErrors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_kafka_produce_errors_total", Help: "Partition entries of produce requests that failed, by error.",
		}, []string{"error"}),
		fetchWait: f.NewHistogram(prometheus.HistogramOpts{
			Name: "felix_kafka_fetch_wait_seconds", Help: "How long fetches waited for records.",
			Buckets: prometheus.ExponentialBuckets(0.000_25, 4, 9),
		}),
		authFailures: counter("felix_kafka_auth_failures_total", "SASL credentials that were refused."),
		topicsMade:   counter("felix_kafka_topics_auto_created_total", "Topics made because a client named them."),
		sessionsMade: counter("felix_kafka_fetch_sessions_created_total", "Incremental fetch sessions begun."),
		sessionsLost: counter("felix_kafka_fetch_sessions_evicted_total", "Incremental fetch sessions forgotten to make room."),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "felix_inflight_requests", Help: "Requests that were read and are not yet answered.",
	}, func() float64 { return float64(m.inFlight.Load()) })
	for r := refusedClosing; r < refusalCount; r++ {
		m.refused[r] = refused.WithLabelValues(r.String())
	}
	for _, a := range apis.rows {
		m.byAPI[a.key] = new([kindSlots]atomic.Pointer[prometheus.Counter])
	}
	return m
}

// ahead counts the end of what was read ahead.
func (m *metrics) ahead(used bool) {
	if used {
		m.aheadUsed.Inc()
	} else {
		m.aheadUnused.Inc()
	}
}

func (m *metrics) refuse(r refusal) { m.refused[r].Inc() }

// request counts one request with the first failure in its answer.
func (m *metrics) request(a *api, failure errcode.Kind) {
	slot := &m.byAPI[a.key][failure%kindSlots]
	c := slot.Load()
	if c == nil {
		name := "none"
		if failure != errcode.OK {
			name = failure.String()
		}
		child := m.requests.WithLabelValues(a.name, name)
		c = &child
		slot.Store(c)
	}
	(*c).Inc()
}

// produceError counts a failed partition entry; failures are rare enough to look the child up. written says that its records were
// appended before it failed.
func (m *metrics) produceError(k errcode.Kind, written bool) {
	m.produceErrors.WithLabelValues(k.String()).Inc()
	switch {
	case !written:
	case k == errcode.QuorumTimeout:
		m.commitTimeouts.Inc()
	default:
		m.commitLost.Inc()
	}
}
