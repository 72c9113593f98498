package main

import (
	"strings"
	"testing"

	"github.com/felixlog/felix/compat/clients/agent"
)

// step is an acknowledgement or a record, of producer p and partition 0.
type step struct {
	ack      bool
	sequence int64
	offset   int64
}

func TestChecker(t *testing.T) {
	ack := func(sequence, offset int64) step { return step{true, sequence, offset} }
	rec := func(sequence, offset int64) step { return step{false, sequence, offset} }
	for _, tt := range []struct {
		name  string
		steps []step
		want  string // part of the first violation; "" for none
	}{
		{"log then ack", []step{rec(0, 0), ack(0, 0), rec(1, 1), ack(1, 1)}, ""},
		{"ack then log", []step{ack(0, 0), ack(1, 1), rec(0, 0), rec(1, 1)}, ""},
		{"unacknowledged tail", []step{ack(0, 0), rec(0, 0), rec(1, 1), rec(2, 2)}, ""},
		{"duplicate without offset", []step{ack(0, -1), rec(0, 0)}, ""},
		{"lost at the end", []step{ack(0, 0), ack(1, 1), rec(0, 0)}, "sequences 1 to 1 were acknowledged and are not in the log"},
		{"lost in the middle", []step{ack(0, 0), ack(1, 1), rec(1, 0)}, "0 to 0 are missing"},
		{"written twice", []step{ack(0, 0), rec(0, 0), rec(0, 1)}, "sequence 0 again at offset 1"},
		{"out of order", []step{rec(1, 0), rec(0, 1)}, "are missing"},
		{"moved", []step{ack(0, 0), rec(0, 0), ack(1, 1), rec(1, 2)}, "offset 2 follows 0"},
		{"acknowledged elsewhere", []step{ack(0, 5), rec(0, 0)}, "acknowledged at offset 5 and stands at 0"},
		{"acknowledged elsewhere, late", []step{rec(0, 0), ack(0, 5)}, "acknowledged at offset 5 and stands at 0"},
		{"acknowledged twice", []step{ack(0, 0), ack(0, 0)}, "sequence 0 was acknowledged, the one before was 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChecker()
			for _, s := range tt.steps {
				if s.ack {
					c.ack("p", agent.Ack{Sequence: s.sequence, Offset: s.offset})
				} else {
					c.record(0, s.offset, agent.LoadValue("p", 0, s.sequence, 40))
				}
			}
			c.mustHold(c.acked())
			got := c.problems()
			if tt.want == "" {
				if len(got) != 0 {
					t.Fatalf("violations %q, want none", got)
				}
				return
			}
			if len(got) == 0 || !strings.Contains(got[0], tt.want) {
				t.Fatalf("violations %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckerForeignAndShrunk(t *testing.T) {
	c := newChecker()
	c.record(0, 0, []byte("something else"))
	c.record(1, 0, agent.LoadValue("p", 0, 0, 40))
	c.endOf(0, 0)
	if got := c.problems(); len(got) != 3 {
		t.Errorf("violations %q, want a foreign record twice and a log that went back", got)
	}
}

func TestCheckerMustEnd(t *testing.T) {
	c := newChecker()
	c.ack("p", agent.Ack{Sequence: 0, Offset: 0})
	c.record(0, 0, agent.LoadValue("p", 0, 0, 40))
	c.mustEnd("p", []int64{1})
	if got := c.problems(); len(got) != 0 {
		t.Errorf("violations %q, want none", got)
	}
	c.mustEnd("p", []int64{2})
	if got := c.problems(); len(got) != 1 {
		t.Errorf("violations %q, want one", got)
	}
}
