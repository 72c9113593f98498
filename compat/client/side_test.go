package client

import (
	"testing"
	"time"
)

// record is what a side reads.
type record struct {
	shard  uint32
	offset int64
	value  string
	at     time.Time // when it was written, if the side was asked for times
}

// placed is where a side was told that records are: the first one's offset.
type placed struct {
	shard  uint32
	offset int64
}

// side is a client of the server. Its methods fail the test.
type side interface {
	// name is "native" or "kafka".
	name() string
	// publish stores values under a key as one batch, and waits until it is acknowledged. The shard is the one that the native hash gives.
	publish(t *testing.T, stream string, key []byte, values ...string) placed
	// writer publishes single records in order, many at a time.
	writer(t *testing.T, stream string) writer
	// subscribe reads one shard from an offset, or from the oldest (-2) or the next (-1) record.
	subscribe(t *testing.T, stream string, shard uint32, from int64) reader
	// bounds are the oldest offset of a shard and the next one.
	bounds(t *testing.T, stream string, shard uint32) (start, end int64)
	// offsetAt is the first record's that is not older than a time, -1 for none.
	offsetAt(t *testing.T, stream string, shard uint32, at time.Time) int64
}

const (
	fromOldest = -2
	fromNext   = -1
)

// writer publishes without waiting.
type writer interface {
	// send takes a record on. done, which may be nil, is called with where it is.
	send(key []byte, value string, done func(placed))
	// wait waits for all answers.
	wait()
}

// reader reads one shard.
type reader interface {
	// next returns the next record, whatever happens to the server meanwhile.
	next() record
	// close ends it.
	close()
}

// take reads n records.
func take(r reader, n int) []record {
	out := make([]record, n)
	for i := range out {
		out[i] = r.next()
	}
	return out
}

// sides are the clients of a fleet.
func sides(t *testing.T, f *fleet) map[string]side {
	t.Helper()
	return map[string]side{"native": newNative(t, f), "kafka": newKafka(t, f)}
}
