package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
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

// done tells the result of something that was done: v as JSON, or a sentence.
func (a *app) done(v any, format string, args ...any) error {
	if a.json() {
		return a.emit(v, nil, nil)
	}
	_, err := fmt.Fprintln(a.p.Out, visible(fmt.Sprintf(format, args...)))
	return err
}

// table writes aligned columns; cells hold no tabs or line ends after visible.
func (a *app) table(header []string, rows [][]string) error {
	_, err := a.p.Out.Write(aligned(nil, append([][]string{header}, rows...)))
	return err
}

// facts writes what is known of one thing, a line each.
func (a *app) facts(rows [][]string) error {
	_, err := a.p.Out.Write(aligned(nil, rows))
	return err
}

// blank writes an empty line between two parts of an output, if there is one before.
func (a *app) blank(before bool) error {
	if !before {
		return nil
	}
	_, err := io.WriteString(a.p.Out, "\n")
	return err
}

// withColumn adds a column that only matters where some row has something in it; cells has one for each row.
func withColumn(header []string, rows [][]string, name string, cells []string) ([]string, [][]string) {
	if !slices.ContainsFunc(cells, func(c string) bool { return c != "" }) {
		return header, rows
	}
	for i := range rows {
		rows[i] = append(rows[i], cells[i])
	}
	return append(header, name), rows
}

// resultFailed is a result in a table; those of success are the command's own.
const resultFailed = "failed"

// results collects what became of each of several things that a command works on.
type results[T any] struct {
	list   []T
	rows   [][]string
	failed error
}

// add takes one thing's line: its cells, and behind them the word for success, or that it failed.
func (r *results[T]) add(line T, word string, err error, cells ...string) {
	if err != nil {
		word, r.failed = resultFailed, errors.Join(r.failed, err)
	}
	r.list, r.rows = append(r.list, line), append(r.rows, append(cells, word))
}

// emit shows all of them; the error is the failures.
func (r *results[T]) emit(a *app, header ...string) error {
	if r.list == nil {
		r.list = []T{}
	}
	return errors.Join(a.emit(r.list, append(header, "RESULT"), r.rows), r.failed)
}

// textOf is an error's text for a line of JSON; empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// gap is the space between two columns.
const gap = "  "

// aligned makes lines of cells. Columns are at least as wide as widths says, which it raises to what it used.
func aligned(widths []int, rows [][]string) []byte {
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([]string, len(row))
		for j, c := range row {
			cells[i][j] = visible(c)
			for j >= len(widths) {
				widths = append(widths, 0)
			}
			if j < len(row)-1 {
				widths[j] = max(widths[j], utf8.RuneCountInString(cells[i][j]))
			}
		}
	}
	var out []byte
	for _, row := range cells {
		for j, c := range row {
			out = append(out, c...)
			if j < len(row)-1 {
				for range widths[j] - utf8.RuneCountInString(c) {
					out = append(out, ' ')
				}
				out = append(out, gap...)
			}
		}
		out = append(bytes.TrimRight(out, " "), '\n')
	}
	return out
}

// listing writes a table or an array as its rows come, so that the first of many are seen at once and none is held. Column widths are
// those of the first rows, and grow.
type listing struct {
	app    *app
	header []string
	widths []int
	rows   [][]string
	wrote  bool
	n      int
	told   time.Time
}

// listingRows is how many rows are aligned and written together.
const listingRows = 500

func (a *app) listing(header ...string) *listing {
	return &listing{app: a, header: header, widths: make([]int, len(header)), told: time.Now()}
}

// add takes one row: v for programs, cells for people.
func (l *listing) add(v any, cells ...string) error {
	l.n++
	if !l.app.json() {
		l.rows = append(l.rows, cells)
		if len(l.rows) < listingRows {
			return nil
		}
		l.app.progress(&l.told, "%d so far", l.n)
		return l.writeRows()
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("  ", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	before := ",\n  "
	if !l.wrote {
		before, l.wrote = "[\n  ", true
	}
	_, err := l.app.p.Out.Write(append([]byte(before), bytes.TrimSuffix(text.Bytes(), []byte("\n"))...))
	return err
}

func (l *listing) writeRows() error {
	rows := l.rows
	if !l.wrote {
		rows, l.wrote = append([][]string{l.header}, rows...), true
	}
	l.rows = nil
	_, err := l.app.p.Out.Write(aligned(l.widths, rows))
	return err
}

// end writes what is left. A listing that failed half-way has no end: an array that is not closed is not taken for the whole.
func (l *listing) end() error {
	if !l.app.json() {
		if len(l.rows) > 0 || !l.wrote {
			return l.writeRows()
		}
		return nil
	}
	text := "\n]\n"
	if !l.wrote {
		text = "[]\n"
	}
	_, err := io.WriteString(l.app.p.Out, text)
	return err
}

// progress tells how far long work is, now and then, to a person who sits there and sees no data meanwhile.
func (a *app) progress(told *time.Time, format string, args ...any) {
	now := time.Now()
	if !a.p.ErrTerminal || a.p.OutTerminal || now.Sub(*told) < progressEvery {
		return
	}
	*told = now
	a.say(format, args...)
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

// yesNo is a truth for a table.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func join[T any](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ",")
}
