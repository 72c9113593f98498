package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// moduleRoot finds the folder of go.mod, upwards from the test's own.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// TestTree applies every rule to every file of the module.
func TestTree(t *testing.T) {
	sources, err := load(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 20 {
		t.Fatalf("only %d files found: the loader looks in the wrong place", len(sources))
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, s := range sources {
				found = append(found, r(s)...)
			}
			report(t, found)
		})
	}
	t.Run("package_docs", func(t *testing.T) { report(t, packageDocs(sources)) })
}

func report(t *testing.T, found []string) {
	t.Helper()
	slices.Sort(found)
	for _, f := range found {
		t.Error(f)
	}
}

// TestArrowTable keeps the table itself sound: each arrow leads to a package that has a row, and no two packages import each other.
func TestArrowTable(t *testing.T) {
	for from, allowed := range arrows {
		for _, to := range allowed {
			if to == everything {
				continue
			}
			if _, known := arrows[to]; !known {
				t.Errorf("%s may import %s, which has no row", from, to)
			}
			if reaches(to, from, map[string]bool{}) {
				t.Errorf("%s may import %s and is imported by it in turn", from, to)
			}
		}
	}
	for _, l := range leaves {
		if len(arrows[l]) != 0 {
			t.Errorf("%s is a leaf and may import %v", l, arrows[l])
		}
	}
}

func reaches(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(arrows[from], func(next string) bool { return reaches(next, to, seen) })
}
