// Package disk measures the disk under the data directories and controls what of a file the page cache holds, so that a
// figure of a server stands beside the figure of the bare machine from the same minutes.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/compat/bench/internal/hist"
)

// File is a file and the size it had when it was listed.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// List returns the regular files under dir of at least minBytes, and the sum of their sizes. Files that vanish meanwhile are
// left out.
func List(dir string, minBytes int64) ([]File, int64, error) {
	var out []File
	var total int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Size() >= minBytes {
			out = append(out, File{path, info.Size()})
			total += info.Size()
		}
		return nil
	})
	return out, total, err
}

// Used returns the bytes that the blocks of all files under dir take, holes left out.
func Used(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a file that vanishes meanwhile takes no space
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			total += st.Blocks * 512
		}
		return nil
	})
	return total
}

// Evict writes the files back and drops their pages from the page cache. It returns the part of their bytes that stayed
// resident, which is above zero when another process maps or holds pages.
func Evict(files []File) (resident float64, err error) {
	var in, all int64
	for _, f := range files {
		r, n, err := evictOne(f.Path)
		if err != nil {
			return 0, err
		}
		in, all = in+r, all+n
	}
	if all == 0 {
		return 0, nil
	}
	return float64(in) / float64(all), nil
}

func evictOne(path string) (resident, pages int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return 0, 0, err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, 0, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, 0, err
	}
	return residentPages(f, info.Size())
}

// residentPages asks mincore through a mapping that is never touched.
func residentPages(f *os.File, size int64) (resident, pages int64, err error) {
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = unix.Munmap(m) }()
	n := (size + int64(os.Getpagesize()) - 1) / int64(os.Getpagesize())
	vec := make([]byte, n)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(size), uintptr(unsafe.Pointer(&vec[0])))
	if errno != 0 {
		return 0, 0, errno
	}
	for _, v := range vec {
		resident += int64(v & 1)
	}
	return resident, n, nil
}

// Read reads the files one after the other with plain buffered reads of 1 MiB, at most Size bytes of each, and returns the
// bytes read and the time taken.
func Read(files []File) (int64, time.Duration, error) {
	buf := make([]byte, 1<<20)
	var total int64
	start := time.Now()
	for _, file := range files {
		f, err := os.Open(file.Path)
		if err != nil {
			return total, 0, err
		}
		r := io.LimitReader(f, file.Size)
		for {
			n, err := r.Read(buf)
			total += int64(n)
			if err == io.EOF {
				break
			}
			if err != nil {
				_ = f.Close()
				return total, 0, err
			}
		}
		_ = f.Close()
	}
	return total, time.Since(start), nil
}

// SyncProbe is the latency of write plus fdatasync of one small block, as the machine gives it without any server.
type SyncProbe struct {
	Append    *hist.Hist // each block makes the file longer
	Overwrite *hist.Hist // each block lies inside a file written and synced before
}

// ProbeSync writes and syncs n blocks of size bytes in dir, twice: to a growing file and to one written before.
func ProbeSync(dir string, size, n int) (SyncProbe, error) {
	p := SyncProbe{Append: &hist.Hist{}, Overwrite: &hist.Hist{}}
	path := filepath.Join(dir, "fdatasync-probe")
	f, err := os.Create(path)
	if err != nil {
		return p, err
	}
	defer func() { _ = os.Remove(path) }()
	defer func() { _ = f.Close() }()
	block := make([]byte, size)
	for _, h := range []*hist.Hist{p.Append, p.Overwrite} {
		for i := range n {
			block[0] = byte(i)
			start := time.Now()
			if _, err := f.WriteAt(block, int64(i)*int64(size)); err != nil {
				return p, err
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return p, err
			}
			h.Add(time.Since(start))
		}
	}
	return p, nil
}
