package raw_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/felixlog/felix/compat/peer"
)

// Case is one row: what is done, what Felix must answer, and what Apache Kafka answers where that differs by decision.
type Case struct {
	// ID is the case's number in spec/kafka.md section 6, a dot and a name: "26.flipped". Traps of section 5 are
	// "T07.name", hostile inputs of spec/security.md "S77.name".
	ID string
	// What is done, for the table in docs/kafka-cases.md.
	What string
	// Want is the expected observation; WantKafka is Kafka's where it differs, and then Why gives the reason.
	Want, WantKafka, Why string
	// OnlyFelix is the reason why the row is not run against Kafka.
	OnlyFelix string
}

// Number is the part of the ID that the specification has: "26", "T07", "S77".
func (c Case) Number() string {
	number, _, _ := strings.Cut(c.ID, ".")
	return number
}

var (
	rows     = map[string]Case{}
	observed sync.Map // ID -> struct{}
)

// register adds rows; it is called from package variables beside the tests.
func register(cases ...Case) struct{} {
	for _, c := range cases {
		_, twice := rows[c.ID]
		switch {
		case twice:
			panic("row twice: " + c.ID)
		case !strings.Contains(c.ID, ".") || c.What == "" || c.Want == "":
			panic("row without a name, a text or an expectation: " + c.ID)
		case (c.WantKafka != "" || c.OnlyFelix != "") != (c.Why != "" || c.OnlyFelix != ""):
			panic("a difference needs a reason, a reason a difference: " + c.ID)
		}
		rows[c.ID] = c
	}
	return struct{}{}
}

// expect compares an observation with the row's expectation for the peer under test.
func expect(t *testing.T, id, got string) {
	t.Helper()
	c, ok := rows[id]
	if !ok {
		t.Fatalf("no row %q", id)
	}
	observed.Store(id, struct{}{})
	want := c.Want
	if server.Kind() == peer.Kafka && c.WantKafka != "" {
		want = c.WantKafka
	}
	if got != want {
		t.Errorf("case %s (%s), peer %s:\n got: %s\nwant: %s", id, c.What, server.Kind(), got, want)
	}
}

// onlyFelix tells whether the row must not be run because the peer is not Felix, and why.
func onlyFelix(t *testing.T, id string) bool {
	t.Helper()
	c, ok := rows[id]
	if !ok || c.OnlyFelix == "" {
		t.Fatalf("row %q is not one for Felix only", id)
	}
	if server.Kind() == peer.Felix {
		return false
	}
	observed.Store(id, struct{}{})
	t.Logf("case %s is for Felix only: %s", id, c.OnlyFelix)
	return true
}

// unobserved lists the rows that no test reported on.
func unobserved() []string {
	var missing []string
	for id := range rows {
		if _, ok := observed.Load(id); !ok {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing
}

// sortedRows are the rows in the order of the specification: cases, traps, hostile inputs, each by number.
func sortedRows() []Case {
	out := make([]Case, 0, len(rows))
	for _, c := range rows {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Case) int {
		ka, na := splitNumber(a.Number())
		kb, nb := splitNumber(b.Number())
		return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(na, nb), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// splitNumber orders "26" before "T07" before "S77".
func splitNumber(number string) (kind, n int) {
	switch number[0] {
	case 'T':
		kind, number = 1, number[1:]
	case 'S':
		kind, number = 2, number[1:]
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("row number %q: %v", number, err))
	}
	return kind, n
}
