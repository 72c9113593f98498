package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The hostile campaign's bounds.
const (
	// crowdFactor and noiseFloor: the healthy producer's p99 beside hostile connections is at most this many times its p99 beside
	// valid ones, and the floor: two medians of the same phase differ by up to about that on a two-core machine.
	crowdFactor = 1.1
	noiseFloor  = time.Millisecond
	// memoryFloor is what the server may hold above its budget: its hot tail and what its own soft memory limit adds
	// (docs/configuration.md, "The Go runtime").
	memoryFloor = (16 + 256) << 20
	// crowdShare is how much of its rate a crowd must have reached, or the phases are not comparable.
	crowdShare = 0.9
)

// phaseKind is what surrounds the healthy producer.
type phaseKind string

// The kinds of phase.
const (
	phaseAlone   phaseKind = "alone"
	phaseValid   phaseKind = "valid"
	phaseHostile phaseKind = "hostile"
)

var phaseKinds = []phaseKind{phaseAlone, phaseValid, phaseHostile}

// phase is one measured phase.
type phase struct {
	kind          phaseKind
	records       int
	p50, p99, max time.Duration
	cpu           time.Duration // of the server
	peak          int64         // resident bytes of the server
	crowd         crowdReport
	want          int64 // actions that the crowd should have taken
}

// quantile of sorted latencies: the smallest that at least the share q does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

// median of the values; of an even number of them the mean of the middle two.
func median(values []time.Duration) time.Duration {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// hostileResult is what all rounds found.
type hostileResult struct {
	phases []phase
	budget int64 // FELIX_MEMORY_BUDGET_BYTES
}

// over is the median over all phases of a kind.
func (r hostileResult) over(kind phaseKind, of func(phase) time.Duration) time.Duration {
	var values []time.Duration
	for _, p := range r.phases {
		if p.kind == kind {
			values = append(values, of(p))
		}
	}
	return median(values)
}

func (r hostileResult) count(kind phaseKind) int {
	n := 0
	for _, p := range r.phases {
		if p.kind == kind {
			n++
		}
	}
	return n
}

func (r hostileResult) peak() int64 {
	peak := int64(0)
	for _, p := range r.phases {
		peak = max(peak, p.peak)
	}
	return peak
}

// allowed is the largest p99 that the healthy producer may have beside hostile connections.
func (r hostileResult) allowed() time.Duration {
	valid := r.over(phaseValid, func(p phase) time.Duration { return p.p99 })
	return time.Duration(crowdFactor*float64(valid)) + noiseFloor
}

// problems judges the rounds. A campaign that measured nothing, or whose crowds did not do their work, has shown nothing and fails.
func (r hostileResult) problems() []string {
	var out []string
	for _, kind := range phaseKinds {
		if n := r.count(kind); n == 0 || n != r.count(phaseAlone) {
			out = append(out, fmt.Sprintf("%d phases %s, %d alone: not comparable", n, kind, r.count(phaseAlone)))
		}
	}
	for i, p := range r.phases {
		where := fmt.Sprintf("phase %d (%s)", i+1, p.kind)
		if p.records == 0 {
			out = append(out, where+": no record was measured")
		}
		if done := p.crowd.total(); float64(done) < crowdShare*float64(p.want) {
			out = append(out, fmt.Sprintf("%s: the connections took %d of %d actions: not comparable", where, done, p.want))
		}
		for _, problem := range p.crowd.Problems {
			out = append(out, where+": "+problem)
		}
	}
	if len(out) == 0 {
		hostile := r.over(phaseHostile, func(p phase) time.Duration { return p.p99 })
		if allowed := r.allowed(); hostile > allowed {
			out = append(out, fmt.Sprintf("p99 beside hostile connections is %v, at most %v is allowed", hostile, allowed))
		}
	}
	if peak, bound := r.peak(), r.budget+memoryFloor; peak > bound {
		out = append(out, fmt.Sprintf("peak memory %d MiB, the bound is %d MiB", peak>>20, bound>>20))
	}
	return out
}

// String is the ledger's counts.
func (r hostileResult) String() string {
	var parts []string
	var hostile crowdReport
	for _, p := range r.phases {
		if p.kind == phaseHostile {
			hostile.add(p.crowd)
		}
	}
	for _, kind := range phaseKinds {
		parts = append(parts, fmt.Sprintf("%s %s/%s/%s", kind,
			ms(r.over(kind, func(p phase) time.Duration { return p.p50 })),
			ms(r.over(kind, func(p phase) time.Duration { return p.p99 })),
			ms(r.over(kind, func(p phase) time.Duration { return p.max }))))
	}
	return fmt.Sprintf("%d rounds, medians of p50/p99/max: %s ms (allowed p99 %s ms); %d hostile actions, %d connections closed by the server; "+
		"peak memory %d MiB of %d + %d", r.count(phaseHostile), strings.Join(parts, ", "), ms(r.allowed()), hostile.total(), hostile.Closed,
		r.peak()>>20, r.budget>>20, memoryFloor>>20)
}

// ms writes a duration in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
