package node

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	operationsDocument = "../../docs/operations.md"
	metricsBegin       = "<!-- generated from a running node by make generate: begin -->\n"
)

// metricRow is one metric of ours as a node registers it.
type metricRow struct{ name, kind, labels, help string }

// registeredMetrics lists the metrics of ours in a registry, with children or without, by name.
func registeredMetrics(t *testing.T, r *prometheus.Registry) []metricRow {
	t.Helper()
	kinds := map[string]dto.MetricType{}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		kinds[f.GetName()] = f.GetType()
	}
	descs := make(chan *prometheus.Desc, 1000)
	r.Describe(descs)
	close(descs)
	pattern := regexp.MustCompile(`fqName: "(felix_[a-z0-9_]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	var rows []metricRow
	for d := range descs {
		m := pattern.FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		row := metricRow{name: m[1], help: m[2], kind: "gauge", labels: strings.ReplaceAll(m[4], ",", ", ")}
		switch kind, known := kinds[row.name]; {
		case known && kind == dto.MetricType_HISTOGRAM:
			row.kind = "histogram"
		case known && kind == dto.MetricType_COUNTER, !known && strings.HasSuffix(row.name, "_total"):
			row.kind = "counter"
		}
		if row.name == "felix_build_info" {
			row.labels = "version, go_version"
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b metricRow) int { return cmp.Compare(a.name, b.name) })
	return rows
}

// metricsMarkdown renders the rows in the sections of docs/operations.md.
func metricsMarkdown(rows []metricRow) string {
	sections := []struct {
		title    string
		prefixes []string
	}{
		{"Kafka listener", []string{"felix_kafka_"}},
		{"Storage", []string{"felix_storage_", "felix_log_"}},
		{"Publish and shards", []string{"felix_publish_", "felix_tenant_", "felix_broker_"}},
		{"Metadata", []string{"felix_controller_", "felix_controlplane_", "felix_bootstrap_", "felix_meta_"}},
		{"Process", []string{"felix_"}},
	}
	left := slices.Clone(rows)
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "\n### %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", s.title)
		left = slices.DeleteFunc(left, func(r metricRow) bool {
			if !slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(r.name, p) }) {
				return false
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.name, r.kind, cmp.Or(r.labels, "-"), r.help)
			return true
		})
	}
	return b.String()
}

// TestMetricsDocument keeps the tables of docs/operations.md equal to what a node registers: names, types, labels and meanings.
func TestMetricsDocument(t *testing.T) {
	rows := registeredMetrics(t, openTest(t, t.TempDir()).registry)
	if len(rows) < 20 {
		t.Fatalf("only %d metrics of ours are registered", len(rows))
	}
	for _, r := range rows {
		if !strings.HasSuffix(r.help, ".") {
			t.Errorf("%s: the help text %q is no sentence", r.name, r.help)
		}
	}
	compareGenerated(t, operationsDocument, metricsBegin, metricsMarkdown(rows))
}

// compareGenerated compares the generated block of a document with want, or rewrites it with -rewrite.
func compareGenerated(t *testing.T, path, begin, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, generatedEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no generated block", path)
	}
	want = before + begin + want + "\n" + generatedEnd + after
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s differs (make generate rewrites it):\n%s", path, diff)
	}
}
