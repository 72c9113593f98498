package recordbatch

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func TestSummerEqualsChecksum(t *testing.T) {
	b := NewBuilder(nil, BuilderOptions{})
	for range 50 {
		b.Append(1, []byte("key"), make([]byte, 100))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var s Summer
		for rest := batch; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 1+random.IntN(2000)))
			s.Add(rest[:n])
			rest = rest[n:]
		}
		if s.Sum() != Checksum(batch) {
			t.Fatalf("sum %x, want %x", s.Sum(), Checksum(batch))
		}
	}
	if _, err := Validate(batch, ValidateOptions{Summed: true, Sum: Checksum(batch)}); err != nil {
		t.Errorf("right sum: %v", err)
	}
	if _, err := Validate(batch, ValidateOptions{Summed: true, Sum: Checksum(batch) + 1}); !errors.Is(err, ErrCRC) {
		t.Errorf("wrong sum: %v, want ErrCRC", err)
	}
}
