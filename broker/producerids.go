package broker

import (
	"context"
	"sync"

	"github.com/felixlog/felix/internal/cluster"
)

// producerIDBlock is how many producer ids are taken from the controller at a time.
const producerIDBlock = 1000

// producerIDs hands out ids of a block that the controller gave to this node. What is left of a block at a stop is never used: ids are
// plenty, and none may be given out twice.
type producerIDs struct {
	mu      sync.Mutex
	next    int64         // guarded by mu; the next id to hand out
	end     int64         // guarded by mu; exclusive
	filling chan struct{} // guarded by mu; not nil while somebody fetches a block; closed when done
}

// AllocateProducerID returns a producer id that nobody else ever gets. It waits for the controller once in a thousand calls. Errors: as
// of Metadata.Propose, or the context's.
func (b *Broker) AllocateProducerID(ctx context.Context) (int64, error) {
	p := &b.producerIDs
	for {
		p.mu.Lock()
		if p.next < p.end {
			id := p.next
			p.next++
			p.mu.Unlock()
			return id, nil
		}
		wait := p.filling
		if wait == nil {
			p.filling = make(chan struct{})
		}
		p.mu.Unlock()
		if wait == nil {
			if err := b.fillProducerIDs(ctx); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-wait: // whether it went well or not: look again
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// fillProducerIDs fetches a block. The caller has set filling.
func (b *Broker) fillProducerIDs(ctx context.Context) error {
	p := &b.producerIDs
	res, err := b.opts.Metadata.Propose(ctx, cluster.AllocateProducerIDs{Count: producerIDBlock})
	if err == nil {
		err = res.Err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.next, p.end = res.First, res.First+producerIDBlock
	}
	close(p.filling)
	p.filling = nil
	return err
}
