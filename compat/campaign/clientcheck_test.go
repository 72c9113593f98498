package main

import (
	"errors"
	"strings"
	"testing"
)

// TestClientChecker shows that the checker finds what it is for, and nothing in what is right.
func TestClientChecker(t *testing.T) {
	at := clientPlace{"s", 0}
	value := func(publisher int, number int64) []byte { return clientValue(clientRecord{publisher, number}, 20) }
	for _, tc := range []struct {
		name string
		do   func(c *clientChecker, once, repeats, perhaps int)
		sent []int64
		want string // part of the violation; empty for none
	}{
		{name: "all_well", sent: []int64{2, 1, 3}, do: func(c *clientChecker, once, repeats, perhaps int) {
			c.observe(at, 0, value(once, 0))
			c.acknowledge(clientRecord{once, 0}, at, 0)
			c.acknowledge(clientRecord{once, 1}, at, 1)
			c.observe(at, 1, value(once, 1))
			c.observe(at, 2, value(repeats, 0))
			c.observe(at, 3, value(repeats, 0))
			c.acknowledge(clientRecord{repeats, 0}, at, 3)
			c.acknowledge(clientRecord{perhaps, 0}, at, 4)
			c.observe(at, 4, value(perhaps, 0))
			c.fail(clientRecord{perhaps, 1}, true, errors.New("lost"))
			c.fail(clientRecord{perhaps, 2}, true, errors.New("lost"))
			c.observe(at, 5, value(perhaps, 2))
			c.observe(at, 0, value(once, 0)) // another subscriber
		}},
		{name: "stored_twice", want: "after 0", do: func(c *clientChecker, once, _, _ int) {
			c.observe(at, 0, value(once, 0))
			c.observe(at, 1, value(once, 0))
		}},
		{name: "stored_twice_elsewhere", want: "stored 2 times", do: func(c *clientChecker, once, _, _ int) {
			c.observe(at, 0, value(once, 0))
			c.observe(clientPlace{"s", 1}, 0, value(once, 0))
		}},
		{name: "out_of_order", want: "after 1", do: func(c *clientChecker, _, repeats, _ int) {
			c.observe(at, 0, value(repeats, 1))
			c.observe(at, 1, value(repeats, 0))
		}},
		{name: "lost", sent: []int64{1}, want: "nobody got it", do: func(c *clientChecker, once, _, _ int) {
			c.acknowledge(clientRecord{once, 0}, at, 0)
		}},
		{name: "no_answer", sent: []int64{1}, want: "nobody was told", do: func(*clientChecker, int, int, int) {}},
		{name: "two_answers", want: "answered twice", do: func(c *clientChecker, once, _, _ int) {
			c.acknowledge(clientRecord{once, 0}, at, 0)
			c.acknowledge(clientRecord{once, 0}, at, 0)
		}},
		{name: "other_offset", want: "lies at", do: func(c *clientChecker, once, _, _ int) {
			c.acknowledge(clientRecord{once, 0}, at, 1)
			c.observe(at, 0, value(once, 0))
		}},
		{name: "failed_and_stored", want: "failed as not stored", do: func(c *clientChecker, _, _, perhaps int) {
			c.fail(clientRecord{perhaps, 0}, false, errors.New("refused"))
			c.observe(at, 0, value(perhaps, 0))
		}},
		{name: "gave_up", want: "gave up", do: func(c *clientChecker, once, _, _ int) {
			c.fail(clientRecord{once, 0}, true, errors.New("lost"))
		}},
		{name: "gap", want: "nobody was given", do: func(c *clientChecker, once, _, _ int) { c.observe(at, 1, value(once, 0)) }},
		{name: "two_logs", want: "different records", do: func(c *clientChecker, once, _, _ int) {
			c.observe(at, 0, value(once, 0))
			c.observe(at, 0, value(once, 1))
		}},
		{name: "stranger", want: "nobody sent", do: func(c *clientChecker, _, _, _ int) { c.observe(at, 0, []byte("who")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClientChecker()
			tc.do(c, c.publisher(clientOnce), c.publisher(clientRepeats), c.publisher(clientPerhaps))
			c.end(tc.sent)
			got := strings.Join(c.problems(), "; ")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClientCursor(t *testing.T) {
	at := clientPlace{"s", 0}
	for _, tc := range []struct {
		name  string
		steps [][2]int64 // offset, skipped
		good  bool
	}{
		{"in_order", [][2]int64{{5, 0}, {6, 0}, {7, 0}}, true},
		{"gap", [][2]int64{{5, 0}, {7, 0}}, false},
		{"repeat", [][2]int64{{5, 0}, {5, 0}}, false},
		{"skipped", [][2]int64{{5, 0}, {7, 1}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c clientCursor
			var err error
			for _, s := range tc.steps {
				if err == nil {
					err = c.step(at, s[0], s[1])
				}
			}
			if (err == nil) != tc.good {
				t.Errorf("got %v", err)
			}
		})
	}
}
