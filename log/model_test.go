package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// model is what a log must hold, as the answers of its calls say.
type model struct {
	batches []modelBatch
	end     ids.Offset
	// start is the least log start that is possible, startMax the largest: retention may or may not have got further.
	start, startMax ids.Offset
	// synced is the end of what a sync has covered.
	synced ids.Offset
	// cutTo is where a truncation with an unknown outcome may have cut; -1 without one.
	cutTo ids.Offset
	// pending is the batch that is being appended: a crash may find it or not.
	pending []byte
}

// clone is the model as it is now, for a later comparison with the disk as it is now.
func (m *model) clone() *model {
	c := *m
	c.batches = slices.Clone(m.batches)
	c.pending = bytes.Clone(m.pending)
	return &c
}

type modelBatch struct {
	base, next ids.Offset
	bytes      []byte
}

func newModel() *model { return &model{cutTo: -1} }

// append appends to the log and takes note of a success. An error must be of a kind that says what it means.
func (m *model) append(l *Log, in AppendInput) error {
	m.pending = in.Batch
	res, err := l.Append(in)
	m.pending = nil
	if err != nil {
		if k := errcode.Of(err); k != errcode.Overloaded && k != errcode.StorageFailed {
			return fmt.Errorf("append fails with kind %v: %w", k, err)
		}
		if got := l.Bounds().End; got != m.end {
			return fmt.Errorf("append failed with %w, and the end moved from %d to %d", err, m.end, got)
		}
		return nil
	}
	if res.Duplicate {
		return nil
	}
	if res.Base != m.end {
		return fmt.Errorf("appended at %d, want %d", res.Base, m.end)
	}
	m.batches = append(m.batches, modelBatch{res.Base, res.Next, bytes.Clone(in.Batch)})
	m.end = res.Next
	return nil
}

// sync syncs and takes note of a success.
func (m *model) sync(l *Log) {
	if end, err := l.SyncNow(); err == nil {
		m.synced = max(m.synced, end)
	}
}

func (m *model) advance(l *Log, to ids.Offset) {
	m.startMax = max(m.startMax, to)
	if err := l.AdvanceStart(to); err == nil {
		m.start = max(m.start, to)
		m.synced = max(m.synced, to)
	}
}

// maintain makes a pass of Maintain. What it removes is gone at once for readers; after a crash some of it may be back.
func (m *model) maintain(ctx context.Context, l *Log) {
	before := m.startMax
	m.startMax = m.end
	_, _ = l.Maintain(ctx)
	m.startMax = max(before, l.Bounds().Start)
}

// truncate truncates at the boundary of a batch.
func (m *model) truncate(l *Log, to ids.Offset) {
	m.cutTo = to
	m.synced = min(m.synced, to)
	if err := l.TruncateTo(to); err == nil {
		m.cut(to)
	}
}

func (m *model) cut(to ids.Offset) {
	for n := len(m.batches); n > 0 && m.batches[n-1].base >= to; n-- {
		m.batches = m.batches[:n-1]
		m.end = to
	}
	m.synced = min(m.synced, to)
	m.cutTo = -1
}

// check compares a log with the model. lost allows for everything above that offset to be gone, as after a crash of the machine;
// pass the model's end when nothing may be.
func (m *model) check(l *Log, lost ids.Offset) error {
	b := l.Bounds()
	if b.Start < m.start || b.Start > m.startMax {
		return fmt.Errorf("log starts at %d, want %d to %d", b.Start, m.start, m.startMax)
	}
	least := lost
	if m.cutTo >= 0 {
		least = min(least, m.cutTo)
	}
	batches, most := m.batches, m.end
	if m.pending != nil {
		h, err := recordbatch.ParseHeader(m.pending)
		if err != nil {
			return err
		}
		if h.BaseOffset == int64(m.end) {
			batches = append(batches[:len(batches):len(batches)], modelBatch{m.end, ids.Offset(h.NextOffset()), m.pending})
			most = ids.Offset(h.NextOffset())
		}
	}
	if b.End > most || b.End < least {
		return fmt.Errorf("log ends at %d, want %d to %d", b.End, least, most)
	}
	got, err := readAll(l, b.Start, 900)
	if injected(err) {
		if got, err = readAll(l, b.Start, 900); injected(err) {
			return nil // the disk is gone for good
		}
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	for _, want := range batches {
		if want.next <= b.Start || want.base >= b.End {
			continue
		}
		if len(got) == 0 {
			return fmt.Errorf("batch at %d is missing", want.base)
		}
		if !bytes.Equal(got[0], want.bytes) {
			h, err := recordbatch.ParseHeader(got[0])
			return errors.Join(fmt.Errorf("batch at %d is not what was appended at %d", h.BaseOffset, want.base), err)
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return fmt.Errorf("%d batches too many", len(got))
	}
	return nil
}

// injected says that an error comes from a disk that a test has made faulty.
func injected(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) }
