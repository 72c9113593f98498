package replica

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// TestMachineScripts runs every script of testdata: a line is a step of the machine, the indented lines below it what the
// machine says after it.
func TestMachineScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(raw), got); diff != "" {
				t.Errorf("script output differs (-want +got):\n%s", diff)
			}
		})
	}
}

func runScript(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	m := machine{self: 1, lead: ids.NoBroker, epoch: ids.NoEpoch}
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // output of an earlier run
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&out, "    %s\n", step(t, &m, strings.Fields(line)))
	}
	return out.String()
}

func step(t *testing.T, m *machine, words []string) string {
	t.Helper()
	note := ""
	num := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return n
	}
	switch words[0] {
	case "mode":
		m.commitOnSync = words[1] == "on_commit"
	case "open": // start end durable
		m.opened(ids.Offset(num(1)), ids.Offset(num(2)), ids.Offset(num(3)))
	case "lead": // epoch need broker...
		var set []ids.BrokerID
		for i := 3; i < len(words); i++ {
			set = append(set, ids.BrokerID(num(i)))
		}
		note = fmt.Sprint("ok=", m.becomeLeader(ids.LeaderEpoch(num(1)), set, int(num(2))), " ")
	case "resign": // epoch leader
		note = fmt.Sprint("ok=", m.resign(ids.LeaderEpoch(num(1)), ids.BrokerID(num(2))), " ")
	case "append": // end
		if err := m.mayAppend(); err != nil {
			note = fmt.Sprintf("refused: %v; ", err)
			break
		}
		m.appended(ids.Offset(num(1)))
	case "synced":
		m.synced(ids.Offset(num(1)))
	case "start":
		m.startAdvanced(ids.Offset(num(1)))
	case "fail":
		m.failed()
	default:
		t.Fatalf("unknown step %v", words)
	}
	role := [...]string{"idle", "leader", "stopped"}[m.role]
	return fmt.Sprintf("%s%s epoch=%d lead=%d end=%d durable=%d hw=%d read<%d", note, role, m.epoch, m.lead, m.logEnd, m.durableEnd, m.hw, m.readLimit())
}

func TestCommitted(t *testing.T) {
	set := func(held ...ids.Offset) []progress {
		var out []progress
		for i, h := range held {
			out = append(out, progress{broker: ids.BrokerID(i), held: h})
		}
		return out
	}
	tests := []struct {
		name string
		set  []progress
		need int
		want ids.Offset
	}{
		{"one_of_one", set(7), 1, 7},
		{"two_of_three", set(9, 5, 7), 2, 7},
		{"three_of_three", set(9, 5, 7), 3, 5},
		{"three_of_five", set(1, 9, 9, 4, 3), 3, 4},
		{"equal_positions", set(4, 4, 4), 2, 4},
		{"set_too_small", set(4), 2, 0},
		{"empty_set", nil, 1, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := committed(tc.set, tc.need); got != tc.want {
				t.Errorf("committed = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestWaitList(t *testing.T) {
	var l waitList
	var told []string
	mk := func(name string, until ids.Offset) *Waiter {
		return &Waiter{Until: until, Notify: func(err error) { told = append(told, fmt.Sprint(name, " ", err)) }}
	}
	a, b, c, d := mk("a", 5), mk("b", 3), mk("c", 9), mk("d", 5)
	for _, w := range []*Waiter{a, b, c, d} {
		l.add(w)
	}
	notify(l.takeUntil(2))
	if len(told) != 0 {
		t.Fatalf("told %v below every bound", told)
	}
	l.remove(d)
	notify(l.takeUntil(5))
	if diff := cmp.Diff([]string{"a <nil>", "b <nil>"}, told); diff != "" {
		t.Errorf("after 5 (-want +got):\n%s", diff)
	}
	if l.first != c || l.last != c || d.waiting || a.waiting {
		t.Error("the list does not hold exactly c")
	}
	told = nil
	l.add(a) // a waiter can be used again
	notify(l.takeAll(ErrClosed))
	if diff := cmp.Diff([]string{"c replica: closed", "a replica: closed"}, told); diff != "" {
		t.Errorf("takeAll (-want +got):\n%s", diff)
	}
	if l.first != nil || l.last != nil {
		t.Error("the list is not empty")
	}
}

func TestWaiterMayBeReusedFromItsOwnNotify(t *testing.T) {
	var l waitList
	w := &Waiter{Until: 1}
	rounds := 0
	w.Notify = func(error) {
		if rounds++; rounds < 3 {
			w.Until++
			l.add(w)
		}
	}
	l.add(w)
	for mark := ids.Offset(1); mark <= 3; mark++ {
		notify(l.takeUntil(mark))
	}
	if rounds != 3 {
		t.Errorf("notified %d times, want 3", rounds)
	}
}
