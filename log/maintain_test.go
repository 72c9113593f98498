package log

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// fiveSegments makes a log of five segments of four records each, a minute apart; the last one is active.
func fiveSegments(t testing.TB, e *env) *Log {
	t.Helper()
	l := e.open()
	start := e.now.UnixMilli()
	for i := range 5 {
		if i > 0 {
			roll(t, l)
		}
		mustAppend(t, l, spec{records: 4, size: 200, timestamp: start + int64(i)*60_000})
	}
	if n := len(l.view.Load().segments); n != 5 {
		t.Fatalf("%d segments", n)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRetention(t *testing.T) {
	const segment = 1000 // about
	tests := []struct {
		name   string
		config func(*Config)
		floor  ids.Offset
		start  ids.Offset // explicit
		after  time.Duration
		want   ids.Offset // log start afterwards
		rolled bool
	}{
		{name: "unlimited", floor: 20, want: 0},
		{name: "bytes", config: func(c *Config) { c.RetentionBytes = 2*segment + 100 }, floor: 20, want: 8},
		{name: "bytes_keeps_active", config: func(c *Config) { c.RetentionBytes = 1 }, floor: 20, want: 16},
		{name: "bytes_not_past_floor", config: func(c *Config) { c.RetentionBytes = 1 }, floor: 9, want: 8},
		{name: "floor_zero", config: func(c *Config) { c.RetentionBytes = 1 }, floor: 0, want: 0},
		{name: "age_of_some", config: func(c *Config) { c.RetentionAge = time.Hour }, after: time.Hour + 90*time.Second, floor: 20, want: 8},
		{name: "age_of_all_rolls", config: func(c *Config) { c.RetentionAge = time.Hour }, after: 2 * time.Hour, floor: 20, want: 20, rolled: true},
		{name: "age_of_all_not_past_floor", config: func(c *Config) { c.RetentionAge = time.Hour }, after: 2 * time.Hour, floor: 18, want: 16},
		{name: "not_by_policy", config: func(c *Config) { c.RetentionAge, c.RetentionBytes, c.Delete = 1, 1, false }, after: time.Hour, floor: 20, want: 0},
		{name: "explicit_start", config: func(c *Config) { c.Delete = false }, start: 9, floor: 20, want: 9},
		{name: "segment_age_rolls", config: func(c *Config) { c.SegmentAge = time.Minute * 10 }, after: time.Hour, floor: 20, want: 0, rolled: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			disk := vfs.NewMem()
			e := newEnv(t, disk)
			l := fiveSegments(t, e)
			if tc.config != nil {
				tc.config(&e.config)
			}
			l.SetConfig(e.config)
			if err := l.AdvanceStart(tc.start); err != nil {
				t.Fatal(err)
			}
			e.now = e.now.Add(tc.after)
			l.SetFloor(tc.floor)
			res, err := l.Maintain(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b := l.Bounds()
			if b.Start != tc.want || res.Rolled != tc.rolled || b.End != 20 {
				t.Errorf("start %d, rolled %v, want %d, %v", b.Start, res.Rolled, tc.want, tc.rolled)
			}
			if _, _, err := l.Read(tc.want-1, 20, 100, true, nil); errcode.Of(err) != errcode.OffsetOutOfRange {
				t.Errorf("reading below the start: %v", err)
			}
			var out *errcode.RangeError
			if _, _, err := l.Read(tc.want-1, 20, 100, true, nil); tc.want > 0 && (!errors.As(err, &out) || !out.TooOld() || out.Start != int64(tc.want)) {
				t.Errorf("reading below the start: %v", err)
			}
			first := l.view.Load().segments[0].base
			for _, s := range segmentFiles(t, disk) {
				if base, ok := parseOffsetName(path.Base(s), segmentSuffix); !ok || base < first {
					t.Errorf("%s is still there", s)
				}
			}
			mustAppend(t, l, spec{})
			_, l = e.restart(l, false)
			if got := l.Bounds(); got.Start != b.Start || got.End != 21 {
				t.Errorf("after a restart: %+v, was %+v", got, b)
			}
		})
	}
}

// TestRetentionWithoutTimestamps: such segments go by the time at which they were begun.
func TestRetentionWithoutTimestamps(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.RetentionAge = time.Hour }))
	l := e.open()
	mustAppend(t, l, spec{timestamp: -1})
	roll(t, l)
	l.SetFloor(1)
	if _, err := l.Maintain(t.Context()); err != nil || l.Bounds().Start != 0 {
		t.Fatalf("%v, start %d", err, l.Bounds().Start)
	}
	e.now = e.now.Add(2 * time.Hour)
	if _, err := l.Maintain(t.Context()); err != nil || l.Bounds().Start != 1 {
		t.Errorf("%v, start %d", err, l.Bounds().Start)
	}
}

// TestFilesThatCannotBeRemoved go with a later pass.
func TestFilesThatCannotBeRemoved(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem)
	e := newEnv(t, disk)
	l := fiveSegments(t, e)
	e.config.RetentionBytes = 1
	l.SetConfig(e.config)
	l.SetFloor(20)
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpRemove }, Err: syscall.EIO})
	if _, err := l.Maintain(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	mustAppend(t, l, spec{})
	disk.Clear()
	if _, err := l.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(segmentFiles(t, mem)); n != 1 {
		t.Errorf("%d files are left", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Maintain(ctx); err != nil {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestAdvanceStart(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := fiveSegments(t, e)
	var out *errcode.RangeError
	if err := l.AdvanceStart(21); !errors.As(err, &out) {
		t.Errorf("above the end: %v", err)
	}
	if err := l.AdvanceStart(10); err != nil {
		t.Fatal(err)
	}
	if err := l.AdvanceStart(5); err != nil || l.Bounds().Start != 10 {
		t.Errorf("back: %v, start %d", err, l.Bounds().Start)
	}
	// The batch that contains the start is given out whole.
	if got := mustReadAll(t, l, 10); len(got) != 3 {
		t.Errorf("%d batches", len(got))
	}
	crashed := newEnv(t, disk.ProcessKillImage()).open()
	if b := crashed.Bounds(); b.Start != 10 {
		t.Errorf("after a kill: %+v", b)
	}
	if err := l.AdvanceStart(20); err != nil {
		t.Fatal(err)
	}
	if _, n, err := l.Read(20, 20, 100, true, nil); err != nil || n != 0 {
		t.Errorf("reading at the end: %d, %v", n, err)
	}
	if r := mustAppend(t, l, spec{}); r.Base != 20 {
		t.Errorf("%+v", r)
	}
	// A start that is not synced yet is synced first.
	if err := l.AdvanceStart(21); err != nil || l.Bounds().DurableEnd != 21 {
		t.Errorf("%v, %+v", err, l.Bounds())
	}
}

func TestTruncate(t *testing.T) {
	tests := []struct {
		name string
		to   ids.Offset
		want ids.Offset
	}{
		{"nothing", 20, 20},
		{"beyond_the_end", 99, 20},
		{"active", 16, 16},
		{"inside_a_batch", 18, 16},
		{"into_sealed", 8, 8},
		{"inside_a_batch_of_sealed", 11, 8},
		{"to_the_start", 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			disk := vfs.NewMem()
			e := newEnv(t, disk)
			l := fiveSegments(t, e)
			want := mustReadAll(t, l, 0)[:tc.want/4]
			if err := l.TruncateTo(tc.to); err != nil {
				t.Fatal(err)
			}
			check := func(l *Log, end ids.Offset) {
				t.Helper()
				if b := l.Bounds(); b.End != end || b.DurableEnd > end {
					t.Errorf("%+v", b)
				}
				got := mustReadAll(t, l, 0)
				wantBatches(t, got[:len(want)], want)
			}
			check(l, tc.want)
			check(newEnv(t, disk.ProcessKillImage()).open(), tc.want)
			if r := mustAppend(t, l, spec{records: 2, epoch: 3}); r.Base != tc.want {
				t.Errorf("appends at %d", r.Base)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			check(l, tc.want+2)
			_, l = e.restart(l, false)
			check(l, tc.want+2)
		})
	}
	e := newEnv(t, vfs.NewMem())
	l := fiveSegments(t, e)
	if err := l.AdvanceStart(9); err != nil {
		t.Fatal(err)
	}
	var out *errcode.RangeError
	if err := l.TruncateTo(8); !errors.As(err, &out) {
		t.Errorf("below the start: %v", err)
	}
}

func TestDelete(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := fiveSegments(t, e)
	if err := l.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(testDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := l.Append(spec{}.input(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, ErrClosed) {
		t.Errorf("sync: %v", err)
	}
	if _, err := l.Maintain(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("maintain: %v", err)
	}
	if _, _, err := l.Read(0, 20, 100, true, nil); err == nil {
		t.Error("reads from nowhere")
	}
	if err := errors.Join(l.Close(true), l.Close(false), l.Delete()); err != nil {
		t.Error(err)
	}
}

func TestRollRules(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes, c.SegmentAge = 1000, time.Minute }))
	l := e.open()
	segments := func() int { return len(l.view.Load().segments) }
	mustAppend(t, l, spec{timestamp: 1000})
	mustAppend(t, l, spec{timestamp: 61_000})
	if segments() != 1 {
		t.Fatal("rolled too early")
	}
	mustAppend(t, l, spec{timestamp: 61_001})
	if segments() != 2 {
		t.Error("record time does not roll")
	}
	mustAppend(t, l, spec{size: 700, timestamp: 61_001})
	mustAppend(t, l, spec{size: 700, timestamp: 61_001})
	if segments() != 3 {
		t.Errorf("size does not roll: %d segments", segments())
	}
	if _, err := l.Append(spec{size: 1000}.input(t)); !errors.Is(err, ErrRecordListTooLarge) {
		t.Errorf("a batch larger than a segment: %v", err)
	}
	if n := len(mustReadAll(t, l, 0)); n != 5 {
		t.Errorf("%d batches", n)
	}
}
