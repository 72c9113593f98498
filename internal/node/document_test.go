package node

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite generated documents instead of comparing them")

const (
	configurationDocument = "../../docs/configuration.md"
	generatedBegin        = "<!-- generated from internal/node/settings.go by make generate: begin -->\n"
	generatedEnd          = "<!-- generated: end -->\n"
)

// settingsMarkdown renders the table as docs/configuration.md shows it: a section for each group of keys, a row for each setting.
func settingsMarkdown() string {
	sections := []struct {
		title string
		table []setting
	}{
		{"Process", processSettings()},
		{"Kafka listener", kafkaSettings()},
		{"Kafka groups", groupSettings()},
		{"Native listener", nativeSettings()},
		{"Control-plane API", apiSettings()},
		{"TLS", tlsSettings()},
		{"Publish quotas", quotaSettings()},
		{"Storage", storageSettings()},
	}
	cell := func(s string) string {
		if s == "" {
			return "-"
		}
		return "`" + s + "`"
	}
	var b strings.Builder
	for _, section := range sections {
		fmt.Fprintf(&b, "\n### %s\n\n| key in the file | environment | flag | type | default | meaning |\n|---|---|---|---|---|---|\n", section.title)
		for _, s := range section.table {
			key, flagName, def := cell(s.Key), "-", cell(s.Default)
			if s.Flag != "" {
				flagName = "`--" + s.Flag + "`"
			}
			if s.Default == "" {
				def = "unset"
			}
			if s.Profile != "" {
				def += "; single node: `" + s.Profile + "`"
			}
			doc := s.Doc
			if s.Weakens {
				doc += " **Weakens access.**"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", key, s.Env, flagName, s.Kind, def, doc)
		}
	}
	return b.String()
}

// TestConfigurationDocument keeps docs/configuration.md equal to the table: names, types, defaults and meanings.
func TestConfigurationDocument(t *testing.T) {
	text := settingsMarkdown()
	for _, s := range settings() {
		if !strings.Contains(text, "`"+s.name()+"`") {
			t.Errorf("%s is in no section", s.name())
		}
	}
	compareGenerated(t, configurationDocument, generatedBegin, text)
}
