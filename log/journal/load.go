package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

const (
	fileSuffix = ".journal"
	tempSuffix = ".journal.tmp"
	nameDigits = 20
	// maxFileBytes bounds what is read into memory. A journal is rewritten long before; a larger file is not one of ours.
	maxFileBytes = 1 << 30
)

func fileName(dir string, seq uint64) string {
	s := strconv.FormatUint(seq, 10)
	return path.Join(dir, strings.Repeat("0", nameDigits-len(s))+s+fileSuffix)
}

// loaded is what a journal directory holds.
type loaded struct {
	state *state
	found bool   // there is a file
	seq   uint64 // of the newest file
	size  int64  // of its good part
	file  int64  // its whole size; above size, the rest is to be cut
	old   []string
	temps []string
}

// View is a journal as it was read by Load: for offline tools, which change nothing.
type View struct {
	st *state
	// Found says that there is a journal.
	Found bool
	// Cut is the number of bytes that opening the journal would cut from its end.
	Cut int64
	// Clean says that the last stop was a clean one.
	Clean bool
}

// Load reads the journal of dir without changing anything. It refuses what Open refuses.
func Load(fsys vfs.FS, dir string) (*View, error) {
	l, err := load(fsys, dir)
	if err != nil {
		return nil, err
	}
	return &View{st: l.state, Found: l.found, Cut: l.file - l.size, Clean: l.state.clean}, nil
}

// Get returns what the journal knows of a shard.
func (v *View) Get(shard ids.ShardID) Entry {
	if sl := v.st.slots[shard]; sl != nil {
		return sl.Entry
	}
	return emptyEntry(v.st.known)
}

func load(fsys vfs.FS, dir string) (*loaded, error) {
	l := &loaded{state: newState(false)}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, isFile := strings.CutSuffix(e.Name, fileSuffix)
		switch {
		case strings.HasSuffix(e.Name, tempSuffix):
			l.temps = append(l.temps, path.Join(dir, e.Name))
		case isFile && len(digits) == nameDigits:
			seq, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				continue
			}
			if l.found {
				l.old = append(l.old, fileName(dir, l.seq))
			}
			l.found, l.seq = true, seq // sorted by name, so the last is the newest
		}
	}
	if !l.found {
		return l, nil
	}
	name := fileName(dir, l.seq)
	b, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	l.file = int64(len(b))
	l.state = newState(true)
	l.size, err = replay(name, b, l.seq, l.state)
	return l, err
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxFileBytes {
		return nil, &DamageError{File: name, Position: maxFileBytes, Reason: errors.New("file is larger than any journal")}
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, err
	}
	return b, nil
}

// replay applies the records of a file to st and returns the length of its good part. Damage that a crash cannot explain is an
// error.
func replay(name string, b []byte, seq uint64, st *state) (int64, error) {
	h, err := parseHeader(b)
	if err == nil && h.seq != seq {
		err = errHeader
	}
	if err != nil {
		return 0, &DamageError{File: name, Reason: err}
	}
	synced := h.checkpoint // everything below was synced, so damage there is no crash's doing
	pos := int64(headerBytes)
	for pos < int64(len(b)) {
		r, n, err := parseRecord(b[pos:])
		if err == nil && r.synced > pos {
			err = errDamaged // a record cannot know more than the file held
		}
		if errors.Is(err, errUnknown) {
			return 0, &DamageError{File: name, Position: pos, Reason: err}
		}
		if err != nil {
			if synced = max(synced, laterSynced(b, pos)); pos < synced {
				return 0, &DamageError{File: name, Position: pos, Reason: err}
			}
			return pos, nil
		}
		synced = max(synced, r.synced)
		st.apply(r)
		pos += int64(n)
	}
	if pos < synced {
		return 0, &DamageError{File: name, Position: pos, Reason: errors.New("file ends before what was synced")}
	}
	return pos, nil
}

// laterSynced tells damage of something that was synced from the end that a crash has torn: what was written after a sync knows of
// it. It looks past damage at pos for records that are whole, and returns the largest synced length that one of them knows.
func laterSynced(b []byte, pos int64) int64 {
	var synced int64
	for at := pos + 1; at+recordHeader <= int64(len(b)); at++ {
		if b[at+7] != 0 || b[at+4] > maxPayload>>8 {
			continue
		}
		if r, _, err := parseRecord(b[at:]); err == nil && r.synced <= at {
			synced = max(synced, r.synced)
		}
	}
	return synced
}
