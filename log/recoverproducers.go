package log

import (
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// loadProducers fills the producer table with the state at the end of the sealed segments: from the newest snapshot at or below,
// and the batches from there on.
func (r *recovery) loadProducers() error {
	at := r.chain.next
	from := r.files[0].base // a snapshot from there knows of producers whose records retention has removed
	for i := len(r.snapshots) - 1; i >= 0; i-- {
		if off := r.snapshots[i]; off > at || off < from {
			continue
		}
		b, err := readWhole(r.fs, r.path(r.snapshots[i], producersSuffix), maxSnapshotBytes)
		if err != nil {
			continue
		}
		t := newProducerTable(r.recoveryInput.producers, r.batches)
		if off, err := t.loadSnapshot(b); err == nil && off == r.snapshots[i] {
			r.recovered.producers, from = t, off
			break
		}
	}
	if from == at {
		return nil
	}
	r.noState = true
	for _, s := range r.segments {
		if s.endOffset() <= from {
			continue
		}
		if err := r.replayProducers(s, from); err != nil {
			return err
		}
	}
	return nil
}

// replayProducers makes up for a missing snapshot: it reads batches that the opening would not have read otherwise, so it is
// counted. It applies the batches of a sealed segment from an offset on.
func (r *recovery) replayProducers(s *segment, from ids.Offset) error {
	name := r.path(s.base, segmentSuffix)
	file, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	c := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	good, bad, err := scanFile(file, s.size.Load(), &c, func(_ int64, h *recordbatch.Header, _ []byte) error {
		if ids.Offset(h.BaseOffset) >= from && h.HasProducer() {
			r.recovered.producers.append(h, ids.Offset(h.BaseOffset), r.now)
		}
		return nil
	})
	r.scanned += good
	if err == nil && bad != nil {
		err = r.damage(name, bad.suspect, "%v", bad.reason)
	}
	return err
}
