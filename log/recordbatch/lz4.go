package recordbatch

import (
	"encoding/binary"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format. Frames are decoded here rather than by the library's Reader, straight into the destination and with
// nothing kept from one batch to the next: see doc.go. The blocks are the library's work.
const (
	lz4Magic        uint32 = 0x184D2204
	lz4SkipMagic    uint32 = 0x184D2A50 // to 0x184D2A5F: a frame to be skipped
	lz4DictBytes           = 64 << 10   // how far back a linked block may refer
	lz4Uncompressed uint32 = 1 << 31    // in a block's length: the block is stored
)

// Bits of the FLG byte of the frame descriptor.
const (
	lz4FlagDictID          = 0x01
	lz4FlagReserved        = 0x02
	lz4FlagContentChecksum = 0x04
	lz4FlagContentSize     = 0x08
	lz4FlagBlockChecksum   = 0x10
	lz4FlagIndependent     = 0x20
	lz4VersionMask         = 0xC0
	lz4Version             = 0x40
)

// lz4Frames yields the blocks of the frames in src.
type lz4Frames struct {
	src       []byte
	frames    int
	inFrame   bool
	flags     byte
	blockMax  int
	size      uint64 // claimed content size
	got       uint64 // content so far
	hash      xxh32
	frameBase int // where the frame's content begins in what the caller decodes into
}

// lz4Block is one block of a frame.
type lz4Block struct {
	data   []byte
	stored bool
}

// take cuts n bytes off the source.
func (f *lz4Frames) take(n int) ([]byte, error) {
	if n > len(f.src) {
		return nil, ErrDecompress
	}
	b := f.src[:n]
	f.src = f.src[n:]
	return b, nil
}

func (f *lz4Frames) takeUint32() (uint32, error) {
	b, err := f.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// next returns the next block; ok is false at the end of the last frame. decoded is how many bytes the caller has decoded.
func (f *lz4Frames) next(decoded int) (b lz4Block, ok bool, err error) {
	for {
		if !f.inFrame {
			if len(f.src) == 0 && f.frames > 0 {
				return lz4Block{}, false, nil
			}
			if err := f.begin(decoded); err != nil {
				return lz4Block{}, false, err
			}
			continue // it may have been a frame to skip
		}
		length, err := f.takeUint32()
		if err != nil {
			return lz4Block{}, false, err
		}
		if length == 0 {
			if err := f.end(); err != nil {
				return lz4Block{}, false, err
			}
			continue
		}
		b.stored = length&lz4Uncompressed != 0
		n := int(length &^ lz4Uncompressed)
		if n == 0 || n > f.blockMax {
			return lz4Block{}, false, ErrDecompress
		}
		if b.data, err = f.take(n); err != nil {
			return lz4Block{}, false, err
		}
		if f.flags&lz4FlagBlockChecksum != 0 {
			sum, err := f.takeUint32()
			if err != nil || sum != xxh32Of(b.data) {
				return lz4Block{}, false, ErrDecompress
			}
		}
		return b, true, nil
	}
}

// begin reads the start of a frame, or skips one that is to be skipped.
func (f *lz4Frames) begin(decoded int) error {
	if f.frames++; f.frames > maxMembers {
		return ErrDecompress
	}
	magic, err := f.takeUint32()
	if err != nil {
		return err
	}
	if magic&^0xf == lz4SkipMagic {
		n, err := f.takeUint32()
		if err != nil || uint64(n) > uint64(len(f.src)) {
			return ErrDecompress
		}
		f.src = f.src[n:]
		return nil
	}
	if magic != lz4Magic || len(f.src) < 3 {
		return ErrDecompress
	}
	flags, block := f.src[0], f.src[1]
	size := 2
	if flags&lz4FlagContentSize != 0 {
		size += 8
	}
	if flags&lz4VersionMask != lz4Version || flags&(lz4FlagReserved|lz4FlagDictID) != 0 || block&0x8f != 0 || block>>4 < 4 {
		return ErrDecompress
	}
	descriptor, err := f.take(size)
	if err != nil {
		return err
	}
	check, err := f.take(1)
	if err != nil || check[0] != byte(xxh32Of(descriptor)>>8) {
		return ErrDecompress
	}
	f.flags, f.blockMax = flags, 1<<(8+2*(block>>4)) // 4: 64 KiB, 5: 256 KiB, 6: 1 MiB, 7: 4 MiB
	f.size, f.got = 0, 0
	if flags&lz4FlagContentSize != 0 {
		f.size = binary.LittleEndian.Uint64(descriptor[2:])
	}
	f.hash.reset()
	f.inFrame, f.frameBase = true, decoded
	return nil
}

// end reads what follows the last block of a frame and checks it.
func (f *lz4Frames) end() error {
	f.inFrame = false
	if f.flags&lz4FlagContentSize != 0 && f.got != f.size {
		return ErrDecompress
	}
	if f.flags&lz4FlagContentChecksum != 0 {
		sum, err := f.takeUint32()
		if err != nil || sum != f.hash.sum() {
			return ErrDecompress
		}
	}
	return nil
}

// decode appends the content of block b to dst. dst[base:] is what of the same frame is at hand: at least its last 64 KiB.
func (f *lz4Frames) decode(dst []byte, base int, b lz4Block, maxBytes int) ([]byte, error) {
	start := len(dst)
	if b.stored {
		if len(b.data) > maxBytes {
			return nil, ErrDecodedTooLarge
		}
		dst = append(dst, b.data...)
	} else {
		// A byte of a block decodes to 255 at most, so a small block costs little memory whatever the frame's block size.
		room := min(f.blockMax, 255*len(b.data))
		size := min(room, maxBytes)
		dst = slices.Grow(dst, size)
		var dict []byte
		if f.flags&lz4FlagIndependent == 0 {
			dict = dst[max(base, start-lz4DictBytes):start]
		}
		n, err := lz4.UncompressBlockWithDict(b.data, dst[start:start+size:start+size], dict)
		if err != nil {
			if size < room { // most likely it did not fit
				return nil, ErrDecodedTooLarge
			}
			return nil, ErrDecompress
		}
		dst = dst[:start+n]
	}
	f.got += uint64(len(dst) - start)
	if f.flags&lz4FlagContentChecksum != 0 {
		f.hash.write(dst[start:])
	}
	return dst, nil
}

func unlz4(dst, src []byte, maxBytes int) ([]byte, error) {
	limit := len(dst) + maxBytes
	f := lz4Frames{src: src}
	for {
		b, ok, err := f.next(len(dst))
		if err != nil {
			return nil, err
		}
		if !ok {
			return dst, nil
		}
		if dst, err = f.decode(dst, f.frameBase, b, limit-len(dst)); err != nil {
			return nil, err
		}
	}
}
