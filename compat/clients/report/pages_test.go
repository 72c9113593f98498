package report

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/felixlog/felix/compat/peer"
)

var rewrite = flag.Bool("rewrite", false, "rewrite generated documents instead of comparing them")

const (
	tableBegin = "<!-- generated from compat/clients/results by make generate: begin -->\n"
	tableEnd   = "<!-- generated: end -->\n"
)

func document(name string) string { return filepath.Join(peer.ModuleDir(), "..", "docs", name) }

// TestDocuments keeps the page of the clients, and the table of the compatibility page, equal to the results.
func TestDocuments(t *testing.T) {
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	compatibility, err := os.ReadFile(document("kafka-compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(compatibility), tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatal("kafka-compatibility.md has lost its markers")
	}
	for name, want := range map[string]string{
		"kafka-clients.md":       Page(all),
		"kafka-compatibility.md": before + tableBegin + Table(all) + tableEnd + after,
	} {
		if *rewrite {
			if err := os.WriteFile(document(name), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(document(name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/%s is not what the results say: make generate was not run", name)
		}
	}
}

func TestTake(t *testing.T) {
	earlier, later := New(peer.Felix), New(peer.Felix)
	earlier.Note("8", "one", true)
	earlier.Note("15", "one", false)
	earlier.Note("gone", "one", true)
	earlier.Without("15", "one", "no admin client")
	earlier.Without("65", "one", "no static members")
	earlier.Read("one", "one")
	later.Date = "2026-01-02"
	later.Note("15", "one", true)
	for range 2 {
		later.Read("two", "one")
	}
	earlier.take(later)
	want := New(peer.Felix)
	want.Date = "2026-01-02"
	want.Note("8", "one", true)
	want.Note("15", "one", true)
	want.Without("65", "one", "no static members")
	want.Read("one", "one")
	for range 2 {
		want.Read("two", "one")
	}
	if !reflect.DeepEqual(earlier, want) {
		t.Errorf("merged to %+v, want %+v", earlier, want)
	}
}

func TestPages(t *testing.T) {
	felix, kafka := New(peer.Felix), New(peer.Kafka)
	for _, r := range []*Results{felix, kafka} {
		r.Date = "2026-01-02"
		r.Versions["one"] = "one 1.0"
		r.Note("8", "one", true)
		r.Note("15", "one", true)
		r.Note("15", "one", r == kafka)
		r.Without("15", "one", "no admin client")
		r.Without("65", "one", "no static members")
		r.Read("one", "one")
	}
	table := `| client | version | cases | Felix | Apache Kafka 4.3.1 | not in the library |
|---|---|---|---|---|---|
| one | one 1.0 | 8, 15 | 1 pass, **fail: 15** | 2 of 2 pass | 15: no admin client; 65: no static members |
| java tools | kafka-tools 4.3.1 |  | 0 of 0 pass | 0 of 0 pass |  |
`
	if got := Table([]*Results{felix, kafka}); got != table {
		t.Errorf("table\n%s\nwant\n%s", got, table)
	}
	page := Page([]*Results{felix, kafka})
	for _, line := range []string{
		"### Felix, 2026-01-02",
		"| 8 | metadata: brokers as advertised, topics, leaders, ISR | ok | - |",
		"| 15 | connect and list topics with default settings; create one | **fails** (1) | - |",
		"| 15 | connect and list topics with default settings; create one | ok (1) | - |",
		"| 16 | three lines with acks=all, read back from the beginning | **no result** | **no result** |",
		"| 65 | static members: a restart within the session timeout without a rebalance | **no result** (2) | **no result** |",
		"2. Case 65, one: no static members.",
		"| one | 1 of 5 |",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %q in\n%s", line, page)
		}
	}
}
