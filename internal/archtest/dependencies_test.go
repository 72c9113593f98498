package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// directModules are the modules that go.mod requires for packages of ours, as opposed to for each other.
func directModules(goMod string) []string {
	var out []string
	for line := range strings.Lines(goMod) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		if strings.Contains(line, "// indirect") {
			continue
		}
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[1], "v") && strings.Contains(fields[0], "/") {
			out = append(out, fields[0])
		}
	}
	return out
}

// TestDependenciesAreArguedFor wants a line in docs/dependencies.md for each module that the server requires directly.
func TestDependenciesAreArguedFor(t *testing.T) {
	root := moduleRoot(t)
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range directModules(string(goMod)) {
		if !strings.Contains(string(page), "`"+module+"`") {
			t.Errorf("docs/dependencies.md says nothing of %s", module)
		}
	}
}

func TestDirectModules(t *testing.T) {
	const text = "module example.org/m\n\ngo 1.26.0\n\nrequire example.org/one v1.0.0\n\nrequire (\n\texample.org/two v2.0.0\n\texample.org/three v3.0.0 // indirect\n)\n"
	got := strings.Join(directModules(text), " ")
	if want := "example.org/one example.org/two"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
