package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// scripted has the fake serve the i-th subscribe by the i-th step, the last one for all that follow, and notes where each began.
func (f *fake) scripted(steps ...func(st *fakeStream, m *wire.Subscribe)) *[]wire.Start {
	var starts []wire.Start
	f.request = func(st *fakeStream, m wire.Message) bool {
		s, ok := m.(*wire.Subscribe)
		if !ok {
			return false
		}
		f.mu.Lock()
		step := steps[min(len(starts), len(steps)-1)]
		starts = append(starts, s.Start)
		f.mu.Unlock()
		step(st, s)
		return true
	}
	return &starts
}

// durable opens the event stream of a durable shard with ten records, at where the request begins.
func durable(st *fakeStream, m *wire.Subscribe) (*fakeEvents, uint64) {
	start := m.Start.Offset
	if m.Start.Kind == wire.StartLatest {
		start = 10
	}
	return st.events(m, wire.Some(start), wire.Some[uint64](10)), start
}

// collect reads events until there are n, noting errors after which the subscription goes on.
func collect(t *testing.T, s *client.Subscription, n int) (events []client.Event, errs []error) {
	t.Helper()
	ctx := limited(t)
	for len(events) < n {
		e, err := s.Next(ctx)
		if err != nil {
			errs = append(errs, err)
			if len(errs) > 20 {
				t.Fatalf("no end of errors: %v", errs)
			}
			continue
		}
		events = append(events, e)
	}
	return events, errs
}

// TestResume ends event streams in every way in which they may end, and looks at what the subscriber gets and where it was resumed.
func TestResume(t *testing.T) {
	rest := func(st *fakeStream, m *wire.Subscribe) {
		if e, at := durable(st, m); e != nil {
			e.send(at, 0, numbers(int(at), 10-int(at))...)
		}
	}
	three := func(end func(f *fakeStream, e *fakeEvents)) func(*fakeStream, *wire.Subscribe) {
		return func(st *fakeStream, m *wire.Subscribe) {
			e, at := durable(st, m)
			e.send(at, 0, numbers(int(at), 3)...)
			end(st, e)
		}
	}
	lagged := func(st *fakeStream, e *fakeEvents) {
		e.last(&wire.SubscriptionLagged{SubscriptionID: e.id, ResumeFrom: 3})
	}
	var lag *client.LaggedError
	for _, tc := range []struct {
		name   string
		first  func(*fakeStream, *wire.Subscribe)
		follow bool
		starts []uint64 // offsets at which the subscription began
		err    any      // the type of the one error between events; nil for none
	}{
		{"reset", three(func(st *fakeStream, e *fakeEvents) { <-st.f.gate; e.q.CancelWrite(3) }), false, []uint64{0, 3}, nil},
		{"lagged", three(lagged), false, []uint64{0, 3}, &lag},
		{"lagged_followed", three(lagged), true, []uint64{0, 3}, nil},
		{"moved", three(func(_ *fakeStream, e *fakeEvents) {
			e.last(&wire.ShardMoved{SubscriptionID: e.id, ResumeFrom: wire.Some[uint64](3), NodeID: "n2"})
		}), false, []uint64{0, 3}, nil},
		{"repeats", func(st *fakeStream, m *wire.Subscribe) {
			e, _ := durable(st, m)
			e.send(0, 0, numbers(0, 5)...)
			e.send(3, 0, numbers(3, 7)...)
		}, false, []uint64{0}, nil},
		{"unexplained_gap", func(st *fakeStream, m *wire.Subscribe) {
			e, _ := durable(st, m)
			e.send(0, 0, numbers(0, 3)...)
			e.send(5, 0, numbers(5, 5)...)
		}, false, []uint64{0, 3}, &lag},
		{"garbage_behind", three(func(_ *fakeStream, e *fakeEvents) { _, _ = e.q.Write([]byte("this is not a frame at all")) }), false, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, "n1")
			starts := f.scripted(tc.first, rest)
			c := f.connect()
			s, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.FromOffset(0), FollowLag: tc.follow})
			must(t, err)
			defer func() { must(t, s.Close()) }()
			if tc.starts == nil { // a violation of the protocol ends it
				events, errs := readUntilError(t, s)
				if len(events) > 3 || !errors.Is(errs, client.ErrProtocol) {
					t.Errorf("%d events, then %v", len(events), errs)
				}
				return
			}
			events, errs := collect(t, s, 3)
			close(f.gate)
			others, more := collect(t, s, 7)
			events, errs = append(events, others...), append(errs, more...)
			for i, e := range events {
				if e.Offset != int64(i) || string(e.Value) != fmt.Sprint(i) || e.SkippedBefore != 0 {
					t.Errorf("event %d: %+v", i, e)
				}
			}
			if tc.err == nil && len(errs) != 0 || tc.err != nil && (len(errs) != 1 || !errors.As(errs[0], tc.err)) {
				t.Errorf("errors: %v", errs)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			var got []uint64
			for _, s := range *starts {
				got = append(got, s.Offset)
			}
			if !slices.Equal(got, tc.starts) {
				t.Errorf("began at %v, want %v", got, tc.starts)
			}
			if got := s.Positions()[0]; got != 10 {
				t.Errorf("position %d", got)
			}
		})
	}
}

func readUntilError(t *testing.T, s *client.Subscription) (events []client.Event, err error) {
	t.Helper()
	ctx := limited(t)
	for {
		e, err := s.Next(ctx)
		if err != nil {
			again, repeated := s.Next(ctx)
			if repeated == nil || repeated.Error() != err.Error() {
				t.Errorf("after the end: %v, %v", again, repeated)
			}
			return events, err
		}
		events = append(events, e)
	}
}

// TestResumeAfterCut cuts the connection again and again while events flow.
func TestResumeAfterCut(t *testing.T) {
	f := newFake(t, "n1")
	f.scripted(func(st *fakeStream, m *wire.Subscribe) {
		start := m.Start.Offset
		if e := st.events(m, wire.Some(start), wire.Some(start)); e != nil {
			e.send(start, 0, numbers(int(start), 2)...)
			e.send(start+2, 0, numbers(int(start)+2, 1)...)
			_ = st.conn.CloseWithError(7, "cut")
		}
	})
	c := f.connect()
	s, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.FromOffset(5)})
	must(t, err)
	const n = 20
	events, errs := collect(t, s, n)
	for i, e := range events {
		if e.Offset != int64(5+i) || string(e.Value) != fmt.Sprint(5+i) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(errs) != 0 {
		t.Errorf("errors: %v", errs)
	}
	must(t, s.Close())
}

// TestEphemeralGap has an ephemeral stream interrupted: the subscriber is told, and goes on with what comes.
func TestEphemeralGap(t *testing.T) {
	f := newFake(t, "n1")
	starts := f.scripted(
		func(st *fakeStream, m *wire.Subscribe) {
			e := st.events(m, wire.Opt[uint64]{}, wire.Opt[uint64]{})
			e.plain("a", "b")
			e.last(&wire.ShardMoved{SubscriptionID: e.id})
		},
		func(st *fakeStream, m *wire.Subscribe) {
			st.events(m, wire.Opt[uint64]{}, wire.Opt[uint64]{}).plain("c")
		},
	)
	c := f.connect()
	s, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.Earliest()})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	events, errs := collect(t, s, 3)
	var gap *client.GapError
	if len(errs) != 1 || !errors.As(errs[0], &gap) {
		t.Errorf("errors: %v", errs)
	}
	for i, want := range []string{"a", "b", "c"} {
		if string(events[i].Value) != want || events[i].Offset != client.NoOffset {
			t.Errorf("event %d: %+v", i, events[i])
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := (*starts)[1].Kind; got != wire.StartLatest {
		t.Errorf("resumed at %v", got)
	}
	if len(s.Positions()) != 0 || s.Shards()[0].Durable {
		t.Errorf("an ephemeral stream has positions: %v", s.Positions())
	}
}

// TestSubscriptionEnds covers what ends a subscription for good.
func TestSubscriptionEnds(t *testing.T) {
	trimmed := func(st *fakeStream, m *wire.Subscribe) {
		st.send(&wire.SubscribeCursorError{Reason: wire.CursorTooOld, Requested: m.Start.Offset, Available: 50})
	}
	forbidden := func(st *fakeStream, _ *wire.Subscribe) {
		st.send(&wire.Error{Failure: wire.Failure{Message: "no", Code: "forbidden", Retry: "fatal"}})
	}
	cut := func(st *fakeStream, m *wire.Subscribe) {
		e, at := durable(st, m)
		e.send(at, 0, numbers(int(at), 1)...)
		e.last(&wire.SubscriptionLagged{SubscriptionID: e.id, ResumeFrom: at + 1})
	}
	for _, tc := range []struct {
		name  string
		steps []func(*fakeStream, *wire.Subscribe)
		early bool // Subscribe itself fails
		check func(error) bool
	}{
		{"too_old_at_once", []func(*fakeStream, *wire.Subscribe){trimmed}, true, func(err error) bool {
			var cursor *client.CursorError
			return errors.As(err, &cursor) && *cursor == client.CursorError{Reason: client.TooOld, Requested: 0, Available: 50}
		}},
		{"too_old_later", []func(*fakeStream, *wire.Subscribe){cut, trimmed}, false, func(err error) bool {
			var cursor *client.CursorError
			return errors.As(err, &cursor) && *cursor == client.CursorError{Reason: client.TooOld, Requested: 1, Available: 50}
		}},
		{"forbidden_at_once", []func(*fakeStream, *wire.Subscribe){forbidden}, true, func(err error) bool { return errors.Is(err, client.ErrForbidden) }},
		{"forbidden_later", []func(*fakeStream, *wire.Subscribe){cut, forbidden}, false, func(err error) bool { return errors.Is(err, client.ErrForbidden) }},
		{"good_order", []func(*fakeStream, *wire.Subscribe){func(st *fakeStream, m *wire.Subscribe) {
			e, at := durable(st, m)
			e.send(at, 0, "0")
			_ = e.q.Close()
		}}, false, func(err error) bool { return errors.Is(err, io.EOF) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, "n1")
			f.scripted(tc.steps...)
			c := f.connect()
			s, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.FromOffset(0), FollowLag: true})
			if tc.early {
				if !tc.check(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			must(t, err)
			events, err := readUntilError(t, s)
			if len(events) != 1 || !tc.check(err) {
				t.Errorf("%d events, then %v", len(events), err)
			}
			must(t, s.Close())
		})
	}
}

// TestMovedShard follows a shard to another server.
func TestMovedShard(t *testing.T) {
	first, second := newFake(t, "n1"), newFake(t, "n2")
	first.scripted(func(st *fakeStream, m *wire.Subscribe) {
		e, at := durable(st, m)
		e.send(at, 0, numbers(int(at), 3)...)
		e.last(&wire.ShardMoved{SubscriptionID: e.id, ResumeFrom: wire.Some[uint64](3), NodeID: "n2", Addr: second.addr})
	})
	second.scripted(func(st *fakeStream, m *wire.Subscribe) {
		e, at := durable(st, m)
		e.send(at, 0, numbers(int(at), 10-int(at))...)
	})
	s, err := first.connect().Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.FromOffset(0)})
	must(t, err)
	events, errs := collect(t, s, 10)
	if len(errs) != 0 || events[9].Offset != 9 {
		t.Errorf("%v, %v", events, errs)
	}
	must(t, s.Close())
	// A subscribe that comes to the wrong server is sent on.
	first.scripted(func(st *fakeStream, _ *wire.Subscribe) {
		st.send(&wire.NotLeader{Owner: wire.Owner{NodeID: "n2", Addr: second.addr}})
	})
	s, err = first.connect().Subscribe(limited(t), fakeName, client.SubscribeOptions{Start: client.FromOffset(4)})
	must(t, err)
	if events, errs := collect(t, s, 6); len(errs) != 0 || events[0].Offset != 4 {
		t.Errorf("%v, %v", events, errs)
	}
	must(t, s.Close())
}

// TestSkipped passes on how many offsets hold no event.
func TestSkipped(t *testing.T) {
	f := newFake(t, "n1")
	f.scripted(func(st *fakeStream, m *wire.Subscribe) {
		e := st.events(m, wire.Some[uint64](0), wire.Some[uint64](0))
		e.send(0, 0, "0", "1")
		e.send(4, 2, "4", "5")
	})
	s, err := f.connect().Subscribe(limited(t), fakeName, client.SubscribeOptions{})
	must(t, err)
	events, _ := collect(t, s, 4)
	for i, want := range []int64{0, 0, 2, 0} {
		if events[i].SkippedBefore != want {
			t.Errorf("event %d: %+v", i, events[i])
		}
	}
	must(t, s.Close())
}

// TestSubscribeAllOrNothing fails when one of several shards cannot be opened.
func TestSubscribeAllOrNothing(t *testing.T) {
	f := newFake(t, "n1")
	f.shards = 4
	f.request = func(st *fakeStream, m wire.Message) bool {
		s, ok := m.(*wire.Subscribe)
		switch {
		case !ok:
			return false
		case s.Shard == 2:
			st.send(&wire.Error{Failure: wire.Failure{Message: "no", Code: "forbidden", Retry: "fatal"}})
		default:
			durable(st, s)
		}
		return true
	}
	c := f.connect()
	if _, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{}); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	s, err := c.Subscribe(limited(t), fakeName, client.SubscribeOptions{Shards: []uint32{0, 1, 3}})
	must(t, err)
	if got := s.Shards(); len(got) != 3 || got[2].Shard != 3 {
		t.Errorf("shards %v", got)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(short); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must(t, s.Close())
	must(t, s.Close())
	if _, err := s.Next(limited(t)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
