package log

import (
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// newDiskEnv is an env over the real disk, with the settings of a server.
func newDiskEnv(b testing.TB, mode SyncMode) *env {
	b.Helper()
	return newDiskEnvAt(b, b.TempDir(), mode)
}

func newDiskEnvAt(b testing.TB, dir string, mode SyncMode) *env {
	b.Helper()
	j, err := journal.Open(vfs.OS{}, path.Join(dir, "journal"), journal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := &env{t: b, fs: vfs.OS{}, journal: j, now: time.UnixMilli(1_700_000_000_000)}
	e.config = Config{RetentionBytes: -1, RetentionAge: -1, Delete: true}
	e.shared = &Shared{FS: vfs.OS{}, Pool: buf.NewPool(64 << 20), Journal: j, Syncer: NewSyncer(mode, 0, 0), Preallocate: true}
	e.shared.Syncer.Start()
	b.Cleanup(func() {
		e.shared.Syncer.Close()
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

func (e *env) openAt(dir string, partition int32) *Log {
	e.t.Helper()
	l, err := Open(Options{
		Shared: e.shared, Dir: dir, Shard: ids.ShardID{Topic: testShard.Topic, Partition: partition}, Name: fmt.Sprint("t/n/s/", partition), Config: e.config,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return l
}

// sized makes a batch of about n bytes from records of 1 KiB.
func sized(b testing.TB, n int) ([]byte, recordbatch.Header) {
	b.Helper()
	return spec{records: max(1, n/1024), size: min(n, 1024) - 75}.build(b)
}

var batchSizes = []struct {
	name  string
	bytes int
}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

func BenchmarkAppend(b *testing.B) {
	for _, size := range batchSizes {
		b.Run(size.name, func(b *testing.B) {
			e := newDiskEnv(b, SyncNone)
			e.config.SegmentBytes = 64 << 20
			e.config.RetentionBytes = 256 << 20
			l := e.openAt(b.TempDir()+"/x/0", 0)
			batch, h := sized(b, size.bytes)
			owner := buf.Wrap(batch)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if _, err := l.Append(AppendInput{Batch: batch, Header: h, Owner: owner}); err != nil {
					b.Fatal(err)
				}
				if n += len(batch); n > 256<<20 { // keeps the disk from filling
					b.StopTimer()
					n = 0
					l.SetFloor(l.Bounds().End)
					if _, err := l.Maintain(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			if err := l.Close(false); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkAppendSynced(b *testing.B) {
	e := newDiskEnv(b, SyncOnCommit)
	l := e.openAt(b.TempDir()+"/x/0", 0)
	batch, h := sized(b, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(AppendInput{Batch: batch, Header: h}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.SyncNow(); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(true); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRead reads what is hot, in memory, and what is in the page cache.
func BenchmarkRead(b *testing.B) {
	for _, where := range []string{"hot", "page_cache"} {
		for _, size := range batchSizes {
			b.Run(where+"/"+size.name, func(b *testing.B) {
				e := newDiskEnv(b, SyncNone)
				if where != "hot" {
					e.shared.Tail = NewTailCache(-1, e.shared.Pool, nil)
				}
				l := e.openAt(b.TempDir()+"/x/0", 0)
				batch, h := sized(b, size.bytes)
				owner := e.shared.Pool.Get(len(batch))
				copy(owner.Bytes(), batch)
				for range (8 << 20) / len(batch) {
					if _, err := l.Append(AppendInput{Batch: owner.Bytes(), Header: h, Owner: owner}); err != nil {
						b.Fatal(err)
					}
				}
				end := l.Bounds().End
				var chunks []Chunk
				b.ReportAllocs()
				from, bytes := ids.Offset(0), int64(0)
				if where == "hot" {
					from = end / 2
				}
				first := from
				b.SetBytes(1 << 20)
				for b.Loop() {
					var n int
					var err error
					chunks, n, err = l.Read(from, end, 1<<20, true, chunks[:0])
					if err != nil || n == 0 {
						b.Fatal(n, err)
					}
					for _, c := range chunks {
						c.Ref.Release()
					}
					bytes += int64(n)
					from += ids.Offset(n/len(batch)) * ids.Offset(h.RecordCount)
					if from+2*ids.Offset((1<<20)/len(batch)+1)*ids.Offset(h.RecordCount) > end {
						from = first
					}
				}
				b.ReportMetric(float64(bytes)/float64(b.N), "bytes/read")
				if err := l.Close(false); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func BenchmarkIndexLookUp(b *testing.B) {
	x := newIndex()
	batch, h := spec{}.build(b)
	for i := range int64(1 << 16) {
		h.BaseOffset, h.MaxTimestamp = i*10, 1000+i
		x.add(h.BaseOffset, segmentHeaderBytes+i*4096, batch, &h, 4096)
	}
	list := x.view()
	rel := int64(1)
	b.ReportAllocs()
	for b.Loop() {
		rel = (rel*1103515245 + 12345) & (1<<19 - 1)
		if floorOffset(list, rel) < 0 || floorTime(list, 1000+rel&0xffff) < -1 {
			b.Fatal(rel)
		}
	}
}

func BenchmarkRecoveryScan(b *testing.B) {
	for _, size := range batchSizes {
		b.Run(size.name, func(b *testing.B) {
			e := newDiskEnv(b, SyncNone)
			dir := b.TempDir() + "/x/0"
			l := e.openAt(dir, 0)
			batch, h := sized(b, size.bytes)
			for range (128 << 20) / len(batch) {
				if _, err := l.Append(AppendInput{Batch: batch, Header: h}); err != nil {
					b.Fatal(err)
				}
			}
			bytes := l.Bounds().SizeBytes
			if err := l.Close(false); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(bytes)
			b.ReportAllocs()
			for b.Loop() {
				l := e.openAt(dir, 0)
				if err := l.Close(false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenSmallLogs opens ten thousand logs of one batch each.
func BenchmarkOpenSmallLogs(b *testing.B) {
	const logs = 10_000
	e := newDiskEnv(b, SyncPeriodic)
	root := b.TempDir()
	batch, h := sized(b, 1<<10)
	began := time.Now()
	for i := range int32(logs) {
		l := e.openAt(fmt.Sprintf("%s/x/%d", root, i), i)
		if _, err := l.Append(AppendInput{Batch: batch, Header: h}); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-make")
	for b.Loop() {
		for i := range int32(logs) {
			l := e.openAt(fmt.Sprintf("%s/x/%d", root, i), i)
			if err := l.Close(false); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAppendManyLogs appends 64 KiB batches, another log each time, under periodic syncs. The bytes are to be compared with those
// of BenchmarkAppend.
func BenchmarkAppendManyLogs(b *testing.B) {
	const logs = 10_000
	e := newDiskEnv(b, SyncPeriodic)
	root := b.TempDir()
	all := make([]*Log, logs)
	for i := range all {
		all[i] = e.openAt(fmt.Sprintf("%s/x/%d", root, i), int32(i))
	}
	batch, h := sized(b, 64<<10)
	owner := buf.Wrap(batch)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := all[i%logs].Append(AppendInput{Batch: batch, Header: h, Owner: owner}); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.StopTimer()
	for _, l := range all {
		if err := l.Close(false); err != nil {
			b.Fatal(err)
		}
	}
}
