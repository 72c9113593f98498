package hist

import (
	"testing"
	"time"
)

func TestBucketsAreContiguousAndNarrow(t *testing.T) {
	for _, v := range []uint64{0, 1, 63, 64, 65, 127, 128, 1000, 123_456, 99_999_999, 1 << 40} {
		i := index(v)
		if u := upper(i); u < v || float64(u-v) > float64(v)/64+1 {
			t.Errorf("value %d: bucket %d ends at %d", v, i, u)
		}
		if i > 0 && upper(i-1) >= v && v > 0 {
			t.Errorf("value %d lies in bucket %d too", v, i-1)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var a, b Hist
	for i := 1; i <= 500; i++ {
		a.Add(time.Duration(i) * time.Microsecond)
		b.Add(time.Duration(500+i) * time.Microsecond)
	}
	a.Merge(&b)
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0.5, 500 * time.Microsecond}, {0.99, 990 * time.Microsecond}, {1, 1000 * time.Microsecond}} {
		got := a.Quantile(c.q)
		if got < c.want || got > c.want+c.want/60 {
			t.Errorf("quantile %v: got %v, want %v", c.q, got, c.want)
		}
	}
	if a.Count() != 1000 || a.Max() != time.Millisecond {
		t.Errorf("count %d, max %v", a.Count(), a.Max())
	}
}
