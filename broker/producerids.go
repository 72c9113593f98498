package broker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/log"
)

// A native producer's id has bit 62 set, above a mark of whom it was given to, above a number that nobody else gets. The mark needs no
// memory, so it holds after restarts and on every node; that two principals have the same one has a chance of one in four million.
const (
	nativeNumberBits = 40
	nativeMarkBits   = 62 - nativeNumberBits
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

// AllocateNativeProducer returns a producer id for the caller: no other principal may use it. It waits and fails as AllocateProducerID
// does.
func (b *Broker) AllocateNativeProducer(ctx context.Context, caller *Caller) (uint64, error) {
	n, err := b.AllocateProducerID(ctx)
	switch {
	case err != nil:
		return 0, err
	case n >= 1<<nativeNumberBits:
		return 0, errcode.Newf(errcode.Internal, "broker: no producer ids are left")
	}
	return uint64(log.NativeProducer) | nativeMark(caller)<<nativeNumberBits | uint64(n), nil
}

// ownsProducer tells whether a native producer id was given to the caller.
func ownsProducer(caller *Caller, id uint64) bool {
	return caller.Known() && id>>62 == 1 && id>>nativeNumberBits&(1<<nativeMarkBits-1) == nativeMark(caller)
}

// nativeMark stands for a principal in its producer ids.
func nativeMark(caller *Caller) uint64 {
	b := make([]byte, 0, 128)
	b = binary.BigEndian.AppendUint32(b, uint32(len(caller.Tenant)))
	b = append(b, caller.Tenant...)
	b = append(b, caller.Principal...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:]) >> (64 - nativeMarkBits)
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
