package log

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestLeftOvers puts files into a log's directory that an interrupted step leaves, and one that is none of ours. The log opens as before,
// the left-overs are gone and the other file is not.
func TestLeftOvers(t *testing.T) {
	tests := []struct {
		name string
		file string
		keep bool
	}{
		{"compaction_at_work", offsetName(testDir, 0, cleanedSuffix), false},
		{"index_without_segment", offsetName(testDir, 999, indexSuffix), false},
		{"snapshot_from_beyond_the_end", offsetName(testDir, 9999, producersSuffix), false},
		{"something_else", testDir + "/README", true},
		{"name_of_no_offset", testDir + "/12.log", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			disk, want := twoSegments(t, false)
			writeBack(t, disk, tc.file, []byte("whatever"))
			report := inspect(t, disk, InspectOptions{})
			if (report.Verdict() == Clean) != tc.keep {
				t.Errorf("inspection says %v", report.Verdict())
			}
			l := newEnv(t, disk).open()
			wantBatches(t, mustReadAll(t, l, 0), want)
			if _, err := disk.Stat(tc.file); errors.Is(err, os.ErrNotExist) == tc.keep {
				t.Errorf("the file is there: %v", err)
			}
		})
	}
}

// TestSupersededSegments: a compaction was interrupted when its new segment had taken the first one's place and the others were still
// there.
func TestSupersededSegments(t *testing.T) {
	build := func() (*vfs.Mem, *env, *Log) {
		disk := vfs.NewMem()
		e := newEnv(t, disk, withConfig(compacting))
		l := e.open()
		for i := range 12 {
			in := keyed(t, recordbatch.BuilderOptions{}, 1000, "same", strings.Repeat("x", 200+i))
			if _, err := l.Append(in); err != nil {
				t.Fatal(err)
			}
		}
		roll(t, l)
		return disk, e, l
	}
	disk, e, l := build()
	before := map[string][]byte{}
	for _, name := range segmentFiles(t, disk) {
		before[name] = readFile(t, disk, name)
	}
	for range 4 {
		e.pass(l)
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 1000, "same", "y")); err != nil {
			t.Fatal(err)
		}
		roll(t, l)
	}
	want := mustRecords(t, l, 0)
	if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	removed := 0
	for name, b := range before {
		if _, err := disk.Stat(name); errors.Is(err, os.ErrNotExist) {
			writeBack(t, disk, name, b) // as if its removal had not come to pass
			removed++
		}
	}
	if removed == 0 {
		t.Fatal("no segment was merged")
	}
	l = newEnv(t, disk).open()
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range before {
		base, _ := parseOffsetName(name[len(testDir)+1:], segmentSuffix)
		_, err := disk.Stat(name)
		inLog := false
		for _, s := range l.view.Load().segments {
			inLog = inLog || s.base == base
		}
		if inLog == errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: in the log %v, %v", name, inLog, err)
		}
	}
}

// TestStaleIndex: an index of another file under the same name is not believed, even if sizes agree.
func TestStaleIndex(t *testing.T) {
	disk, want := twoSegments(t, false)
	name := segmentFiles(t, disk)[0]
	index := strings.TrimSuffix(name, segmentSuffix) + indexSuffix
	head, x, err := readIndexFile(disk, index)
	if err != nil {
		t.Fatal(err)
	}
	change := []struct {
		name string
		do   func(h *indexHead)
	}{
		{"identity", func(h *indexHead) { h.identity++ }},
		{"size", func(h *indexHead) { h.fileBytes += 200 }},
		{"end", func(h *indexHead) { h.end++ }},
		{"epochs", func(h *indexHead) { h.epochs = epochTable{{5, h.base}} }},
	}
	for _, tc := range change {
		t.Run(tc.name, func(t *testing.T) {
			spoiled := copyDisk(t, disk)
			h := head
			tc.do(&h)
			writeBack(t, spoiled, index, appendIndexFile(nil, h, x.view()))
			l, err := newEnv(t, spoiled).tryOpen()
			if tc.name == "epochs" {
				// It fits its segment in all but the epochs, which later segments contradict. That cannot be told from damage there.
				var d *DamageError
				if !errors.As(err, &d) {
					t.Errorf("opens with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantBatches(t, mustReadAll(t, l, 0), want)
			now, _, err := readIndexFile(spoiled, index)
			if err != nil || now.identity != head.identity || now.end != head.end {
				t.Errorf("the file was not made anew: %+v, %v", now, err)
			}
		})
	}
}

// TestIndexEntriesThatLie: an index whose checksums are right and whose entries are wrong leads to an error or to the right batches,
// never to wrong ones.
func TestIndexEntriesThatLie(t *testing.T) {
	disk, want := twoSegments(t, false)
	name := segmentFiles(t, disk)[0]
	index := strings.TrimSuffix(name, segmentSuffix) + indexSuffix
	head, x, err := readIndexFile(disk, index)
	if err != nil {
		t.Fatal(err)
	}
	list := x.view()
	if len(list) < 3 {
		t.Fatalf("%d entries", len(list))
	}
	lies := map[string]func([]entry){
		"position_inside_a_batch": func(l []entry) { l[1].pos += 7 },
		"position_of_another":     func(l []entry) { l[1].pos = l[2].pos - 1 },
		"offset_too_small":        func(l []entry) { l[1].rel-- },
		"offset_too_large":        func(l []entry) { l[1].rel++ },
		"checksum":                func(l []entry) { l[1].prev++ },
		"time":                    func(l []entry) { l[2].before = 1 << 50 },
	}
	for what, lie := range lies {
		t.Run(what, func(t *testing.T) {
			spoiled := copyDisk(t, disk)
			bad := append([]entry(nil), list...)
			lie(bad)
			writeBack(t, spoiled, index, appendIndexFile(nil, head, bad))
			l := newEnv(t, spoiled).open()
			for from := range l.Bounds().End {
				got, err := readAll(l, from, 500)
				var d *DamageError
				if err != nil && !errors.As(err, &d) {
					t.Fatalf("from %d: %v", from, err)
				}
				for _, b := range got {
					if !containsBatch(want, b) {
						t.Fatalf("from %d: a batch that was never written", from)
					}
				}
			}
			if _, _, err := l.OffsetForTime(1005, 1<<40); err != nil {
				var d *DamageError
				if !errors.As(err, &d) {
					t.Errorf("look-up: %v", err)
				}
			}
		})
	}
}

func containsBatch(list [][]byte, b []byte) bool {
	for _, x := range list {
		if bytes.Equal(x, b) {
			return true
		}
	}
	return false
}

// TestRepairThatFails: an opening that cannot carry its repair out fails, and the next one does it.
func TestRepairThatFails(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpTruncate, vfs.OpSync, vfs.OpRemove, vfs.OpSyncDir} {
		mem := vfs.NewMem()
		e := newEnv(t, mem, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
		l := e.open()
		want := appendMany(t, l, 3)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		appendMany(t, l, 6)
		if err := errors.Join(l.Close(false), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
		files := segmentFiles(t, mem)
		first := files[1] // torn behind the mark, with whole segments after it
		b := readFile(t, mem, first)
		writeBack(t, mem, first, b[:len(b)-10])
		disk := vfs.NewFault(mem, vfs.Rule{Match: func(op vfs.Op) bool {
			return op.Kind == kind && strings.HasPrefix(op.Path, testDir)
		}, Nth: 1, Err: errors.New("not now")})
		e = newEnv(t, disk)
		if _, err := e.tryOpen(); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Fatalf("%v fails: %v", kind, err)
		}
		l, err := e.tryOpen()
		if err != nil {
			t.Fatalf("%v failed, then: %v", kind, err)
		}
		got := mustReadAll(t, l, 0)
		if len(got) < 3 {
			t.Fatalf("%d batches are left", len(got))
		}
		wantBatches(t, got[:3], want)
	}
}

// TestManyLogsOfANode runs several logs over one journal, tail, file cache and started syncer, and restarts them together.
func TestManyLogsOfANode(t *testing.T) {
	mem := vfs.NewMem()
	const logs = 12
	models := make([]*model, logs)
	for i := range models {
		models[i] = newModel()
	}
	for life := range 4 {
		mode := []SyncMode{SyncPeriodic, SyncOnCommit, SyncNone, SyncPeriodic}[life]
		e := newEnv(t, mem, withMode(mode), withConfig(func(c *Config) { c.SegmentBytes = 2000 }), withShared(func(s *Shared) {
			s.Files, s.Tail = NewFileCache(minMaxFiles, nil), NewTailCache(10_000, s.Pool, nil)
		}))
		e.shared.Syncer.Start()
		all := make([]*Log, logs)
		for i := range all {
			all[i] = e.openAt(testDir+"-"+string(rune('a'+i)), int32(i))
			if err := models[i].check(all[i], models[i].end); err != nil {
				t.Fatalf("life %d, log %d: %v", life, i, err)
			}
		}
		for round := range 40 {
			i := (round*7 + life) % logs
			if err := models[i].append(all[i], spec{records: 1 + round%3, size: 10 * round, epoch: ids.LeaderEpoch(life)}.input(t)); err != nil {
				t.Fatal(err)
			}
			switch round % 5 {
			case 1:
				all[i].RequestSync()
			case 3:
				models[i].sync(all[i])
			}
		}
		for i, l := range all {
			if err := models[i].check(l, models[i].end); err != nil {
				t.Fatalf("life %d, log %d: %v", life, i, err)
			}
			if err := l.Close(i%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		e.shared.Syncer.Close()
		if err := e.journal.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
