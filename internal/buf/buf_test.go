package buf_test

import (
	"sync"
	"testing"

	"github.com/felixlog/felix/internal/buf"
)

func TestGetReusesTheLastReleased(t *testing.T) {
	p := buf.NewPool(1 << 20)
	a := p.Get(1000)
	if len(a.Bytes()) != 1000 || a.Cap() != 1024 {
		t.Fatalf("len %d cap %d, want 1000 and 1024", len(a.Bytes()), a.Cap())
	}
	a.Retain()
	a.Release()
	if got := p.Kept(); got != 0 {
		t.Fatalf("kept %d while one holder is left, want 0", got)
	}
	a.Release()
	if got := p.Kept(); got != 1024 {
		t.Fatalf("kept %d, want 1024", got)
	}
	if b := p.Get(600); b != a {
		t.Error("a fresh buffer was made although one of the class was free")
	}
}

func TestLimitAndLargeBuffers(t *testing.T) {
	p := buf.NewPool(4096)
	a, b := p.Get(4096), p.Get(4096)
	a.Release()
	b.Release()
	if got := p.Kept(); got != 4096 {
		t.Errorf("kept %d, want the limit of 4096", got)
	}
	huge := p.Get(9 << 20)
	if huge.Cap() != 9<<20 {
		t.Errorf("huge buffer has cap %d, want it made to measure", huge.Cap())
	}
	huge.Release()
	if got := p.Kept(); got != 4096 {
		t.Errorf("kept %d after a buffer that is never pooled, want 4096", got)
	}
}

func TestReleaseTooOftenPanics(t *testing.T) {
	r := buf.Wrap([]byte("x"))
	r.Release()
	defer func() {
		if recover() == nil {
			t.Error("second release did not panic")
		}
	}()
	r.Release()
}

func TestNilIsIgnored(t *testing.T) {
	var r *buf.Ref
	if r.Retain() != nil {
		t.Error("Retain of nil is not nil")
	}
	r.Release()
}

func TestConcurrentHolders(t *testing.T) {
	p := buf.NewPool(1 << 20)
	r := p.Get(512)
	var wg sync.WaitGroup
	for range 8 {
		r.Retain()
		wg.Go(func() {
			for range 1000 {
				r.Retain()
				r.Release()
			}
			r.Release()
		})
	}
	wg.Wait()
	r.Release()
	if got := p.Kept(); got != 512 {
		t.Errorf("kept %d, want 512", got)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p := buf.NewPool(1 << 20)
	p.Get(64 << 10).Release()
	b.ReportAllocs()
	for b.Loop() {
		p.Get(64 << 10).Release()
	}
}
