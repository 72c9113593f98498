package vfs

import "errors"

// ErrNotWhole is what OpenWhole returns where one call cannot make everything durable, or cannot tell that it failed.
var ErrNotWhole = errors.New("vfs: the file system cannot be synced as a whole")

// WholeFS is an FS that may be able to make everything durable in one call: many files cost one journal commit instead of one each.
type WholeFS interface {
	FS
	// OpenWhole opens the file system that holds a directory. ErrNotWhole says that there is no such call.
	OpenWhole(dir string) (Whole, error)
}

// Whole is an open file system.
type Whole interface {
	// Sync makes everything durable that was written before the call, to any file, names included. It reports an error that any
	// write met since OpenWhole or the last Sync, and does not tell which: the files must be asked themselves.
	Sync() error
	// Close closes it. Nobody may be in another call.
	Close() error
}

var (
	_ WholeFS = OS{}
	_ WholeFS = (*Mem)(nil)
	_ WholeFS = (*Fault)(nil)
)

// memWhole is a Mem as a Whole.
type memWhole struct{ fs *Mem }

// OpenWhole implements WholeFS.
func (m *Mem) OpenWhole(string) (Whole, error) { return memWhole{m}, nil }

// Sync implements Whole.
func (w memWhole) Sync() error {
	m := w.fs
	m.mu.Lock()
	m.eachFileLocked((*memNode).sync)
	for i := range m.entryOps {
		m.entryOps[i].apply()
	}
	m.entryOps = nil
	m.mu.Unlock()
	m.done(Op{Kind: OpSyncWhole}, nil)
	return nil
}

// Close implements Whole.
func (memWhole) Close() error { return nil }

// loseUnsynced implements unsyncedLoser: a failed sync of everything may have lost anything.
func (w memWhole) loseUnsynced() {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	w.fs.eachFileLocked((*memNode).loseWrites)
}

// eachFileLocked visits every file that has a name.
func (m *Mem) eachFileLocked(visit func(*memNode)) {
	var walk func(*memNode)
	walk = func(n *memNode) {
		if !n.dir {
			visit(n)
			return
		}
		for _, child := range n.entries {
			walk(child)
		}
	}
	walk(m.root)
}

// faultWhole is a Whole behind a Fault.
type faultWhole struct {
	fs    *Fault
	inner Whole
}

// OpenWhole implements WholeFS.
func (f *Fault) OpenWhole(dir string) (Whole, error) {
	inner, ok := f.inner.(WholeFS)
	if !ok {
		return nil, ErrNotWhole
	}
	if err := f.fail(Op{Kind: OpOpenWhole, Path: dir}); err != nil {
		return nil, err
	}
	w, err := inner.OpenWhole(dir)
	if err != nil {
		return nil, err
	}
	return &faultWhole{fs: f, inner: w}, nil
}

// Sync implements Whole.
func (w *faultWhole) Sync() error {
	if err := w.fs.fail(Op{Kind: OpSyncWhole}); err != nil {
		if l, ok := w.inner.(unsyncedLoser); ok {
			l.loseUnsynced()
		}
		return err
	}
	return w.inner.Sync()
}

// Close implements Whole.
func (w *faultWhole) Close() error { return w.inner.Close() }
