package streams

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	// Every case starts with a settled moment at which a was written and counted twice and b once.
	for _, tt := range []struct {
		name  string
		wrote []string
		count map[string]int64
		exact bool
		want  string // part of the only problem; "" for none
	}{
		{"exact", []string{"a", "c"}, map[string]int64{"a": 3, "c": 1}, true, ""},
		{"less", []string{"a"}, nil, false, "a: counted 2, written 3"},
		{"never", []string{"c"}, nil, false, "c: counted 0, written 1"},
		{"again after a kill", []string{"a"}, map[string]int64{"a": 5}, false, ""},
		{"again without a kill", []string{"a"}, map[string]int64{"a": 4}, true, "a: counted 4, written 3, although"},
		{"again what was committed", []string{"a"}, map[string]int64{"a": 3, "b": 2}, false, "b: counted 1 more times after"},
		{"something never written", nil, map[string]int64{"x": 1}, false, "x: counted 1 more times after"},
		{"went back", []string{"c"}, map[string]int64{"c": 1, "b": 0}, false, "b: counted 0, written 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tally := newTally()
			tally.wrote([]string{"a", "b", "a"})
			tally.count("a", 2)
			tally.count("b", 1)
			if got := tally.judge(true); len(got) != 0 {
				t.Fatalf("problems %q at the beginning", got)
			}
			tally.wrote(tt.wrote)
			for word, n := range tt.count {
				tally.count(word, n)
			}
			got := tally.judge(tt.exact)
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTallyLostSurplus(t *testing.T) {
	tally := newTally()
	tally.wrote([]string{"a"})
	tally.count("a", 3)
	if got := tally.judge(false); len(got) != 0 {
		t.Fatalf("problems %q, want none", got)
	}
	tally.count("a", 2)
	if got := tally.judge(false); len(got) != 1 || !strings.Contains(got[0], "counts were lost") {
		t.Errorf("problems %q, want that counts were lost", got)
	}
	if written, again := tally.totals(); written != 1 || again != 1 {
		t.Errorf("written %d, again %d, want 1 and 1", written, again)
	}
}
