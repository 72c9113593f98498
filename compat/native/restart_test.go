package native

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestRestart ends the server under a client that subscribes and publishes, by a kill and cleanly. The subscription goes on after the last
// event that was given out, without a gap and without a repetition; publishing works again with the same client.
func TestRestart(t *testing.T) {
	// A client notices a killed server by its silence alone: the shorter idle time-out shortens the test.
	s := newServer(t, "FELIX_MAX_IDLE_TIMEOUT_MS=3000", "FELIX_KEEPALIVE_MS=1000")
	for _, c := range []struct {
		name string
		end  func() error
	}{{"kill", s.Kill9}, {"clean", func() error { return nil }}} {
		for _, surface := range []string{"sync", "async"} {
			t.Run(c.name+"/"+surface, func(t *testing.T) {
				a := newAgent(t, surface)
				s.connect(t, a, "c")
				stream := s.durable(t, 1)
				all := payloads("e", 12)
				for _, sub := range []string{"read", "unread"} {
					a.call(t, "subscribe", request{"client": "c", "subscription": sub, "stream": stream, "start": "earliest"})
				}
				a.call(t, "subscribe_sharded", request{"client": "c", "subscription": "sharded", "stream": stream, "start": "earliest"})
				wantOffsets(t, a.call(t, "publish", request{"client": "c", "stream": stream, "payloads": all[:4]}).Offsets, 0, 4)
				wantEvents(t, a.call(t, "next", request{"subscription": "read", "count": 4, "timeout": 10}).Events, 0, all[:4]...)
				wantEvents(t, a.call(t, "next_sharded", request{"subscription": "sharded", "count": 4, "timeout": 10}).Events, 0, all[:4]...)

				if err := c.end(); err != nil {
					t.Fatal(err)
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i, o := range s.produce(t, stream, 0, all[4:8]...) {
					if o != int64(4+i) {
						t.Fatalf("produced at %d, want %d", o, 4+i)
					}
				}
				wantEvents(t, a.call(t, "next", request{"subscription": "read", "count": 4, "timeout": 30}).Events, 4, all[4:8]...)

				sharded := a.call(t, "next_sharded", request{"subscription": "sharded", "count": 4, "timeout": 30})
				wantEvents(t, sharded.Events, 4, all[4:8]...)
				if !slices.Equal(sharded.Notices, []string{"ShardLost", "ShardRecovered"}) {
					t.Errorf("notices of the sharded subscription %q, want that its shard was lost and recovered", sharded.Notices)
				}

				// The first publishes may meet the lost connection, and then are refused or of unknown outcome.
				offset := publishAgain(t, a, request{"client": "c", "stream": stream, "payloads": all[8:9]})
				if offset < 8 {
					t.Fatalf("published at %d", offset)
				}
				res := a.call(t, "publish", request{"client": "c", "stream": stream, "payloads": all[9:], "at_least_once": true})
				wantOffsets(t, res.Offsets, offset+1, 3)
				got := a.call(t, "next", request{"subscription": "unread", "count": int(offset) + 4, "timeout": 30}).Events
				if len(got) != int(offset)+4 {
					t.Fatalf("%d events, want %d", len(got), offset+4)
				}
				for i, e := range got {
					if *e.Offset != int64(i) {
						t.Fatalf("event %d is at offset %d", i, *e.Offset)
					}
				}
			})
		}
	}
}

// publishAgain repeats a publish that meets a lost connection.
func publishAgain(t *testing.T, a *agent, req request) int64 {
	t.Helper()
	var offset int64
	eventually(t, 30*time.Second, "a publish succeeds again", func() bool {
		req["op"] = "publish"
		res, err := a.try(t.Context(), req)
		var f *failure
		switch {
		case errors.As(err, &f):
			t.Logf("a publish after the restart: %v", f)
			if !f.Felix {
				t.Fatal(f)
			}
			return false
		case err != nil:
			t.Fatal(err)
		case len(res.Offsets) != 1 || res.Offsets[0] == nil:
			t.Fatalf("no offset: %+v", res)
		}
		offset = *res.Offsets[0]
		return true
	})
	return offset
}
