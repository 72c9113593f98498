package broker

import (
	"sync"
	"sync/atomic"

	"github.com/felixlog/felix/internal/ids"
)

// registry holds the shards that are open on this node, by topic and partition. Look-ups take a read lock and no
// allocation; a topic's row is made at the first open and costs a pointer a partition.
type registry struct {
	mu      sync.RWMutex
	topics  map[ids.TopicID]*topicRow
	opening map[ids.ShardID]*opening
	closed  bool
}

type topicRow struct{ shards []atomic.Pointer[Shard] }

// opening is one open in progress; whoever asks for the same shard meanwhile waits for it.
type opening struct {
	done  chan struct{}
	shard *Shard
	err   error
}

func newRegistry() *registry {
	return &registry{topics: map[ids.TopicID]*topicRow{}, opening: map[ids.ShardID]*opening{}}
}

func (r *registry) get(id ids.ShardID) *Shard {
	r.mu.RLock()
	row := r.topics[id.Topic]
	r.mu.RUnlock()
	if row == nil || int(id.Partition) >= len(row.shards) {
		return nil
	}
	return row.shards[id.Partition].Load()
}

// open returns the shard, running create for it unless it is open or being opened by somebody else.
func (r *registry) open(id ids.ShardID, partitions int, create func() (*Shard, error)) (*Shard, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if row := r.topics[id.Topic]; row != nil && int(id.Partition) < len(row.shards) {
		if s := row.shards[id.Partition].Load(); s != nil {
			r.mu.Unlock()
			return s, nil
		}
	}
	if o := r.opening[id]; o != nil {
		r.mu.Unlock()
		<-o.done
		return o.shard, o.err
	}
	o := &opening{done: make(chan struct{})}
	r.opening[id] = o
	r.mu.Unlock()

	o.shard, o.err = create()

	r.mu.Lock()
	if o.err == nil {
		r.rowLocked(id, partitions).shards[id.Partition].Store(o.shard)
	}
	delete(r.opening, id)
	r.mu.Unlock()
	close(o.done)
	return o.shard, o.err
}

func (r *registry) rowLocked(id ids.ShardID, partitions int) *topicRow {
	need := max(partitions, int(id.Partition)+1)
	row := r.topics[id.Topic]
	if row != nil && len(row.shards) >= need {
		return row
	}
	grown := &topicRow{shards: make([]atomic.Pointer[Shard], need)}
	if row != nil {
		for i := range row.shards {
			grown.shards[i].Store(row.shards[i].Load())
		}
	}
	r.topics[id.Topic] = grown
	return grown
}

// removeTopic forgets the topic's shards and returns those that were open.
func (r *registry) removeTopic(id ids.TopicID) []*Shard {
	r.mu.Lock()
	row := r.topics[id]
	delete(r.topics, id)
	r.mu.Unlock()
	if row == nil {
		return nil
	}
	return row.open(nil)
}

// ofTopic returns the open shards of a topic.
func (r *registry) ofTopic(id ids.TopicID) []*Shard {
	r.mu.RLock()
	row := r.topics[id]
	r.mu.RUnlock()
	if row == nil {
		return nil
	}
	return row.open(nil)
}

// all returns the open shards.
func (r *registry) all() []*Shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []*Shard
	for _, row := range r.topics {
		out = row.open(out)
	}
	return out
}

// close makes every later open fail and returns the shards that are open.
func (r *registry) close() []*Shard {
	r.mu.Lock()
	r.closed = true
	waits := make([]*opening, 0, len(r.opening))
	for _, o := range r.opening {
		waits = append(waits, o)
	}
	r.mu.Unlock()
	for _, o := range waits {
		<-o.done
	}
	return r.all()
}

func (t *topicRow) open(dst []*Shard) []*Shard {
	for i := range t.shards {
		if s := t.shards[i].Load(); s != nil {
			dst = append(dst, s)
		}
	}
	return dst
}
