package log

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// goldenLife makes the data directory that is kept in testdata/v1: all kinds of files, in their first version.
func goldenLife(t testing.TB, fs vfs.FS) {
	t.Helper()
	e := newEnv(t, fs, withConfig(func(c *Config) { c.SegmentBytes, c.Compact, c.IndexIntervalBytes = 700, true, 200 }))
	l := e.open()
	for i := range 9 {
		in := keyed(t, recordbatch.BuilderOptions{Producer: &recordbatch.Producer{ID: 11, BaseSequence: int32(i * 2)}}, int64(5000+i),
			string(rune('a'+i%4)), strings.Repeat("v", 60+i), string(rune('x'+i%2)), "w")
		in.Epoch = ids.LeaderEpoch(i / 3)
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			e.pass(l)
		}
	}
	err := errors.Join(l.Sync(), l.sealPending(), l.AdvanceStart(1), e.journal.SetFloor(testShard, 6),
		e.journal.SetPromise(testShard, 2, "node-a"), l.Close(true), e.journal.SetClean(), e.journal.Close())
	if err != nil {
		t.Fatal(err)
	}
}

// goldenFiles lists the files of the data directory, by name.
func goldenFiles(t testing.TB, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		name := dir + "/" + f.Name
		if !f.IsDir {
			out[name] = readFile(t, fs, name)
			continue
		}
		for k, v := range goldenFiles(t, fs, name) {
			out[k] = v
		}
	}
	return out
}

const goldenDir = "testdata/v1"

// TestFormatVersion1 opens files of version 1 as they were first written, and writes the same bytes again. If it fails a format has
// changed, which takes a new version and this test for both: see FORMAT.md.
func TestFormatVersion1(t *testing.T) {
	disk := vfs.NewMem()
	goldenLife(t, disk)
	now := goldenFiles(t, disk, testData)
	if *rewrite {
		for name, b := range now {
			file := filepath.Join(goldenDir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := vfs.NewMem()
	found := 0
	err := filepath.WalkDir(goldenDir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(goldenDir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found++
		if !bytes.Equal(now[name], b) {
			t.Errorf("%s is written differently now: %d bytes, were %d", name, len(now[name]), len(b))
		}
		if err := kept.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		writeBack(t, kept, name, b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found != len(now) || found < 6 {
		t.Errorf("%d files are kept, %d are written", found, len(now))
	}
	e := newEnv(t, kept)
	if !e.journal.TakeClean() {
		t.Error("the clean stop is not known")
	}
	entry := e.journal.Get(testShard)
	if entry.Start != 1 || entry.Floor != 6 || entry.PromiseEpoch != 2 || entry.PromiseLeader != "node-a" || entry.Mark != 18 {
		t.Errorf("%+v", entry)
	}
	l := e.open()
	b := l.Bounds()
	if b.Start != 1 || b.End != 18 || b.DurableEnd != 18 || b.Epoch != 2 {
		t.Errorf("%+v", b)
	}
	want := newEnv(t, disk).open()
	if diff := cmp.Diff(mustRecords(t, want, 1), mustRecords(t, l, 1)); diff != "" {
		t.Errorf("records (-now +kept):\n%s", diff)
	}
	if at, off := l.EndOfEpoch(1); at != 1 || off != 12 {
		t.Errorf("epoch 1 ends at %d (epoch %d)", off, at)
	}
	compacted := false
	for _, s := range l.view.Load().segments {
		compacted = compacted || s.compacted
	}
	if !compacted {
		t.Error("no compacted segment is among them")
	}
}

// TestNewerVersionsAreRefused: a file of a later version stops the opening, whatever else it holds.
func TestNewerVersionsAreRefused(t *testing.T) {
	disk := vfs.NewMem()
	goldenLife(t, disk)
	for name, b := range goldenFiles(t, disk, testData) {
		newer := bytes.Clone(b)
		newer[9]++ // the version, in every kind of file
		if path.Ext(name) == segmentSuffix {
			rechecksum(newer)
		}
		spoiled := copyDisk(t, disk)
		writeBack(t, spoiled, name, newer)
		switch path.Ext(name) {
		case segmentSuffix:
			_, err := newEnv(t, spoiled).tryOpen()
			var d *DamageError
			if !errors.As(err, &d) || d.File != name || !strings.Contains(err.Error(), "version") {
				t.Errorf("%s: %v", name, err)
			}
		case indexSuffix, producersSuffix: // hints, which are made anew
			l := newEnv(t, spoiled).open()
			if got := mustRecords(t, l, 1); len(got) == 0 {
				t.Errorf("%s: nothing can be read", name)
			}
		default:
			if _, err := journal.Open(spoiled, testData+"/journal", journal.Options{}); err == nil || !strings.Contains(err.Error(), "version") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
