package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

// exportedDocs finds exported functions, methods of exported types, types, constants and variables without a doc comment. A comment
// on a group of constants or variables stands for all of the group.
func exportedDocs(s source) []string {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	var out []string
	missing := func(id *ast.Ident) {
		out = append(out, s.at(id.Pos())+": "+id.Name+" is exported and has no doc comment")
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && receiverExported(d) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				undocumented(spec, d.Doc != nil, missing)
			}
		}
	}
	return out
}

// undocumented reports the exported names of one spec that nothing documents: not the group, not the spec, not the end of its line.
func undocumented(spec ast.Spec, group bool, missing func(*ast.Ident)) {
	switch sp := spec.(type) {
	case *ast.TypeSpec:
		if sp.Name.IsExported() && sp.Doc == nil && !group {
			missing(sp.Name)
		}
	case *ast.ValueSpec:
		if sp.Doc != nil || sp.Comment != nil || group {
			return
		}
		for _, id := range sp.Names {
			if id.IsExported() {
				missing(id)
			}
		}
	}
}

// receiverExported says whether a function is reachable by its name from outside: it has no receiver, or one of an exported type.
func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// packageDocs finds packages whose doc.go is missing or has no package comment, and packages that have no row in the arrow table.
func packageDocs(sources []source) []string {
	type state struct{ hasCode, hasDoc bool }
	packages := map[string]*state{}
	for _, s := range sources {
		st := packages[s.pkg]
		if st == nil {
			st = &state{}
			packages[s.pkg] = st
		}
		st.hasCode = st.hasCode || !s.isTest()
		if s.name == "doc.go" && s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) > 3 {
			st.hasDoc = true
		}
	}
	var out []string
	for pkg, st := range packages {
		if !st.hasDoc {
			out = append(out, pkg+": no doc.go with a package comment")
		}
		if _, known := arrows[pkg]; !known && st.hasCode {
			out = append(out, pkg+": no row in arrows.go: a new folder is a design decision")
		}
	}
	return out
}
