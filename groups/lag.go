package groups

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/cluster"
)

// collector shows what is counted at each scrape: groups by state, and how far groups are behind.
type collector struct {
	c *Coordinator

	groups, offsets, lag, hidden *prometheus.Desc
}

func newCollector(c *Coordinator) *collector {
	return &collector{
		c:       c,
		groups:  prometheus.NewDesc("felix_kafka_groups", "Kafka groups that this node coordinates, by state.", []string{"state"}, nil),
		offsets: prometheus.NewDesc("felix_kafka_group_offsets", "Offsets that Kafka groups coordinated by this node have committed.", nil, nil),
		lag: prometheus.NewDesc("felix_kafka_group_lag",
			"Records between a Kafka group's committed offsets and the high watermarks, over the stream's shards that are open on this node.",
			[]string{"tenant", "group", "namespace", "stream"}, nil),
		hidden: prometheus.NewDesc("felix_kafka_group_lag_hidden_groups", "Kafka groups whose lag is not shown because there are too many series.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.groups
	ch <- m.offsets
	ch <- m.lag
	ch <- m.hidden
}

// Collect implements prometheus.Collector.
func (m *collector) Collect(ch chan<- prometheus.Metric) {
	var states [len(stageNames)]int
	offsets := 0
	var all []*entry // those with offsets
	for _, s := range m.c.shards {
		s.mu.Lock()
		for _, e := range s.groups {
			states[e.g.stage]++
			offsets += len(e.offsets)
			if len(e.offsets) > 0 {
				all = append(all, e)
			}
		}
		s.mu.Unlock()
	}
	for i, n := range states {
		if stage(i) != stageDead {
			ch <- prometheus.MustNewConstMetric(m.groups, prometheus.GaugeValue, float64(n), stageNames[i])
		}
	}
	ch <- prometheus.MustNewConstMetric(m.offsets, prometheus.GaugeValue, float64(offsets))
	if m.c.opts.HighWatermark != nil {
		m.collectLag(ch, all)
	}
}

// collectLag shows the lag of groups in the order of their names, and of their topics, so that the same series are shown each time, until
// there are enough. A group of which a part is shown counts as hidden too.
func (m *collector) collectLag(ch chan<- prometheus.Metric, all []*entry) {
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.key.Tenant, b.key.Tenant), cmp.Compare(a.key.Group, b.key.Group))
	})
	img := m.c.opts.Image()
	left, hidden := max(m.c.opts.MaxLagSeries, 0), 0
	for _, e := range all {
		if !img.HasTenant(e.key.Tenant, e.key.Incarnation) {
			continue // on its way out; one of its name may be shown
		}
		if left == 0 {
			hidden++
			continue
		}
		lags := m.lags(img, e)
		if len(lags) > left {
			lags = lags[:left]
			hidden++
		}
		left -= len(lags)
		for _, l := range lags {
			ch <- prometheus.MustNewConstMetric(m.lag, prometheus.GaugeValue, float64(l.records), e.key.Tenant, e.key.Group, l.topic.Namespace, l.topic.Name)
		}
	}
	ch <- prometheus.MustNewConstMetric(m.hidden, prometheus.GaugeValue, float64(hidden))
}

// topicLag is how far a group is behind in one topic.
type topicLag struct {
	topic   *cluster.Topic
	records int64
}

// lags sums up how far one group is behind, by topic, in the order of their names.
func (m *collector) lags(img *cluster.Image, e *entry) []topicLag {
	s := m.c.shardFor(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone {
		return nil
	}
	sums := map[*cluster.Topic]int64{}
	for at, o := range e.offsets {
		t := img.TopicByID(s.topics.id(at))
		if t == nil {
			continue
		}
		// The high watermark is published without a lock, so that asking for it here waits for nothing.
		if hw, ok := m.c.opts.HighWatermark(t, at.partition()); ok {
			sums[t] += max(int64(hw)-o.at, 0)
		}
	}
	lags := make([]topicLag, 0, len(sums))
	for t, records := range sums {
		lags = append(lags, topicLag{t, records})
	}
	slices.SortFunc(lags, func(a, b topicLag) int {
		return cmp.Or(cmp.Compare(a.topic.Namespace, b.topic.Namespace), cmp.Compare(a.topic.Name, b.topic.Name))
	})
	return lags
}
