package driver

import (
	"bufio"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/felixlog/felix/compat/clients/agent"
)

func TestParseKcat(t *testing.T) {
	for _, tt := range []struct {
		name, printed string
		want          []agent.Record
	}{
		{"plain", "0 100 1 2 \nkvv\n", []agent.Record{{Timestamp: 100, Key: []byte("k"), Value: []byte("vv")}}},
		{"null and empty", "3 -1 -1 0 \n\n", []agent.Record{{Offset: 3, Timestamp: -1, Value: []byte{}}}},
		{"lines within", "4 5 2 3 \na\nb\nc\n", []agent.Record{{Offset: 4, Timestamp: 5, Key: []byte("a\n"), Value: []byte("b\nc")}}},
		{"headers", "6 7 -1 -1 h=1,h=,n=NULL\n\n", []agent.Record{{Offset: 6, Timestamp: 7, Headers: []agent.Header{
			{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte{}}, {Key: "n"},
		}}}},
		{"two", "0 1 -1 1 \na\n1 2 -1 1 \nb\n", []agent.Record{{Timestamp: 1, Value: []byte("a")}, {Offset: 1, Timestamp: 2, Value: []byte("b")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(tt.printed))
			var got []agent.Record
			for {
				rec, err := parseKcat(r)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, *rec)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("parsed %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, broken := range []string{"x\n", "0 1 2\n", "0 1 5 0 \nab", "0 1 -1 1 \nab\n"} {
		if rec, err := parseKcat(bufio.NewReader(strings.NewReader(broken))); err == nil {
			t.Errorf("%q was parsed as %+v", broken, rec)
		}
	}
}

func TestGroupStep(t *testing.T) {
	var events []agent.Event
	owner := agent.NewOwner(func(e agent.Event) {
		e.At = 0
		events = append(events, e)
	})
	printed := "% Waiting for group rebalance\n" +
		"% Group g (1) rebalanced (memberid rdkafka-1): assigned: t [0], t [12]\n" +
		"12 3 100 1 3 \nk%\n%\n" +
		"% Reached end of topic t [12] at offset 4\n" +
		"% Group g (1) rebalanced (memberid rdkafka-1): revoked: t [0], t [12]\n" +
		"% Group g (1) rebalanced (memberid rdkafka-1): assigned: \n"
	r := bufio.NewReader(strings.NewReader(printed))
	stopping := make(chan struct{})
	var err error
	for err == nil {
		err = groupStep(r, owner, stopping)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want := []agent.Event{
		{Owned: &agent.Owned{Assigned: []int32{0, 12}}},
		{Record: &agent.Record{Partition: 12, Offset: 3, Timestamp: 100, Key: []byte("k"), Value: []byte("%\n%")}},
		{Owned: &agent.Owned{Revoked: []int32{0, 12}}},
		{Owned: &agent.Owned{}},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("events %+v, want %+v", events, want)
	}
	close(stopping)
	if err := groupStep(bufio.NewReader(strings.NewReader("% Group g rebalanced (memberid m): revoked: t [0]\n")), owner, stopping); err != nil || len(events) != len(want) {
		t.Errorf("a revocation after the stop: %v, %d events, want none more", err, len(events)-len(want))
	}
}
