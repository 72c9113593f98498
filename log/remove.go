package log

import (
	"errors"
	"strings"

	"github.com/felixlog/felix/internal/vfs"
)

// removedSuffix ends the name of a directory that is being removed.
const removedSuffix = ".removed"

// RemoveDir removes the directory of a log, or one with the directories of several. It takes another name first, in one step: a crash
// in the middle of the removal must not leave what looks like a log with holes. Whoever lists directories removes those for which
// IsRemoved is true.
func RemoveDir(fsys vfs.FS, dir string) error {
	gone := dir + removedSuffix
	if err := fsys.Rename(dir, gone); err != nil {
		// It is not there, or what an earlier removal left is in the way, or the disk fails: then it goes as it stands.
		return errors.Join(fsys.RemoveAll(gone), fsys.RemoveAll(dir))
	}
	return fsys.RemoveAll(gone)
}

// IsRemoved reports whether a name is that of a directory whose removal did not come to its end.
func IsRemoved(name string) bool { return strings.HasSuffix(name, removedSuffix) }
