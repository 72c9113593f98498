package log

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestAppendStamps: base offset and leader epoch are written into the caller's bytes, and nothing else.
func TestAppendStamps(t *testing.T) {
	l := newEnv(t, vfs.NewMem()).open()
	mustAppend(t, l, spec{records: 3, epoch: 2})
	in := spec{records: 2, epoch: 4, codec: recordbatch.CodecZstd}.input(t)
	sent := bytes.Clone(in.Batch)
	res, err := l.Append(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := (AppendResult{Base: 3, Next: 5, MaxTimestamp: 1001}); res != want {
		t.Errorf("%+v, want %+v", res, want)
	}
	recordbatch.SetBaseOffset(sent, 3)
	recordbatch.SetLeaderEpoch(sent, 4)
	if !bytes.Equal(in.Batch, sent) {
		t.Error("other bytes were changed")
	}
	wantBatches(t, mustReadAll(t, l, 3), [][]byte{sent})
	if b := l.Bounds(); b.Epoch != 4 || b.NeverWritten || b.End != 5 {
		t.Errorf("%+v", b)
	}
}

// TestAppendFromReplica takes a batch as it is, at the end and nowhere else, and does not judge sequences.
func TestAppendFromReplica(t *testing.T) {
	leader, follower := newEnv(t, vfs.NewMem()).open(), newEnv(t, vfs.NewMem()).open()
	for i, seq := range []int32{0, 1, 2} {
		mustAppend(t, leader, spec{epoch: ids.LeaderEpoch(i), producer: &recordbatch.Producer{ID: 5, BaseSequence: seq}})
	}
	batches := mustReadAll(t, leader, 0)
	replicate := func(b []byte) error {
		h, err := recordbatch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = follower.Append(AppendInput{Batch: bytes.Clone(b), Header: h, Epoch: ids.LeaderEpoch(h.LeaderEpoch), Origin: OriginReplica})
		return err
	}
	if err := replicate(batches[1]); !errors.Is(err, ErrNotNext) {
		t.Errorf("a batch from further on: %v", err)
	}
	for _, b := range batches {
		if err := replicate(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := replicate(batches[2]); !errors.Is(err, ErrNotNext) {
		t.Errorf("a batch twice: %v", err)
	}
	wantBatches(t, mustReadAll(t, follower, 0), batches)
	for e := range ids.LeaderEpoch(4) {
		a, off := leader.EndOfEpoch(e)
		b, off2 := follower.EndOfEpoch(e)
		if a != b || off != off2 {
			t.Errorf("epoch %d: %d, %d and %d, %d", e, a, off, b, off2)
		}
	}
	var p []ProducerState
	follower.Producers(func(s ProducerState) bool { p = append(p, s); return false })
	if len(p) != 1 || p[0].LastSequence != 2 {
		t.Errorf("%+v", p)
	}
}

// TestAppendOwnership: the log keeps a large batch's buffer for the tail, and copies a small one.
func TestAppendOwnership(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withShared(func(s *Shared) { s.Tail = NewTailCache(1<<20, s.Pool, nil) }))
	l := e.open()
	for _, size := range []int{100, 30_000} {
		for _, owned := range []bool{true, false} {
			in := spec{size: size}.input(t)
			want := bytes.Clone(in.Batch)
			room := e.shared.Pool.Get(len(in.Batch) + 40_000*(30_000-size)/30_000) // a small batch lies in a large request
			copy(room.Bytes(), in.Batch)
			in.Batch = room.Bytes()[:len(in.Batch)]
			if owned {
				in.Owner = room
			}
			res, err := l.Append(in)
			if err != nil {
				t.Fatal(err)
			}
			if !owned || size == 100 {
				clear(in.Batch) // what the log does not own it must have copied
			} else {
				room.Release()
			}
			got := mustReadAll(t, l, res.Base)
			recordbatch.SetBaseOffset(want, int64(res.Base))
			recordbatch.SetLeaderEpoch(want, 0)
			wantBatches(t, got, [][]byte{want})
		}
	}
}

// TestPreallocation reserves nothing for a small log, then doubles, in bounded steps, and gives back at the seal.
func TestPreallocation(t *testing.T) {
	type reserve struct{ off, n int64 }
	var got []reserve
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem, vfs.Rule{Match: func(op vfs.Op) bool {
		if op.Kind == vfs.OpPreallocate {
			got = append(got, reserve{op.Off, op.Len})
		}
		return false
	}})
	e := newEnv(t, disk, withMode(SyncNone), withConfig(func(c *Config) { c.SegmentBytes = 5 << 20 }), withShared(func(s *Shared) { s.Preallocate = true }))
	l := e.open()
	for range 9 {
		mustAppend(t, l, spec{size: 100 << 10})
	}
	if len(got) != 0 {
		t.Fatalf("a log of 900 KiB reserves %v", got)
	}
	for range 40 {
		mustAppend(t, l, spec{size: 100 << 10})
	}
	if len(got) < 2 || len(got) > 5 {
		t.Fatalf("%d reservations: %v", len(got), got)
	}
	for i, r := range got {
		if r.n <= 0 || r.n > maxReserve || r.off+r.n > 5<<20 {
			t.Errorf("reservation %d: %+v", i, r)
		}
	}
	// A failure is no concern of the append.
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpPreallocate }, Err: errors.New("no fallocate here")})
	l.active.reserved = 0
	mustAppend(t, l, spec{size: 100 << 10})
	if n := len(mustReadAll(t, l, 0)); n != 50 {
		t.Errorf("%d batches", n)
	}
}

func TestConfigDefaults(t *testing.T) {
	got := Config{}.withDefaults()
	want := Config{SegmentBytes: 256 << 20, SegmentAge: 7 * 24 * time.Hour, RetentionBytes: -1, IndexIntervalBytes: 4096}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (Config{SegmentBytes: 1 << 40, RetentionBytes: 5}).withDefaults(); got.SegmentBytes != math.MaxInt32 || got.RetentionBytes != 5 {
		t.Errorf("%+v", got)
	}
}

func TestSharedMustBeComplete(t *testing.T) {
	if _, err := Open(Options{Shared: &Shared{}}); err == nil || !strings.Contains(err.Error(), "FS") {
		t.Errorf("%v", err)
	}
	e := newEnv(t, vfs.NewMem())
	s := &Shared{FS: e.fs, Pool: buf.NewPool(1), Syncer: NewSyncer(SyncNone, 0, 0), Journal: e.journal}
	if err := s.init(); err != nil {
		t.Fatal(err)
	}
	if s.Files == nil || s.Tail == nil || s.Metrics == nil || s.Now == nil || s.MaxProducers != DefaultMaxProducers ||
		s.ProducerBatches != DefaultProducerBatches || s.ProducerExpiry != 24*time.Hour || s.MaxDecodedBytes != 16<<20 || s.Syncer.Mode() != SyncNone {
		t.Errorf("%+v", s)
	}
}

// gather reads all metrics of a registry: the sum of each family's counters and gauges, or the number of its observations.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("help of %s is no sentence", f.GetName())
		}
		for _, m := range f.GetMetric() {
			out[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestMetrics: the names that operators rely on exist, and count.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	disk := vfs.NewFault(vfs.NewMem())
	e := newEnv(t, disk, withShared(func(s *Shared) {
		s.Metrics = m
		s.Tail = NewTailCache(1<<20, s.Pool, m)
		s.MaxProducers = 2
	}), withConfig(func(c *Config) { c.SegmentBytes, c.RetentionBytes = 1000, 1 }))
	l := e.open()
	appendMany(t, l, 10)
	if got := gather(t, reg); got["felix_storage_unsynced_bytes"] == 0 {
		t.Error("nothing counts as unsynced")
	}
	e.pass(l)
	for i := range int64(4) {
		mustAppend(t, l, spec{producer: &recordbatch.Producer{ID: i}})
	}
	mustReadAll(t, l, l.Bounds().Start)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpWrite }, Nth: 1, Err: syscall.ENOSPC})
	if _, err := l.Append(spec{}.input(t)); err == nil {
		t.Error("a full disk takes more")
	}
	mustAppend(t, l, spec{})
	disk.Add(vfs.Rule{Match: logSync, Nth: 1, Err: syscall.EIO})
	if err := l.Sync(); err == nil {
		t.Error("a failed sync passes")
	}
	got := gather(t, reg)
	want := map[string]float64{
		"felix_storage_full_total": 1, "felix_storage_sync_failures_total": 1, "felix_log_write_failures_total": 1, "felix_log_producers_evicted_total": 2,
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
	for _, name := range []string{
		"felix_storage_sync_duration_seconds", "felix_storage_sync_batch_appends", "felix_storage_unsynced_bytes",
		"felix_log_segments_rolled_total", "felix_log_segments_deleted_total", "felix_log_tail_hits_total", "felix_log_open_files",
	} {
		if got[name] == 0 {
			t.Errorf("%s does not count", name)
		}
	}
	for _, name := range []string{
		"append_duration_seconds", "recovery_truncated_bytes", "producer_state_rebuilt_total", "segment_reserve_failed_total",
	} {
		if _, ok := got["felix_storage_"+name]; !ok {
			t.Errorf("felix_storage_%s is missing", name)
		}
	}
}

// TestRecoveryMetrics: what opening repairs is counted.
func TestRecoveryMetrics(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
	l := e.open()
	appendMany(t, l, 8)
	if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	files := segmentFiles(t, disk)
	last := files[len(files)-1]
	writeBack(t, disk, last, append(readFile(t, disk, last), 1, 2, 3, 4, 5))
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries { // neither indexes nor snapshots are left
		if !strings.HasSuffix(f.Name, segmentSuffix) {
			if err := disk.Remove(testDir + "/" + f.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	l = newEnv(t, disk, withShared(func(s *Shared) { s.Metrics = m })).open()
	got := gather(t, reg)
	if got["felix_storage_recovery_truncated_bytes"] != 5 || got["felix_storage_producer_state_rebuilt_total"] != 1 || got["felix_log_index_rebuilt_total"] == 0 {
		t.Errorf("%v", got)
	}
	bad := segmentFiles(t, disk)[0]
	b := readFile(t, disk, bad)
	b[100] ^= 1
	writeBack(t, disk, bad, b)
	if _, err := readAll(l, 0, 1000); err == nil {
		t.Error("damage passes")
	}
	if got := gather(t, reg); got["felix_log_damage_found_total"] != 1 {
		t.Errorf("damage is counted %v times", got["felix_log_damage_found_total"])
	}
}

func TestChain(t *testing.T) {
	header := func(base int64, delta, epoch int32) *recordbatch.Header {
		return &recordbatch.Header{BaseOffset: base, LastOffsetDelta: delta, LeaderEpoch: epoch}
	}
	tests := []struct {
		name string
		gaps bool
		h    *recordbatch.Header
		want error
		next ids.Offset
	}{
		{name: "follows", h: header(10, 4, 3), next: 15},
		{name: "newer_epoch", h: header(10, 0, 9), next: 11},
		{name: "gap", h: header(11, 0, 3), want: errOffsetGap},
		{name: "overlap", h: header(9, 0, 3), want: errOffsetGap},
		{name: "older_epoch", h: header(10, 0, 2), want: errEpochBack},
		{name: "covers_nothing", h: header(10, -1, 3), want: errNegative},
		{name: "gap_in_compacted", gaps: true, h: header(19, 0, 3), next: 20},
		{name: "overlap_in_compacted", gaps: true, h: header(9, 5, 3), want: errOffsetGap},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := chain{next: 10, epoch: 3, gaps: tc.gaps}
			err := c.check(100, tc.h)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if err == nil && c.next != tc.next || err != nil && c.next != 10 {
				t.Errorf("goes on at %d", c.next)
			}
		})
	}
}

// TestScanErrors: errors of the disk and of the visitor end a scan, and are not faults.
func TestScanErrors(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem)
	e := newEnv(t, disk)
	l := e.open()
	appendMany(t, l, 5)
	stop := errors.New("enough")
	scan := func(visit visitor) (int64, *fault, error) {
		var good int64
		var bad *fault
		err := l.withFile(l.active, func(f fileIO) (err error) {
			c := chain{epoch: ids.NoEpoch}
			good, bad, err = scanFile(f, l.active.size.Load(), &c, visit)
			return err
		})
		return good, bad, err
	}
	n := 0
	good, bad, err := scan(func(pos int64, _ *recordbatch.Header, _ []byte) error {
		if n++; n == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || bad != nil || n != 3 || good <= segmentHeaderBytes {
		t.Errorf("%d, %v, %v after %d", good, bad, err, n)
	}
	broken := errors.New("broken")
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpRead }, Err: broken})
	if _, bad, err := scan(func(int64, *recordbatch.Header, []byte) error { return nil }); !errors.Is(err, broken) || bad != nil {
		t.Errorf("%v, %v", bad, err)
	}
}

func TestDirSyncs(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("a", 0o755); err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewFault(mem)
	syncs := 0
	mem.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSyncDir {
			syncs++
		}
	})
	var d dirSyncs
	first := d.made()
	second := d.made()
	step := func(when uint64, want int) {
		t.Helper()
		if err := d.sync(disk, "a", when); err != nil {
			t.Fatal(err)
		}
		if syncs != want {
			t.Errorf("%d syncs, want %d", syncs, want)
		}
	}
	step(first, 1)
	step(second, 1) // was made before that sync began
	third := d.made()
	step(third, 2)
	step(first, 2)
	fourth := d.made()
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir }, Nth: 1, Err: errors.New("no")})
	if err := d.sync(disk, "a", fourth); err == nil {
		t.Error("a failed sync passes")
	}
	step(fourth, 3) // it did not count
	for i := range maxKnownDirs + 1 {
		d.known[strings.Repeat("x", i)] = 1
	}
	step(d.made(), 4)
	if len(d.known) > maxKnownDirs {
		t.Errorf("%d directories are remembered", len(d.known))
	}
}

// TestErrorsSayWhere: what a person reads names the log, the file and the byte.
func TestErrorsSayWhere(t *testing.T) {
	disk, _ := twoSegments(t, false)
	name := segmentFiles(t, disk)[0]
	b := readFile(t, disk, name)
	b[100] ^= 1
	writeBack(t, disk, name, b)
	_, err := readAll(newEnv(t, disk).open(), 0, 1000)
	for _, part := range []string{"tenant/ns/stream/0", name, "byte 48", "checksum"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}
