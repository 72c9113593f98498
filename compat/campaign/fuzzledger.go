package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A fuzz row's counts are one entry a target, separated by "; ": log/recordbatch.FuzzZstd@1a2b3c4d 10m0s 123456. The part after @ is the
// generation of the code, the last number the executions. The rows are read back from the page, so the format is kept.
var fuzzEntry = regexp.MustCompile(`([\w./-]+\.Fuzz\w+)@([0-9a-f]{8}) (\S+?) (\d+)(?:;| \|)`)

// fuzzRow writes the counts of a row.
func fuzzRow(runs []fuzzRun) string {
	var entries []string
	total := time.Duration(0)
	for _, r := range runs {
		total += r.Elapsed
		entries = append(entries, fmt.Sprintf("%s@%s %v %d", r.Target, r.Generation, r.Elapsed, r.Execs))
	}
	return fmt.Sprintf("%d targets, %v; target@code time executions: %s", len(runs), total, strings.Join(entries, "; "))
}

// parseFuzzLedger returns all entries of the rows of kind fuzz.
func parseFuzzLedger(page string) ([]fuzzRun, error) {
	var out []fuzzRun
	for line := range strings.Lines(page) {
		cells := strings.SplitN(line, "|", 4)
		if len(cells) < 4 || strings.TrimSpace(cells[2]) != "fuzz" {
			continue
		}
		for _, m := range fuzzEntry.FindAllStringSubmatch(line, -1) {
			elapsed, err1 := time.ParseDuration(m[3])
			execs, err2 := strconv.ParseInt(m[4], 10, 64)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("ledger entry %q: %w", m[0], err)
			}
			out = append(out, fuzzRun{Target: m[1], Generation: m[2], Elapsed: elapsed, Execs: execs})
		}
	}
	return out, nil
}

// readFuzzLedger reads the page; without one there are no entries.
func readFuzzLedger(page string) ([]fuzzRun, error) {
	if page == "" {
		return nil, nil
	}
	b, err := os.ReadFile(page)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseFuzzLedger(string(b))
}

// fuzzTotal is what the ledger holds of one target.
type fuzzTotal struct {
	target     string
	elapsed    time.Duration // of all generations
	execs      int64
	latest     string // the generation of the last row
	latestTime time.Duration
}

// fuzzTotals adds the entries up, a target each, by name. The last generation in the page's order is the latest.
func fuzzTotals(runs []fuzzRun) []fuzzTotal {
	byTarget := map[string]*fuzzTotal{}
	perGeneration := map[string]map[string]time.Duration{}
	for _, r := range runs {
		t := byTarget[r.Target]
		if t == nil {
			t = &fuzzTotal{target: r.Target}
			byTarget[r.Target], perGeneration[r.Target] = t, map[string]time.Duration{}
		}
		t.elapsed += r.Elapsed
		t.execs += r.Execs
		t.latest = r.Generation
		perGeneration[r.Target][r.Generation] += r.Elapsed
		t.latestTime = perGeneration[r.Target][r.Generation]
	}
	var out []fuzzTotal
	for _, t := range byTarget {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b fuzzTotal) int { return strings.Compare(a.target, b.target) })
	return out
}

// printFuzzTotals writes the ledger's running totals.
func printFuzzTotals(w io.Writer, page string) error {
	runs, err := readFuzzLedger(page)
	if err != nil {
		return err
	}
	text := "\ntarget\ttime in all\texecutions\tlatest code\ttime of it\n"
	all, execs := time.Duration(0), int64(0)
	for _, t := range fuzzTotals(runs) {
		text += fmt.Sprintf("%s\t%v\t%d\t%s\t%v\n", t.target, t.elapsed, t.execs, t.latest, t.latestTime)
		all, execs = all+t.elapsed, execs+t.execs
	}
	text += fmt.Sprintf("all\t%v\t%d\t\t\n", all, execs)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if _, err := io.WriteString(table, text); err != nil {
		return err
	}
	return table.Flush()
}
