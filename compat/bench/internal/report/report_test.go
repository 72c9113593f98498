package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample(quick bool, at time.Time, rate float64) *Run {
	s := &Sub{Row: "P1", Name: "1KiB/none", Workload: "produce", Columns: []string{"MB/s", "core-s/GB"}}
	s.Add("felix", Figures{"MB/s": rate, "core-s/GB": 0.5})
	s.Add("felix", Figures{"MB/s": rate + 10, "core-s/GB": 0.6})
	s.Add("felix", Figures{"MB/s": rate - 10})
	s.AtLeast("rate over Kafka's", 2, 3).Alternative = true
	s.AtLeast("rate over the ceiling", 0.7, 0.6).Alternative = true
	s.AtMost("core-s/GB", 0.55, 0.65)
	return &Run{Started: at, Quick: quick, Subs: []*Sub{s}}
}

func TestMedianAndPassed(t *testing.T) {
	s := sample(false, time.Now(), 900).Subs[0]
	if got := s.Median("felix", "MB/s"); got != 900 {
		t.Errorf("median %v", got)
	}
	if got := s.Median("felix", "core-s/GB"); got != 0.55 {
		t.Errorf("median of two %v", got)
	}
	if ok, judged := s.Passed(true); !ok || !judged {
		t.Errorf("passed %v, judged %v: one alternative is enough", ok, judged)
	}
	s.AtMost("p50", 1, 0.2).Quiet = true
	if ok, _ := s.Passed(false); !ok {
		t.Error("a check for a quiet machine counted on a busy one")
	}
	if ok, _ := s.Passed(true); ok {
		t.Error("a failed check passed")
	}
}

func TestDocsTakeTheNewestFullRun(t *testing.T) {
	dir := t.TempDir()
	day := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, r := range []*Run{sample(false, day, 500), sample(false, day.Add(time.Hour), 700), sample(true, day.Add(2*time.Hour), 900)} {
		if _, err := r.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Load(dir)
	if err != nil || len(runs) != 3 {
		t.Fatalf("%d runs, error %v", len(runs), err)
	}
	doc := filepath.Join(dir, "doc.md")
	if err := os.WriteFile(doc, []byte("head\n"+beginMark+"\nold\n"+endMark+"\ntail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := UpdateDocs(doc, runs); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, want := range []string{"head\n", "\ntail\n", "700 (690–710)", "not needed: the other way passes"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") || strings.Contains(got, "900") {
		t.Errorf("old text or a quick figure is left in\n%s", got)
	}
}

func TestTablesKeepTheOrderOfRows(t *testing.T) {
	r := &Run{Started: time.Now()}
	for _, row := range []string{"P10", "P8b", "P2", "P13", "P8"} {
		r.Subs = append(r.Subs, &Sub{Row: row, Name: "x"})
	}
	got := string(Tables([]*Run{r}))
	at := -1
	for _, row := range []string{"P2", "P8", "P8b", "P10", "P13"} {
		i := strings.Index(got, "### "+row+"\n")
		if i <= at {
			t.Errorf("%s is out of order in\n%s", row, got)
		}
		at = i
	}
}
