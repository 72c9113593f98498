package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// phasesOf makes one phase a value of p99, with everything else as it should be.
func phasesOf(kind phaseKind, p99 ...time.Duration) []phase {
	var out []phase
	for _, d := range p99 {
		p := phase{kind: kind, records: 100, p50: d / 4, p99: d, max: 2 * d, peak: 100 << 20}
		if kind != phaseAlone {
			p.want, p.crowd = 1000, crowdReport{Actions: map[string]int64{"a": 600, "b": 400}}
		}
		out = append(out, p)
	}
	return out
}

func TestHostileVerdict(t *testing.T) {
	const unit = 10 * time.Millisecond
	result := func(valid, hostile []time.Duration, change func(*hostileResult)) hostileResult {
		r := hostileResult{budget: 128 << 20}
		for range valid {
			r.phases = append(r.phases, phasesOf(phaseAlone, unit/2)...)
		}
		r.phases = append(r.phases, phasesOf(phaseValid, valid...)...)
		r.phases = append(r.phases, phasesOf(phaseHostile, hostile...)...)
		if change != nil {
			change(&r)
		}
		return r
	}
	times := func(values ...time.Duration) []time.Duration { return values }
	last := func(r *hostileResult) *phase { return &r.phases[len(r.phases)-1] }
	for _, tt := range []struct {
		name string
		r    hostileResult
		want string // part of the first problem; "" for none
	}{
		{"equal", result(times(unit), times(unit), nil), ""},
		{"better", result(times(unit), times(unit/2), nil), ""},
		{"at the bound", result(times(unit), times(12*time.Millisecond), nil), ""},
		{"over the bound", result(times(unit), times(12*time.Millisecond+1), nil), "p99 beside hostile connections is 12.000001ms, at most 12ms is allowed"},
		{"one bad round of three", result(times(unit, unit, unit), times(unit, 50*unit, unit), nil), ""},
		{"one bad valid round does not excuse", result(times(unit, unit, 50*unit), times(2*unit, 2*unit, 2*unit), nil), "at most 12ms"},
		{"two rounds count both", result(times(unit, unit), times(unit, 2*unit), nil), "is 15ms"},
		{"no rounds", result(nil, nil, nil), "0 phases alone"},
		{"a hostile phase missing", result(times(unit, unit), times(unit), nil), "1 phases hostile, 2 alone"},
		{"nothing measured", result(times(unit), times(unit), func(r *hostileResult) { last(r).records = 0 }), "no record was measured"},
		{"idle attackers", result(times(unit), times(unit), func(r *hostileResult) { last(r).want = 1112 }), "took 1000 of 1112 actions"},
		{"busy enough", result(times(unit), times(unit), func(r *hostileResult) { last(r).want = 1111 }), ""},
		{"a member gave up", result(times(unit), times(unit), func(r *hostileResult) { last(r).crowd.Problems = []string{"connect: refused"} }), "phase 3 (hostile): connect: refused"},
		{"memory at the bound", result(times(unit), times(unit), func(r *hostileResult) { last(r).peak = 400 << 20 }), ""},
		{"memory over the bound", result(times(unit), times(unit), func(r *hostileResult) { r.phases[0].peak = 401 << 20 }), "peak memory 401 MiB, the bound is 400 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if problems := tt.r.problems(); len(problems) > 0 {
				got = problems[0]
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHostileRow(t *testing.T) {
	r := hostileResult{budget: 128 << 20}
	for _, kind := range phaseKinds {
		r.phases = append(r.phases, phasesOf(kind, 4*time.Millisecond)...)
	}
	const want = "1 rounds, medians of p50/p99/max: alone 1.00/4.00/8.00, valid 1.00/4.00/8.00, hostile 1.00/4.00/8.00 ms (allowed p99 5.40 ms); " +
		"1000 hostile actions, 0 connections closed by the server; peak memory 100 MiB of 128 + 272"
	if got := r.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestQuantileAndMedian(t *testing.T) {
	var sorted []time.Duration
	for i := range 1000 {
		sorted = append(sorted, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 500, 0.99: 990, 1: 999} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %g: got %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing: %d", got)
	}
	for _, tt := range []struct {
		values []time.Duration
		want   time.Duration
	}{{nil, 0}, {[]time.Duration{7}, 7}, {[]time.Duration{9, 1}, 5}, {[]time.Duration{9, 1, 2}, 2}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v: got %d, want %d", tt.values, got, tt.want)
		}
	}
}

// TestCrowdReportTravels: what the child writes is what the parent reads.
func TestCrowdReportTravels(t *testing.T) {
	sent := crowdReport{Actions: map[string]int64{"size": 3}, Closed: 2, Answers: 1, Problems: []string{"x"}}
	b, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got crowdReport
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	got.add(sent)
	if got.total() != 6 || got.Closed != 4 || got.Answers != 2 || len(got.Problems) != 2 {
		t.Errorf("twice the report is %+v", got)
	}
}
