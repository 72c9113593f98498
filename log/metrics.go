package log

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the storage metrics of a node. Names as in spec/operations.md 8.3, and our own below felix_log.
type Metrics struct {
	AppendSeconds       prometheus.Histogram // observed by whoever answers the publish: end to end
	SyncSeconds         prometheus.Histogram
	SyncBatchAppends    prometheus.Histogram
	UnsyncedBytes       prometheus.Gauge
	SyncFailures        prometheus.Counter
	Full                prometheus.Counter
	RecoveryTruncated   prometheus.Counter
	ProducersRebuilt    prometheus.Counter
	ReserveFailed       prometheus.Counter
	ProducersEvicted    prometheus.Counter
	ProducersExpired    prometheus.Counter
	WriteFailures       prometheus.Counter
	DamageFound         prometheus.Counter
	IndexRebuilt        prometheus.Counter
	SegmentsRolled      prometheus.Counter
	SegmentsDeleted     prometheus.Counter
	CompactedBytes      prometheus.Counter
	CompactionReclaimed prometheus.Counter
	TailHits            prometheus.Counter
	TailMisses          prometheus.Counter
	TailBytes           prometheus.Gauge
	OpenFiles           prometheus.Gauge
	FileOpens           prometheus.Counter
}

// NewMetrics makes the metrics and registers them, if reg is not nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	seconds := prometheus.ExponentialBuckets(0.00005, 2, 16)
	return &Metrics{
		AppendSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "felix_storage_append_duration_seconds", Help: "Time of a durable publish, end to end.", Buckets: seconds,
		}),
		SyncSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "felix_storage_sync_duration_seconds", Help: "Time that the device took for a sync.", Buckets: seconds,
		}),
		SyncBatchAppends: f.NewHistogram(prometheus.HistogramOpts{
			Name: "felix_storage_sync_batch_appends", Help: "Appends that one sync made durable.", Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		UnsyncedBytes:       gauge("felix_storage_unsynced_bytes", "Bytes that a crash of the machine would lose now."),
		SyncFailures:        counter("felix_storage_sync_failures_total", "Syncs that failed; each stops its log."),
		Full:                counter("felix_storage_full_total", "Writes refused for want of space."),
		RecoveryTruncated:   counter("felix_storage_recovery_truncated_bytes", "Bytes of torn tails cut while opening logs."),
		ProducersRebuilt:    counter("felix_storage_producer_state_rebuilt_total", "Logs whose producer state was rebuilt from batches for want of a snapshot."),
		ReserveFailed:       counter("felix_storage_segment_reserve_failed_total", "Reservations of disk space that failed; the append went on without."),
		ProducersEvicted:    counter("felix_log_producers_evicted_total", "Idempotent producers forgotten because a shard had too many."),
		ProducersExpired:    counter("felix_log_producers_expired_total", "Idempotent producers forgotten because they were idle for too long."),
		WriteFailures:       counter("felix_log_write_failures_total", "Appends that failed and were undone."),
		DamageFound:         counter("felix_log_damage_found_total", "Reads and openings that met damaged bytes."),
		IndexRebuilt:        counter("felix_log_index_rebuilt_total", "Segment indexes that were missing or wrong and were rebuilt."),
		SegmentsRolled:      counter("felix_log_segments_rolled_total", "Segments begun after the first of a log."),
		SegmentsDeleted:     counter("felix_log_segments_deleted_total", "Segments removed by retention."),
		CompactedBytes:      counter("felix_log_compaction_read_bytes_total", "Bytes that compaction read."),
		CompactionReclaimed: counter("felix_log_compaction_reclaimed_bytes_total", "Bytes that compaction made free."),
		TailHits:            counter("felix_log_tail_hits_total", "Reads served from the hot tail."),
		TailMisses:          counter("felix_log_tail_misses_total", "Reads that had to go to the files."),
		TailBytes:           gauge("felix_log_tail_bytes", "Memory that the hot tail holds."),
		OpenFiles:           gauge("felix_log_open_files", "Segment files that are open."),
		FileOpens:           counter("felix_log_file_opens_total", "Segment files opened."),
	}
}
