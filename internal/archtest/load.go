package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// source is one parsed Go file of the tree.
type source struct {
	pkg   string // folder below the module root, "/" separated
	name  string // file name
	fset  *token.FileSet
	file  *ast.File
	lines int
}

// isTest says that the file is compiled only into tests.
func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// at names a place of the file as pkg/name:line.
func (s source) at(p token.Pos) string {
	return fmt.Sprintf("%s/%s:%d", s.pkg, s.name, s.fset.Position(p).Line)
}

// parse reads one file from memory.
func parse(pkg, name, text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path.Join(pkg, name), text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	return source{pkg: pkg, name: name, fset: fset, file: file, lines: strings.Count(text, "\n")}, nil
}

// load parses every Go file below root, except in folders that are modules of their own, hold test data, or are hidden.
func load(root string) ([]source, error) {
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipFolder(root, p, d)
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			return err
		}
		src, err := parse(filepath.ToSlash(rel), d.Name(), string(text))
		if err != nil {
			return err
		}
		out = append(out, src)
		return nil
	})
	return out, err
}

func skipFolder(root, p string, d fs.DirEntry) error {
	if p == root {
		return nil
	}
	if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "data" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}
