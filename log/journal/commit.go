package journal

import (
	"errors"
	"os"
	"strings"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// commit adds records to the next batch and returns when that batch is written, and synced if any of its members asked for it.
//
// Whoever finds nobody writing carries the batch out that has gathered, its own records in it; the others wait and find theirs done, or
// carry out the next. So a burst of changes costs two syncs, and a lone one no hand-off.
func (j *Journal) commit(sync, marks bool, records ...record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if j.next == nil {
		j.next = &batch{}
	}
	b := j.next
	b.records = append(b.records, records...)
	b.sync = b.sync || sync
	b.marks = b.marks || marks
	for !b.done {
		if j.busy {
			j.idle.Wait()
			continue
		}
		j.runLocked()
	}
	return b.err
}

// runLocked takes the waiting batch and carries it out, with the lock released meanwhile.
func (j *Journal) runLocked() {
	b := j.next
	j.next = nil
	if b == nil {
		return
	}
	if j.failed != nil {
		b.done, b.err = true, j.failed
		return
	}
	j.busy = true
	var taken []*slot
	if b.marks {
		taken = j.takeDirtyLocked(b)
	}
	j.mu.Unlock()
	latch, err := j.write(b)
	j.mu.Lock()
	switch {
	case err == nil:
		for _, r := range b.records {
			j.st.apply(r)
		}
		if b.sync {
			j.syncs++
		}
	case latch:
		j.failed = errcode.Newf(errcode.StorageFailed, "%w: %w", ErrFailed, err)
		err = j.failed
	default:
		// Nothing is in the file, and nothing of it in the state: as if it had not been asked for.
		j.restoreDirtyLocked(taken)
		err = errcode.Newf(errcode.Overloaded, "journal: nothing written: %w", err)
	}
	if err == nil && j.size >= j.opts.CheckpointBytes && j.size >= 2*j.recorded {
		j.recorded = j.size
		j.mu.Unlock()
		if cerr := j.checkpoint(); cerr != nil {
			j.logger.Warn("journal is not rewritten", zap.Error(cerr))
		}
		j.mu.Lock()
	}
	b.done, b.err = true, err
	j.busy = false
	j.idle.Broadcast()
}

// takeDirtyLocked moves the lazy marks into b.
func (j *Journal) takeDirtyLocked(b *batch) []*slot {
	taken := j.dirty
	j.dirty = nil
	for _, sl := range taken {
		sl.isDirty = false
		if j.st.slots[sl.shard] != sl {
			continue // forgotten meanwhile
		}
		if sl.lazy != sl.mark() || !sl.MarkKnown || sl.SyncFailed {
			b.records = append(b.records, record{kind: kindMark, shard: sl.shard, mark: sl.lazy})
		}
		if sl.lazyStart > sl.Start {
			b.records = append(b.records, record{kind: kindStart, shard: sl.shard, offset: sl.lazyStart})
		}
	}
	return taken
}

// restoreDirtyLocked takes lazy marks back after a write that failed, unless newer ones have come.
func (j *Journal) restoreDirtyLocked(taken []*slot) {
	for _, sl := range taken {
		if !sl.isDirty && j.st.slots[sl.shard] == sl {
			sl.isDirty = true
			j.dirty = append(j.dirty, sl)
		}
	}
}

// write writes a batch and syncs it if asked to. Called by whoever set busy. latch says that the error leaves the file in doubt: a sync
// that failed, or bytes behind the last record that could not be cut off.
func (j *Journal) write(b *batch) (latch bool, err error) {
	j.buf = j.buf[:0]
	for _, r := range b.records {
		r.synced = j.synced
		j.buf = appendRecord(j.buf, r)
	}
	if len(j.buf) > 0 {
		if _, err := j.file.WriteAt(j.buf, j.size); err != nil {
			if terr := j.file.Truncate(j.size); terr != nil {
				return true, errors.Join(err, terr)
			}
			return false, err
		}
		j.size += int64(len(j.buf))
	}
	if !b.sync || j.synced == j.size {
		return false, nil
	}
	if err := j.file.Datasync(); err != nil {
		return true, err
	}
	j.synced = j.size
	// The note makes later damage of what was just synced recognisable. It is not synced: the next sync will do.
	j.buf = appendRecord(j.buf[:0], record{kind: kindSynced, synced: j.synced})
	if _, err := j.file.WriteAt(j.buf, j.size); err != nil {
		if terr := j.file.Truncate(j.size); terr != nil {
			return true, errors.Join(err, terr)
		}
		return false, nil // the records are durable; only their note is missing
	}
	j.size += int64(len(j.buf))
	return false, nil
}

// checkpoint writes the whole state as a new file and makes it the journal. Called by whoever set busy, or before anybody else
// knows the journal. An error leaves the old file in use.
//
// The new file is whole and synced before it gets its name, and a crash finds either name, or both, in which case the higher number
// counts. Nothing is written to either until the name is synced.
func (j *Journal) checkpoint() error {
	j.mu.Lock()
	body := j.stateRecordsLocked()
	j.mu.Unlock()
	seq := j.seq + 1
	h := fileHeader{seq: seq, checkpoint: headerBytes + int64(len(body))}
	b := append(appendHeader(make([]byte, 0, h.checkpoint), h), body...)

	name := fileName(j.dir, seq)
	temp := strings.TrimSuffix(name, fileSuffix) + tempSuffix
	f, err := j.fs.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	undo := func(err error) error { return errors.Join(err, f.Close(), j.fs.Remove(temp)) }
	if _, err := f.WriteAt(b, 0); err != nil {
		return undo(err)
	}
	if err := f.Sync(); err != nil {
		return undo(err)
	}
	if err := j.fs.Rename(temp, name); err != nil {
		return undo(err)
	}
	// From here on the new file may be found by the next start, so it is the one to write to, whatever else fails.
	old, oldSeq := j.file, j.seq
	j.file, j.seq, j.size, j.synced = f, seq, int64(len(b)), int64(len(b))
	if err := j.fs.SyncDir(j.dir); err != nil {
		j.latch(err)
		return err
	}
	if old == nil {
		return nil
	}
	return errors.Join(old.Close(), j.fs.Remove(fileName(j.dir, oldSeq)))
}

func (j *Journal) latch(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = errcode.Newf(errcode.StorageFailed, "%w: %w", ErrFailed, err)
}

// stateRecordsLocked encodes the state; order is of no meaning. Records know of no synced length: the header's does for them.
func (j *Journal) stateRecordsLocked() []byte {
	var b []byte
	if !j.st.known {
		b = appendRecord(b, record{kind: kindUnknownMarks})
	}
	for _, sl := range j.st.slots {
		if sl.MarkKnown && (sl.mark() != Mark{} || !j.st.known) {
			b = appendRecord(b, record{kind: kindMark, shard: sl.shard, mark: sl.mark()})
		}
		if sl.SyncFailed {
			b = appendRecord(b, record{kind: kindSyncFailed, shard: sl.shard})
		}
		if sl.Start != 0 {
			b = appendRecord(b, record{kind: kindStart, shard: sl.shard, offset: sl.Start})
		}
		if sl.Floor != 0 {
			b = appendRecord(b, record{kind: kindFloor, shard: sl.shard, offset: sl.Floor})
		}
		if sl.PromiseEpoch != ids.NoEpoch {
			b = appendRecord(b, record{kind: kindPromise, shard: sl.shard, epoch: sl.PromiseEpoch, leader: sl.PromiseLeader})
		}
	}
	return b
}
