package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// The index file of a sealed segment; drawn in FORMAT.md. It is a hint: what it says is verified by every read, and a file that
// does not fit its segment is made anew.
const (
	indexMagic      = "FELIXIDX"
	indexVersion    = 1
	indexHeadBytes  = 80
	indexEpochBytes = 12
	indexEntryBytes = 20
	// maxIndexEpochs bounds the epochs of one segment that a file may claim.
	maxIndexEpochs = 1 << 20
	// maxIndexBytes bounds the file: an entry for every smallest batch of the largest segment.
	maxIndexBytes = maxSegmentBytes/61*indexEntryBytes + indexHeadBytes
	// indexHeadRead is what is read to learn of a segment without its entries: nearly always the whole of head and epochs.
	indexHeadRead = 512
)

var errIndex = errors.New("index does not fit its segment or is damaged")

// indexHead is what an index file says of its segment beside the entries.
type indexHead struct {
	identity  uint32 // of the segment's header
	base, end ids.Offset
	fileBytes int64 // of the segment
	largest   int64
	first     int64 // timestamp of the first batch
	block     uint32
	total     uint32
	entries   int
	entryCRC  uint32
	epochs    epochTable // that are in force in the segment; the first one begins at base
}

// appendIndexFile encodes a whole index file.
func appendIndexFile(dst []byte, h indexHead, list []entry) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, indexHeadBytes)...)
	for _, e := range h.epochs {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.offset))
	}
	entriesAt := len(dst)
	for _, e := range list {
		dst = binary.BigEndian.AppendUint32(dst, e.rel)
		dst = binary.BigEndian.AppendUint32(dst, e.pos)
		dst = binary.BigEndian.AppendUint32(dst, e.prev)
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.before))
	}
	b := dst[at:]
	copy(b, indexMagic)
	binary.BigEndian.PutUint16(b[8:], indexVersion)
	binary.BigEndian.PutUint32(b[12:], uint32(len(h.epochs)))
	binary.BigEndian.PutUint32(b[16:], uint32(len(list)))
	binary.BigEndian.PutUint32(b[20:], h.identity)
	binary.BigEndian.PutUint64(b[24:], uint64(h.base))
	binary.BigEndian.PutUint64(b[32:], uint64(h.end))
	binary.BigEndian.PutUint64(b[40:], uint64(h.fileBytes))
	binary.BigEndian.PutUint64(b[48:], uint64(h.largest))
	binary.BigEndian.PutUint64(b[56:], uint64(h.first))
	binary.BigEndian.PutUint32(b[64:], h.block)
	binary.BigEndian.PutUint32(b[68:], h.total)
	binary.BigEndian.PutUint32(b[72:], crc32.Checksum(dst[entriesAt:], castagnoli))
	binary.BigEndian.PutUint32(b[76:], headCRC(b[:entriesAt-at]))
	return dst
}

// headCRC is the checksum over head and epochs, leaving out its own field.
func headCRC(b []byte) uint32 {
	crc := crc32.Checksum(b[:76], castagnoli)
	return crc32.Update(crc, castagnoli, b[indexHeadBytes:])
}

// parseIndexHead reads head and epochs. need is their length when b is too short for them.
func parseIndexHead(b []byte) (h indexHead, need int, err error) {
	if len(b) < indexHeadBytes || string(b[:8]) != indexMagic {
		return h, 0, errIndex
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != indexVersion {
		return h, 0, fmt.Errorf("%w: version %d", errIndex, v)
	}
	epochs := binary.BigEndian.Uint32(b[12:])
	if epochs > maxIndexEpochs || binary.BigEndian.Uint16(b[10:]) != 0 {
		return h, 0, errIndex
	}
	need = indexHeadBytes + int(epochs)*indexEpochBytes
	if len(b) < need {
		return h, need, nil
	}
	if headCRC(b[:need]) != binary.BigEndian.Uint32(b[76:]) {
		return h, 0, errIndex
	}
	h = indexHead{
		identity:  binary.BigEndian.Uint32(b[20:]),
		base:      ids.Offset(binary.BigEndian.Uint64(b[24:])),
		end:       ids.Offset(binary.BigEndian.Uint64(b[32:])),
		fileBytes: int64(binary.BigEndian.Uint64(b[40:])),
		largest:   int64(binary.BigEndian.Uint64(b[48:])),
		first:     int64(binary.BigEndian.Uint64(b[56:])),
		block:     binary.BigEndian.Uint32(b[64:]),
		total:     binary.BigEndian.Uint32(b[68:]),
		entries:   int(binary.BigEndian.Uint32(b[16:])),
		entryCRC:  binary.BigEndian.Uint32(b[72:]),
	}
	for p := b[indexHeadBytes:need]; len(p) > 0; p = p[indexEpochBytes:] {
		h.epochs = append(h.epochs, epochStart{
			epoch:  ids.LeaderEpoch(binary.BigEndian.Uint32(p)),
			offset: ids.Offset(binary.BigEndian.Uint64(p[4:])),
		})
	}
	return h, need, h.check()
}

// check looks whether the parts of a head fit each other.
func (h *indexHead) check() error {
	ok := h.base >= 0 && h.end >= h.base && h.fileBytes >= segmentHeaderBytes && h.fileBytes <= math.MaxUint32 &&
		int64(h.entries) <= (h.fileBytes-segmentHeaderBytes)/61 && (h.entries > 0) == (h.fileBytes > segmentHeaderBytes)
	for i, e := range h.epochs {
		ok = ok && e.offset >= h.base && e.offset < h.end
		ok = ok && (i == 0 || e.offset > h.epochs[i-1].offset && e.epoch > h.epochs[i-1].epoch)
	}
	if !ok {
		return errIndex
	}
	return nil
}

// parseIndexFile reads a whole index file.
func parseIndexFile(b []byte) (h indexHead, x *index, err error) {
	h, need, err := parseIndexHead(b)
	if err != nil {
		return h, nil, err
	}
	if len(b) < need || len(b)-need != h.entries*indexEntryBytes || crc32.Checksum(b[need:], castagnoli) != h.entryCRC {
		return h, nil, errIndex
	}
	list := make([]entry, h.entries)
	for i := range list {
		p := b[need+i*indexEntryBytes:]
		list[i] = entry{
			rel: binary.BigEndian.Uint32(p), pos: binary.BigEndian.Uint32(p[4:]), prev: binary.BigEndian.Uint32(p[8:]),
			before: int64(binary.BigEndian.Uint64(p[12:])),
		}
		low := int64(segmentHeaderBytes)
		if i > 0 {
			low = int64(list[i-1].pos) + 1
			if list[i].rel <= list[i-1].rel || list[i].before < list[i-1].before {
				return h, nil, errIndex
			}
		}
		if int64(list[i].pos) < low || int64(list[i].pos) >= h.fileBytes || i == 0 && low != int64(list[i].pos) {
			return h, nil, errIndex
		}
	}
	x = newIndex()
	x.block, x.total, x.largest = h.block, h.total, h.largest
	if len(list) > 0 {
		x.last = int64(list[len(list)-1].pos)
		x.entries.Store(&list)
		x.count.Store(int32(len(list)))
	}
	return h, x, nil
}

// readIndexHead reads the head of an index file.
func readIndexHead(fs vfs.FS, name string) (indexHead, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return indexHead{}, err
	}
	defer f.Close()
	b := make([]byte, indexHeadRead)
	n, err := f.ReadAt(b, 0)
	if err != nil && !isEOF(err) {
		return indexHead{}, err
	}
	h, need, err := parseIndexHead(b[:n])
	if err != nil || need <= n {
		return h, err
	}
	b = make([]byte, need)
	if n, err = f.ReadAt(b, 0); err != nil && !isEOF(err) {
		return indexHead{}, err
	}
	if h, need, err = parseIndexHead(b[:n]); err == nil && need > n {
		err = errIndex
	}
	return h, err
}

// readIndexFile reads a whole index file.
func readIndexFile(fs vfs.FS, name string) (indexHead, *index, error) {
	b, err := readWhole(fs, name, maxIndexBytes)
	if err != nil {
		return indexHead{}, nil, err
	}
	return parseIndexFile(b)
}

// readWhole reads a file of at most limit bytes.
func readWhole(fs vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: %d bytes are more than the format allows", name, size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !isEOF(err) {
		return nil, err
	}
	return b[:n], nil
}

// writeFile makes a small file with the given content, synced if asked to. It is not for content that must replace other content
// in one step. On a failed write nothing is left; syncFailed says that the error came from the sync.
func writeFile(fs vfs.FS, name string, b []byte, sync bool) (syncFailed bool, err error) {
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return false, errors.Join(err, f.Close(), fs.Remove(name))
	}
	if sync {
		if err := f.Sync(); err != nil {
			return true, errors.Join(err, f.Close())
		}
	}
	return false, f.Close()
}
