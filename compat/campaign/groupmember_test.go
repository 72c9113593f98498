package main

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/felixlog/felix/compat/raw"
)

// TestLine: a cut line closes what is open and opens nothing, a mended one does again, and what was closed is forgotten.
func TestLine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := newLine()
	dial := func() (client, server net.Conn) {
		t.Helper()
		client, err := l.dial(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err = listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return client, server
	}
	first, _ := dial()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_, server := dial()
	if len(l.conns) != 1 {
		t.Errorf("%d open connections are known, want 1", len(l.conns))
	}
	l.cut()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other end of a cut line reads %v, want the end", err)
	}
	if _, err := l.dial(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, errCut) {
		t.Errorf("dial while cut: %v", err)
	}
	l.mend()
	dial()
	if len(l.conns) != 1 {
		t.Errorf("%d open connections are known after mending, want 1", len(l.conns))
	}
}

// TestLateCommit: the request says whose name it is sent in, and would take partition 0 back to its beginning.
func TestLateCommit(t *testing.T) {
	for _, instance := range []string{"", "static-1-0"} {
		req := lateCommit{who: "the late a", group: "g", member: "m", instance: instance, generation: 7}.request()
		frame, correlation := raw.NewConn(nil).Encode(req)
		if len(frame) == 0 || correlation == 0 {
			t.Fatal("the request has no bytes")
		}
		if req.Group != "g" || req.MemberID != "m" || req.Generation != 7 || (req.InstanceID == nil) != (instance == "") {
			t.Errorf("request %+v", req)
		}
		if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Offset != 0 {
			t.Errorf("topics %+v", req.Topics)
		}
	}
}

func TestGroupsRow(t *testing.T) {
	totals := groupsTotals{
		Kills: 34, StartKills: 3, CleanStops: 6, Churn: map[churnWhat]int{churnJoin: 10, churnLeave: 4, churnCrash: 5, churnCut: 2, churnMend: 2},
		Acks: 100, Consumed: 1000, Repeated: 7, Commits: 50, Refused: 1, Lost: 2, Late: 9, Assignments: 60, Fetches: 70, Clean: 33, Repaired: 1,
		UnownedMS: 6500, SilenceMS: 7250,
	}
	const want = "34 kills (3 while starting), 6 clean restarts, 10 groups, members: 10 joins, 4 leaves, 5 crashes, 2 cut off for more than a session; " +
		"60 assignments, 100 acknowledged records, 1000 came to groups and 7 again, 50 commits acknowledged, 1 refused, 2 unanswered, " +
		"9 late ones refused, committed offsets looked at 70 times, longest without owner 6.5s of 15s, longest member without progress 7.25s of 20s, " +
		"log verify 33 clean 1 to repair"
	if got := totals.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
