package log

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// kept is one record as a reader sees it.
type kept struct {
	Offset    int64
	Timestamp int64
	Key       string
	Value     string
	Null      bool
}

// records reads all records of a log.
func records(l *Log, from ids.Offset, maxBytes int) ([]kept, error) {
	var out []kept
	end := l.Bounds().End
	for from < end {
		chunks, n, err := l.Read(from, end, maxBytes, true, nil)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return out, nil // nothing is left up to the end
		}
		for _, c := range chunks {
			for rest := c.Data; len(rest) > 0; {
				h, batch, tail, err := recordbatch.Next(rest)
				if err != nil {
					return nil, err
				}
				opened, err := recordbatch.Open(nil, h, batch, 1<<20)
				if err != nil {
					return nil, err
				}
				it := recordbatch.Records(h, opened)
				for it.Next() {
					r := it.Record
					out = append(out, kept{r.Offset, r.Timestamp, string(r.Key), string(r.Value), r.Value == nil})
				}
				if err := it.Err(); err != nil {
					return nil, err
				}
				from, rest = ids.Offset(h.NextOffset()), tail
			}
			c.Ref.Release()
		}
	}
	return out, nil
}

func mustRecords(t testing.TB, l *Log, from ids.Offset) []kept {
	t.Helper()
	out, err := records(l, from, 1<<20)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return out
}

// keyed builds a batch of keyed records; a value of "" is a tombstone.
func keyed(t testing.TB, o recordbatch.BuilderOptions, ts int64, pairs ...string) AppendInput {
	t.Helper()
	b := recordbatch.NewBuilder(nil, o)
	for i := 0; i < len(pairs); i += 2 {
		var v []byte
		if pairs[i+1] != "" {
			v = []byte(pairs[i+1])
		}
		b.Append(ts+int64(i/2), []byte(pairs[i]), v)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		t.Fatal(err)
	}
	return AppendInput{Batch: batch, Header: h}
}

func compacting(c *Config) {
	c.Compact, c.Delete, c.SegmentBytes, c.DeleteRetention = true, false, 900, time.Hour
}

// pass makes a pass of Maintain over all sealed segments.
func (e *env) pass(l *Log) MaintainResult {
	e.t.Helper()
	if err := l.Sync(); err != nil {
		e.t.Fatal(err)
	}
	l.SetFloor(l.Bounds().End)
	res, err := l.Maintain(e.t.Context())
	if err != nil {
		e.t.Fatalf("maintain: %v", err)
	}
	return res
}

// roll makes what was appended so far sealed.
func roll(t testing.TB, l *Log) {
	t.Helper()
	l.mu.Lock()
	err := l.rollLocked()
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := l.sealPending(); err != nil {
		t.Fatal(err)
	}
}

func TestCompactKeepsNewestAtItsOffset(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(compacting))
	l := e.open()
	for _, in := range []AppendInput{
		keyed(t, recordbatch.BuilderOptions{}, 100, "a", "1", "b", "1"),
		keyed(t, recordbatch.BuilderOptions{Codec: recordbatch.CodecLZ4}, 200, "a", "2", "c", "1"),
		keyed(t, recordbatch.BuilderOptions{}, 300, "b", ""),
		keyed(t, recordbatch.BuilderOptions{}, 400, "a", "3", "a", "4"),
	} {
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 500, "c", "active")); err != nil {
		t.Fatal(err)
	}
	res := e.pass(l)
	want := []kept{
		{3, 201, "c", "1", false}, {4, 300, "b", "", true}, {6, 401, "a", "4", false}, {7, 500, "c", "active", false},
	}
	if res.Compacted != 1 || res.ReclaimedBytes <= 0 {
		t.Errorf("result %+v", res)
	}
	for from := range ids.Offset(8) {
		i := 0
		for i < len(want) && want[i].Offset < int64(from) {
			i++
		}
		// A batch is given out whole, so a reader may see records of it from before.
		got := mustRecords(t, l, from)
		for len(got) > 0 && got[0].Offset < int64(from) {
			got = got[1:]
		}
		if diff := cmp.Diff(want[i:], got); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
	}
	if res := e.pass(l); res.Compacted != 0 {
		t.Errorf("a second pass over a clean log rewrites %d segments", res.Compacted)
	}
	_, l = e.restart(l, false)
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestTombstonesGoAfterTheirTime(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(compacting))
	l := e.open()
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 100, "a", "1", "b", "1", "a", "")); err != nil {
		t.Fatal(err)
	}
	roll(t, l)
	e.pass(l)
	want := []kept{{1, 101, "b", "1", false}, {2, 102, "a", "", true}}
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Fatalf("the tombstone does not stay for its time (-want +got):\n%s", diff)
	}
	e.now = e.now.Add(59 * time.Minute)
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 900, "c", "1")); err != nil {
		t.Fatal(err)
	}
	roll(t, l)
	e.pass(l)
	want = append(want, kept{3, 900, "c", "1", false})
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Fatalf("before its time (-want +got):\n%s", diff)
	}
	e.now = e.now.Add(2 * time.Minute)
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 901, "d", "1")); err != nil {
		t.Fatal(err)
	}
	roll(t, l)
	e.pass(l)
	want = []kept{{1, 101, "b", "1", false}, {3, 900, "c", "1", false}, {4, 901, "d", "1", false}}
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Fatalf("after its time (-want +got):\n%s", diff)
	}
}

func TestCompactionLagAndFloor(t *testing.T) {
	tests := []struct {
		name   string
		config func(*Config)
		floor  ids.Offset
		ratio  float64
		want   int // segments rewritten
	}{
		{name: "plain", floor: 1 << 40, want: 2},
		{name: "floor_inside_second", floor: 3, want: 1},
		{name: "floor_zero", floor: 0, want: 0},
		{name: "min_lag_holds_second", floor: 1 << 40, want: 1, config: func(c *Config) { c.MinCompactionLag = 90 * time.Second }},
		{name: "ratio_not_reached", floor: 1 << 40, want: 0, config: func(c *Config) { c.MinCleanableRatio = 1.1 }},
		{name: "max_lag_beats_ratio", floor: 1 << 40, want: 2, config: func(c *Config) { c.MinCleanableRatio, c.MaxCompactionLag = 1.1, time.Minute }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t, vfs.NewMem(), withConfig(compacting), withConfig(func(c *Config) {
				if tc.config != nil {
					tc.config(c)
				}
			}))
			l := e.open()
			now := e.now.UnixMilli()
			for i, age := range []int64{120_000, 60_000} {
				in := keyed(t, recordbatch.BuilderOptions{}, now-age, "a", fmt.Sprint(i), "a", fmt.Sprint(i), "a", strings.Repeat("x", 500))
				if _, err := l.Append(in); err != nil {
					t.Fatal(err)
				}
				roll(t, l)
			}
			l.SetFloor(tc.floor)
			res, err := l.Maintain(t.Context())
			if err != nil || res.Compacted != tc.want {
				t.Errorf("%d segments rewritten, %v; want %d", res.Compacted, err, tc.want)
			}
		})
	}
}

// TestCompactKeepsProducers: the sequence of a producer all of whose records are gone is still known, also after a restart without
// snapshots.
func TestCompactKeepsProducers(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(compacting))
	l := e.open()
	producer := func(seq int32) recordbatch.BuilderOptions {
		return recordbatch.BuilderOptions{Producer: &recordbatch.Producer{ID: 9, Epoch: 1, BaseSequence: seq}}
	}
	for i := range int32(3) {
		if _, err := l.Append(keyed(t, producer(i), 100, "a", "x")); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 101, "a", "newer")); err != nil {
		t.Fatal(err)
	}
	roll(t, l)
	e.pass(l)
	if diff := cmp.Diff([]kept{{3, 101, "a", "newer", false}}, mustRecords(t, l, 0)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if strings.HasSuffix(f.Name, producersSuffix) {
			if err := disk.Remove(testDir + "/" + f.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	l = e.open()
	res, err := l.Append(keyed(t, producer(2), 100, "a", "x"))
	if err != nil || !res.Duplicate || res.Base != 2 {
		t.Errorf("re-send: %+v, %v", res, err)
	}
	if _, err := l.Append(keyed(t, producer(3), 100, "a", "x")); err != nil {
		t.Errorf("next sequence: %v", err)
	}
}

// TestCompactManyKeysInPasses: with room for few keys a log is compacted in several passes, and ends up the same.
func TestOffsetMap(t *testing.T) {
	m := newOffsetMap(5000)
	for i := range 5000 {
		if !m.put(fmt.Append(nil, "key", i), ids.Offset(i)) {
			t.Fatalf("full after %d", i)
		}
	}
	if m.put([]byte("one more"), 1) {
		t.Error("takes more than its limit")
	}
	if !m.put([]byte("key7"), 9000) {
		t.Error("refuses a known key")
	}
	for i := range 5000 {
		want := ids.Offset(i)
		if i == 7 {
			want = 9000
		}
		if got := m.newest(fmt.Append(nil, "key", i)); got != want {
			t.Fatalf("key %d at %d", i, got)
		}
	}
	if got := m.newest([]byte("unknown")); got != -1 {
		t.Errorf("unknown key at %d", got)
	}
}

// history is every record appended, for checking what compaction left.
type history struct {
	all []kept
}

// check compares what a log holds with the history: only what was written, at its offset, in order; and everything that must stay.
func (h *history) check(got []kept, upTo int64) error {
	i := 0
	newest := map[string]int64{}
	for _, r := range h.all {
		if r.Offset < upTo {
			newest[r.Key] = r.Offset
		}
	}
	for _, want := range h.all {
		if want.Offset >= upTo {
			break
		}
		if i < len(got) && got[i].Offset == want.Offset {
			if got[i] != want {
				return fmt.Errorf("record %+v, was %+v", got[i], want)
			}
			i++
			continue
		}
		if newest[want.Key] == want.Offset && !want.Null {
			return fmt.Errorf("record %+v is missing", want)
		}
	}
	if i != len(got) {
		return fmt.Errorf("record %+v was never written, or out of order", got[i])
	}
	return nil
}

// compactScript appends keyed records, compacts and restarts, for as long as calls succeed.
func compactScript(t testing.TB, fs vfs.FS, h *history, rnd *rand.Rand, keysOf int) error {
	e, _ := tryEnv(t, fs, withConfig(compacting))
	if e == nil {
		return nil // nothing was promised
	}
	l, _ := e.tryOpen()
	if l == nil {
		return nil
	}
	for range 6 {
		for range 8 {
			o := recordbatch.BuilderOptions{Codec: recordbatch.Codec(rnd.IntN(5))}
			end := int64(l.Bounds().End)
			var pairs []string
			for i := range 1 + rnd.IntN(4) {
				k, v := fmt.Sprint("key", rnd.IntN(keysOf)), strings.Repeat(fmt.Sprint(end+int64(i), "."), 1+rnd.IntN(12))
				if rnd.IntN(6) == 0 {
					v = ""
				}
				pairs = append(pairs, k, v)
				h.all = append(h.all, kept{end + int64(i), 1000 + int64(i), k, v, v == ""})
			}
			if _, err := l.Append(keyed(t, o, 1000, pairs...)); err != nil {
				h.all = h.all[:len(h.all)-len(pairs)/2]
				if !l.hasFailed() {
					continue
				}
				return nil
			}
		}
		_ = l.Sync()
		l.SetFloor(l.Bounds().End)
		_, _ = l.Maintain(t.Context())
		got, err := records(l, 0, 700)
		if injected(err) {
			if got, err = records(l, 0, 700); injected(err) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if err := h.check(got, int64(l.Bounds().End)); err != nil {
			return err
		}
		e.now = e.now.Add(20 * time.Minute)
	}
	_ = l.Close(true)
	_ = e.journal.Close()
	return nil
}

func TestCompactRandom(t *testing.T) {
	for seed := range uint64(30) {
		disk := vfs.NewMem()
		h := &history{}
		if err := compactScript(t, disk, h, rand.New(rand.NewPCG(seed, 0)), 1+int(seed)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		l := newEnv(t, disk).open()
		if err := h.check(mustRecords(t, l, 0), int64(l.Bounds().End)); err != nil {
			t.Fatalf("seed %d, after a restart: %v", seed, err)
		}
	}
}

// TestCompactFaults fails every call of a life with compaction once.
func TestCompactFaults(t *testing.T) {
	probe := vfs.NewFault(vfs.NewMem())
	if err := compactScript(t, probe, &history{}, rand.New(rand.NewPCG(1, 1)), 7); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= probe.Calls(); n++ {
		for _, rule := range []vfs.Rule{{Nth: n, Err: syscall.EIO}, {Nth: n, Err: syscall.ENOSPC, ShortWrite: true}} {
			mem := vfs.NewMem()
			faulty := vfs.NewFault(mem, rule)
			h := &history{}
			if err := compactScript(t, faulty, h, rand.New(rand.NewPCG(1, 1)), 7); err != nil {
				t.Fatalf("call %d %v: %v", n, faulty.Fired(), err)
			}
			l := newEnv(t, mem.ProcessKillImage()).open()
			if err := h.check(mustRecords(t, l, 0), int64(l.Bounds().End)); err != nil {
				t.Fatalf("call %d %v: after a restart: %v", n, faulty.Fired(), err)
			}
			if want := int64(len(h.all)); int64(l.Bounds().End) < want {
				t.Fatalf("call %d %v: log ends at %d, want %d", n, faulty.Fired(), l.Bounds().End, want)
			}
		}
	}
}

// TestCompactCrash stops the machine and the process after every call of a life with compaction.
func TestCompactCrash(t *testing.T) {
	disk := vfs.NewMem()
	h := &history{}
	type image struct {
		disk *vfs.Mem
		op   vfs.Op
	}
	var images []image
	n := uint64(0)
	disk.SetHook(func(op vfs.Op) {
		n++
		images = append(images, image{disk.CrashImage(rand.New(rand.NewPCG(4, n))), op}, image{disk.ProcessKillImage(), op})
	})
	if err := compactScript(t, disk, h, rand.New(rand.NewPCG(2, 2)), 7); err != nil {
		t.Fatal(err)
	}
	disk.SetHook(nil)
	for i, at := range images {
		l, err := newEnv(t, at.disk).tryOpen()
		if err != nil {
			t.Fatalf("image %d, after %v %s: %v", i, at.op.Kind, at.op.Path, err)
		}
		got, err := records(l, 0, 1<<20)
		if err != nil {
			t.Fatalf("image %d, after %v %s: %v", i, at.op.Kind, at.op.Path, err)
		}
		if err := h.check(got, int64(l.Bounds().End)); err != nil {
			t.Fatalf("image %d, after %v %s: %v", i, at.op.Kind, at.op.Path, err)
		}
	}
}

// TestCompactStopsForTruncation: whoever needs the turn does not wait for the end of a pass.
func TestCompactStops(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(compacting))
	l := e.open()
	for i := range 20 {
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 100, "a", strings.Repeat("x", 300+i))); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	l.SetFloor(l.Bounds().End)
	before := mustRecords(t, l, 0)
	l.clean.stop.Add(1)
	res, err := l.Maintain(t.Context())
	l.clean.stop.Add(-1)
	if err != nil || res.Compacted != 0 {
		t.Errorf("with somebody waiting: %+v, %v", res, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := l.Maintain(ctx); err != nil || res.Compacted != 0 {
		t.Errorf("with a context that has ended: %+v, %v", res, err)
	}
	if diff := cmp.Diff(before, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if res := e.pass(l); res.Compacted == 0 {
		t.Error("nothing compacted afterwards")
	}
}

func TestPace(t *testing.T) {
	p := pace{rate: 1 << 20}
	began := time.Now()
	for range 10 {
		if err := p.spend(t.Context(), 4<<10); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 25*time.Millisecond {
		t.Errorf("40 KiB at 1 MiB/s took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.spend(ctx, 1<<30); err != errStopped { //nolint:errorlint // the very value
		t.Errorf("an ended context gives %v", err)
	}
}

// TestCompactInParts: with room for few keys, passes go on where the one before ended, and end up with the same.
func TestCompactInParts(t *testing.T) {
	result := func(maxKeys int) []kept {
		e := newEnv(t, vfs.NewMem(), withConfig(compacting))
		l := e.open()
		rnd := rand.New(rand.NewPCG(6, 6))
		h := &history{}
		for i := range int64(120) {
			k := fmt.Sprint("key", rnd.IntN(25))
			h.all = append(h.all, kept{i, 1000, k, fmt.Sprint("value", i), false})
			if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 1000, k, fmt.Sprint("value", i))); err != nil {
				t.Fatal(err)
			}
		}
		roll(t, l)
		l.SetFloor(l.Bounds().End)
		for pass := 0; ; pass++ {
			var res MaintainResult
			cfg := e.config
			c := &cleaner{l: l, ctx: t.Context(), cfg: &cfg, now: e.now.UnixMilli(), res: &res}
			if err := c.run(maxKeys); err != nil {
				t.Fatal(err)
			}
			if err := h.check(mustRecords(t, l, 0), 120); err != nil {
				t.Fatalf("%d keys, pass %d: %v", maxKeys, pass, err)
			}
			if res.Compacted == 0 {
				break
			}
			if pass > 60 {
				t.Fatalf("%d keys: no end", maxKeys)
			}
		}
		_, l = e.restart(l, true)
		return mustRecords(t, l, 0)
	}
	whole := result(1000)
	if len(whole) != 25 {
		t.Fatalf("%d records for 25 keys", len(whole))
	}
	for _, maxKeys := range []int{25, 10, 3} {
		if diff := cmp.Diff(whole, result(maxKeys)); diff != "" {
			t.Errorf("%d keys at a time (-want +got):\n%s", maxKeys, diff)
		}
	}
}

// TestCompactMergesSegments: what is left of several segments goes into one.
func TestCompactMergesSegments(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(compacting))
	l := e.open()
	for i := range 30 {
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 1000, "same", strings.Repeat("x", 300+i))); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	before := len(l.view.Load().segments)
	for range 6 { // a pass merges what is left by the one before
		e.pass(l)
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 1000, "same", "y")); err != nil {
			t.Fatal(err)
		}
		roll(t, l)
	}
	e.pass(l)
	after := len(l.view.Load().segments)
	if before < 10 || after > 4 {
		t.Errorf("%d segments, were %d", after, before)
	}
	if n := len(segmentFiles(t, disk)); n != after {
		t.Errorf("%d files for %d segments", n, after)
	}
	if got := mustRecords(t, l, 0); len(got) != 1 || got[0].Offset != 35 {
		t.Errorf("%+v", got)
	}
	// Offsets that are gone lead to what follows them.
	for from := range ids.Offset(36) {
		if got := mustRecords(t, l, from); len(got) != 1 || got[0].Offset != 35 {
			t.Fatalf("from %d: %+v", from, got)
		}
	}
	_, l = e.restart(l, true)
	if b := l.Bounds(); b.Start != 0 || b.End != 36 {
		t.Errorf("%+v", b)
	}
}

// TestCompactOddRecords drops records that have none, and keeps control batches.
func TestCompactOddRecords(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(compacting))
	l := e.open()
	if _, err := l.Append(stamped(t, recordbatch.BuilderOptions{}, 0, 1000, 1001)); err != nil {
		t.Fatal(err)
	}
	control := keyed(t, recordbatch.BuilderOptions{Control: true, Transactional: true, Producer: &recordbatch.Producer{ID: 3, BaseSequence: -1}}, 1000, "\x00\x00\x00\x01", "marker")
	control.Origin = OriginCoordinator
	if _, err := l.Append(control); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{LogAppendTime: true, AppendTime: 5000}, 1, "k", "v", "k", "w")); err != nil {
		t.Fatal(err)
	}
	roll(t, l)
	e.pass(l)
	want := []kept{{2, 1000, "\x00\x00\x00\x01", "marker", false}, {4, 5000, "k", "w", false}}
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompactDamage: damage in a segment is reported and nothing is replaced.
func TestCompactDamage(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(compacting))
	l := e.open()
	for range 4 {
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 1000, "same", strings.Repeat("x", 300))); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	name := segmentFiles(t, disk)[0]
	bad := readFile(t, disk, name)
	bad[200] ^= 1
	writeBack(t, disk, name, bad)
	l.SetFloor(4)
	_, err := l.Maintain(t.Context())
	var d *DamageError
	if !errors.As(err, &d) || d.File != name {
		t.Errorf("%v", err)
	}
	if now := readFile(t, disk, name); string(now) != string(bad) {
		t.Error("the damaged file was replaced")
	}
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if strings.HasSuffix(f.Name, cleanedSuffix) {
			t.Errorf("%s is left", f.Name)
		}
	}
}
