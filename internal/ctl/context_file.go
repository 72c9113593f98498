package ctl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// contextFile is a file of contexts. Changes are made line by line, so that comments and what stands between tables stay.
type contextFile struct {
	path     string
	lines    []string
	contexts map[string]settingsContext
	current  string
}

// contexts reads the file that the settings name, or else the one in its usual place. The error of a file that is not there is
// fs.ErrNotExist, beside a file with a path to write to.
func (a *app) contexts() (*contextFile, error) {
	f := &contextFile{path: a.contextFile, contexts: map[string]settingsContext{}}
	if f.path == "" {
		f.path = defaultContextFile(environment(a.p.Environ))
	}
	if f.path == "" {
		return f, fmt.Errorf("neither HOME nor XDG_CONFIG_HOME is set: name a file with --config: %w", fs.ErrNotExist)
	}
	text, err := readLimited(f.path, maxContextFile)
	if err != nil {
		return f, err
	}
	f.lines = slices.Collect(strings.Lines(string(text)))
	if n := len(f.lines); n > 0 {
		f.lines[n-1] = strings.TrimSuffix(f.lines[n-1], "\n") + "\n"
	}
	if err := f.parse(); err != nil {
		return f, err
	}
	if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o077 != 0 && f.holdsSecrets() {
		a.warn("others can read the tokens in %s: chmod 600 %s", f.path, f.path)
	}
	return f, nil
}

func (f *contextFile) parse() error {
	contexts, current, err := parseContexts(strings.Join(f.lines, ""))
	if err != nil {
		return usageErrorf("%s, %w", f.path, err)
	}
	f.contexts, f.current = contexts, current
	return nil
}

func (f *contextFile) holdsSecrets() bool {
	for _, c := range f.contexts {
		if c["token"] != "" || c["controlplane_token"] != "" {
			return true
		}
	}
	return false
}

// named finds a context.
func (f *contextFile) named(name string) (settingsContext, error) {
	c, ok := f.contexts[name]
	switch {
	case ok:
		return c, nil
	case len(f.contexts) == 0:
		return nil, missingErrorf("there is no context %q: make one with felixctl context add, or name a file with --config", name)
	default:
		return nil, missingErrorf("context file %s has no context %q; it has %s", f.path, name, strings.Join(f.names(), ", "))
	}
}

func (f *contextFile) names() []string { return slices.Sorted(maps.Keys(f.contexts)) }

// contextNames are the names for completion.
func (a *app) contextNames() []string {
	f, err := a.contexts()
	if err != nil {
		return nil
	}
	return f.names()
}

var contextNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// put adds a context, in place of one of that name.
func (f *contextFile) put(name string, c settingsContext) error {
	if !contextNamePattern.MatchString(name) {
		return usageErrorf("%q is no name of a context: 1 to 64 of a-z, A-Z, 0-9, _ and -", name)
	}
	f.remove(name)
	if n := len(f.lines); n > 0 && strings.TrimSpace(f.lines[n-1]) != "" {
		f.lines = append(f.lines, "\n")
	}
	f.lines = append(f.lines, "["+contextTable+name+"]\n")
	for _, key := range contextKeys {
		if c[key] == "" {
			continue
		}
		if strings.ContainsFunc(c[key], func(r rune) bool { return !unicode.IsPrint(r) }) {
			return usageErrorf("the value of %s holds unprintable characters", key)
		}
		f.lines = append(f.lines, key+" = "+strconv.Quote(c[key])+"\n")
	}
	return nil
}

// remove cuts a context's table out. Comments that stand right above the next table stay.
func (f *contextFile) remove(name string) {
	for i, line := range f.lines {
		if n, ok := tableName(line); !ok || n != name {
			continue
		}
		end := i + 1
		for end < len(f.lines) && !strings.HasPrefix(strings.TrimSpace(f.lines[end]), "[") {
			end++
		}
		for end < len(f.lines) && end > i+1 && strings.HasPrefix(strings.TrimSpace(f.lines[end-1]), "#") {
			end--
		}
		f.lines = slices.Delete(f.lines, i, end)
		return
	}
}

// setCurrent names the context that counts when none is named; "" is none.
func (f *contextFile) setCurrent(name string) {
	line := ""
	if name != "" {
		line = defaultContextSetting + " = " + strconv.Quote(name) + "\n"
	}
	for i, l := range f.lines {
		text := strings.TrimSpace(l)
		if strings.HasPrefix(text, "[") {
			break
		}
		if key, _, ok := strings.Cut(text, "="); ok && strings.TrimSpace(key) == defaultContextSetting {
			f.lines[i] = line
			return
		}
	}
	if line != "" {
		f.lines = slices.Insert(f.lines, 0, line)
	}
}

// save writes the file in place of the old one, for its owner alone.
func (f *contextFile) save() error {
	if err := f.parse(); err != nil {
		return err
	}
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	t, err := os.CreateTemp(dir, ".felixctl-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	_, err = t.WriteString(strings.Join(f.lines, ""))
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write contexts: %w", errors.Join(err, os.Remove(t.Name())))
	}
	return nil
}
