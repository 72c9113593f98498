package broker

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
)

// removingFS removes trees file by file, as the system does, and keeps what a kill between two of them would leave.
type removingFS struct {
	*vfs.Mem

	images []*vfs.Mem
	hidden string // a directory that is not there any more when it is listed
}

func (f *removingFS) RemoveAll(name string) error {
	entries, _ := f.ReadDir(name)
	for _, e := range entries {
		if e.IsDir {
			_ = f.RemoveAll(path.Join(name, e.Name))
		} else {
			_ = f.Remove(path.Join(name, e.Name))
		}
		f.images = append(f.images, f.ProcessKillImage())
	}
	return f.Mem.RemoveAll(name)
}

func (f *removingFS) ReadDir(name string) ([]vfs.DirEntry, error) {
	if name == f.hidden {
		return nil, os.ErrNotExist
	}
	return f.Mem.ReadDir(name)
}

func TestKillDuringDeletionLeavesNoDamage(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	fs := &removingFS{Mem: f.fs}
	f.shared.FS = fs
	topic := f.meta.topic(t, "orders", 2, map[string]string{"segment.bytes": "1048576"})
	for p := range int32(2) {
		s := f.shard(t, topic, p)
		for range 4 {
			f.append(t, s, strings.Repeat("x", 600_000))
		}
		if err := s.log.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	f.meta.change(func(b *cluster.Builder) { b.DeleteTopic(topic); b.Remember([]ids.TopicID{topic.ID}) })
	f.b.apply()
	if len(fs.images) < 8 {
		t.Fatalf("%d images", len(fs.images))
	}
	for i, image := range fs.images {
		report, err := log.Inspect(image, "data", log.InspectOptions{VerifyAll: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := report.Verdict(); v >= log.Damaged {
			t.Errorf("image %d: %v", i, v)
		}
		g := &fixture{meta: newStubMetadata(), now: f.now}
		g.meta.change(func(b *cluster.Builder) { b.Remember([]ids.TopicID{topic.ID}) })
		g.open(t, image, log.SyncPeriodic)
		if left, err := image.ReadDir("data/shards"); err != nil || len(left) > 0 {
			t.Errorf("image %d: left after the next start: %v, %v", i, left, err)
		}
	}
}

func TestTopicDeletedWhileTheStartLooksForShards(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	fs := &removingFS{Mem: f.fs}
	f.shared.FS = fs
	topic := f.meta.topic(t, "orders", 1, nil)
	f.append(t, f.shard(t, topic, 0), "a")
	fs.hidden = f.b.topicDir(topic.ID)
	if err := f.b.openFound(t.Context()); err != nil {
		t.Error(err)
	}
}
