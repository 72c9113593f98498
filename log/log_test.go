package log

import (
	"testing"

	"github.com/felixlog/felix/internal/vfs"
)

func TestAppendReadReopen(t *testing.T) {
	for _, clean := range []bool{true, false} {
		e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 4096 }))
		l := e.open()
		if b := l.Bounds(); !b.NeverWritten || b.End != 0 || b.Epoch != -1 {
			t.Fatalf("bounds of an empty log: %+v", b)
		}
		want := appendMany(t, l, 100)
		for _, maxBytes := range []int{1, 300, 5000, 1 << 20} {
			got, err := readAll(l, 0, maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			wantBatches(t, got, want)
		}
		end := l.Bounds().End
		for range 3 {
			e, l = e.restart(l, clean)
			wantBatches(t, mustReadAll(t, l, 0), want)
			if b := l.Bounds(); b.End != end || clean && b.DurableEnd != end {
				t.Fatalf("bounds after reopening: %+v", b)
			}
			want = append(want, appendMany(t, l, 10)...)
			end = l.Bounds().End
		}
		wantBatches(t, mustReadAll(t, l, 0), want)
	}
}
