package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	// nativeWarmUp is how long a life is not judged: caches fill, segments reach what retention leaves. A short life has a shorter one.
	nativeWarmUp = 80 * time.Second
	// nativeRateShare is how much of its rate the load must have reached in each third, or the thirds are not comparable.
	nativeRateShare = 0.5
	// nativeLeastSamples is how many samples a third needs to have a median that says something.
	nativeLeastSamples = 5
)

// nativeSample is one look at the server.
type nativeSample struct {
	footprint
	at    time.Time
	acked int64
}

// nativeQuantity is what must stay flat: the median of a later third may be factor times that of an earlier one, and floor. The bounds
// are those of the soak of Kafka clients.
type nativeQuantity struct {
	name   string
	unit   float64
	of     func(nativeSample) float64
	factor float64
	floor  float64
}

var nativeQuantities = []nativeQuantity{
	{"resident MiB", 1 << 20, func(s nativeSample) float64 { return s.resident }, 1.15, 16 << 20},
	{"heap MiB", 1 << 20, func(s nativeSample) float64 { return s.heap }, 1.15, 12 << 20},
	{"goroutines", 1, func(s nativeSample) float64 { return s.goroutines }, 1.1, 40},
	{"descriptors", 1, func(s nativeSample) float64 { return s.descriptors }, 1.1, 25},
}

// nativeThirds are the samples of the first and of the last third of a life's time.
func nativeThirds(samples []nativeSample) (first, last []nativeSample) {
	if len(samples) == 0 {
		return nil, nil
	}
	begin, end := samples[0].at, samples[len(samples)-1].at
	third := end.Sub(begin) / 3
	for _, s := range samples {
		switch {
		case s.at.Before(begin.Add(third)):
			first = append(first, s)
		case s.at.After(end.Add(-third)):
			last = append(last, s)
		}
	}
	return first, last
}

// middle is the median of one quantity.
func (q nativeQuantity) middle(samples []nativeSample) float64 {
	values := make([]time.Duration, len(samples))
	for i, s := range samples {
		values[i] = time.Duration(q.of(s))
	}
	return float64(median(values))
}

// nativeResult is what all lives showed.
type nativeResult struct {
	lives [][]nativeSample
	rate  float64 // records a second that should be acknowledged
}

// problems judges: within each life, and from the first life to each later one, nothing may grow.
func (r nativeResult) problems() []string {
	var out []string
	var before []nativeSample // the last third of the first life
	for i, life := range r.lives {
		first, last := nativeThirds(life)
		if len(first) < nativeLeastSamples || len(last) < nativeLeastSamples {
			out = append(out, fmt.Sprintf("life %d: %d and %d samples in its thirds: nothing was shown", i+1, len(first), len(last)))
			continue
		}
		for name, third := range map[string][]nativeSample{"first": first, "last": last} {
			a, b := third[0], third[len(third)-1]
			if got := float64(b.acked-a.acked) / b.at.Sub(a.at).Seconds(); got < nativeRateShare*r.rate {
				out = append(out, fmt.Sprintf("life %d: %.0f acknowledgements a second in its %s third, the load is %.0f", i+1, got, name, r.rate))
			}
		}
		compare := func(than string, from []nativeSample) {
			for _, q := range nativeQuantities {
				was, is := q.middle(from), q.middle(last)
				if is > q.factor*was+q.floor {
					out = append(out, fmt.Sprintf("life %d: %s %.0f in its last third, %.0f in %s", i+1, q.name, is/q.unit, was/q.unit, than))
				}
			}
		}
		compare("its first third", first)
		if before == nil {
			before = last
		} else {
			compare("the last third of life 1", before)
		}
	}
	return out
}

// String is the medians of the first life's first third and of the last life's last third.
func (r nativeResult) String() string {
	if len(r.lives) == 0 {
		return "nothing sampled"
	}
	first, _ := nativeThirds(r.lives[0])
	_, last := nativeThirds(r.lives[len(r.lives)-1])
	var parts []string
	for _, q := range nativeQuantities {
		parts = append(parts, fmt.Sprintf("%s %.0f -> %.0f", q.name, q.middle(first)/q.unit, q.middle(last)/q.unit))
	}
	return strings.Join(parts, ", ")
}
