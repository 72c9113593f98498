package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// lagHarness is a harness whose shards have these high watermarks, by topic name and partition as in "a/0"; those that are not named are not
// open on this node.
func lagHarness(t *testing.T, marks map[string]int64, change ...func(*Options)) (*harness, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	h := newHarness(t, append([]func(*Options){func(o *Options) {
		o.Registerer = reg
		o.HighWatermark = func(topic *cluster.Topic, partition int32) (ids.Offset, bool) {
			hw, ok := marks[fmt.Sprintf("%s/%d", topic.Name, partition)]
			return ids.Offset(hw), ok
		}
	}}, change...)...)
	return h, reg
}

// series are the values of one metric, by its labels' values joined with spaces.
func series(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() { // sorted by name: group, namespace, stream, tenant
				labels = append(labels, l.GetValue())
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue()
		}
	}
	return out
}

// committedAt commits offsets given as topic and partition, for nobody in particular.
func (h *harness) committedAt(k Key, offsets map[TopicPartition]int64) {
	h.t.Helper()
	r := &CommitRequest{Key: k, Generation: -1, RetentionMs: -1}
	for at, offset := range offsets {
		r.Offsets = append(r.Offsets, OffsetCommit{Topic: at.Topic, Partition: at.Partition, Offset: offset, LeaderEpoch: -1})
	}
	ch := make(chan outcome, 1)
	h.c.Commit(r, func(err error, each []error) { ch <- outcome{err, each} })
	wantErr(h.t, receive(h.t, ch).err, nil)
}

const (
	lagMetric    = "felix_kafka_group_lag"
	hiddenMetric = "felix_kafka_group_lag_hidden_groups"
)

func wantSeries(t *testing.T, reg *prometheus.Registry, name string, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, series(t, reg, name)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// TestLag: the sum over the partitions that are open here, never below zero, by group and topic; of committed offsets alone.
func TestLag(t *testing.T) {
	h, reg := lagHarness(t, map[string]int64{"a/0": 10, "a/1": 20, "b/0": 5})
	wantSeries(t, reg, lagMetric, map[string]float64{})
	other := Key{Tenant: "t", Group: "other"}
	h.committedAt(testKey, map[TopicPartition]int64{{topicA, 0}: 4, {topicA, 1}: 20, {topicA, 2}: 7, {topicB, 0}: 9})
	h.committedAt(other, map[TopicPartition]int64{{topicA, 1}: 0, {topicB, 3}: 1})
	h.settled(Key{Tenant: "t", Group: "no-offsets"})
	wantSeries(t, reg, lagMetric, map[string]float64{
		"g default a t":     6, // a/1 is at its end, and a/2 is not open here
		"g default b t":     0, // ahead of the log, as after a reset by hand
		"other default a t": 20,
	})
	wantSeries(t, reg, hiddenMetric, map[string]float64{"": 0})
	wantSeries(t, reg, "felix_kafka_group_offsets", map[string]float64{"": 6})
	wantSeries(t, reg, "felix_kafka_groups", map[string]float64{
		"Empty": 2, "PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 1,
	})

	// What is gone shows no more: a group, and a topic.
	wantErr(t, h.deleted(other), nil)
	h.setImage(h.image(1, topicB)) // at the same leader epoch, so that nothing is loaded anew
	h.until("the deleted topic's offsets are gone", func() bool { return h.offsetOf(testKey, 0) == -1 })
	wantSeries(t, reg, lagMetric, map[string]float64{"g default b t": 0})
}

// TestLagCap: the first series by name are shown, the same ones at each scrape, and every group that is not shown in full is counted.
func TestLagCap(t *testing.T) {
	marks := map[string]int64{"a/0": 10, "b/0": 10}
	both := map[TopicPartition]int64{{topicA, 0}: 1, {topicB, 0}: 2}
	all := []string{
		"g1 default a t", "g1 default b t", "g2 default a t", "g2 default b t", "g3 default a t", "g3 default b t", "g1 default a u",
		"g1 default b u",
	}
	tests := []struct {
		limit, shown int
		hidden       float64
	}{
		{-1, 0, 4}, {1, 1, 4}, {2, 2, 3}, {3, 3, 3}, {4, 4, 2}, {6, 6, 1}, {7, 7, 1}, {8, 8, 0}, {9, 8, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("limit_%d", tt.limit), func(t *testing.T) {
			h, reg := lagHarness(t, marks, func(o *Options) { o.MaxLagSeries = tt.limit })
			for _, k := range []Key{{Tenant: "u", Group: "g1"}, {Tenant: "t", Group: "g3"}, {Tenant: "t", Group: "g1"}, {Tenant: "t", Group: "g2"}} { // not in their order
				h.committedAt(k, both)
			}
			want := slices.Clone(all[:tt.shown])
			slices.Sort(want)
			for range 5 { // maps have no order
				var got []string
				for labels := range series(t, reg, lagMetric) {
					got = append(got, labels)
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
					t.Fatalf("series: %s", diff)
				}
				wantSeries(t, reg, hiddenMetric, map[string]float64{"": tt.hidden})
			}
		})
	}
}

// TestLagIsOff: without high watermarks to ask for there is no lag, and the rest is shown.
func TestLagIsOff(t *testing.T) {
	h, reg := lagHarness(t, nil, func(o *Options) { o.HighWatermark = nil })
	h.committed(testKey, 1)
	wantSeries(t, reg, lagMetric, map[string]float64{})
	wantSeries(t, reg, hiddenMetric, map[string]float64{})
	wantSeries(t, reg, "felix_kafka_group_offsets", map[string]float64{"": 1})
}

// TestLagBesideWork: scrapes run beside commits, deletions and leadership that changes hands.
func TestLagBesideWork(t *testing.T) {
	h, reg := lagHarness(t, map[string]int64{"a/0": 10})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for i := range 200 {
		k := Key{Tenant: "t", Group: fmt.Sprintf("g%d", i%10)}
		h.committed(k, int64(i))
		if i%7 == 0 {
			wantErr(t, h.deleted(k), nil)
		}
	}
	close(stop)
	<-done
}
