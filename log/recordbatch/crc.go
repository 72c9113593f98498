package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the table of CRC-32C; with it the standard library uses the processor's instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum computes the CRC-32C of a whole batch: of everything from the attributes to its end. b is exactly the batch.
func Checksum(b []byte) uint32 {
	return crc32.Checksum(b[offsetOfAttributes:], castagnoli)
}

// CheckCRC verifies the checksum of b, which is exactly one batch. It returns ErrShort if b is shorter than a header and ErrCRC if
// the checksum does not match.
func CheckCRC(b []byte) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	if Checksum(b) != binary.BigEndian.Uint32(b[offsetOfCRC:]) {
		return ErrCRC
	}
	return nil
}

// Recrc computes the checksum of b, which is exactly one batch of at least a header, and writes it into b.
func Recrc(b []byte) {
	binary.BigEndian.PutUint32(b[offsetOfCRC:], Checksum(b))
}

// Summer computes the checksum of a batch while its bytes arrive, piece by piece, so that each piece is read while it is in the
// processor's cache. The zero value has seen nothing.
type Summer struct {
	seen int // bytes of the batch so far
	crc  uint32
}

// Add takes the next bytes of the batch.
func (s *Summer) Add(piece []byte) {
	if s.seen < offsetOfAttributes {
		skip := min(len(piece), offsetOfAttributes-s.seen)
		s.seen += skip
		piece = piece[skip:]
	}
	s.seen += len(piece)
	s.crc = crc32.Update(s.crc, castagnoli, piece)
}

// Sum is what Checksum gives for the bytes so far, if they are one whole batch.
func (s *Summer) Sum() uint32 { return s.crc }
