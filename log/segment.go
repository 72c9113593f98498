package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// Files of a log; see FORMAT.md.
const (
	segmentSuffix   = ".log"
	indexSuffix     = ".index"
	producersSuffix = ".producers"
	cleanedSuffix   = ".cleaned"
	nameDigits      = 20

	segmentMagic   = "FELIXSEG"
	segmentVersion = 1
	// segmentHeaderBytes is where the first batch begins.
	segmentHeaderBytes = 48
	// flagCompacted: offsets may be missing, and the segment stands for all offsets up to through.
	flagCompacted = 1
)

// segmentHeader is the start of a segment's file.
type segmentHeader struct {
	base      ids.Offset
	created   int64 // milliseconds; when the segment became active, or was compacted
	compacted bool
	through   ids.Offset // of a compacted segment: one past the last offset that it stands for
	clean     ids.Offset // of a compacted segment: one past the last offset whose key was looked for in what came before
}

func appendSegmentHeader(dst []byte, h segmentHeader) []byte {
	at := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.BigEndian.AppendUint16(dst, segmentVersion)
	var flags uint16
	if h.compacted {
		flags |= flagCompacted
	}
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.base))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.created))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.through))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.clean))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// Errors of a segment header; the caller adds file and position.
var (
	errBlankHeader   = errors.New("segment header is blank")
	errSegmentHeader = errors.New("segment header is damaged")
	errFormat        = errors.New("format version is unknown")
)

// parseSegmentHeader reads the header at the start of b. identity is its checksum: two files with the same identity are one.
func parseSegmentHeader(b []byte) (h segmentHeader, identity uint32, err error) {
	if len(b) < segmentHeaderBytes || allZero(b[:segmentHeaderBytes]) {
		return h, 0, errBlankHeader
	}
	b = b[:segmentHeaderBytes]
	if string(b[:8]) != segmentMagic {
		return h, 0, errSegmentHeader
	}
	identity = binary.BigEndian.Uint32(b[segmentHeaderBytes-4:])
	intact := crc32.Checksum(b[:segmentHeaderBytes-4], castagnoli) == identity
	if v := binary.BigEndian.Uint16(b[8:]); v != segmentVersion {
		if intact {
			return h, 0, fmt.Errorf("%w: %d", errFormat, v)
		}
		return h, 0, errSegmentHeader
	}
	if !intact {
		return h, 0, errSegmentHeader
	}
	flags := binary.BigEndian.Uint16(b[10:])
	if flags&^flagCompacted != 0 {
		return h, 0, fmt.Errorf("%w: flags %#x", errFormat, flags)
	}
	h = segmentHeader{
		base:      ids.Offset(binary.BigEndian.Uint64(b[12:])),
		created:   int64(binary.BigEndian.Uint64(b[20:])),
		compacted: flags&flagCompacted != 0,
		through:   ids.Offset(binary.BigEndian.Uint64(b[28:])),
		clean:     ids.Offset(binary.BigEndian.Uint64(b[36:])),
	}
	if h.base < 0 || h.compacted && (h.through < h.base || h.clean > h.through) || !h.compacted && (h.through != 0 || h.clean != 0) {
		return h, 0, errSegmentHeader
	}
	return h, identity, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// segment is one file of a log. Readers use the atomics, the index and the handle; the rest belongs to the log's lock.
type segment struct {
	base      ids.Offset
	created   int64
	identity  uint32
	compacted bool
	clean     ids.Offset // see segmentHeader

	size    atomic.Int64 // bytes that hold whole batches, the header included
	end     atomic.Int64 // one past the last offset that it stands for
	largest atomic.Int64 // largest timestamp, noTimestamp without a batch

	// idx is nil for a sealed segment whose index has not been needed yet.
	idx atomic.Pointer[index]
	h   handle

	// frozen says that nothing is appended any more.
	frozen atomic.Bool

	sealed   bool  // its index file is written
	first    int64 // timestamp of the first batch, noTimestamp without one
	reserved int64 // bytes of the file that were preallocated
	synced   int64 // bytes known to be synced
	// doubtful: the file was, or may have been, longer than it is, and nobody synced it since. A crash could bring the rest back.
	doubtful bool
}

// unsynced says that the next sync has to do something about the file.
func (s *segment) unsynced() bool { return s.synced < s.size.Load() || s.doubtful }

func (s *segment) setEnd(end ids.Offset) { s.end.Store(int64(end)) }

func (s *segment) endOffset() ids.Offset { return ids.Offset(s.end.Load()) }

// offsetName is the name of a file that belongs to an offset.
func offsetName(dir string, off ids.Offset, suffix string) string {
	digits := strconv.FormatInt(int64(off), 10)
	var b strings.Builder
	b.Grow(len(dir) + 1 + nameDigits + len(suffix))
	b.WriteString(dir)
	b.WriteByte('/')
	for range nameDigits - len(digits) {
		b.WriteByte('0')
	}
	b.WriteString(digits)
	b.WriteString(suffix)
	return b.String()
}

// parseOffsetName reads a name made by offsetName, without its directory.
func parseOffsetName(name, suffix string) (ids.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return ids.Offset(n), err == nil && n >= 0
}

// createSegment makes the file of a new segment that begins at base. The name is not synced. On an error nothing is left behind,
// unless removing it failed too, which the error then says.
func createSegment(fs vfs.FS, dir string, base ids.Offset, created int64) (*segment, vfs.File, error) {
	name := offsetName(dir, base, segmentSuffix)
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	var head [segmentHeaderBytes]byte
	b := appendSegmentHeader(head[:0], segmentHeader{base: base, created: created})
	if _, err := f.WriteAt(b, 0); err != nil {
		return nil, nil, errors.Join(err, f.Close(), fs.Remove(name))
	}
	s := newSegment(base)
	s.created = created
	s.identity = binary.BigEndian.Uint32(b[segmentHeaderBytes-4:])
	s.idx.Store(newIndex())
	return s, f, nil
}

func newSegment(base ids.Offset) *segment {
	s := &segment{base: base, first: noTimestamp}
	s.size.Store(segmentHeaderBytes)
	s.setEnd(base)
	s.largest.Store(noTimestamp)
	s.h.lane = uint8(base)
	return s
}
