package connect

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// line is the n-th line of a pipe, without its end. Lines are not all of one length.
func line(pipe string, n int64) string {
	return fmt.Sprintf("%s %d %s", pipe, n, strings.Repeat("-=", int(n%7)))
}

// tally judges the lines of a sink's file in their order.
type tally struct {
	pipe  string
	next  int64 // the line that must come if it is none that was there
	again int64 // lines that were there already, when last judged and since
	known int64 // of them, when last judged
	wrong []string
}

// wrongLimit bounds what is said of one file; after the first few problems nothing new is learned.
const wrongLimit = 10

// add takes a line as it stands in the file.
func (t *tally) add(text string) {
	fields := strings.SplitN(text, " ", 3)
	n := int64(-1)
	if len(fields) == 3 {
		if parsed, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			n = parsed
		}
	}
	switch {
	case n < 0 || text != line(t.pipe, n):
		t.problem("%q is no line that was written", text)
	case n == t.next:
		t.next++
	case n < t.next:
		t.again++
	default:
		t.problem("line %d follows on %d: those between are missing", n, t.next-1)
		t.next = n + 1
	}
}

func (t *tally) problem(format string, args ...any) {
	if len(t.wrong) < wrongLimit {
		t.wrong = append(t.wrong, t.pipe+": "+fmt.Sprintf(format, args...))
	}
}

// addAll takes the whole lines of b and returns how many bytes they are; a line that is still being written stays.
func (t *tally) addAll(b []byte) int {
	taken := 0
	for {
		text, _, whole := bytes.Cut(b[taken:], []byte{'\n'})
		if !whole {
			return taken
		}
		t.add(string(text))
		taken += len(text) + 1
	}
}

// judge tells what is wrong at a settled moment at which written lines must be there; exact forbids lines that came again since the last
// one.
func (t *tally) judge(written int64, exact bool) []string {
	if t.next != written {
		t.problem("%d lines are there, %d were written", t.next, written)
	}
	if exact && t.again > t.known {
		t.problem("%d lines came again, although nothing was killed", t.again-t.known)
	}
	t.known = t.again
	problems := t.wrong
	t.wrong = nil
	return problems
}
