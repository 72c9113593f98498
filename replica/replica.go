package replica

import (
	"sync"
	"sync/atomic"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
)

// Options say what a replica is made of.
type Options struct {
	Store Store        // owned by the replica from New on
	Self  ids.BrokerID // this node
	// CommitOnSync: under on_commit a record counts as held once it is synced. See machine.
	CommitOnSync bool
}

// Replica drives the machine of one copy. Append, Lead, Resign and the waits may be called from any goroutine; they are
// serialised by the replica's lock. Reads go to the store itself, below ReadLimit, and take no lock.
type Replica struct {
	store Store

	// Published for readers that take no lock. Written under mu.
	readLimit atomic.Int64 // exclusive bound of what readers may see
	epoch     atomic.Int32

	mu      sync.Mutex
	m       machine
	ended   error // why no more is accepted: ErrClosed, ErrDeleted; nil while open
	waiters waitList
}

// New makes a replica over an opened store. It leads nothing until Lead is called.
func New(opts Options) *Replica {
	r := &Replica{store: opts.Store}
	b := opts.Store.Bounds()
	r.m = machine{self: opts.Self, lead: ids.NoBroker, epoch: b.Epoch, commitOnSync: opts.CommitOnSync}
	r.m.opened(b.Start, b.End, b.DurableEnd)
	r.publishLocked()
	return r
}

// Lead makes this copy the leader of its shard at epoch with the given replica set, of which need members must hold a
// record before it is committed. An epoch older than one known is ignored and reported as false.
func (r *Replica) Lead(epoch ids.LeaderEpoch, set []ids.BrokerID, need int) bool {
	r.mu.Lock()
	ok := r.m.becomeLeader(epoch, set, need)
	chain := r.publishLocked()
	r.mu.Unlock()
	notify(chain)
	return ok
}

// Resign gives leadership up to leader at epoch; every waiter is told who leads now.
func (r *Replica) Resign(epoch ids.LeaderEpoch, leader ids.BrokerID) bool {
	r.mu.Lock()
	ok := r.m.resign(epoch, leader)
	var chain *Waiter
	if ok {
		chain = r.waiters.takeAll(r.m.notLeader())
		r.publishLocked()
	}
	r.mu.Unlock()
	notify(chain)
	return ok
}

// Append writes one validated batch as the next records, stamped with the current leader epoch. See log.Append for who owns
// the bytes and for the errors of the log; besides those: *errcode.NotLeaderError, ErrStopped, ErrClosed, ErrDeleted.
// The records are written, not committed: call Commit, and wait for the high watermark to reach the result's Next.
func (r *Replica) Append(in log.AppendInput) (log.AppendResult, error) {
	r.mu.Lock()
	if err := r.mayAppendLocked(); err != nil {
		r.mu.Unlock()
		return log.AppendResult{}, err
	}
	in.Epoch = r.m.epoch
	res, err := r.store.Append(in)
	if err != nil {
		r.mu.Unlock()
		return res, err
	}
	if res.Duplicate {
		r.mu.Unlock()
		return res, nil
	}
	r.m.appended(res.Next)
	chain := r.publishLocked()
	r.mu.Unlock()
	notify(chain)
	return res, nil
}

// Commit has what was appended so far made durable, where that is what commits it (on_commit); under the other sync modes it does
// nothing. With now it syncs on the caller's goroutine or joins a sync that covers the caller's records, and returns after it: a
// lone producer is spared two hand-offs. Otherwise a background goroutine syncs. Every Append must be followed by a Commit of the
// same or a later caller. A failure is reported to the waiters.
func (r *Replica) Commit(now bool) {
	switch {
	case !r.m.commitOnSync: // never changes, so it needs no lock
	case now:
		_, _ = r.store.SyncNow() // the log reports a failure through Durable
	default:
		r.store.RequestSync()
	}
}

// Durable is the log's report that its durable end moved to end, or that a sync failed. Give it to log.Options.OnDurable.
func (r *Replica) Durable(end ids.Offset, err error) {
	r.mu.Lock()
	var chain *Waiter
	if err != nil {
		r.m.failed()
		chain = r.waiters.takeAll(ErrStopped)
		r.publishLocked()
	} else {
		r.m.synced(end)
		chain = r.publishLocked()
	}
	r.mu.Unlock()
	notify(chain)
}

// AdvanceStart moves the log start offset to to, at most the high watermark; it is durable on return.
func (r *Replica) AdvanceStart(to ids.Offset) error {
	if err := r.store.AdvanceStart(to); err != nil {
		return err
	}
	r.mu.Lock()
	r.m.startAdvanced(to)
	chain := r.publishLocked()
	r.mu.Unlock()
	notify(chain)
	return nil
}

// ReadLimit is the exclusive bound of what readers may see: the high watermark, or the durable end of a stopped copy if lower.
func (r *Replica) ReadLimit() ids.Offset { return ids.Offset(r.readLimit.Load()) }

// Epoch is the current leader epoch, NoEpoch before the first.
func (r *Replica) Epoch() ids.LeaderEpoch { return ids.LeaderEpoch(r.epoch.Load()) }

// CheckEpoch compares the leader epoch that a client knows with ours (KIP-320). NoEpoch checks nothing.
func (r *Replica) CheckEpoch(known ids.LeaderEpoch) error {
	switch current := r.Epoch(); {
	case known == ids.NoEpoch || known == current:
		return nil
	case known < current:
		return ErrFencedEpoch
	default:
		return ErrUnknownEpoch
	}
}

// Wait registers w unless the high watermark is at or above w.Until already. It reports whether w waits: false with a nil
// error means reached, false with an error means it never will be here. Notify is called only after true.
func (r *Replica) Wait(w *Waiter) (waiting bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ReadLimit() >= w.Until {
		return false, nil
	}
	if err := r.mayAppendLocked(); err != nil {
		return false, err
	}
	r.waiters.add(w)
	return true, nil
}

// CancelWait takes w back. False means that Notify ran, runs or is about to: w must not be reused before it has.
func (r *Replica) CancelWait(w *Waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.waiting {
		return false
	}
	r.waiters.remove(w)
	return true
}

// Close ends the replica and closes its store. Waiters get ErrClosed. A clean close syncs and leaves nothing to recover.
func (r *Replica) Close(clean bool) error {
	if !r.end(ErrClosed) {
		return nil
	}
	return r.store.Close(clean)
}

// Delete ends the replica and removes its records. Waiters get ErrDeleted.
func (r *Replica) Delete() error {
	r.end(ErrDeleted)
	return r.store.Delete()
}

func (r *Replica) end(why error) bool {
	r.mu.Lock()
	first := r.ended == nil
	var chain *Waiter
	if first {
		r.ended = why
		chain = r.waiters.takeAll(why)
	}
	r.mu.Unlock()
	notify(chain)
	return first
}

func (r *Replica) mayAppendLocked() error {
	if r.ended != nil {
		return r.ended
	}
	return r.m.mayAppend()
}

// publishLocked makes the machine's marks visible to readers and takes the waiters that they satisfy.
func (r *Replica) publishLocked() *Waiter {
	limit := r.m.readLimit()
	r.readLimit.Store(int64(limit))
	r.epoch.Store(int32(r.m.epoch))
	r.store.SetFloor(r.m.hw)
	return r.waiters.takeUntil(limit)
}
