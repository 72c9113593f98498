package broker

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxTenantLabels is how many tenants get a label of their own; the rest share overflowTenant (FELIX_TENANT_METRICS_MAX).
const (
	maxTenantLabels = 100
	overflowTenant  = "_overflow"
)

type metrics struct {
	publishOK, publishError, publishNotOwner prometheus.Counter
	publishAccepted, publishDropped          prometheus.Counter
	publishBytes                             prometheus.Counter
	ingressDropped                           prometheus.Counter
	ackedDropped                             *prometheus.CounterVec
	shardsOpen, shardsFailed                 prometheus.Gauge
	openFailures                             prometheus.Counter
	orphans                                  prometheus.Gauge
	maintenanceFailures                      prometheus.Counter
	opened, openedDoubtful, openingsBusy     prometheus.Counter

	messages, bytes  *prometheus.CounterVec
	throttled        *prometheus.CounterVec
	queueFull        *prometheus.CounterVec
	clientsThrottled *prometheus.CounterVec
	overflow         prometheus.Counter
	mu               sync.RWMutex
	tenants          map[string]*tenantMetrics
}

type tenantMetrics struct {
	messages, bytes, delayed prometheus.Counter
	full, quota              overloadMetrics
}

// overloadMetrics count what became of publishes for which there was no room, or no quota.
type overloadMetrics struct{ refused, delayed, shed prometheus.Counter }

func newOverloadMetrics(v *prometheus.CounterVec, tenant string) overloadMetrics {
	return overloadMetrics{
		refused: v.WithLabelValues(tenant, "refused"), delayed: v.WithLabelValues(tenant, "delayed"), shed: v.WithLabelValues(tenant, "shed"),
	}
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	requests := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_publish_requests_total",
		Help: "Publishes by outcome; a batch is one.",
	}, []string{"result"})
	phase := f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "felix_broker_shard_phase",
		Help: "Shards on this node by phase.",
	}, []string{"phase"})
	openings := f.NewCounterVec(prometheus.CounterOpts{
		Name: "felix_broker_batches_opened_total",
		Help: "Compressed batches opened at produce: plain, doubtful for expanding to many times their size, or refused as busy.",
	}, []string{"kind"})
	return &metrics{
		opened:          openings.WithLabelValues("plain"),
		openedDoubtful:  openings.WithLabelValues("doubtful"),
		openingsBusy:    openings.WithLabelValues("busy"),
		publishOK:       requests.WithLabelValues("ok"),
		publishError:    requests.WithLabelValues("error"),
		publishNotOwner: requests.WithLabelValues("not_owner"),
		publishAccepted: requests.WithLabelValues("accepted"),
		publishDropped:  requests.WithLabelValues("dropped"),
		publishBytes: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_publish_bytes_total",
			Help: "Bytes of batches accepted, as they are stored.",
		}),
		shardsOpen:   phase.WithLabelValues("active"),
		shardsFailed: phase.WithLabelValues("failed"),
		openFailures: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_broker_shard_open_failures_total",
			Help: "Shards placed here whose log could not be opened.",
		}),
		orphans: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_broker_orphan_topics",
			Help: "Topic directories found at start that no metadata knows; kept, not served.",
		}),
		maintenanceFailures: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_broker_maintenance_failures_total",
			Help: "Retention or compaction passes over a shard that ended in an error.",
		}),
		messages: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_tenant_published_messages_total",
			Help: "Records admitted, by tenant, over all protocols.",
		}, []string{"tenant"}),
		bytes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_tenant_published_bytes_total",
			Help: "Bytes of batches admitted, by tenant, over all protocols.",
		}, []string{"tenant"}),
		throttled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_tenant_publish_throttled_total",
			Help: "Publishes over the tenant's budget, by what became of them; a batch is one.",
		}, []string{"tenant", "action"}),
		queueFull: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_tenant_publish_queue_full_total",
			Help: "Publishes for which the tenant had no room in the queue, by what became of them; a batch is one.",
		}, []string{"tenant", "action"}),
		ingressDropped: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_broker_ingress_dropped_total",
			Help: "Publishes without acknowledgement that were shed.",
		}),
		ackedDropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_broker_acked_publishes_dropped_total",
			Help: "Publishes that were acknowledged when they were queued and then not written, by the kind of failure.",
		}, []string{"reason"}),
		clientsThrottled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "felix_broker_client_quota_throttled_total",
			Help: "Requests that left their client over its quota, by the quota; a client that is held asks again only later.",
		}, []string{"quota"}),
		overflow: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_tenant_metrics_overflow_total",
			Help: "Recordings made under the shared label because too many tenants have one of their own.",
		}),
		tenants: map[string]*tenantMetrics{},
	}
}

// tenant returns the counters of one tenant, made at its first use.
func (m *metrics) tenant(name string) *tenantMetrics {
	m.mu.RLock()
	t := m.tenants[name]
	m.mu.RUnlock()
	if t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tenants[name]; t != nil {
		return t
	}
	label := name
	if len(m.tenants) >= maxTenantLabels {
		m.overflow.Inc()
		label = overflowTenant
	}
	t = &tenantMetrics{
		messages: m.messages.WithLabelValues(label), bytes: m.bytes.WithLabelValues(label),
		delayed: m.throttled.WithLabelValues(label, "delayed"),
		full:    newOverloadMetrics(m.queueFull, label), quota: newOverloadMetrics(m.throttled, label),
	}
	if label == name {
		m.tenants[name] = t
	}
	return t
}
