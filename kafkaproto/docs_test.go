package kafkaproto

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -count=1 -run ^TestCompatibilityDocument$ . -rewrite

var rewrite = flag.Bool("rewrite", false, "rewrite generated documents instead of comparing them")

const (
	compatibilityDocument = "../docs/kafka-compatibility.md"
	generatedBegin        = "<!-- generated from the dispatch table of kafkaproto by make generate: begin -->\n"
	generatedEnd          = "<!-- generated: end -->\n"
)

// servedMarkdown renders the table of APIs.
func servedMarkdown() string {
	span := func(from, to int16) string {
		if from == to {
			return fmt.Sprint(from)
		}
		return fmt.Sprintf("%d-%d", from, to)
	}
	var b strings.Builder
	b.WriteString("| key | request | advertised | served | before login |\n|---|---|---|---|---|\n")
	for _, a := range newAPITable(servedAPIs(true)...).rows {
		open := "no"
		if a.open {
			open = "yes"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", a.key, a.name, span(a.advertised, a.max), span(a.min, a.max), open)
	}
	return b.String()
}

// TestCompatibilityDocument keeps the document's table equal to the dispatch table.
func TestCompatibilityDocument(t *testing.T) {
	raw, err := os.ReadFile(compatibilityDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), generatedBegin)
	old, after, closed := strings.Cut(rest, generatedEnd)
	if !ok || !closed {
		t.Fatalf("%s has lost its markers", compatibilityDocument)
	}
	table := servedMarkdown()
	if *rewrite {
		if err := os.WriteFile(compatibilityDocument, []byte(before+generatedBegin+table+generatedEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, old); diff != "" {
		t.Errorf("make generate was not run: -table +document\n%s", diff)
	}
}

// kafkaRanges are what Apache Kafka 4.3 advertises, for the requests that we serve (specification, 2.1).
var kafkaRanges = map[int16][2]int16{
	0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5},
	15: {0, 6}, 16: {0, 5}, 17: {0, 1}, 18: {0, 4}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5},
	23: {2, 4}, 29: {1, 3}, 30: {1, 3}, 31: {1, 3}, 34: {1, 2}, 38: {1, 3}, 39: {1, 2}, 40: {1, 2}, 41: {1, 3}, 43: {0, 2}, 45: {0, 1},
	46: {0, 0}, 48: {0, 1}, 49: {0, 1}, 50: {0, 0}, 51: {0, 0}, 55: {0, 2}, 57: {0, 2}, 74: {0, 1},
	32: {1, 4}, 33: {0, 2}, 35: {1, 5}, 36: {0, 2}, 37: {0, 3}, 42: {0, 2}, 44: {0, 1}, 47: {0, 0}, 60: {0, 2}, 61: {0, 0}, 75: {0, 0},
}

func TestRangesCoverKafka(t *testing.T) {
	for _, rows := range servedAPIs(true) {
		for _, a := range rows {
			want, ok := kafkaRanges[a.key]
			if !ok {
				t.Errorf("%s is not in Kafka's table", a.name)
				continue
			}
			if a.advertised > want[0] || a.max != want[1] || a.advertised > a.min {
				t.Errorf("%s: advertised %d to %d, served from %d; Kafka %d to %d", a.name, a.advertised, a.max, a.min, want[0], want[1])
			}
		}
	}
}
