package cache

import (
	"encoding/binary"

	"github.com/felixlog/felix/internal/errcode"
)

// CommitHeader is the record header that carries what a commit changes. Kafka clients see it as any other header.
const CommitHeader = "felix.commit"

// Change is one change of an entity's state. Its key lives in a space of the entity's own.
type Change struct {
	Key    string
	Value  []byte // of a put; not nil
	Delete bool
}

// The encoding: a version byte, then for each change in order an operation byte, a uvarint length and the key, and for a put a uvarint
// length and the value.
const (
	commitVersion = 1
	opPut         = 1
	opDelete      = 2
)

var errCommit = errcode.New(errcode.InvalidRecord, "cache: a commit's changes are not what was written")

// AppendCommit appends the encoding of changes.
func AppendCommit(dst []byte, changes []Change) []byte {
	dst = append(dst, commitVersion)
	for _, c := range changes {
		op := byte(opPut)
		if c.Delete {
			op = opDelete
		}
		dst = append(dst, op)
		dst = binary.AppendUvarint(dst, uint64(len(c.Key)))
		dst = append(dst, c.Key...)
		if !c.Delete {
			dst = binary.AppendUvarint(dst, uint64(len(c.Value)))
			dst = append(dst, c.Value...)
		}
	}
	return dst
}

// ParseCommit reads what AppendCommit wrote. Values point into b. Errors: of kind InvalidRecord.
func ParseCommit(b []byte) ([]Change, error) {
	if len(b) == 0 || b[0] != commitVersion {
		return nil, errCommit
	}
	b = b[1:]
	var out []Change
	for len(b) > 0 {
		op := b[0]
		if op != opPut && op != opDelete {
			return nil, errCommit
		}
		key, rest, ok := field(b[1:])
		if !ok {
			return nil, errCommit
		}
		c := Change{Key: string(key), Delete: op == opDelete}
		if !c.Delete {
			if c.Value, rest, ok = field(rest); !ok {
				return nil, errCommit
			}
		}
		out = append(out, c)
		b = rest
	}
	return out, nil
}

// field cuts a length and that many bytes off b.
func field(b []byte) (value, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n) : size+int(n)], b[size+int(n):], true
}
