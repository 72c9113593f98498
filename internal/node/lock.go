package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file in the data directory whose advisory lock says that a process has it open.
const lockName = "LOCK"

// dirLock holds a data directory for one process. The kernel drops it when the process ends, however it ends, so a stale file means
// nothing; the process id in it is for people.
type dirLock struct{ file *os.File }

// lockDir makes the directory when it is missing and takes its lock, without waiting.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := holderOf(f)
		err = errors.Join(err, f.Close())
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another process%s: stop it, or choose another --data-dir", dir, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt(f, pid)); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	return &dirLock{file: f}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// holderOf reads who wrote the lock file, as " (process N)" or nothing.
func holderOf(f *os.File) string {
	b := make([]byte, 32)
	n, err := f.ReadAt(b, 0)
	if n == 0 && err != nil {
		return ""
	}
	return " (process " + strings.TrimSpace(string(b[:n])) + ")"
}

// release lets another process have the directory. The file stays: removing it would let two processes lock two files of one name.
func (l *dirLock) release() error { return l.file.Close() }
