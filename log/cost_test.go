package log

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestHotPathAllocations: an append of one batch and a read of a hot one allocate a small constant at most.
func TestHotPathAllocations(t *testing.T) {
	e := newDiskEnv(t, SyncNone)
	l := e.openAt(t.TempDir()+"/x/0", 0)
	batch, h := spec{size: 600, producer: &recordbatch.Producer{ID: 3}}.build(t)
	owner := e.shared.Pool.Get(len(batch))
	copy(owner.Bytes(), batch)
	in := AppendInput{Batch: owner.Bytes(), Header: h, Owner: owner}
	appendOne := func() {
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		in.Header.BaseSequence++
	}
	for range 3000 { // until what grows has grown
		appendOne()
	}
	if n := testing.AllocsPerRun(2000, appendOne); n > 1 {
		t.Errorf("an append allocates %v times", n)
	}
	var chunks []Chunk
	read := func() {
		end := l.Bounds().End
		var n int
		var err error
		chunks, n, err = l.Read(end-1, end, 1<<20, true, chunks[:0])
		if err != nil || n != len(batch) {
			t.Fatal(n, err)
		}
		for _, c := range chunks {
			c.Ref.Release()
		}
	}
	read()
	if n := testing.AllocsPerRun(1000, read); n > 0 {
		t.Errorf("a read of a hot batch allocates %v times", n)
	}
	chunks = make([]Chunk, 0, 16)
	l.shared.Tail.drop(l.tail, -1)
	cold := func() {
		c, n, err := l.Read(0, 50, 8000, true, chunks[:0])
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		for _, c := range c {
			c.Ref.Release()
		}
	}
	cold()
	if n := testing.AllocsPerRun(1000, cold); n > 3 {
		t.Errorf("a read from the page cache allocates %v times", n)
	}
	available := func() { l.Available(10, 2000, 1<<20) }
	if n := testing.AllocsPerRun(1000, available); n > 0 {
		t.Errorf("an estimate allocates %v times", n)
	}
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryOfAnIdleLog: ten thousand small logs cost little each, and no goroutine.
func TestMemoryOfAnIdleLog(t *testing.T) {
	const logs = 2000
	e := newEnv(t, vfs.NewMem(), withMode(SyncNone), withShared(func(s *Shared) { s.Files = NewFileCache(100, nil) }))
	dirs := make([]string, logs)
	for i := range dirs {
		dirs[i] = fmt.Sprint("data/shards/topic/", i)
		l := e.openAt(dirs[i], int32(i))
		for s := range int32(3) {
			mustAppend(t, l, spec{size: 100, producer: &recordbatch.Producer{ID: 1, BaseSequence: s}})
		}
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	goroutines := runtime.NumGoroutine()
	before := heap()
	all := make([]*Log, logs)
	for i := range all {
		all[i] = e.openAt(dirs[i], int32(i))
	}
	each := (heap() - before) / logs
	t.Logf("%d bytes a log", each)
	if each > 3<<10 {
		t.Errorf("an open log takes %d bytes", each)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines more", n-goroutines)
	}
	for _, l := range all {
		if b := l.Bounds(); b.End != ids.Offset(3) {
			t.Fatal(b)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
