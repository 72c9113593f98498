package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTargets(t *testing.T) {
	got, err := parseTargets([]byte("./log FuzzSnapshot log/producers_test.go\n./log/recordbatch FuzzZstd log/recordbatch/fuzz_test.go\n"))
	if err != nil || len(got) != 2 || got[0].id() != "log.FuzzSnapshot" || got[1].id() != "log/recordbatch.FuzzZstd" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "./log FuzzSnapshot\n", "./log FuzzSnapshot broker/x_test.go\n"} {
		if _, err := parseTargets([]byte(bad)); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
}

func TestParseFuzzOutput(t *testing.T) {
	const out = `fuzz: elapsed: 0s, gathering baseline coverage: 0/61 completed
fuzz: elapsed: 1s, gathering baseline coverage: 61/61 completed, now fuzzing with 2 workers
fuzz: elapsed: 3s, execs: 103 (34/sec), new interesting: 0 (total: 61)
fuzz: elapsed: 1m10s, execs: 222222 (3174/sec), new interesting: 2 (total: 63)
PASS
ok  	github.com/felixlog/felix/log	70.011s
`
	if got := parseFuzzOutput(out); got.Elapsed != 70*time.Second || got.Execs != 222222 {
		t.Errorf("got %+v", got)
	}
	if got := parseFuzzOutput("ok\n"); got.Elapsed != 0 || got.Execs != 0 {
		t.Errorf("without progress: %+v", got)
	}
	failed := "--- FAIL: FuzzX (0.10s)\n    --- FAIL: FuzzX (0.00s)\n    \n    Failing input written to testdata/fuzz/FuzzX/12ab\n    To re-run:\n"
	if got := failureOf(failed, os.ErrInvalid); got != "Failing input written to testdata/fuzz/FuzzX/12ab" {
		t.Error(got)
	}
	if got := failureOf("# x\nvet: y\nFAIL\tx/log [build failed]\n", os.ErrInvalid); got != "FAIL x/log [build failed]" {
		t.Error(got)
	}
	const late = "fuzz: elapsed: 2s, execs: 26718 (12754/sec), new interesting: 0 (total: 75)\n" +
		"--- FAIL: FuzzRecords (2.15s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\tx 2.158s\n"
	if !endedLate(late) {
		t.Error("the engine's own deadline is taken for a finding")
	}
	for _, out := range []string{failed, "panic: x\n" + late, strings.ReplaceAll(late, "    context", "    x_test.go:1: context"), failed + late, ""} {
		if endedLate(out) {
			t.Errorf("a finding is taken for the engine's deadline:\n%s", out)
		}
	}
	if got := failureOf("panic\n", os.ErrInvalid); got != os.ErrInvalid.Error() {
		t.Error(got)
	}
}

// TestFuzzLedgerRoundTrip: what a row says is what is read back, among rows of other kinds, with a good and with a bad verdict.
func TestFuzzLedgerRoundTrip(t *testing.T) {
	page := filepath.Join(t.TempDir(), "campaigns.md")
	t.Setenv("PEER", "")
	t.Setenv("FELIX_BIN", fakeFelix(t))
	first := []fuzzRun{
		{Target: "log.FuzzSnapshot", Generation: "0a1b2c3d", Elapsed: 90 * time.Second, Execs: 5},
		{Target: "log/recordbatch.FuzzZstd", Generation: "ffffffff", Elapsed: time.Minute, Execs: 7},
	}
	second := []fuzzRun{{Target: "log.FuzzSnapshot", Generation: "00000000", Elapsed: 10 * time.Minute, Execs: 11}}
	rows := []struct {
		kind string
		v    verdict
	}{
		{"kill", verdict{counts: "70 kills log.FuzzSnapshot@0a1b2c3d 1m0s 1"}},
		{"fuzz", verdict{counts: fuzzRow(first), violations: []string{"log.FuzzSnapshot: Failing input written to testdata/x"}}},
		{"fuzz", verdict{nothing: true}},
		{"fuzz", verdict{counts: fuzzRow(second)}},
		{"fuzz", verdict{counts: fuzzRow(second)}},
	}
	for _, row := range rows {
		if err := appendLedger(options{kind: row.kind, ledger: page, seed: 1}, row.v); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readFuzzLedger(page)
	if err != nil {
		t.Fatal(err)
	}
	want := append(append(append([]fuzzRun{}, first...), second...), second...)
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	totals := fuzzTotals(got)
	wantTotals := []fuzzTotal{
		{target: "log.FuzzSnapshot", elapsed: 21*time.Minute + 30*time.Second, execs: 27, latest: "00000000", latestTime: 20 * time.Minute},
		{target: "log/recordbatch.FuzzZstd", elapsed: time.Minute, execs: 7, latest: "ffffffff", latestTime: time.Minute},
	}
	if !slices.Equal(totals, wantTotals) {
		t.Errorf("got %+v\nwant %+v", totals, wantTotals)
	}
	var text strings.Builder
	if err := printFuzzTotals(&text, page); err != nil || !strings.Contains(text.String(), "all                       22m30s") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// fakeFelix is a program that says a version, as the ledger asks for one.
func fakeFelix(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "felix")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho felix version abc1234\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFuzzSkips(t *testing.T) {
	ledger := []fuzzRun{
		{Target: "a.FuzzX", Generation: "11111111", Elapsed: 6 * time.Minute},
		{Target: "a.FuzzX", Generation: "22222222", Elapsed: 9 * time.Minute},
		{Target: "a.FuzzX", Generation: "11111111", Elapsed: 4 * time.Minute},
		{Target: "a.FuzzY", Generation: "11111111", Elapsed: time.Hour},
	}
	for _, tt := range []struct {
		name       string
		generation string
		total      int
		done       []fuzzRun
		want       bool
	}{
		{"not asked", "11111111", 0, nil, false},
		{"enough over rows", "11111111", 10, nil, true},
		{"not enough", "11111111", 11, nil, false},
		{"other code", "22222222", 10, nil, false},
		{"no row", "33333333", 1, nil, false},
		{"interrupted after it", "33333333", 0, []fuzzRun{{Target: "a.FuzzX", Generation: "33333333"}}, true},
		{"interrupted, then changed", "33333333", 0, []fuzzRun{{Target: "a.FuzzX", Generation: "22222222"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fuzzCampaign{o: options{targetTotal: tt.total}, done: tt.done}
			if why := f.skip("a.FuzzX", tt.generation, ledger); (why != "") != tt.want {
				t.Errorf("got %q", why)
			}
		})
	}
}

func TestFuzzStateSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "fuzz-1.json")
	f := &fuzzCampaign{path: path, done: []fuzzRun{{Target: "a.FuzzX", Generation: "11111111", Elapsed: time.Minute, Execs: 3, Failure: "x"}}}
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	again := &fuzzCampaign{path: path}
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.done, f.done) {
		t.Errorf("got %+v\nwant %+v", again.done, f.done)
	}
}

func TestGenerationFollowsTheSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	target := write("a_test.go", "package a")
	write("a.go", "package a")
	list := func(version string) string {
		return `{"ImportPath":"fmt","Dir":"/none","GoFiles":["print.go"]}
{"ImportPath":"other/b","Dir":"/none","GoFiles":["b.go"],"Module":{"Path":"other","Version":"` + version + `"}}
{"ImportPath":"ours/a","Dir":"` + dir + `","GoFiles":["a.go"],"Module":{"Path":"ours","Main":true}}`
	}
	generation := func(version, release string) string {
		t.Helper()
		packages, err := readPackages(strings.NewReader(list(version)))
		if err != nil {
			t.Fatal(err)
		}
		g, err := hashSources(packages, target, release)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	seen := map[string]string{generation("v1", "go1"): "at first"}
	if _, same := seen[generation("v1", "go1")]; !same {
		t.Error("two looks at the same code differ")
	}
	fresh := func(what, g string) {
		t.Helper()
		if before, ok := seen[g]; ok {
			t.Errorf("%s: the same generation as %s", what, before)
		}
		seen[g] = what
	}
	fresh("another module's version", generation("v2", "go1"))
	fresh("another Go release", generation("v1", "go2"))
	write("a.go", "package a // changed")
	fresh("a changed source", generation("v1", "go1"))
	write("a_test.go", "package a // changed")
	fresh("a changed target", generation("v1", "go1"))
	if _, err := readPackages(strings.NewReader(`{"ImportPath":`)); err == nil {
		t.Error("half a list is taken")
	}
}
