package log

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestInspectUnreadableBlocks: a device that cannot read a block is damage of one segment, and the rest is looked at.
func TestInspectUnreadableBlocks(t *testing.T) {
	topic := ids.TopicID{9, 9}
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 1000 }))
	for n := range int32(2) {
		id := ids.ShardID{Topic: topic, Partition: n}
		l, err := Open(Options{Shared: e.shared, Dir: "data/shards/" + id.String(), Shard: id, Name: "x", Config: e.config})
		if err != nil {
			t.Fatal(err)
		}
		appendMany(t, l, 12)
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.journal.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := Inspect(disk, "data", InspectOptions{VerifyAll: true}, nil)
	if err != nil || whole.Verdict() != Clean {
		t.Fatalf("%+v, %v", whole, err)
	}
	segments := whole.Shards[0].Segments
	for name, tt := range map[string]struct {
		base    ids.Offset
		verdict Verdict
	}{"sealed": {segments[0].Base, Damaged}, "active": {segments[len(segments)-1].Base, WouldRefuse}} {
		t.Run(name, func(t *testing.T) {
			bad := offsetName(whole.Shards[0].Dir, tt.base, segmentSuffix)
			rotten := vfs.NewFault(disk, vfs.Rule{Err: syscall.EIO, Match: func(op vfs.Op) bool {
				return op.Kind == vfs.OpRead && op.Path == bad && op.Off > 0 // the header can be read
			}})
			r, err := Inspect(rotten, "data", InspectOptions{VerifyAll: true, Workers: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := r.Shards[0]
			if s.Verdict != tt.verdict || r.Shards[1].Verdict != Clean || len(s.Segments) != len(segments) {
				t.Errorf("got %+v", r)
			}
			if f := s.Findings; len(f) != 1 || f[0].File != bad || f[0].Places != 1 || f[0].Bytes == 0 || !strings.Contains(f[0].Reason, "input/output error") {
				t.Errorf("got findings %+v", f)
			}
		})
	}
}

// FuzzSurvey reads anything as a segment's file: it ends, says no more bytes are bad than there are, and finds nothing wrong only with
// what a scan finds nothing wrong with.
func FuzzSurvey(f *testing.F) {
	disk := vfs.NewMem()
	e := newEnv(f, disk)
	l := e.open()
	appendMany(f, l, 12)
	if err := l.Close(true); err != nil {
		f.Fatal(err)
	}
	good := readFile(f, disk, segmentFiles(f, disk)[0])
	f.Add(good, int64(-1))
	f.Add(good, l.end.Load())
	f.Add(good[:len(good)-7], l.end.Load())
	hole := bytes.Clone(good)
	clear(hole[len(hole)/3 : len(hole)/2])
	f.Add(hole, l.end.Load())
	swapped := append(bytes.Clone(good), good[segmentHeaderBytes:]...) // offsets go back
	f.Add(swapped, int64(-1))
	flipped := bytes.Clone(good)
	flipped[30] ^= 1
	f.Add(flipped, int64(5))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, next int64) {
		if b = bytes.Clone(b); len(b)%3 != 0 {
			rechecksumAll(b) // or the checksums would stop nearly every input
		}
		disk := vfs.NewMem()
		if err := disk.MkdirAll(testDir, 0o700); err != nil {
			t.Fatal(err)
		}
		name := offsetName(testDir, 0, segmentSuffix)
		writeBack(t, disk, name, b)
		r := newRecovery(recoveryInput{fs: disk, dir: testDir, name: "x", interval: defaultIndexIntervalBytes, producers: 10, batches: 5})
		out, err := r.survey(0, ids.Offset(max(next, -1)))
		if err != nil {
			t.Fatal(err)
		}
		if out.places < 0 || out.bad < 0 || out.bad > int64(len(b)) || (out.places > 0) != (out.reason != nil) || out.position > int64(len(b)) && out.position > segmentHeaderBytes {
			t.Fatalf("got %+v of %d bytes", out, len(b))
		}
		head, _, headErr := parseSegmentHeader(b)
		if headErr != nil || out.places > 0 {
			if headErr != nil && out.places == 0 {
				t.Fatalf("got %+v of a file without a header", out)
			}
			return
		}
		file, err := disk.OpenFile(name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c := chain{epoch: ids.NoEpoch, gaps: head.compacted}
		if good, bad, err := scanFile(file, int64(len(b)), &c, func(int64, *recordbatch.Header, []byte) error { return nil }); err != nil || bad != nil || good != int64(len(b)) {
			t.Fatalf("a survey finds nothing wrong with %d bytes, a scan does: %d, %v, %v", len(b), good, bad, err)
		}
	})
}
