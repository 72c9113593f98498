package log

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// tail is a log of one segment and what a test does to its end.
type tailCase struct {
	name string
	// spoil returns what the file holds afterwards. last is where the last batch begins.
	spoil func(file []byte, last int) []byte
	// By what the journal knows: a mark at the end, a mark before the last batch, no mark at all. The number of batches that
	// must be left of ten, -1 for a refusal.
	synced, lagging, unknown int
	repairTail               bool
}

func TestRecoveryOfTheEnd(t *testing.T) {
	tests := []tailCase{
		{name: "untouched", spoil: func(b []byte, _ int) []byte { return b }, synced: 10, lagging: 10, unknown: 10},
		{name: "cut_in_last_records", spoil: func(b []byte, _ int) []byte { return b[:len(b)-3] }, synced: -1, lagging: 9, unknown: 9},
		{name: "cut_in_last_header", spoil: func(b []byte, last int) []byte { return b[:last+20] }, synced: -1, lagging: 9, unknown: 9},
		{name: "cut_in_last_length", spoil: func(b []byte, last int) []byte { return b[:last+5] }, synced: -1, lagging: 9, unknown: 9},
		{name: "cut_between_batches", spoil: func(b []byte, last int) []byte { return b[:last] }, synced: -1, lagging: 9, unknown: 9},
		{name: "zeros_behind", spoil: func(b []byte, _ int) []byte { return append(b, make([]byte, 5000)...) }, synced: 10, lagging: 10, unknown: 10},
		{name: "few_zeros_behind", spoil: func(b []byte, _ int) []byte { return append(b, 0, 0, 0) }, synced: 10, lagging: 10, unknown: 10},
		{name: "last_is_zero", spoil: func(b []byte, last int) []byte { clear(b[last:]); return b }, synced: -1, lagging: 9, unknown: 9},
		{name: "zeros_from_a_sector_on", spoil: func(b []byte, last int) []byte {
			from := (last/512 + 1) * 512
			clear(b[from:])
			return append(b, make([]byte, 700)...)
		}, synced: -1, lagging: 9, unknown: 9},
		{name: "zeros_from_elsewhere_on", spoil: func(b []byte, _ int) []byte {
			if (len(b)-20)/512 != (len(b)-1)/512 {
				panic("a sector begins in the last bytes")
			}
			clear(b[len(b)-20:])
			return b
		}, synced: -1, lagging: 9, unknown: -1},
		{name: "zeros_then_more", spoil: func(b []byte, _ int) []byte {
			return append(append(b, make([]byte, 1000)...), 1, 2, 3)
		}, synced: 10, lagging: 10, unknown: -1},
		{name: "garbage_behind", spoil: func(b []byte, _ int) []byte { return append(b, bytes.Repeat([]byte{0xa5}, 300)...) }, synced: 10, lagging: 10, unknown: -1},
		{name: "checksum_of_last", spoil: func(b []byte, _ int) []byte { b[len(b)-1] ^= 1; return b }, synced: -1, lagging: 9, unknown: -1},
		{name: "checksum_of_last_repaired", spoil: func(b []byte, _ int) []byte { b[len(b)-1] ^= 1; return b }, synced: -1, lagging: 9, unknown: 9, repairTail: true},
		{name: "checksum_of_first", spoil: func(b []byte, _ int) []byte { b[segmentHeaderBytes+80] ^= 1; return b }, synced: -1, lagging: -1, unknown: -1, repairTail: true},
		{name: "length_of_first_beyond_the_end", spoil: func(b []byte, _ int) []byte { b[segmentHeaderBytes+9] = 0x7f; return b }, synced: -1, lagging: -1, unknown: -1},
		{name: "first_batch_twice", spoil: func(b []byte, last int) []byte {
			return append(b, b[segmentHeaderBytes:segmentHeaderBytes+(len(b)-last)]...)
		}, synced: 10, lagging: 10, unknown: -1},
		{name: "gap", spoil: func(b []byte, last int) []byte {
			size := len(b) - last
			return append(b[:last-size:last-size], b[last:]...)
		}, synced: -1, lagging: -1, unknown: -1},
	}
	for _, tc := range tests {
		for journalKnows, want := range map[string]int{"synced": tc.synced, "lagging": tc.lagging, "unknown": tc.unknown} {
			t.Run(tc.name+"/"+journalKnows, func(t *testing.T) { tc.run(t, journalKnows, want) })
		}
	}
}

func (tc *tailCase) run(t *testing.T, journalKnows string, want int) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := e.open()
	var batches [][]byte
	last := int64(0)
	for i := range 10 {
		if i == 9 && journalKnows == "lagging" {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		last = l.Bounds().SizeBytes
		in := spec{size: 700}.input(t)
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, in.Batch)
	}
	if err := errors.Join(l.Close(journalKnows == "synced"), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	name := segmentFiles(t, disk)[0]
	writeBack(t, disk, name, tc.spoil(readFile(t, disk, name), int(last)))
	if journalKnows == "unknown" {
		loseJournal(t, disk)
	}
	for range 2 { // what was repaired stays so
		report := inspect(t, disk, InspectOptions{RepairChecksumTail: tc.repairTail})
		e = newEnv(t, disk, withShared(func(s *Shared) { s.RepairChecksumTail = tc.repairTail }))
		l, err := e.tryOpen()
		if want < 0 {
			var d *DamageError
			if !errors.As(err, &d) || errcode.Of(err) != errcode.StorageFailed || d.File != name {
				t.Fatalf("opens with %v, want a refusal", err)
			}
			if report.Verdict() != WouldRefuse || report.Shards[0].Findings[0].Position != d.Position {
				t.Errorf("inspection says %v, %+v", report.Verdict(), report.Shards[0].Findings)
			}
			if got := readFile(t, disk, name); len(got) == 0 {
				t.Error("a refused file was changed")
			}
			return
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		wantBatches(t, mustReadAll(t, l, 0), batches[:want])
		repaired := report.Verdict() == WouldRepair
		changed := int64(len(readFile(t, disk, name))) != report.sizeBefore(t)
		if repaired != changed {
			t.Errorf("inspection says %v, the file changes: %v", report.Verdict(), changed)
		}
		if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// loseJournal replaces the journal by one that knows nothing.
func loseJournal(t testing.TB, disk vfs.FS) {
	t.Helper()
	if err := disk.RemoveAll(testData + "/journal"); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(disk, testData+"/journal", journal.Options{MarksUnknown: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// inspected is a report with what the disk held when it was made.
type inspected struct {
	*Report
	size int64
}

func (r *inspected) sizeBefore(testing.TB) int64 { return r.size }

// inspect inspects a disk and checks that nothing is written.
func inspect(t testing.TB, disk *vfs.Mem, opts InspectOptions) *inspected {
	t.Helper()
	disk.SetHook(func(op vfs.Op) {
		if op.Kind != vfs.OpOpen {
			t.Errorf("inspection does %v %s", op.Kind, op.Path)
		}
	})
	defer disk.SetHook(nil)
	// The tests' directory is not named by a topic id, so the shard is looked at by itself.
	view, err := journal.Load(disk, testData+"/journal")
	if err != nil {
		t.Fatal(err)
	}
	r := &inspected{Report: &Report{Shards: make([]ShardReport, 1)}}
	in := &inspection{fs: disk, view: view, opts: opts, report: r.Report, shards: []shardDir{{testShard, testDir}}}
	if err := in.run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range segmentFiles(t, disk) {
		r.size += int64(len(readFile(t, disk, name)))
	}
	return r
}

// TestRecoveryOfSegments spoils files of a log of several segments.
func TestRecoveryOfSegments(t *testing.T) {
	seg := func(n int) func([]string) string { return func(s []string) string { return s[(n+len(s))%len(s)] } }
	tests := []struct {
		name  string
		file  func([]string) string
		spoil func([]byte) []byte // nil removes the file
		// batches left when everything is synced, when nothing is, and when no mark is known; -1 for a refusal, -2 for "fewer".
		synced, nothing, unknown int
	}{
		{"untouched", seg(0), func(b []byte) []byte { return b }, 20, 20, 20},
		{"first_missing", seg(0), nil, -3, -3, -3},
		{"middle_missing", seg(2), nil, -1, -2, -1},
		{"middle_torn", seg(2), func(b []byte) []byte { return b[:len(b)-5] }, -1, -2, -1},
		{"middle_blank_header", seg(2), func(b []byte) []byte { clear(b[:segmentHeaderBytes]); return b }, -1, -2, -1},
		{"middle_bad_header", seg(2), func(b []byte) []byte { b[30] ^= 1; return b }, -1, -2, -1},
		{"middle_unknown_version", seg(2), func(b []byte) []byte { return withVersion(b, 9) }, -1, -1, -1},
		{"middle_unknown_flag", seg(2), func(b []byte) []byte { return withFlags(b, 0x80) }, -1, -1, -1},
		{"first_empty", seg(0), func([]byte) []byte { return nil }, -1, -2, -1},
		{"newest_empty", seg(-1), func([]byte) []byte { return nil }, -1, -2, -2},
		{"newest_header_only", seg(-1), func(b []byte) []byte { return b[:segmentHeaderBytes] }, -1, -2, -2},
		{"newest_blank_header", seg(-1), func(b []byte) []byte { return make([]byte, segmentHeaderBytes) }, -1, -2, -2},
		{"newest_all_zero", seg(-1), func(b []byte) []byte { clear(b); return b }, -1, -2, -2},
		{"newest_blank_header_with_batches", seg(-1), func(b []byte) []byte { clear(b[:segmentHeaderBytes]); return b }, -1, -2, -1},
	}
	for _, tc := range tests {
		for knows, want := range map[string]int{"synced": tc.synced, "nothing": tc.nothing, "unknown": tc.unknown} {
			t.Run(tc.name+"/"+knows, func(t *testing.T) {
				disk := vfs.NewMem()
				e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
				l := e.open()
				batches := appendMany(t, l, 20)
				if knows == "synced" {
					if err := l.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(l.Close(false), e.journal.Close()); err != nil {
					t.Fatal(err)
				}
				if knows == "unknown" {
					loseJournal(t, disk)
				}
				names := segmentFiles(t, disk)
				if len(names) < 4 {
					t.Fatalf("%d segments", len(names))
				}
				name := tc.file(names)
				if tc.spoil == nil {
					if err := disk.Remove(name); err != nil {
						t.Fatal(err)
					}
				} else {
					writeBack(t, disk, name, tc.spoil(readFile(t, disk, name)))
				}
				report := inspect(t, disk, InspectOptions{})
				l, err := newEnv(t, disk).tryOpen()
				if want == -1 {
					var d *DamageError
					if !errors.As(err, &d) || report.Verdict() != WouldRefuse {
						t.Fatalf("opens with %v, inspection says %v; want a refusal", err, report.Verdict())
					}
					return
				}
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				start := l.Bounds().Start
				got := mustReadAll(t, l, start)
				switch want {
				case -2:
					// A segment of a header alone is as good as one that was just begun.
					if len(got) >= 20 || report.Verdict() != WouldRepair && tc.name != "newest_header_only" {
						t.Errorf("%d batches are left, inspection says %v", len(got), report.Verdict())
					}
					wantBatches(t, got, batches[:len(got)])
				case -3:
					wantBatches(t, got, batches[20-len(got):]) // a log may begin anywhere
				default:
					wantBatches(t, got, batches[:want])
				}
				mustAppend(t, l, spec{})
			})
		}
	}
}

// withVersion and withFlags change a field of a segment header and make its checksum right again.
func withVersion(b []byte, v byte) []byte { b[9] = v; return rechecksum(b) }
func withFlags(b []byte, f byte) []byte   { b[11] = f; return rechecksum(b) }

func rechecksum(b []byte) []byte {
	sum := crcOf(b[:segmentHeaderBytes-4])
	copy(b[segmentHeaderBytes-4:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return b
}

// TestEmptyFileInTheChain: an interrupted roll may leave an empty file between two segments that meet.
func TestEmptyFileInTheChain(t *testing.T) {
	for _, content := range [][]byte{nil, make([]byte, 10), make([]byte, segmentHeaderBytes)} {
		disk := vfs.NewMem()
		e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
		l := e.open()
		batches := appendMany(t, l, 20)
		if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
		first := l.view.Load().segments[1]
		// Its name is one that no batch begins at, so it lies between two segments that meet exactly.
		writeBack(t, disk, offsetName(testDir, first.base+1, segmentSuffix), content)
		l, err := newEnv(t, disk).tryOpen()
		if err == nil {
			t.Fatal("a file inside another segment's range passes")
		}
		_ = l
		if err := disk.Remove(offsetName(testDir, first.base+1, segmentSuffix)); err != nil {
			t.Fatal(err)
		}
		l = newEnv(t, disk).open()
		wantBatches(t, mustReadAll(t, l, 0), batches)
	}
}

// TestRemovedDirectory: a log whose files are gone although they were synced does not start as an empty one.
func TestRemovedDirectory(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := e.open()
	appendMany(t, l, 3)
	if err := errors.Join(l.Close(true), e.journal.Close(), disk.RemoveAll(testDir)); err != nil {
		t.Fatal(err)
	}
	_, err := newEnv(t, disk).tryOpen()
	var d *DamageError
	if !errors.As(err, &d) || d.File != testDir || !strings.Contains(err.Error(), "tenant/ns/stream/0") {
		t.Errorf("opens with %v", err)
	}
}

// TestVerifyAllOnOpen finds damage in a sealed segment that is not read otherwise.
func TestVerifyAllOnOpen(t *testing.T) {
	disk, want := twoSegments(t, false)
	l := newEnv(t, copyDisk(t, disk), withShared(func(s *Shared) { s.VerifyAllOnOpen = true })).open()
	wantBatches(t, mustReadAll(t, l, 0), want)
	name := segmentFiles(t, disk)[0]
	good := readFile(t, disk, name)
	for at := range good {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x10
		spoiled := copyDisk(t, disk)
		writeBack(t, spoiled, name, bad)
		_, err := newEnv(t, spoiled, withShared(func(s *Shared) { s.VerifyAllOnOpen = true })).tryOpen()
		var d *DamageError
		if !errors.As(err, &d) || d.File != name || d.Position > int64(at) {
			t.Fatalf("flip at byte %d: %v", at, err)
		}
		if r := inspect(t, spoiled, InspectOptions{VerifyAll: true}); r.Verdict() < Damaged {
			t.Fatalf("flip at byte %d: inspection says %v", at, r.Verdict())
		}
	}
}

// TestStartAboveTheEnd: a log start that is above what is left stays where it is.
func TestStartAboveTheEnd(t *testing.T) {
	disk := vfs.NewMem()
	e := newEnv(t, disk)
	l := e.open()
	appendMany(t, l, 3)
	end := l.Bounds().End
	if err := errors.Join(l.Close(false), e.journal.SetStart(testShard, end+10), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e = newEnv(t, disk)
		l = e.open()
		if b := l.Bounds(); b.Start != end+10 || b.End != end+10 || b.NeverWritten {
			t.Fatalf("%+v", b)
		}
		if err := errors.Join(l.Close(false), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
	}
	l = newEnv(t, disk).open()
	if r := mustAppend(t, l, spec{}); r.Base != end+10 {
		t.Errorf("appends at %d", r.Base)
	}
	if _, _, err := l.Read(0, 1000, 10, true, nil); errcode.Of(err) != errcode.OffsetOutOfRange {
		t.Errorf("reading below the start: %v", err)
	}
}

// FuzzSegmentRecovery opens a log whose segment is the input.
func FuzzSegmentRecovery(f *testing.F) {
	disk, _ := twoSegments(f, false)
	for _, name := range segmentFiles(f, disk) {
		b := readFile(f, disk, name)
		f.Add(b, true)
		f.Add(b[:len(b)-7], false)
		f.Add(append(append([]byte(nil), b...), make([]byte, 600)...), false)
	}
	compacted, _ := twoSegments(f, true)
	f.Add(readFile(f, compacted, segmentFiles(f, compacted)[0]), true)
	f.Fuzz(func(t *testing.T, b []byte, known bool) {
		if b = bytes.Clone(b); len(b)%3 != 0 {
			rechecksumAll(b) // or the checksums would stop nearly every input
		}
		disk := vfs.NewMem()
		e := newEnv(t, disk)
		if !known {
			if err := e.journal.Close(); err != nil {
				t.Fatal(err)
			}
			loseJournal(t, disk)
			e = newEnv(t, disk)
		}
		if err := disk.MkdirAll(testDir, 0o755); err != nil {
			t.Fatal(err)
		}
		base := ids.Offset(0)
		if h, _, err := parseSegmentHeader(b); err == nil {
			base = h.base
		}
		writeBack(t, disk, offsetName(testDir, base, segmentSuffix), b)
		l, err := e.tryOpen()
		if err != nil {
			if errcode.Of(err) != errcode.StorageFailed {
				t.Fatalf("kind %v: %v", errcode.Of(err), err)
			}
			return
		}
		// What was accepted is readable and stays so.
		got, err := records(l, l.Bounds().Start, 1<<20)
		_ = got
		if err != nil && errcode.Of(err) != errcode.CorruptBatch && errcode.Of(err) != errcode.InvalidRecord && errcode.Of(err) != errcode.BatchTooLarge {
			t.Fatalf("read: %v", err)
		}
		before := l.Bounds()
		if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
		l, err = newEnv(t, disk).tryOpen()
		if err != nil {
			t.Fatalf("opened once, then refused: %v", err)
		}
		if after := l.Bounds(); after.End != before.End || after.Start != before.Start {
			t.Fatalf("%+v, then %+v", before, after)
		}
	})
}

// rechecksumAll makes the checksums of a segment right, as far as its lengths lead.
func rechecksumAll(b []byte) {
	if len(b) < segmentHeaderBytes {
		return
	}
	rechecksum(b)
	for rest := b[segmentHeaderBytes:]; ; {
		_, batch, tail, err := recordbatch.Next(rest)
		if err != nil {
			return
		}
		recordbatch.Recrc(batch)
		rest = tail
	}
}
