package archtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesBite breaks each rule once, and keeps the nearest lawful form beside it.
func TestRulesBite(t *testing.T) {
	const own = `import "github.com/felixlog/felix/`
	tests := []struct {
		name, rule, pkg, file, text string
		want                        int
	}{
		{"front_end_to_log", "imports", "kafkaproto", "a.go", "package p\n" + own + `log"`, 1},
		{"front_ends_meet", "imports", "kafkaproto", "a.go", "package p\n" + own + `felixproto"`, 1},
		{"front_end_to_broker", "imports", "kafkaproto", "a.go", "package p\n" + own + `broker"`, 0},
		{"log_to_cluster", "imports", "log", "a.go", "package p\n" + own + `internal/cluster"`, 1},
		{"log_to_leaf", "imports", "log", "a.go", "package p\n" + own + `internal/ids"`, 0},
		{"leaf_to_leaf", "imports", "internal/ids", "a.go", "package p\n" + own + `internal/errcode"`, 1},
		{"node_to_all", "imports", "internal/node", "a.go", "package p\n" + own + `replica"`, 0},
		{"cmd_past_node", "imports", "cmd/felix", "a.go", "package p\n" + own + `log"`, 1},
		{"unknown_package", "imports", "util", "a.go", "package p\n" + own + `log"`, 1},
		{"kmsg_escapes", "imports", "broker", "a.go", "package p\nimport \"github.com/twmb/franz-go/pkg/kmsg\"", 1},
		{"kmsg_at_home", "imports", "kafkaproto", "a.go", "package p\nimport \"github.com/twmb/franz-go/pkg/kmsg\"", 0},
		{"tests_may_reach", "imports", "kafkaproto", "a_test.go", "package p\n" + own + `log"`, 0},

		{"bare_go", "bare_go", "log", "a.go", "package p\nfunc f() { go f() }", 1},
		{"wait_group_go", "bare_go", "log", "a.go", "package p\nfunc f(wg *WG) { wg.Go(f2) }", 0},
		{"bare_go_in_test", "bare_go", "log", "a_test.go", "package p\nfunc f() { go f() }", 0},

		{"background", "context_background", "broker", "a.go", "package p\nvar c = context.Background()", 1},
		{"todo", "context_background", "broker", "a.go", "package p\nvar c = context.TODO()", 1},
		{"background_in_cmd", "context_background", "cmd/felix", "a.go", "package p\nvar c = context.Background()", 0},

		{"sleep", "sleep", "log", "a.go", "package p\nfunc f() { time.Sleep(1) }", 1},
		{"after", "sleep", "log", "a.go", "package p\nfunc f() { <-time.After(1) }", 1},
		{"timer", "sleep", "log", "a.go", "package p\nfunc f() { time.NewTimer(1) }", 0},

		{"flush_method", "banned_words", "log", "a.go", "package p\nfunc (l *Log) FlushAll() {}", 1},
		{"flush_field", "banned_words", "log", "a.go", "package p\ntype t struct { lastFlush int }", 1},
		{"flush_local", "banned_words", "log", "a.go", "package p\nfunc f() { flushed := 1; _ = flushed }", 1},
		{"flush_used", "banned_words", "log", "a.go", "package p\nfunc f(w W) { w.Flush() }", 0},
		{"lso", "banned_words", "log", "a.go", "package p\nvar maxLSOBytes int", 1},
		{"also", "banned_words", "log", "a.go", "package p\nvar alsoThis int", 0},

		{"undocumented_func", "exported_docs", "log", "a.go", "package p\nfunc F() {}", 1},
		{"undocumented_method", "exported_docs", "log", "a.go", "package p\nfunc (*T) F() {}", 1},
		{"method_of_private", "exported_docs", "log", "a.go", "package p\nfunc (*t) F() {}", 0},
		{"undocumented_type", "exported_docs", "log", "a.go", "package p\ntype T int", 1},
		{"undocumented_const", "exported_docs", "log", "a.go", "package p\nconst (\n\tA = 1\n\tB = 2 // B is two.\n)", 1},
		{"documented_group", "exported_docs", "log", "a.go", "package p\n// Sizes.\nconst (\n\tA = 1\n\tB = 2\n)", 0},
		{"documented", "exported_docs", "log", "a.go", "package p\n// F does.\nfunc F() {}", 0},

		{"skip", "skips", "log", "a_test.go", "package p\nfunc TestX(t *T) { t.Skip() }", 1},
		{"skip_in_fuzz", "skips", "log", "a_test.go", "package p\nfunc FuzzX(f *F) { f.Fuzz(func(t *T) { t.Skip() }) }", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src, err := parse(tt.pkg, tt.file, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := rules[tt.rule](src); len(got) != tt.want {
				t.Errorf("got %d findings %q, want %d", len(got), got, tt.want)
			}
		})
	}
}

func TestFileLength(t *testing.T) {
	if got := fileLength(source{pkg: "log", name: "a.go", lines: maxLines + 1}); len(got) != 1 {
		t.Errorf("got %q, want one finding", got)
	}
	if got := fileLength(source{pkg: "log", name: "a.go", lines: maxLines}); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
}

func TestPackageDocs(t *testing.T) {
	src := func(pkg, name, text string) source {
		s, err := parse(pkg, name, text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tests := []struct {
		name string
		in   []source
		want int
	}{
		{"none", []source{src("log", "log.go", "package log")}, 1},
		{"empty", []source{src("log", "doc.go", "package log")}, 1},
		{"elsewhere", []source{src("log", "log.go", "// Package log keeps records on disk.\npackage log")}, 1},
		{"good", []source{src("log", "doc.go", "// Package log keeps records on disk.\npackage log")}, 0},
		{"no_row", []source{src("util", "doc.go", "// Package util has no purpose of its own.\npackage util")}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := packageDocs(tt.in); len(got) != tt.want {
				t.Errorf("got %q, want %d findings", got, tt.want)
			}
		})
	}
}

func TestWords(t *testing.T) {
	tests := []struct {
		name string
		want []string
	}{
		{"maxLSOBytes", []string{"max", "lso", "bytes"}},
		{"flushAll", []string{"flush", "all"}},
		{"LSO", []string{"lso"}},
		{"HTTPServer", []string{"http", "server"}},
		{"snake_case", []string{"snake", "case"}},
		{"_", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, words(tt.name)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
