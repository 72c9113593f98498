package log

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// cleanedWriter writes a compacted segment.
type cleanedWriter struct {
	c       *cleaner
	name    string
	file    vfs.File
	segment *segment
	buffer  []byte // not written yet
	pos     int64  // in the file, of the buffer's start
}

// begin makes the file of a compacted segment. Whatever an earlier pass left under its name is overwritten.
func (c *cleaner) begin(base, through ids.Offset) (*cleanedWriter, error) {
	w := &cleanedWriter{c: c, name: offsetName(c.l.dir, base, cleanedSuffix), segment: newSegment(base)}
	f, err := c.l.shared.FS.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w.file = f
	clean := min(c.clean, through)
	w.buffer = appendSegmentHeader(nil, segmentHeader{base: base, created: c.now, compacted: true, through: through, clean: clean})
	s := w.segment
	s.created, s.compacted, s.clean, s.sealed = c.now, true, clean, true
	s.identity = binary.BigEndian.Uint32(w.buffer[segmentHeaderBytes-4:])
	s.idx.Store(newIndex())
	s.frozen.Store(true)
	s.setEnd(through)
	return w, nil
}

// visit adds what is to be kept of a batch. Control batches stay: there are no transactions yet whose end would free them.
func (w *cleanedWriter) visit(_ int64, h *recordbatch.Header, batch []byte) error {
	c := w.c
	at := len(w.buffer)
	if h.IsControl() {
		w.buffer = append(w.buffer, batch...)
		return w.added(at)
	}
	horizon, has := h.DeleteHorizon()
	var err error
	w.buffer, _, err = recordbatch.Rebuild(w.buffer, batch, recordbatch.RebuildOptions{
		Keep:            func(r *recordbatch.Record) bool { return c.keep(r, has, horizon) },
		DeleteHorizon:   c.now + c.cfg.DeleteRetention.Milliseconds(),
		KeepEmpty:       c.l.isLastOfProducer(h),
		MaxDecodedBytes: c.l.shared.MaxDecodedBytes,
	})
	if err != nil {
		return err
	}
	return w.added(at)
}

// added takes a batch that was put into the buffer at at into the index, and writes the buffer when it is large enough.
func (w *cleanedWriter) added(at int) error {
	if batch := w.buffer[at:]; len(batch) > 0 {
		h, err := recordbatch.ParseHeader(batch)
		if err != nil {
			return err
		}
		end := w.segment.endOffset()
		w.segment.note(w.pos+int64(at), &h, batch, int64(w.c.cfg.IndexIntervalBytes))
		w.segment.setEnd(end) // it stands for more than it holds
	}
	if len(w.buffer) < writeChunk {
		return nil
	}
	return w.write()
}

func (w *cleanedWriter) write() error {
	for at := 0; at < len(w.buffer); at += writeChunk {
		chunk := w.buffer[at:min(at+writeChunk, len(w.buffer))]
		if _, err := w.file.WriteAt(chunk, w.pos+int64(at)); err != nil {
			return err
		}
	}
	w.pos += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
	return nil
}

// finish writes the rest, syncs and closes the file. A sync that fails stops the log.
func (w *cleanedWriter) finish() error {
	if err := w.write(); err != nil {
		return err
	}
	w.segment.size.Store(w.pos)
	w.segment.synced = w.pos
	if err := w.file.Sync(); err != nil {
		w.c.l.fail(err)
		return err
	}
	f := w.file
	w.file = nil
	return f.Close()
}

// undo removes the file.
func (w *cleanedWriter) undo() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
	}
	return errors.Join(err, w.c.l.remove(w.name))
}

// isLastOfProducer says that a batch is the newest of its producer: its header stays when all its records go, so that the next
// sequence is still known after a restart.
func (l *Log) isLastOfProducer(h *recordbatch.Header) bool {
	if !h.HasProducer() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.producers.byID[h.ProducerID]
	return p != nil && len(p.sent) > 0 && p.sent[len(p.sent)-1].base == ids.Offset(h.BaseOffset)
}
