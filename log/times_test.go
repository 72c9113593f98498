package log

import (
	"math/rand/v2"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// stamped builds a batch of records with the given timestamps.
func stamped(t testing.TB, o recordbatch.BuilderOptions, epoch ids.LeaderEpoch, timestamps ...int64) AppendInput {
	t.Helper()
	b := recordbatch.NewBuilder(nil, o)
	for _, ts := range timestamps {
		b.Append(ts, nil, []byte("value"))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		t.Fatal(err)
	}
	return AppendInput{Batch: batch, Header: h, Epoch: epoch}
}

// TestTimesAgainstModel looks timestamps up that do not rise, in all codecs, over several segments, and compares with a plain search.
func TestTimesAgainstModel(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 1500 }))
		l := e.open()
		var all []int64
		for range 60 {
			var ts []int64
			for range 1 + rnd.IntN(4) {
				ts = append(ts, 1000+rnd.Int64N(500)+int64(len(all)))
			}
			o := recordbatch.BuilderOptions{Codec: recordbatch.Codec(rnd.IntN(5))}
			if rnd.IntN(5) == 0 {
				o.LogAppendTime, o.AppendTime = true, 1000+int64(len(all))
				for i := range ts {
					ts[i] = o.AppendTime
				}
			}
			if _, err := l.Append(stamped(t, o, 2, ts...)); err != nil {
				t.Fatal(err)
			}
			all = append(all, ts...)
		}
		if seed%2 == 1 {
			e, l = e.restart(l, seed%4 == 1)
		}
		starts := []ids.Offset{0, ids.Offset(len(all) / 3)}
		for _, start := range starts {
			if err := l.AdvanceStart(start); err != nil {
				t.Fatal(err)
			}
			limits := limitsOf(t, l, start)
			for range 200 {
				limit := limits[rnd.IntN(len(limits))]
				checkTime(t, l, all, start, limit, 900+rnd.Int64N(900))
			}
			for _, limit := range limits {
				checkMax(t, l, all, start, limit)
			}
		}
		_ = e
	}
}

// limitsOf returns the ends of all batches, which is where a high watermark can stand.
func limitsOf(t testing.TB, l *Log, start ids.Offset) []ids.Offset {
	t.Helper()
	out := []ids.Offset{start}
	for _, b := range mustReadAll(t, l, start) {
		h, err := recordbatch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ids.Offset(h.NextOffset()))
	}
	return out
}

func checkTime(t *testing.T, l *Log, all []int64, start, limit ids.Offset, ts int64) {
	t.Helper()
	want := ids.Offset(-1)
	for off := start; off < limit; off++ {
		if all[off] >= ts {
			want = off
			break
		}
	}
	got, ok, err := l.OffsetForTime(ts, limit)
	if err != nil || ok != (want >= 0) {
		t.Fatalf("time %d below %d: %+v, %v, %v; want %d", ts, limit, got, ok, err, want)
	}
	if ok && (got != TimeOffset{want, all[want], 2}) {
		t.Fatalf("time %d below %d: %+v, want offset %d, timestamp %d", ts, limit, got, want, all[want])
	}
}

func checkMax(t *testing.T, l *Log, all []int64, start, limit ids.Offset) {
	t.Helper()
	want := ids.Offset(-1)
	for off := start; off < limit; off++ {
		if want < 0 || all[off] > all[want] {
			want = off
		}
	}
	got, ok, err := l.MaxTimestamp(limit)
	if err != nil || ok != (want >= 0) || ok && (got != TimeOffset{want, all[want], 2}) {
		t.Fatalf("largest below %d from %d: %+v, %v, %v; want offset %d", limit, start, got, ok, err, want)
	}
}

func TestTimesOfAnEmptyLog(t *testing.T) {
	l := newEnv(t, vfs.NewMem()).open()
	if _, ok, err := l.OffsetForTime(0, 10); ok || err != nil {
		t.Error(ok, err)
	}
	if _, ok, err := l.MaxTimestamp(10); ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := l.Append(stamped(t, recordbatch.BuilderOptions{}, 0, -1, -1)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.MaxTimestamp(10); ok || err != nil {
		t.Errorf("without timestamps: %v, %v", ok, err)
	}
	if got, ok, err := l.OffsetForTime(-1, 10); !ok || err != nil || got.Offset != 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

// TestTimesOfDamage: a look-up that meets damage says so.
func TestTimesOfDamage(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := e.open()
	mustAppend(t, l, spec{timestamp: 5000, size: 100})
	name := segmentFiles(t, disk)[0]
	b := readFile(t, disk, name)
	b[len(b)-1] ^= 1
	writeBack(t, disk, name, b)
	if _, _, err := l.OffsetForTime(4000, 1); errcode.Of(err) != errcode.CorruptBatch {
		t.Errorf("%v", err)
	}
	if _, _, err := l.MaxTimestamp(1); errcode.Of(err) != errcode.CorruptBatch {
		t.Errorf("%v", err)
	}
}
