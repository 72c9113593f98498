package vfs

import (
	"os"
	"slices"
	"sync"
)

// Rule says which calls a Fault fails, and how.
type Rule struct {
	// Match chooses the calls that the rule is about; nil means every call.
	Match func(Op) bool
	// Nth is the one of the matching calls that fails, counted from 1 since the rule was added. 0 fails all of them.
	Nth int64
	// Sticky makes every matching call after the Nth fail too.
	Sticky bool
	// Err is what the call returns, for example syscall.EIO; it comes wrapped in an *os.PathError.
	Err error
	// ShortWrite lets a failing write write the first half of its bytes before it fails.
	ShortWrite bool
}

// Fault wraps a file system, counts the calls it sees and fails those that a rule chooses. A failed call does not reach the
// inner file system, but for Close, which closes so that nothing leaks, and short writes. A failed Sync or Datasync over Mem
// also loses what was not synced, the way a kernel does.
type Fault struct {
	inner FS

	mu    sync.Mutex
	calls int64
	rules []*ruleState
	fired []Op
}

// ruleState is a rule and how often it matched.
type ruleState struct {
	Rule
	seen int64
}

var _ FS = (*Fault)(nil)

// unsyncedLoser is what Mem's files can do when a sync fails.
type unsyncedLoser interface{ loseUnsynced() }

// NewFault returns a Fault over inner with the given rules.
func NewFault(inner FS, rules ...Rule) *Fault {
	f := &Fault{inner: inner}
	for _, r := range rules {
		f.Add(r)
	}
	return f
}

// Add adds a rule. The first rule that fails a call decides.
func (f *Fault) Add(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &ruleState{Rule: r})
}

// Clear removes all rules: the disk is healthy again.
func (f *Fault) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Calls returns the number of calls seen, failed ones included. A test runs once without rules, reads it, and then runs once
// for each n up to it with Rule{Nth: n}.
func (f *Fault) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Fired returns the calls that were failed, in order.
func (f *Fault) Fired() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.fired)
}

// see counts a call and returns the rule that fails it, or nil.
func (f *Fault) see(op Op) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	var failing *Rule
	for _, r := range f.rules {
		if r.Match != nil && !r.Match(op) {
			continue
		}
		r.seen++
		if failing == nil && (r.Nth == 0 || r.seen == r.Nth || r.Sticky && r.seen > r.Nth) {
			failing = &r.Rule
		}
	}
	if failing != nil {
		f.fired = append(f.fired, op)
	}
	return failing
}

// fail sees a call and returns the error it must fail with, or nil.
func (f *Fault) fail(op Op) error {
	r := f.see(op)
	if r == nil {
		return nil
	}
	return r.wrap(op)
}

func (r *Rule) wrap(op Op) error {
	return &os.PathError{Op: op.Kind.String(), Path: op.Path, Err: r.Err}
}

// OpenFile implements FS.
func (f *Fault) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	if err := f.fail(Op{Kind: OpOpen, Path: name}); err != nil {
		return nil, err
	}
	inner, err := f.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{fs: f, inner: inner, name: name}, nil
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	if err := f.fail(Op{Kind: OpRemove, Path: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements FS.
func (f *Fault) RemoveAll(name string) error {
	if err := f.fail(Op{Kind: OpRemoveAll, Path: name}); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// Rename implements FS.
func (f *Fault) Rename(oldName, newName string) error {
	if err := f.fail(Op{Kind: OpRename, Path: oldName, NewPath: newName}); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(name string, perm os.FileMode) error {
	if err := f.fail(Op{Kind: OpMkdirAll, Path: name}); err != nil {
		return err
	}
	return f.inner.MkdirAll(name, perm)
}

// ReadDir implements FS.
func (f *Fault) ReadDir(name string) ([]DirEntry, error) {
	if err := f.fail(Op{Kind: OpReadDir, Path: name}); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements FS.
func (f *Fault) Stat(name string) (Info, error) {
	if err := f.fail(Op{Kind: OpStat, Path: name}); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Fault) SyncDir(name string) error {
	if err := f.fail(Op{Kind: OpSyncDir, Path: name}); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

// faultFile is a File of a Fault.
type faultFile struct {
	fs    *Fault
	inner File
	name  string
}

// ReadAt implements io.ReaderAt.
func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.fail(Op{Kind: OpRead, Path: f.name, Off: off, Len: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, off)
}

// WriteAt implements io.WriterAt.
func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	op := Op{Kind: OpWrite, Path: f.name, Off: off, Len: int64(len(p))}
	r := f.fs.see(op)
	if r == nil {
		return f.inner.WriteAt(p, off)
	}
	n := 0
	if r.ShortWrite {
		var err error
		if n, err = f.inner.WriteAt(p[:len(p)/2], off); err != nil {
			return n, err
		}
	}
	return n, r.wrap(op)
}

// Close implements io.Closer.
func (f *faultFile) Close() error {
	err := f.fs.fail(Op{Kind: OpClose, Path: f.name})
	if closeErr := f.inner.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Size implements File.
func (f *faultFile) Size() (int64, error) {
	if err := f.fs.fail(Op{Kind: OpSize, Path: f.name}); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

// Truncate implements File.
func (f *faultFile) Truncate(size int64) error {
	if err := f.fs.fail(Op{Kind: OpTruncate, Path: f.name, Off: size}); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

// Sync implements File.
func (f *faultFile) Sync() error {
	if err := f.failSync(OpSync); err != nil {
		return err
	}
	return f.inner.Sync()
}

// Datasync implements File.
func (f *faultFile) Datasync() error {
	if err := f.failSync(OpDatasync); err != nil {
		return err
	}
	return f.inner.Datasync()
}

func (f *faultFile) failSync(kind OpKind) error {
	err := f.fs.fail(Op{Kind: kind, Path: f.name})
	if err != nil {
		if l, ok := f.inner.(unsyncedLoser); ok {
			l.loseUnsynced()
		}
	}
	return err
}

// Preallocate implements File.
func (f *faultFile) Preallocate(off, n int64) error {
	if err := f.fs.fail(Op{Kind: OpPreallocate, Path: f.name, Off: off, Len: n}); err != nil {
		return err
	}
	return f.inner.Preallocate(off, n)
}
