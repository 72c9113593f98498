package main

import (
	"strings"
	"testing"
	"time"
)

// soakLifeOf is a life of 90 samples, a second apart, at 100 acknowledgements a second; change gets each sample and its number.
func soakLifeOf(change func(i int, s *soakSample)) soakLife {
	l := soakLife{members: map[string]int{"a": 3}, trips: map[string]int{"c": 2}}
	for i := range 90 {
		s := soakSample{
			footprint: footprint{resident: 100 << 20, heap: 40 << 20, goroutines: 200, descriptors: 150},
			at:        time.Unix(int64(1000+i), 0), acks: int64(100 * i),
		}
		if change != nil {
			change(i, &s)
		}
		l.samples = append(l.samples, s)
	}
	return l
}

func TestSoakVerdict(t *testing.T) {
	result := func(changes ...func(i int, s *soakSample)) soakResult {
		r := soakResult{rate: 100, members: []string{"a"}, travellers: []string{"c"}}
		for life := range soakLives {
			var change func(int, *soakSample)
			if life < len(changes) {
				change = changes[life]
			}
			r.lives = append(r.lives, soakLifeOf(change))
		}
		return r
	}
	grow := func(from, to float64, set func(*soakSample, float64)) func(int, *soakSample) {
		return func(i int, s *soakSample) { set(s, from+(to-from)*float64(i)/89) }
	}
	const mib = 1 << 20
	resident := func(s *soakSample, v float64) { s.resident = v * mib }
	for _, tt := range []struct {
		name string
		r    soakResult
		want string // part of the first problem; "" for none
	}{
		{"flat", result(), ""},
		{"a little growth", result(grow(100, 130, resident)), ""},
		{"memory grows", result(grow(100, 200, resident)), "life 1: resident MiB went from 116.3 to 183.7, at most 149.7 is allowed"},
		{"heap grows", result(nil, grow(40, 90, func(s *soakSample, v float64) { s.heap = v * mib })), "life 2: heap MiB went from"},
		{"goroutines grow", result(nil, nil, grow(200, 300, func(s *soakSample, v float64) { s.goroutines = v })), "life 3: goroutines went from"},
		{"descriptors grow", result(grow(150, 300, func(s *soakSample, v float64) { s.descriptors = v })), "life 1: descriptors went from"},
		{"peaks do not count", result(func(i int, s *soakSample) {
			if i%10 == 9 {
				resident(s, 900)
			}
		}), ""},
		{"grows from life to life", result(nil, nil, func(_ int, s *soakSample) { resident(s, 150) }), "life 3 after life 1: resident MiB went from 100.0 to 150.0"},
		{"shrinks", result(grow(400, 100, resident)), ""},
		{"no load", result(func(_ int, s *soakSample) { s.acks = 5 }), "third 1: 0 acknowledgements a second of 100"},
		{"the load falls asleep", result(func(i int, s *soakSample) { s.acks = int64(100 * min(i, 60)) }), "third 3: "},
		{"a life is missing", soakResult{rate: 100, lives: []soakLife{soakLifeOf(nil)}}, "1 lives of the server"},
		{"nothing was sampled", soakResult{rate: 100, lives: make([]soakLife, soakLives)}, "0 and 0 samples"},
		{"a client had nothing", func() soakResult {
			r := result()
			r.members = append(r.members, "b")
			return r
		}(), "life 1: no member of b got a record"},
		{"a client made no trip", func() soakResult {
			r := result()
			r.lives[1].trips = nil
			return r
		}(), "life 2: c made no round trip"},
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

func TestSoakRow(t *testing.T) {
	r := soakResult{rate: 100}
	for range soakLives {
		r.lives = append(r.lives, soakLifeOf(nil))
	}
	const want = "medians of the first/last third of each life: resident MiB 100/100 100/100 100/100, heap MiB 40/40 40/40 40/40, " +
		"goroutines 200/200 200/200 200/200, descriptors 150/150 150/150 150/150"
	if got := r.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
