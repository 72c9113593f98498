// Package hist counts latencies in buckets of at most 1.6 % width, from a nanosecond to minutes, in constant memory.
package hist

import (
	"math/bits"
	"time"
)

const (
	subBits    = 6 // buckets per power of two: 64, so a bucket is at most 1/64 of its value wide
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

// Hist is a histogram of durations. The zero value is ready. It is not safe for concurrent use: give each goroutine its own
// and Merge them.
type Hist struct {
	counts [buckets]uint32
	n      int64
	max    time.Duration
}

// Add counts one duration; negative ones count as zero.
func (h *Hist) Add(d time.Duration) {
	if d < 0 {
		d = 0
	}
	h.counts[index(uint64(d))]++
	h.n++
	if d > h.max {
		h.max = d
	}
}

// Merge adds the counts of o to h.
func (h *Hist) Merge(o *Hist) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Count returns how many durations were added.
func (h *Hist) Count() int64 { return h.n }

// Max returns the largest duration that was added.
func (h *Hist) Max() time.Duration { return h.max }

// Quantile returns the upper bound of the bucket that holds the q-th quantile, 0 < q <= 1; zero when the histogram is empty.
func (h *Hist) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := int64(q*float64(h.n) + 0.5)
	rank = min(max(rank, 1), h.n)
	var seen int64
	for i, c := range h.counts {
		seen += int64(c)
		if seen >= rank {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return h.max
}

// index maps a value to its bucket: exact below 64, then 64 buckets a power of two.
func index(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	exp := bits.Len64(v) - subBits - 1
	return (exp+1)*subBuckets + int(v>>exp) - subBuckets
}

// upper is the largest value of a bucket.
func upper(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	exp := i/subBuckets - 1
	return uint64(i%subBuckets+subBuckets+1)<<exp - 1
}
