// Package report holds what a run of the benchmarks found, writes it as JSON and turns it into the tables of docs/benchmarks.md.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Figures are what one trial measured, by column name.
type Figures map[string]float64

// Check compares one figure with what the row must reach.
type Check struct {
	Name  string  `json:"name"`
	Got   float64 `json:"got"`
	Want  float64 `json:"want"`
	Upper bool    `json:"upper"` // Want is an upper bound, else a lower one
	OK    bool    `json:"ok"`
	// Alternative marks one of several ways to pass: such checks of a sub-row pass together when any of them does.
	Alternative bool `json:"alternative,omitempty"`
	// Quiet marks a check that counts on a quiet machine alone.
	Quiet bool `json:"quiet,omitempty"`
}

// Sub is one sub-row: a workload, run on each server in turn.
type Sub struct {
	Row      string               `json:"row"`
	Name     string               `json:"name"`
	Workload string               `json:"workload"`
	Columns  []string             `json:"columns"` // in the order of the table
	Trials   map[string][]Figures `json:"trials"`  // by server, in the order run
	Checks   []Check              `json:"checks,omitempty"`
	Notes    []string             `json:"notes,omitempty"`
}

// Add appends a trial of a server. Figures are kept to five digits, which is more than any of them repeats.
func (s *Sub) Add(server string, f Figures) {
	if s.Trials == nil {
		s.Trials = map[string][]Figures{}
	}
	for k, v := range f {
		if rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64); err == nil {
			f[k] = rounded
		}
	}
	s.Trials[server] = append(s.Trials[server], f)
}

// Has reports whether a server has a figure of that name.
func (s *Sub) Has(server, column string) bool {
	return slices.ContainsFunc(s.Trials[server], func(f Figures) bool { _, ok := f[column]; return ok })
}

// Median returns the median of a column over a server's trials; 0 if there is none.
func (s *Sub) Median(server, column string) float64 {
	v := s.values(server, column)
	if len(v) == 0 {
		return 0
	}
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

// Spread returns the smallest and the largest value of a column.
func (s *Sub) Spread(server, column string) (low, high float64) {
	v := s.values(server, column)
	if len(v) == 0 {
		return 0, 0
	}
	return v[0], v[len(v)-1]
}

func (s *Sub) values(server, column string) []float64 {
	var v []float64
	for _, f := range s.Trials[server] {
		if x, ok := f[column]; ok {
			v = append(v, x)
		}
	}
	slices.Sort(v)
	return v
}

// AtMost adds a check with an upper bound.
func (s *Sub) AtMost(name string, got, want float64) *Check {
	return s.check(Check{Name: name, Got: got, Want: want, Upper: true, OK: got <= want})
}

// AtLeast adds a check with a lower bound.
func (s *Sub) AtLeast(name string, got, want float64) *Check {
	return s.check(Check{Name: name, Got: got, Want: want, OK: got >= want})
}

func (s *Sub) check(c Check) *Check {
	s.Checks = append(s.Checks, c)
	return &s.Checks[len(s.Checks)-1]
}

// Passed reports whether all checks hold, alternatives as one; judged is false when there is nothing to judge. Checks for a
// quiet machine are left out on a busy one.
func (s *Sub) Passed(quiet bool) (passed, judged bool) {
	passed = true
	alternatives, oneOf := 0, false
	for _, c := range s.Checks {
		switch {
		case c.Quiet && !quiet:
			continue
		case c.Alternative:
			alternatives++
			oneOf = oneOf || c.OK
		default:
			passed = passed && c.OK
		}
		judged = true
	}
	return passed && (alternatives == 0 || oneOf), judged
}

// Idle is what the machine did in the seconds before the run.
type Idle struct {
	Seconds   float64 `json:"seconds"`
	BusyShare float64 `json:"busy_share"`  // of all processors
	Steal     float64 `json:"steal_share"` // of all processors, taken by the host
	Quiet     bool    `json:"quiet"`
}

// Run is one invocation of the benchmarks.
type Run struct {
	Started time.Time `json:"started"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Quick   bool      `json:"quick"`
	Trials  int       `json:"trials"`
	Before  Idle      `json:"idle_before"`
	Subs    []*Sub    `json:"sub_rows"`
}

// Save writes the run as a file of its own below dir and returns its path.
func (r *Run) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, r.Started.UTC().Format("20060102T150405Z")+".json")
	return path, os.WriteFile(path, append(b, '\n'), 0o644)
}

// Load reads all runs below dir, oldest first.
func Load(dir string) ([]*Run, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths) // the names are times
	runs := make([]*Run, 0, len(paths))
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		r := &Run{}
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}
