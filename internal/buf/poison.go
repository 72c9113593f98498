//go:build invariants

package buf

// poison overwrites a returned buffer, so that a use after release shows as garbage in tests. Large buffers are only
// marked at both ends: a full pass would dominate the tests' time.
func poison(b []byte) {
	const span = 256
	if len(b) <= 2*span {
		fill(b)
		return
	}
	fill(b[:span])
	fill(b[len(b)-span:])
}

func fill(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}
