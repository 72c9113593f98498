package broker

import (
	"sync"
	"time"

	"github.com/felixlog/felix/internal/ids"
)

// openRetry is how long a shard that could not be opened is refused before the next try: opening reads files up to where they are
// damaged, and clients ask again several times a second.
const openRetry = 30 * time.Second

// failures remembers the shards that could not be opened. The zero value is empty.
type failures struct {
	mu     sync.Mutex
	shards map[ids.ShardID]failure
}

type failure struct {
	err   error
	until time.Time
}

// get returns why a shard is refused without trying, nil if it may be tried.
func (f *failures) get(id ids.ShardID, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.shards[id]; ok && now.Before(was.until) {
		return was.err
	}
	return nil
}

// add notes that a shard could not be opened. It reports whether it is the first time since it was last open.
func (f *failures) add(id ids.ShardID, err error, now time.Time) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shards == nil {
		f.shards = map[ids.ShardID]failure{}
	}
	_, known := f.shards[id]
	f.shards[id] = failure{err: err, until: now.Add(openRetry)}
	return !known
}

// forget removes a shard and reports whether it was there.
func (f *failures) forget(id ids.ShardID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.shards[id]
	delete(f.shards, id)
	return ok
}

// forgetTopic removes a topic's shards and returns how many there were.
func (f *failures) forgetTopic(topic ids.TopicID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for id := range f.shards {
		if id.Topic == topic {
			delete(f.shards, id)
			n++
		}
	}
	return n
}
