package cache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// memoryShard is a shard of batches in memory.
type memoryShard struct {
	start, next ids.Offset
	batches     [][]byte
	bases       []ids.Offset
	err         error
}

func (m *memoryShard) Committed() (start, highWatermark ids.Offset) { return m.start, m.next }

func (m *memoryShard) Batches(from ids.Offset, yield func([]byte) error) error {
	if m.err != nil {
		return m.err
	}
	for i, b := range m.batches {
		end := m.next
		if i+1 < len(m.bases) {
			end = m.bases[i+1]
		}
		if end <= from || m.bases[i] < m.start {
			continue
		}
		return yield(b) // a page of one
	}
	return nil
}

func (m *memoryShard) commit(t *testing.T, entity string, changes ...Change) ids.Offset {
	t.Helper()
	return m.append(t, entity, recordbatch.RecordHeader{Key: []byte(CommitHeader), Value: AppendCommit(nil, changes)})
}

func (m *memoryShard) append(t *testing.T, key string, headers ...recordbatch.RecordHeader) ids.Offset {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{BaseOffset: int64(m.next)})
	b.Append(1, []byte(key), []byte("event"), headers...)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	at := m.next
	m.batches, m.bases = append(m.batches, built), append(m.bases, at)
	m.next++
	return at
}

func newStates(t *testing.T, o Options) *States {
	t.Helper()
	s := NewStates(o)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *States, m *memoryShard, entity, key string) State {
	t.Helper()
	v, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte(entity), key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestState is rows S-81 and S-82 of the streams rules, seen by a reader of state.
func TestState(t *testing.T) {
	s, m := newStates(t, Options{}), &memoryShard{}
	if v := get(t, s, m, "e", "k"); v.Value != nil || v.Version != ids.NoOffset || v.AsOf != ids.NoOffset {
		t.Errorf("nothing was written: %+v", v)
	}
	first := m.commit(t, "e", Change{Key: "k", Value: []byte("1")}, Change{Key: "k", Value: []byte("2")})
	m.append(t, "other") // no commit
	second := m.commit(t, "f", Change{Key: "k", Value: []byte("3")})
	if v := get(t, s, m, "e", "k"); string(v.Value) != "2" || v.Version != first || v.AsOf != second {
		t.Errorf("%+v, want value 2 of commit %d as of %d", v, first, second)
	}
	third := m.commit(t, "e", Change{Key: "k", Delete: true}, Change{Key: "empty", Value: []byte{}})
	if v := get(t, s, m, "e", "k"); v.Value != nil || v.Version != ids.NoOffset || v.AsOf != third {
		t.Errorf("deleted: %+v", v)
	}
	if v := get(t, s, m, "e", "empty"); v.Value == nil || len(v.Value) != 0 {
		t.Errorf("an empty value: %+v", v)
	}
	// A foreign header of that name is no commit.
	m.append(t, "e", recordbatch.RecordHeader{Key: []byte(CommitHeader), Value: []byte("nonsense")})
	if v := get(t, s, m, "f", "k"); string(v.Value) != "3" || v.AsOf != third {
		t.Errorf("after a foreign header: %+v", v)
	}
	// What retention removed is gone, as it is after a restart.
	m.start = second
	if v := get(t, s, m, "e", "k"); v.Value != nil {
		t.Errorf("trimmed: %+v", v)
	}
	if v := get(t, s, m, "f", "k"); string(v.Value) != "3" {
		t.Errorf("kept: %+v", v)
	}
}

func TestStateBounds(t *testing.T) {
	s, m := newStates(t, Options{MaxBytes: 4000}), &memoryShard{}
	m.commit(t, "e", Change{Key: "k", Value: make([]byte, 2000)})
	if _, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes are held by a view that was given up", s.bytes)
	}
	small := &memoryShard{}
	small.commit(t, "e", Change{Key: "k", Value: []byte("v")})
	if v := get(t, s, small, "e", "k"); string(v.Value) != "v" {
		t.Errorf("another shard: %+v", v)
	}
	s.Retain(func(ids.ShardID) bool { return true })
	if s.bytes == 0 || len(s.views) != 1 {
		t.Errorf("%d bytes in %d views that were to be kept", s.bytes, len(s.views))
	}
	s.Retain(func(ids.ShardID) bool { return false })
	if s.bytes != 0 || len(s.views) != 0 || len(s.tenants) != 0 {
		t.Errorf("%d bytes in %d views of a shard that is gone", s.bytes, len(s.views))
	}
}

func TestStateReadError(t *testing.T) {
	s, m := newStates(t, Options{}), &memoryShard{}
	m.commit(t, "e", Change{Key: "k", Value: []byte("v")})
	m.err = errors.New("disk")
	if _, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, m.err) {
		t.Fatalf("got %v", err)
	}
	m.err = nil
	if v := get(t, s, m, "e", "k"); string(v.Value) != "v" {
		t.Errorf("after the error: %+v", v)
	}
}

// TestTenantShare: a view takes the place of what was not asked for longest: of its own tenant's when that has its share, else of the
// tenant's that holds most.
func TestTenantShare(t *testing.T) {
	s := newStates(t, Options{MaxBytes: 4000})
	for i, c := range []struct {
		tenant string
		size   int
		err    error
		held   string
	}{
		{"a", 1500, nil, "a"},
		{"a", 1600, nil, "a"}, // instead of the first
		{"b", 800, nil, "ab"},
		{"b", 900, nil, "ab"},
		{"c", 500, nil, "abc"}, // instead of the first of b
		{"c", 2100, ErrTooLarge, "ab"},
	} {
		m := &memoryShard{}
		m.commit(t, "e", Change{Key: "k", Value: make([]byte, c.size)})
		id := ids.ShardID{Partition: int32(i)}
		if _, err := s.Get(t.Context(), c.tenant, id, m, []byte("e"), "k"); !errors.Is(err, c.err) {
			t.Errorf("shard %d, of %s: %v, want %v", i, c.tenant, err, c.err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(s.tenants)), ""); got != c.held {
			t.Errorf("after shard %d, of %s: %s hold something, want %s", i, c.tenant, got, c.held)
		}
		if s.bytes > s.opts.MaxBytes {
			t.Errorf("after shard %d: %d bytes", i, s.bytes)
		}
	}
}

// countedShard counts how often it is read.
type countedShard struct {
	memoryShard
	reads int
}

func (m *countedShard) Batches(from ids.Offset, yield func([]byte) error) error {
	m.reads++
	return m.memoryShard.Batches(from, yield)
}

// TestTooLargeIsRemembered: a shard whose state does not fit is not read again for each who asks.
func TestTooLargeIsRemembered(t *testing.T) {
	s, m := newStates(t, Options{MaxBytes: 1000}), &countedShard{}
	m.commit(t, "e", Change{Key: "k", Value: make([]byte, 900)})
	for range 3 {
		if _, err := s.Get(t.Context(), "a", ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got %v", err)
		}
	}
	if m.reads != 1 {
		t.Errorf("read %d times", m.reads)
	}
}

// slowShard is a shard whose reading waits to be let go on.
type slowShard struct {
	memoryShard
	reading chan struct{}
	goOn    chan struct{}
}

func (m *slowShard) Batches(from ids.Offset, yield func([]byte) error) error {
	m.reading <- struct{}{}
	<-m.goOn
	return m.memoryShard.Batches(from, yield)
}

// TestCallerLeaves: one who asked first and left neither holds up nor undoes the reading for others.
func TestCallerLeaves(t *testing.T) {
	s := newStates(t, Options{})
	m := &slowShard{reading: make(chan struct{}), goOn: make(chan struct{})}
	m.commit(t, "e", Change{Key: "k", Value: []byte("1")})
	at := m.commit(t, "e", Change{Key: "k", Value: []byte("2")})
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan State, 1)
	go func() {
		_, err := s.Get(ctx, "t1", ids.ShardID{}, m, []byte("e"), "k")
		first <- err
	}()
	<-m.reading
	go func() {
		v, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte("e"), "k")
		if err != nil {
			t.Error(err)
		}
		second <- v
	}()
	for v := s.view("t1", ids.ShardID{}); ; time.Sleep(time.Millisecond) {
		v.mu.Lock()
		waiting := v.follow != nil && v.follow.waiters == 2
		v.mu.Unlock()
		if waiting {
			break
		}
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first got %v", err)
	}
	m.goOn <- struct{}{}
	<-m.reading // the second batch, and not the first once more
	m.goOn <- struct{}{}
	if v := <-second; string(v.Value) != "2" || v.AsOf != at {
		t.Errorf("the second got %+v", v)
	}
}

// TestCloseEndsReading: nobody waits for ever for a shard that is being read when everything ends.
func TestCloseEndsReading(t *testing.T) {
	s := NewStates(Options{})
	m := &slowShard{reading: make(chan struct{}), goOn: make(chan struct{})}
	m.commit(t, "e", Change{Key: "k", Value: []byte("1")})
	m.commit(t, "e", Change{Key: "k", Value: []byte("2")})
	got := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte("e"), "k")
		got <- err
	}()
	<-m.reading
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	<-s.closing
	m.goOn <- struct{}{}
	<-closed
	if err := <-got; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "t1", ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, errClosed) {
		t.Errorf("afterwards %v", err)
	}
}
