package recordbatch

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdDecoder is a decoder with the limit that it was last given. Decoders with concurrency 1 have no goroutines, so one that the
// pool drops needs no Close.
type zstdDecoder struct {
	d        *zstd.Decoder
	maxBytes int
}

var zstdDecoders sync.Pool // of *zstdDecoder

// getZstd returns a decoder that decodes at most maxBytes at once.
func getZstd(maxBytes int) (*zstdDecoder, error) {
	limit := zstd.WithDecoderMaxMemory(uint64(max(maxBytes, 1)))
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

func unzstd(dst, src []byte, maxBytes int) ([]byte, error) {
	z, err := getZstd(maxBytes)
	if err != nil {
		return nil, ErrDecompress
	}
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
		out, err := d.DecodeAll(src, make([]byte, 0, size))
		switch {
		case err == nil:
			return append(dst, out...), nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, ErrDecompress
		case size == maxBytes:
			return nil, ErrDecodedTooLarge
		}
	}
}
