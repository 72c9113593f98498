package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Owner keeps what a group member owns and emits each change of it, and each record, with its time. Libraries differ in what they
// tell: some report each step, some only the new assignment; an Owner makes one form of both. It is safe for concurrent use.
type Owner struct {
	emit func(Event)

	mu    sync.Mutex
	owned map[int32]bool
}

// NewOwner returns an Owner of nothing.
func NewOwner(emit func(Event)) *Owner {
	return &Owner{emit: emit, owned: map[int32]bool{}}
}

// Assigned adds partitions. It must be called before the library hands out their records.
func (o *Owner) Assigned(partitions ...int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		o.owned[p] = true
	}
	o.emit(Event{At: time.Now().UnixMicro(), Owned: &Owned{Assigned: partitions}})
}

// Revoked takes partitions away. It must be called before another member can get them.
func (o *Owner) Revoked(partitions ...int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		delete(o.owned, p)
	}
	o.emit(Event{At: time.Now().UnixMicro(), Owned: &Owned{Revoked: partitions}})
}

// RevokedAll takes away what is left.
func (o *Owner) RevokedAll() {
	o.mu.Lock()
	left := slices.Sorted(maps.Keys(o.owned))
	o.mu.Unlock()
	if len(left) > 0 {
		o.Revoked(left...)
	}
}

// Record emits a record.
func (o *Owner) Record(r Record) {
	o.emit(Event{At: time.Now().UnixMicro(), Record: &r})
}
