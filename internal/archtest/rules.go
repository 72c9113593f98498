package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// maxLines is the length above which a file must be explained in longFiles.
const maxLines = 1000

// longFiles explains the files that may be longer than maxLines, by path.
var longFiles = map[string]string{}

// rule looks at one file and returns what is wrong with it, each as a sentence that begins with the place.
type rule func(source) []string

// rules are applied to every file of the tree, tests included; each decides by itself whether tests are its business.
var rules = map[string]rule{
	"imports":            importArrows,
	"bare_go":            bareGo,
	"context_background": contextBackground,
	"sleep":              sleep,
	"banned_words":       bannedWords,
	"exported_docs":      exportedDocs,
	"file_length":        fileLength,
	"skips":              skips,
}

func importArrows(s source) []string {
	if s.isTest() {
		return nil
	}
	var out []string
	for _, spec := range s.file.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		if why := checkArrow(s.pkg, p); why != "" {
			out = append(out, fmt.Sprintf("%s: imports %s: %s", s.at(spec.Pos()), p, why))
		}
	}
	return out
}

func bareGo(s source) []string {
	if s.isTest() {
		return nil
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			out = append(out, s.at(g.Pos())+": bare go statement: use the type's WaitGroup (wg.Go) or an errgroup")
		}
		return true
	})
	return out
}

func contextBackground(s source) []string {
	if s.isTest() || strings.HasPrefix(s.pkg, "cmd/") {
		return nil
	}
	return selectors(s, "context", []string{"Background", "TODO"}, "only cmd and tests make a root context")
}

func sleep(s source) []string {
	if s.isTest() {
		return nil
	}
	return selectors(s, "time", []string{"Sleep", "After"}, "wait on a channel, a condition or a timer that is stopped")
}

func skips(s source) []string {
	if !s.isTest() {
		return nil
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		recv, ok := sel.X.(*ast.Ident)
		if ok && slices.Contains([]string{"t", "b", "f", "tb"}, recv.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
			if !inFuzzBody(s, call.Pos()) {
				out = append(out, s.at(call.Pos())+": a test that skips itself checks nothing")
			}
		}
		return true
	})
	return out
}

// inFuzzBody says that a position lies in a fuzz function, where Skip rejects an input and not a test.
func inFuzzBody(s source, p token.Pos) bool {
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && strings.HasPrefix(f.Name.Name, "Fuzz") && f.Pos() <= p && p < f.End() {
			return true
		}
	}
	return false
}

// selectors finds uses of some names of a package of the standard library, imported under its own name.
func selectors(s source, pkg string, names []string, why string) []string {
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name) {
			out = append(out, fmt.Sprintf("%s: %s.%s: %s", s.at(sel.Pos()), pkg, sel.Sel.Name, why))
		}
		return true
	})
	return out
}

// bannedWords finds declared names that use a word for which the tree has another one.
func bannedWords(s source) []string {
	var out []string
	check := func(id *ast.Ident) {
		if id == nil {
			return
		}
		for _, w := range words(id.Name) {
			switch {
			case strings.HasPrefix(w, "flush"):
				out = append(out, fmt.Sprintf(`%s: %s: "flush" is banned: say sync for fsync, write for a buffer`, s.at(id.Pos()), id.Name))
			case w == "lso":
				out = append(out, fmt.Sprintf(`%s: %s: "LSO" reads as either of two: say lastStable or logStart`, s.at(id.Pos()), id.Name))
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Name)
		case *ast.TypeSpec:
			check(n.Name)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				check(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				check(id)
			}
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				return true
			}
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok {
					check(id)
				}
			}
		}
		return true
	})
	return out
}

// words splits a Go name at underscores and at changes of case, and lowers each part: maxLSOBytes is max, lso, bytes.
func words(name string) []string {
	var out []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = nil
		}
	}
	r := []rune(name)
	for i, c := range r {
		switch {
		case c == '_':
			end()
			continue
		case unicode.IsUpper(c) && i > 0 && !unicode.IsUpper(r[i-1]):
			end() // aB: a new word begins.
		case unicode.IsUpper(c) && i > 0 && i+1 < len(r) && unicode.IsLower(r[i+1]):
			end() // ABc: the last capital belongs to the next word.
		}
		word = append(word, c)
	}
	end()
	return out
}

func fileLength(s source) []string {
	p := s.pkg + "/" + s.name
	if s.isTest() || s.lines <= maxLines || longFiles[p] != "" {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d lines: split it by what it holds, or explain it in longFiles", p, s.lines)}
}
