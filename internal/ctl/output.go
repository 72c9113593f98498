package ctl

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// emit writes the result of a command: v as indented JSON, or the table.
func (a *app) emit(v any, header []string, rows [][]string) error {
	if a.json() {
		enc := json.NewEncoder(a.p.Out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	}
	return a.table(header, rows)
}

// table writes aligned columns; cells hold no tabs or line ends after visible.
func (a *app) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.p.Out, 0, 0, 2, ' ', 0)
	line := func(cells []string) error {
		out := make([]string, len(cells))
		for i, c := range cells {
			out[i] = visible(c)
		}
		_, err := fmt.Fprintln(w, strings.Join(out, "\t"))
		return err
	}
	if err := line(header); err != nil {
		return err
	}
	for _, r := range rows {
		if err := line(r); err != nil {
			return err
		}
	}
	return w.Flush()
}

// say tells a person something that is no data.
func (a *app) say(format string, args ...any) {
	if !a.json() {
		a.errMu.Lock()
		defer a.errMu.Unlock()
		_, _ = fmt.Fprintf(a.p.Err, format+"\n", args...) // talk that nobody reads is no failure
	}
}

// warn tells of something that went wrong and that the command goes on with; programs read it as an object of its own.
func (a *app) warn(format string, args ...any) {
	if !a.json() {
		a.say(format, args...)
		return
	}
	line, _ := json.Marshal(map[string]string{"warning": fmt.Sprintf(format, args...)}) // strings marshal
	a.errMu.Lock()
	defer a.errMu.Unlock()
	_, _ = fmt.Fprintf(a.p.Err, "%s\n", line) // talk that nobody reads is no failure
}

// visible replaces what would move a terminal's cursor or change its colours.
func visible(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// orDash is a number for a table, or "-" when it is not known.
func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// sizeOf is a number of bytes for people.
func sizeOf(n int64) string {
	switch {
	case n < 0:
		return "-"
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

func join[T any](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ",")
}
