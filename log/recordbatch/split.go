package recordbatch

import (
	"encoding/binary"

	"github.com/felixlog/felix/internal/errcode"
)

const (
	// minOldLength is the smallest length field that Kafka's own reader takes for a batch at all, in any format.
	minOldLength = 14
)

// SplitProduce finds the one batch in the records field of a produce request, magic 2 or older, and answers what is wrong
// otherwise as Kafka 4.3 does. It looks at lengths and magic bytes only: Validate does the rest.
//
// Exactly one batch is allowed. A tail that is too short to be a batch is trimmed, as Kafka does; a tail that begins like one
// but is cut off is refused, where Kafka drops it silently.
//
// Errors: invalid_record if there is no whole batch or more than one, corrupt_batch if a length or a magic byte is impossible.
func SplitProduce(records []byte) (batch []byte, err error) {
	size, err := batchSize(records)
	if err != nil {
		return nil, err
	}
	if size == 0 || size > len(records) {
		return nil, reject(errcode.InvalidRecord, "no whole batch in the %d bytes sent", len(records))
	}
	tail := records[size:]
	tailSize, err := batchSize(tail)
	if err != nil {
		return nil, err
	}
	if tailSize != 0 && (tailSize <= len(tail) || len(tail) >= HeaderSize) {
		return nil, reject(errcode.InvalidRecord, "more than one batch for one partition")
	}
	return records[:size:size], nil
}

// batchSize reads the size of the batch at the start of b, which may be longer than b; 0 means that b is too short to be one.
func batchSize(b []byte) (int, error) {
	if len(b) < LengthEnd {
		return 0, nil
	}
	length := int32(binary.BigEndian.Uint32(b[offsetOfLength:]))
	if length < minOldLength {
		return 0, ErrLength
	}
	if len(b) <= offsetOfMagic {
		return 0, nil
	}
	if b[offsetOfMagic] > Magic {
		return 0, ErrMagic
	}
	return int(length) + LengthEnd, nil
}
