package recordbatch

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdStreamWindow is the largest window that is decoded in pieces, since decoding so allocates it whole; frames with a larger one
// are decoded at once under the limit. Encoders at their usual levels stay at or below it.
const zstdStreamWindow = 8 << 20

// zstdBlockBytes is the most that a block of a frame decodes to.
const zstdBlockBytes = 128 << 10

// zstdBlockRLE is the block type whose content is one byte, whatever its size says.
const zstdBlockRLE = 1

// zstdDecoder is a decoder with the limit that it was last given. Decoders with concurrency 1 have no goroutines, so one that the
// pool drops needs no Close.
type zstdDecoder struct {
	d        *zstd.Decoder
	maxBytes int
}

var zstdDecoders sync.Pool // of *zstdDecoder

// getZstd returns a decoder that decodes at most maxBytes at once.
func getZstd(maxBytes int) (*zstdDecoder, error) {
	limit := zstd.WithDecoderMaxMemory(uint64(max(maxBytes, zstd.MinWindowSize)))
	z, _ := zstdDecoders.Get().(*zstdDecoder)
	if z == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), limit)
		if err != nil {
			return nil, err
		}
		return &zstdDecoder{d: d, maxBytes: maxBytes}, nil
	}
	if z.maxBytes != maxBytes {
		if err := z.d.ResetWithOptions(nil, limit); err != nil {
			return nil, err
		}
		z.maxBytes = maxBytes
	}
	return z, nil
}

// decodeAll appends the content of all frames in src to dst.
func (z *zstdDecoder) decodeAll(dst, src []byte, maxBytes int) ([]byte, error) {
	start := len(dst)
	// The library counts what dst holds already against its limit, so it gets the free part only.
	out, err := z.d.DecodeAll(src, dst[start:start:cap(dst)])
	switch {
	case err != nil:
		return nil, err
	case len(out) > maxBytes:
		return nil, zstd.ErrDecoderSizeExceeded
	case len(out) <= cap(dst)-start:
		// Either it is there already, or it was decoded elsewhere although it fits.
		dst = dst[:start+len(out)]
		copy(dst[start:], out)
		return dst, nil
	case start == 0:
		return out, nil
	default:
		return append(dst, out...), nil
	}
}

// checkZstdFrames counts the frames in src by the lengths of their blocks and refuses too many: each costs a reset of the decoder,
// which for empty frames adds up to a large part of a second in a MiB. What is wrong within frames is the decoder's to find.
func checkZstdFrames(src []byte) error {
	for frames := 1; len(src) > 0; frames++ {
		var head zstd.Header
		if err := head.Decode(src); err != nil || frames > maxMembers {
			return ErrDecompress
		}
		src = src[head.HeaderSize:]
		if head.Skippable {
			if uint64(head.SkippableSize) > uint64(len(src)) {
				return ErrDecompress
			}
			src = src[head.SkippableSize:]
			continue
		}
		for last := false; !last; {
			if len(src) < 3 {
				return ErrDecompress
			}
			block := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
			last = block&1 != 0
			size := int(block >> 3)
			if block>>1&3 == zstdBlockRLE {
				size = 1
			}
			if size > len(src)-3 {
				return ErrDecompress
			}
			src = src[3+size:]
		}
		if head.HasCheckSum {
			if len(src) < 4 {
				return ErrDecompress
			}
			src = src[4:]
		}
	}
	return nil
}

func unzstd(dst, src []byte, maxBytes int) ([]byte, error) {
	if err := checkZstdFrames(src); err != nil {
		return nil, err
	}
	z, err := getZstd(maxBytes)
	if err != nil {
		return nil, ErrDecompress
	}
	// Without a content size in the frame the library starts small and grows by a quarter at a time.
	dst = slices.Grow(dst, min(4*len(src), maxBytes))
	out, err := z.decodeAll(dst, src, maxBytes)
	zstdDecoders.Put(z)
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return unzstdWide(dst, src, maxBytes)
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, ErrDecodedTooLarge
	case err != nil:
		return nil, ErrDecompress
	}
	return out, nil
}

// unzstdWide decodes frames that declare a window beyond maxBytes although their content may well be smaller. Decoding at once needs
// no window of its own, so only the content is limited: by the capacity it is decoded into, which grows only when it must.
func unzstdWide(dst, src []byte, maxBytes int) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(src); err != nil {
		return nil, ErrDecompress
	}
	if head.HasFCS && head.FrameContentSize > uint64(maxBytes) {
		return nil, ErrDecodedTooLarge
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxZstdWindow), zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, ErrDecompress
	}
	for size := min(maxBytes, max(64<<10, 8*len(src))); ; size = min(4*size, maxBytes) {
		out, err := d.DecodeAll(src, make([]byte, 0, max(size, 1)))
		switch {
		case err == nil && len(out) <= maxBytes:
			return append(dst, out...), nil
		case err != nil && !errors.Is(err, zstd.ErrDecoderSizeExceeded) && len(out)+zstdBlockBytes <= size:
			return nil, ErrDecompress
		case size == maxBytes:
			return nil, ErrDecodedTooLarge
		}
		// Too small: the library says so in several ways when a block does not fit, so any error within a block of the end counts.
	}
}

// zstdStreams holds decoders for zstdReader; like those of zstdDecoders they need no Close.
var zstdStreams sync.Pool // of *zstd.Decoder

// zstdReader decodes frames in pieces, until it meets one with a large window: then it decodes all of the source at once and goes on
// from where it was.
type zstdReader struct {
	src      []byte
	maxBytes int
	d        *zstd.Decoder
	n        int           // bytes read so far
	whole    *bytes.Reader // not nil: all of the content
	pooled   *scratch      // what whole reads
}

func (z *zstdReader) reset(src []byte, maxBytes int) error {
	if err := checkZstdFrames(src); err != nil {
		return err
	}
	d, _ := zstdStreams.Get().(*zstd.Decoder)
	if d == nil {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdStreamWindow))
		if err != nil {
			return ErrDecompress
		}
	}
	*z = zstdReader{src: src, maxBytes: maxBytes, d: d}
	if err := d.Reset(bytes.NewReader(src)); err != nil {
		return ErrDecompress
	}
	return nil
}

// Read implements io.Reader.
func (z *zstdReader) Read(p []byte) (int, error) {
	if z.whole != nil {
		return z.whole.Read(p)
	}
	n, err := z.d.Read(p)
	z.n += n
	if n > 0 {
		return n, nil // an error comes again with nothing before it
	}
	if err != nil && (errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded)) {
		z.pooled = getScratch()
		if z.pooled.b, err = unzstd(z.pooled.b, z.src, z.maxBytes); err != nil {
			return 0, err
		}
		z.whole = bytes.NewReader(z.pooled.b[min(z.n, len(z.pooled.b)):])
		return z.whole.Read(p)
	}
	return 0, err
}

// release gives the decoder back to its pool without holding on to the source.
func (z *zstdReader) release() {
	if z.d.Reset(nil) == nil {
		zstdStreams.Put(z.d)
	}
	if z.pooled != nil {
		putScratch(z.pooled)
	}
	*z = zstdReader{}
}
