package log

import (
	"errors"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestInspect looks at a data directory with a good log, a torn one, a damaged one and things that are no logs.
func TestInspect(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
	topic := ids.TopicID{9, 9}
	dir := func(n int32) string { return "data/shards/" + ids.ShardID{Topic: topic, Partition: n}.String() }
	for n := range int32(3) {
		l, err := Open(Options{Shared: e.shared, Dir: dir(n), Shard: ids.ShardID{Topic: topic, Partition: n}, Name: "x", Config: e.config})
		if err != nil {
			t.Fatal(err)
		}
		appendMany(t, l, 12)
		if err := l.Close(n != 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(e.journal.Close(), disk.MkdirAll("data/shards/lost+found", 0o755), disk.MkdirAll(dir(0)+"x", 0o755)); err != nil {
		t.Fatal(err)
	}
	files := func(n int32) []string {
		entries, err := disk.ReadDir(dir(n))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range entries {
			if _, ok := parseOffsetName(f.Name, segmentSuffix); ok {
				out = append(out, dir(n)+"/"+f.Name)
			}
		}
		return out
	}
	torn := files(1)[len(files(1))-1]
	b := readFile(t, disk, torn)
	writeBack(t, disk, torn, b[:len(b)-1])
	bad := files(2)[0]
	b = readFile(t, disk, bad)
	b[100] ^= 1
	writeBack(t, disk, bad, b)

	calls := 0
	progress := func(done, total int, _ *ShardReport) {
		if calls++; done != calls || total != 3 {
			t.Errorf("progress %d of %d at call %d", done, total, calls)
		}
	}
	report, err := Inspect(disk, "data", InspectOptions{}, progress)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := func(r *Report) (out []Verdict) {
		for _, s := range r.Shards {
			out = append(out, s.Verdict)
		}
		return out
	}
	// The damage is in a sealed segment, which is not read unless that is asked for.
	if v := verdicts(report); len(v) != 3 || v[0] != Clean || v[1] != WouldRepair || v[2] != Clean || report.Verdict() != WouldRepair {
		t.Errorf("verdicts %v, in all %v", v, report.Verdict())
	}
	good := report.Shards[0]
	if good.End == 0 || good.Start != 0 || good.Mark != good.End || len(good.Segments) < 2 || good.Bytes == 0 || good.Segments[0].End != good.Segments[1].Base ||
		!good.Segments[0].Sealed || good.Segments[0].MaxTimestamp < 1000 {
		t.Errorf("%+v", good)
	}
	if f := report.Shards[1].Findings; len(f) == 0 || f[len(f)-1].File != torn || f[len(f)-1].Bytes == 0 {
		t.Errorf("findings %+v", f)
	}
	report, err = Inspect(disk, "data", InspectOptions{VerifyAll: true, Workers: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := verdicts(report); v[0] != Clean || v[2] != Damaged || report.Verdict() != Damaged {
		t.Errorf("verdicts %v, in all %v", v, report.Verdict())
	}
	if f := report.Shards[2].Findings; len(f) != 1 || f[0].File != bad || f[0].Position > 100 || f[0].Places != 1 || f[0].Bytes == 0 || f[0].Verdict != Damaged {
		t.Errorf("findings %+v", f)
	}
	if s := report.Shards[2]; s.End != good.End || len(s.Segments) != len(good.Segments) || s.Bytes != good.Bytes || s.Scanned != s.Bytes {
		t.Errorf("the damaged log: %+v, want what the good one has: %+v", s, good)
	}
	if s := report.Shards[0]; s.Scanned != s.Bytes {
		t.Errorf("scanned %d of %d bytes", s.Scanned, s.Bytes)
	}
	only, err := Inspect(disk, "data", InspectOptions{Shards: func(s ids.ShardID) bool { return s.Partition == 2 }}, nil)
	if err != nil || len(only.Shards) != 1 || only.Shards[0].Shard.Partition != 2 {
		t.Errorf("%+v, %v", only, err)
	}
}

func TestInspectJournal(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	if err := errors.Join(e.journal.SetFloor(testShard, 7), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := Inspect(disk, "data", InspectOptions{}, nil); err != nil || r.Verdict() != Clean {
		t.Fatalf("%+v, %v", r, err)
	}
	entries, err := disk.ReadDir("data/journal")
	if err != nil {
		t.Fatal(err)
	}
	name := "data/journal/" + entries[0].Name
	good := readFile(t, disk, name)
	writeBack(t, disk, name, append(append([]byte(nil), good...), 1, 2, 3))
	if r, err := Inspect(disk, "data", InspectOptions{}, nil); err != nil || r.Verdict() != WouldRepair || r.Journal[0].Bytes != 3 {
		t.Errorf("a torn journal: %+v, %v", r, err)
	}
	bad := append([]byte(nil), good...)
	bad[50] ^= 1
	writeBack(t, disk, name, bad)
	if r, err := Inspect(disk, "data", InspectOptions{}, nil); err != nil || r.Verdict() != WouldRefuse || r.Journal[0].File != name {
		t.Errorf("a damaged journal: %+v, %v", r, err)
	}
	if r, err := Inspect(vfs.NewMem(), "nowhere", InspectOptions{}, nil); err != nil || r.Verdict() != Clean || len(r.Shards) != 0 {
		t.Errorf("nothing at all: %+v, %v", r, err)
	}
	if Clean.String() != "clean" || Verdict(7).String() != "unknown" {
		t.Error("verdicts have other names")
	}
}

// TestInspectDamageInManyPlaces spoils several segments of one log: each gets its finding and its count, and what is good is still told.
func TestInspectDamageInManyPlaces(t *testing.T) {
	build := func(t *testing.T) (disk *vfs.Mem, names []string, whole ShardReport) {
		disk = vfs.NewMem()
		e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 3500 }))
		l := e.open()
		appendMany(t, l, 60)
		if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
		names = segmentFiles(t, disk)
		whole = inspect(t, disk, InspectOptions{VerifyAll: true}).Shards[0]
		if len(names) < 4 || whole.Verdict != Clean {
			t.Fatalf("%d segments, %+v", len(names), whole)
		}
		return disk, names, whole
	}
	// starts are the positions of a file's batches.
	starts := func(b []byte) (out []int) {
		rest := b[segmentHeaderBytes:]
		for len(rest) > 0 {
			out = append(out, len(b)-len(rest))
			_, _, after, err := recordbatch.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = after
		}
		return out
	}
	flipLast := func(b []byte, at []int, n int) { b[at[n+1]-1] ^= 1 } // the last byte of batch n
	tests := []struct {
		name   string
		spoil  func(b []byte, at []int)
		places int
		first  func(at []int) int
	}{
		{"checksum", func(b []byte, at []int) { flipLast(b, at, 2) }, 1, func(at []int) int { return at[2] }},
		{"three_apart", func(b []byte, at []int) { flipLast(b, at, 1); flipLast(b, at, 3); flipLast(b, at, 5) }, 3, func(at []int) int { return at[1] }},
		{"length", func(b []byte, at []int) { b[at[1]+8] = 0x7f }, 1, func(at []int) int { return at[1] }},
		{"short_length", func(b []byte, at []int) { b[at[1]+11]-- }, 1, func(at []int) int { return at[1] }},
		{"magic", func(b []byte, at []int) { b[at[1]+16] = 9 }, 1, func(at []int) int { return at[1] }},
		{"hole", func(b []byte, at []int) { clear(b[at[1]+3 : at[3]+9]) }, 1, func(at []int) int { return at[1] }},
		{"hole_to_the_end", func(b []byte, at []int) { clear(b[at[1]:]) }, 1, func(at []int) int { return at[1] }},
		{"epoch", func(b []byte, at []int) { b[at[2]+15] ^= 1 }, 1, func(at []int) int { return at[2] }},
		{"header", func(b []byte, _ []int) { b[30] ^= 1 }, 1, func([]int) int { return 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			disk, names, whole := build(t)
			originals := copyDisk(t, disk)
			for _, name := range []string{names[0], names[2]} {
				b := readFile(t, disk, name)
				tt.spoil(b, starts(readFile(t, disk, name)))
				writeBack(t, disk, name, b)
			}
			got := inspect(t, disk, InspectOptions{VerifyAll: true}).Shards[0]
			want := Damaged
			if tt.name == "header" { // which a start reads
				want = WouldRefuse
			}
			if got.Verdict != want || got.Start != whole.Start || got.End != whole.End || len(got.Segments) != len(whole.Segments) || got.Bytes != whole.Bytes || got.Scanned != got.Bytes {
				t.Errorf("got %+v, want %v of %+v", got, want, whole)
			}
			if len(got.Findings) != 2 {
				t.Fatalf("got findings %+v, want one of each spoiled segment", got.Findings)
			}
			for i, name := range []string{names[0], names[2]} {
				f := got.Findings[i]
				at := starts(readFile(t, originals, name))
				if f.File != name || f.Places != tt.places || f.Position != int64(tt.first(at)) {
					t.Errorf("got %+v, want %d places of %s", f, tt.places, name)
				}
			}
		})
	}
	t.Run("refused_by_its_newest_segment", func(t *testing.T) {
		disk, names, whole := build(t)
		newest := names[len(names)-1]
		b := readFile(t, disk, newest)
		at := starts(b)
		if len(at) < 3 {
			t.Fatalf("%d batches", len(at))
		}
		flipLast(b, at, 0)
		writeBack(t, disk, newest, b)
		for _, all := range []bool{false, true} {
			got := inspect(t, disk, InspectOptions{VerifyAll: all}).Shards[0]
			if got.Verdict != WouldRefuse || got.Start != whole.Start || got.End != whole.End || len(got.Segments) != len(whole.Segments) || got.Bytes != whole.Bytes {
				t.Errorf("all %v: got %+v, want the refusal of %+v", all, got, whole)
			}
			if f := got.Findings; len(f) != 1 || f[0].File != newest || f[0].Places != 1 || f[0].Bytes != int64(at[1]-at[0]) {
				t.Errorf("all %v: got findings %+v", all, f)
			}
		}
	})
}
