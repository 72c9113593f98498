package felixproto

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
)

// maxTenantLabels is how many tenants get a label of their own; the rest share overflowTenant.
const (
	maxTenantLabels = 100
	overflowTenant  = "_overflow"
)

// metrics are those of the operations specification, sections 8.2 and 8.3.
type metrics struct {
	connections      prometheus.Gauge
	connected        prometheus.Counter
	refused          *prometheus.CounterVec // before the handshake
	handshakeRefused prometheus.Counter
	authTimeout      prometheus.Counter
	authFailed       prometheus.Counter
	malformedBy      *prometheus.CounterVec
	unsupported      prometheus.Counter
	overdue          prometheus.Counter
	droppedBy        *prometheus.CounterVec // publishes without an answer

	subscriptions prometheus.Gauge
	encoded       prometheus.Counter
	enqueued      prometheus.Counter
	droppedEvents prometheus.Counter
	disconnected  prometheus.Counter
	overrun       prometheus.Counter
	undeliverable prometheus.Counter

	messages, bytes *prometheus.CounterVec

	mu      sync.Mutex
	tenants map[string]*tenantMetrics // guarded by mu
}

// tenantMetrics count what was handed to the subscribers of a tenant.
type tenantMetrics struct{ messages, bytes prometheus.Counter }

func (t *tenantMetrics) delivered(messages, bytes int) {
	t.messages.Add(float64(messages))
	t.bytes.Add(float64(bytes))
}

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		connections:      gauge("felix_quic_connections", "Connections of native clients."),
		connected:        counter("felix_quic_connections_total", "Connections of native clients whose handshake completed."),
		refused:          vec("felix_quic_connections_refused_total", "Connections refused before the handshake, by reason.", "reason"),
		handshakeRefused: counter("felix_quic_handshake_failures_total", "Handshakes of native clients that failed for the protocol they offered."),
		authTimeout:      counter("felix_quic_auth_timeout_total", "Connections closed because nothing on them authenticated in time."),
		authFailed:       counter("felix_quic_auth_failures_total", "Streams whose token was refused."),
		malformedBy:      vec("felix_quic_malformed_total", "Frames that were not understood, by what was wrong.", "fault"),
		unsupported:      counter("felix_quic_unsupported_requests_total", "Requests of a type that is not served."),
		overdue:          counter("felix_quic_overdue_answers_total", "Streams closed because an answer was overdue; stays 0."),
		droppedBy:        vec("felix_quic_publishes_dropped_total", "Publishes without an answer that were dropped before they reached a shard, by why.", "reason"),
		subscriptions:    gauge("felix_sub_connection_subscribers", "Subscriptions."),
		encoded:          counter("felix_sub_frames_encoded_total", "Event frames that were made: once for all live subscriptions of a shard."),
		enqueued:         counter("felix_sub_queue_enqueued_total", "Records put into subscribers' queues."),
		droppedEvents:    counter("felix_sub_queue_dropped_total", "Records dropped because a subscriber's queue was full."),
		disconnected:     counter("felix_subscriber_disconnect_total", "Subscriptions that ended."),
		overrun:          counter("felix_sub_overrun_total", "Times that records were gone before live subscribers could be given them."),
		undeliverable:    counter("felix_sub_undeliverable_total", "Records that cannot be delivered to native readers: damaged, or too large."),
		messages:         vec("felix_tenant_delivered_messages_total", "Records handed to subscribers' writers, by tenant.", "tenant"),
		bytes:            vec("felix_tenant_delivered_bytes_total", "Bytes of records handed to subscribers' writers, by tenant.", "tenant"),
		tenants:          map[string]*tenantMetrics{},
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "felix_sub_queue_bytes", Help: "Memory of frames that wait to be written to subscribers, of queues and of history; one that several share counts once."},
		func() float64 { return float64(s.delivery.used.Load()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "felix_sub_queue_len", Help: "Published batches that wait in subscribers' queues."},
		func() float64 { return float64(s.queued()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "felix_quic_window_bytes", Help: "What connections' flow control windows have grown by."},
		func() float64 { return float64(s.windows.inUse()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "felix_quic_reading_bytes", Help: "Memory of large frames that are being read."},
		func() float64 { return float64(s.reading.inUse()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "felix_state_bytes", Help: "Memory of the keyed state of streams that somebody has asked about."},
		func() float64 { return float64(s.states.Held()) })
	return m
}

func (m *metrics) malformed(fault string) { m.malformedBy.WithLabelValues(fault).Inc() }

// tenant returns the counters of one tenant, made at its first use.
func (m *metrics) tenant(name string) *tenantMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tenants[name]; t != nil {
		return t
	}
	if len(m.tenants) >= maxTenantLabels {
		name = overflowTenant
		if t := m.tenants[name]; t != nil {
			return t
		}
	}
	t := &tenantMetrics{messages: m.messages.WithLabelValues(name), bytes: m.bytes.WithLabelValues(name)}
	m.tenants[name] = t
	return t
}

// queued is how many published batches wait for subscribers.
func (s *Server) queued() int {
	n := 0
	for _, c := range s.all() {
		for _, sub := range c.subscriptionList() {
			sub.mu.Lock()
			n += sub.slots
			sub.mu.Unlock()
		}
	}
	return n
}

// dropped notes a publish that nobody waits for and that is not taken on. The counter is its only trace for the client.
func (s *Server) dropped(st *stream, err error) {
	policy := errcode.Of(err).String()
	var (
		r    *refusal
		over *errcode.OverloadError
	)
	switch {
	case errors.As(err, &r):
		policy = r.code.String()
	case errors.As(err, &over):
		policy = over.Reason
	}
	s.metrics.droppedBy.WithLabelValues(policy).Inc()
	s.peerLog.Info("publish dropped", zap.String("tenant", st.tenantName()), zap.Uint64("connection", st.c.id), zap.String("reason", policy), zap.Error(err))
}
