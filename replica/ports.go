package replica

import (
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
)

// Store is one copy of a shard's records: *log.Log on disk, or *ring.Ring in memory. The replica is the only one who changes it;
// what readers need of it goes to it directly.
type Store interface {
	// Append writes one batch as the next records; see log.Log.Append. One caller at a time.
	Append(in log.AppendInput) (log.AppendResult, error)
	Bounds() log.Bounds
	// AdvanceStart removes what lies below an offset; see log.Log.AdvanceStart.
	AdvanceStart(to ids.Offset) error
	// SetFloor tells the high watermark, which retention must not pass.
	SetFloor(ids.Offset)
	// RequestSync and SyncNow make what was appended durable where Options.CommitOnSync asks for it; see log.Log.
	RequestSync()
	SyncNow() (ids.Offset, error)
	Close(clean bool) error
	// Delete closes the store and removes its records for good.
	Delete() error
}

var _ Store = (*log.Log)(nil)
