package recordbatch

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipReader decodes members one after the other and counts them.
type gzipReader struct {
	src     bytes.Reader
	gz      gzip.Reader
	members int
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

// reset begins with the first member of src.
func (r *gzipReader) reset(src []byte) error {
	r.src.Reset(src)
	r.members = 0
	return r.nextMember()
}

func (r *gzipReader) nextMember() error {
	if r.members++; r.members > maxMembers {
		return ErrDecompress
	}
	if err := r.gz.Reset(&r.src); err != nil {
		return ErrDecompress
	}
	r.gz.Multistream(false)
	return nil
}

// Read implements io.Reader over all members; io.EOF only comes where the source ends too.
func (r *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := r.gz.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if r.src.Len() == 0 {
			return n, io.EOF
		}
		if err := r.nextMember(); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// release gives the reader back to its pool without holding on to the source.
func (r *gzipReader) release() {
	r.src.Reset(nil)
	gzipReaders.Put(r)
}

func gunzip(dst, src []byte, maxBytes int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer r.release()
	if err := r.reset(src); err != nil {
		return nil, err
	}
	return readInto(dst, r, 4*len(src), maxBytes)
}
