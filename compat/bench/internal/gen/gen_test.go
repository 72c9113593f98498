package gen

import (
	"bytes"
	"testing"
)

func TestValuesHaveTheSizeAndAreStable(t *testing.T) {
	for _, size := range []int{16, 100, 256, 1024} {
		a, b := Values(size), Values(size)
		for i := range a {
			if len(a[i]) != size {
				t.Fatalf("size %d: value %d has %d bytes", size, i, len(a[i]))
			}
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("size %d: value %d differs between two calls", size, i)
			}
		}
	}
}
