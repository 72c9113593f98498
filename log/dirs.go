package log

import (
	"sync"

	"github.com/felixlog/felix/internal/vfs"
)

// maxKnownDirs bounds what dirSyncs remembers; forgetting costs a sync.
const maxKnownDirs = 4096

// dirSyncs spares syncs of the directories that many logs share: one sync of a topic's directory makes the names of all the
// logs durable that were made before it began. The zero value is ready.
type dirSyncs struct {
	mu    sync.Mutex
	clock uint64            // counts directories made and syncs begun
	known map[string]uint64 // by directory: the clock when its last successful sync began
}

// made returns the time, in terms of syncs, of a directory that was made just before.
func (d *dirSyncs) made() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock++
	return d.clock
}

// sync makes names in dir durable that were made at or before when.
func (d *dirSyncs) sync(fs vfs.FS, dir string, when uint64) error {
	d.mu.Lock()
	if d.known[dir] > when {
		d.mu.Unlock()
		return nil
	}
	d.clock++
	began := d.clock
	d.mu.Unlock()
	if err := fs.SyncDir(dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxKnownDirs {
		d.known = make(map[string]uint64)
	}
	d.known[dir] = max(d.known[dir], began)
	return nil
}
