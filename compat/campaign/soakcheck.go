package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	// soakLives is how many lives the server has in a soak: it is restarted between them.
	soakLives = 3
	// soakWarmUp is how long a life is not judged: caches fill, segments reach what retention leaves. A short soak has a shorter one.
	soakWarmUp = 100 * time.Second
	// soakRateShare is how much of its rate the load must have reached in each third, or the thirds are not comparable. The clients do not
	// make up for what a busy machine kept them from sending.
	soakRateShare = 0.5
	// soakLeastSamples is how many samples a third needs to have a median that says something.
	soakLeastSamples = 5
)

// soakSample is one look at the server.
type soakSample struct {
	footprint
	at   time.Time
	acks int64 // acknowledged to the load so far
}

// soakQuantity is what must stay flat: the median of a later third may be factor times that of an earlier one, and floor.
type soakQuantity struct {
	name   string
	unit   float64 // what it is divided by to be written
	of     func(soakSample) float64
	factor float64
	floor  float64
}

var soakQuantities = []soakQuantity{
	{"resident MiB", 1 << 20, func(s soakSample) float64 { return s.resident }, 1.15, 16 << 20},
	{"heap MiB", 1 << 20, func(s soakSample) float64 { return s.heap }, 1.15, 12 << 20},
	{"goroutines", 1, func(s soakSample) float64 { return s.goroutines }, 1.1, 25},
	{"descriptors", 1, func(s soakSample) float64 { return s.descriptors }, 1.1, 25},
}

// allowed is the largest median that may follow one.
func (q soakQuantity) allowed(before float64) float64 { return q.factor*before + q.floor }

// soakLife is what was seen between two starts of the server, after its warm-up.
type soakLife struct {
	samples []soakSample
	members map[string]int // sessions of group members that got records, by client
	trips   map[string]int // round trips, by client
}

// thirds are the samples of the first and of the last third of the time.
func (l soakLife) thirds() (first, last []soakSample) {
	if len(l.samples) == 0 {
		return nil, nil
	}
	begin, end := l.samples[0].at, l.samples[len(l.samples)-1].at
	third := end.Sub(begin) / 3
	for _, s := range l.samples {
		switch {
		case s.at.Before(begin.Add(third)):
			first = append(first, s)
		case s.at.After(end.Add(-third)):
			last = append(last, s)
		}
	}
	return first, last
}

// medianOf is the median of one quantity.
func medianOf(samples []soakSample, of func(soakSample) float64) float64 {
	values := make([]time.Duration, len(samples))
	for i, s := range samples {
		values[i] = time.Duration(of(s))
	}
	return float64(median(values))
}

// ratedAt is how many acknowledgements a second the load got in the samples' time.
func ratedAt(samples []soakSample) float64 {
	a, b := samples[0], samples[len(samples)-1]
	seconds := b.at.Sub(a.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(b.acks-a.acks) / seconds
}

// soakResult is what all lives showed.
type soakResult struct {
	lives      []soakLife
	rate       float64  // acknowledgements a second that the load should get
	members    []string // clients that have members in groups
	travellers []string // clients that make round trips
}

// problems judges: within each life, and from the first life to each later one at the same load, nothing may grow.
func (r soakResult) problems() []string {
	var out []string
	if len(r.lives) != soakLives {
		out = append(out, fmt.Sprintf("%d lives of the server, want %d", len(r.lives), soakLives))
	}
	var before []soakSample // the last third of the first life
	for i, l := range r.lives {
		where := fmt.Sprintf("life %d", i+1)
		first, last := l.thirds()
		if len(first) < soakLeastSamples || len(last) < soakLeastSamples {
			out = append(out, fmt.Sprintf("%s: %d and %d samples in its thirds: nothing was shown", where, len(first), len(last)))
			continue
		}
		for _, name := range r.members {
			if l.members[name] == 0 {
				out = append(out, fmt.Sprintf("%s: no member of %s got a record", where, name))
			}
		}
		for _, name := range r.travellers {
			if l.trips[name] == 0 {
				out = append(out, fmt.Sprintf("%s: %s made no round trip", where, name))
			}
		}
		for j, third := range [][]soakSample{first, last} {
			if got := ratedAt(third); got < soakRateShare*r.rate {
				out = append(out, fmt.Sprintf("%s, third %d: %.0f acknowledgements a second of %.0f: not comparable", where, 2*j+1, got, r.rate))
			}
		}
		out = append(out, flat(where, first, last)...)
		if before == nil {
			before = last
		} else {
			out = append(out, flat(where+" after life 1", before, last)...)
		}
	}
	return out
}

// flat compares medians.
func flat(where string, before, after []soakSample) []string {
	var out []string
	for _, q := range soakQuantities {
		was, is := medianOf(before, q.of), medianOf(after, q.of)
		if bound := q.allowed(was); is > bound {
			out = append(out, fmt.Sprintf("%s: %s went from %.1f to %.1f, at most %.1f is allowed", where, q.name, was/q.unit, is/q.unit, bound/q.unit))
		}
	}
	return out
}

// String is the ledger's medians: first and last third of each life.
func (r soakResult) String() string {
	var parts []string
	for _, q := range soakQuantities {
		var lives []string
		for _, l := range r.lives {
			first, last := l.thirds()
			lives = append(lives, fmt.Sprintf("%.0f/%.0f", medianOf(first, q.of)/q.unit, medianOf(last, q.of)/q.unit))
		}
		parts = append(parts, q.name+" "+strings.Join(lives, " "))
	}
	return "medians of the first/last third of each life: " + strings.Join(parts, ", ")
}
