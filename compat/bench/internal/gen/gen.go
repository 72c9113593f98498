// Package gen makes the record values of the benchmarks: JSON-like lines of an exact length, the same in every run and for
// every server, so that a GB (10^9 bytes of values) and the ratio of a codec mean the same thing everywhere.
package gen

import (
	"fmt"
	"math/rand/v2"
)

// The pool holds poolBytes of values, but at least minPool and at most maxPool of them: enough that a 64 KiB batch holds no
// value twice.
const (
	poolBytes = 8 << 20
	minPool   = 64
	maxPool   = 4096
)

var (
	services = []string{"checkout", "catalog", "payments", "search", "identity", "shipping", "billing", "gateway"}
	levels   = []string{"debug", "info", "info", "info", "info", "warn", "error"}
	verbs    = []string{"GET", "GET", "GET", "POST", "PUT", "DELETE"}
	words    = []string{
		"order", "accepted", "customer", "retry", "timeout", "queue", "session", "expired", "token", "cache", "miss", "hit",
		"update", "stock", "level", "item", "basket", "total", "currency", "invoice", "address", "verified", "shipment", "ready",
	}
)

// Values returns a fixed pool of values of exactly size bytes each. All values share one backing array; callers must not
// write to them. size is at least 16.
func Values(size int) [][]byte {
	rng := rand.New(rand.NewPCG(0x66656c6978, uint64(size)))
	n := min(max(poolBytes/size, minPool), maxPool)
	backing := make([]byte, 0, n*size)
	out := make([][]byte, n)
	line := make([]byte, 0, 2*size+256)
	for i := range out {
		line = appendLine(line[:0], rng, i)
		for len(line) < size-2 {
			line = append(line, words[rng.IntN(len(words))]...)
			line = append(line, ' ')
		}
		line = append(line[:size-2], '"', '}')
		start := len(backing)
		backing = append(backing, line...)
		out[i] = backing[start:len(backing):len(backing)]
	}
	return out
}

// appendLine appends an open JSON object whose last field is an unfinished string, for Values to fill up or cut.
func appendLine(dst []byte, rng *rand.Rand, i int) []byte {
	return fmt.Appendf(dst,
		`{"ts":"2026-03-14T09:%02d:%02d.%03dZ","id":%d,"svc":"%s","level":"%s","user":%d,"verb":"%s","path":"/v1/%s/%d",`+
			`"status":%d,"ms":%d.%02d,"trace":"%016x%016x","msg":"`,
		rng.IntN(60), rng.IntN(60), rng.IntN(1000), 100000+i, services[rng.IntN(len(services))], levels[rng.IntN(len(levels))],
		rng.IntN(5_000_000), verbs[rng.IntN(len(verbs))], words[rng.IntN(len(words))], rng.IntN(100_000),
		200+100*rng.IntN(4), rng.IntN(900), rng.IntN(100), rng.Uint64(), rng.Uint64())
}
