package cache

import (
	"errors"
	"testing"

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

func get(t *testing.T, s *States, m *memoryShard, entity, key string) State {
	t.Helper()
	v, err := s.Get(t.Context(), ids.ShardID{}, m, []byte(entity), key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestState is rows S-81 and S-82 of the streams rules, seen by a reader of state.
func TestState(t *testing.T) {
	s, m := NewStates(Options{}), &memoryShard{}
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
	s, m := NewStates(Options{MaxBytes: 1000}), &memoryShard{}
	m.commit(t, "e", Change{Key: "k", Value: make([]byte, 2000)})
	if _, err := s.Get(t.Context(), ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, ErrTooLarge) {
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
	s.Forget(ids.ShardID{})
	if s.bytes != 0 || len(s.views) != 0 {
		t.Errorf("%d bytes in %d views after Forget", s.bytes, len(s.views))
	}
}

func TestStateReadError(t *testing.T) {
	s, m := NewStates(Options{}), &memoryShard{}
	m.commit(t, "e", Change{Key: "k", Value: []byte("v")})
	m.err = errors.New("disk")
	if _, err := s.Get(t.Context(), ids.ShardID{}, m, []byte("e"), "k"); !errors.Is(err, m.err) {
		t.Fatalf("got %v", err)
	}
	m.err = nil
	if v := get(t, s, m, "e", "k"); string(v.Value) != "v" {
		t.Errorf("after the error: %+v", v)
	}
}
