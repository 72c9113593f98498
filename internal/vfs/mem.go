package vfs

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Mem is a file system in memory that knows what has been synced. It is for tests: it keeps every file two or three times and
// one lock is held over every call. Names are cleaned, and relative and absolute names mean the same.
type Mem struct {
	mu   sync.Mutex
	root *memNode
	// entryOps are the changes of directory entries since the last SyncDir of their directory, oldest first.
	entryOps []entryOp
	hook     func(Op)
}

var _ FS = (*Mem)(nil)

// entryOp is one change of names that is not durable yet. A rename removes and adds in one step.
type entryOp struct {
	removeFrom *memNode // nil: removes nothing
	removeName string
	addTo      *memNode // nil: adds nothing
	addName    string
	node       *memNode
}

// apply makes the change in the durable entries.
func (op *entryOp) apply() {
	if op.removeFrom != nil {
		delete(op.removeFrom.syncedEntries, op.removeName)
	}
	if op.addTo != nil {
		op.addTo.syncedEntries[op.addName] = op.node
	}
}

// NewMem returns an empty file system; its root directory exists.
func NewMem() *Mem { return &Mem{root: newMemDir()} }

// SetHook makes f run after every call that succeeded and may have changed what is visible or what is durable, on the goroutine of the
// call, outside the lock, so that f may take images. Nil removes it.
func (m *Mem) SetHook(f func(Op)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = f
}

// done ends a mutating call: it runs the hook if the call succeeded.
func (m *Mem) done(op Op, err error) {
	if err != nil {
		return
	}
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook != nil {
		hook(op)
	}
}

// splitName cleans a name and cuts it into its elements; the root has none.
func splitName(name string) []string {
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// lookupLocked finds the node of a name.
func (m *Mem) lookupLocked(parts []string) (*memNode, error) {
	n := m.root
	for _, part := range parts {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// parentLocked finds the directory that holds, or would hold, the last element of a name.
func (m *Mem) parentLocked(name string) (dir *memNode, base string, err error) {
	parts := splitName(name)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err = m.lookupLocked(parts[:len(parts)-1])
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], nil
}

// changeLocked makes a change of names visible and remembers that it is not durable.
func (m *Mem) changeLocked(op entryOp) {
	if op.removeFrom != nil {
		delete(op.removeFrom.entries, op.removeName)
	}
	if op.addTo != nil {
		op.addTo.entries[op.addName] = op.node
	}
	m.entryOps = append(m.entryOps, op)
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, _ os.FileMode) (File, error) {
	f, changed, err := m.openFile(name, flag)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	if changed {
		m.done(Op{Kind: OpOpen, Path: name}, nil)
	}
	return f, nil
}

// openFile opens and says whether that created or emptied the file.
func (m *Mem) openFile(name string, flag int) (f *memFile, changed bool, err error) {
	if flag&os.O_APPEND != 0 {
		return nil, false, syscall.EINVAL
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, false, err
	}
	access := flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	n := dir.entries[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, false, syscall.ENOENT
	case n == nil:
		n = &memNode{}
		m.changeLocked(entryOp{addTo: dir, addName: base, node: n})
		changed = true
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, false, syscall.EEXIST
	case n.dir:
		return nil, false, syscall.EISDIR
	case flag&os.O_TRUNC != 0 && access != os.O_RDONLY:
		n.truncate(0)
		changed = true
	}
	f = &memFile{
		fs: m, node: n, name: name,
		readable: access != os.O_WRONLY, writable: access != os.O_RDONLY,
	}
	return f, changed, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	err := m.remove(name)
	if err != nil {
		err = &os.PathError{Op: "remove", Path: name, Err: err}
	}
	m.done(Op{Kind: OpRemove, Path: name}, err)
	return err
}

func (m *Mem) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	if n == nil {
		return syscall.ENOENT
	}
	if n.dir && len(n.entries) > 0 {
		return syscall.ENOTEMPTY
	}
	m.changeLocked(entryOp{removeFrom: dir, removeName: base})
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	dir, base, err := m.parentLocked(name)
	if err == nil {
		if n := dir.entries[base]; n != nil {
			m.removeTreeLocked(dir, base, n)
		}
	}
	m.mu.Unlock()
	if errors.Is(err, syscall.ENOENT) {
		err = nil
	}
	if err != nil {
		err = &os.PathError{Op: "removeall", Path: name, Err: err}
	}
	m.done(Op{Kind: OpRemoveAll, Path: name}, err)
	return err
}

// removeTreeLocked removes n from dir, its children first, as the system calls beneath os.RemoveAll would.
func (m *Mem) removeTreeLocked(dir *memNode, base string, n *memNode) {
	for _, child := range sortedNames(n.entries) {
		m.removeTreeLocked(n, child, n.entries[child])
	}
	m.changeLocked(entryOp{removeFrom: dir, removeName: base})
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	err := m.rename(oldName, newName)
	if err != nil {
		err = &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	m.done(Op{Kind: OpRename, Path: oldName, NewPath: newName}, err)
	return err
}

func (m *Mem) rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldDir, oldBase, err := m.parentLocked(oldName)
	if err != nil {
		return err
	}
	newDir, newBase, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	n := oldDir.entries[oldBase]
	if n == nil {
		return syscall.ENOENT
	}
	oldParts, newParts := splitName(oldName), splitName(newName)
	if n.dir && len(newParts) > len(oldParts) && slices.Equal(newParts[:len(oldParts)], oldParts) {
		return syscall.EINVAL // into itself
	}
	if target := newDir.entries[newBase]; target != nil {
		switch {
		case target.dir:
			return syscall.EEXIST
		case n.dir:
			return syscall.ENOTDIR
		case target == n:
			return nil
		}
	}
	m.changeLocked(entryOp{removeFrom: oldDir, removeName: oldBase, addTo: newDir, addName: newBase, node: n})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string, _ os.FileMode) error {
	err := m.mkdirAll(name)
	if err != nil {
		err = &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	m.done(Op{Kind: OpMkdirAll, Path: name}, err)
	return err
}

func (m *Mem) mkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, part := range splitName(name) {
		next := n.entries[part]
		switch {
		case next == nil:
			next = newMemDir()
			m.changeLocked(entryOp{addTo: n, addName: part, node: next})
		case !next.dir:
			return syscall.ENOTDIR
		}
		n = next
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(splitName(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	entries := make([]DirEntry, 0, len(n.entries))
	for _, child := range sortedNames(n.entries) {
		entries = append(entries, DirEntry{Name: child, IsDir: n.entries[child].dir})
	}
	return entries, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(splitName(name))
	if err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return Info{Size: int64(len(n.data)), IsDir: n.dir}, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	n, err := m.lookupLocked(splitName(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err == nil {
		m.syncDirLocked(n)
	}
	m.mu.Unlock()
	if err != nil {
		err = &os.PathError{Op: "fsync", Path: name, Err: err}
	}
	m.done(Op{Kind: OpSyncDir, Path: name}, err)
	return err
}

// syncDirLocked makes the changes of dir durable. A rename out of or into another directory is one step, so it takes the
// earlier changes of that other directory with it: a change must not overtake an earlier one of the same name.
func (m *Mem) syncDirLocked(dir *memNode) {
	dirs := map[*memNode]bool{dir: true}
	take := make([]bool, len(m.entryOps))
	for i := len(m.entryOps) - 1; i >= 0; i-- {
		op := &m.entryOps[i]
		if !dirs[op.removeFrom] && !dirs[op.addTo] {
			continue
		}
		take[i] = true
		for _, d := range []*memNode{op.removeFrom, op.addTo} {
			if d != nil {
				dirs[d] = true
			}
		}
	}
	rest := m.entryOps[:0]
	for i, op := range m.entryOps {
		if take[i] {
			op.apply()
		} else {
			rest = append(rest, op)
		}
	}
	clear(m.entryOps[len(rest):])
	m.entryOps = rest
}

// sortedNames returns the keys of a directory in order.
func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
