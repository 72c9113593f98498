package node

import (
	"os"
	"runtime/debug"
)

const (
	// memoryFloor is what the process may hold besides the budget before the collector works harder: code, shards, connections.
	memoryFloor = 256 * mib
	// gcPercent lets the heap grow by its own size between collections. The hot paths reuse their buffers, so collections are rare
	// whatever the number; a larger one would only raise the resident size of an idle node.
	gcPercent = 100
)

// tuneRuntime sets the collector's limits, unless the person who started the process set them (GOGC, GOMEMLIMIT).
func tuneRuntime(c *Config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(c.MemoryBudgetBytes + c.Storage.HotTailBytes + memoryFloor)
	}
}
