package broker

// fairnessQuantum is what a tenant may have written in its turn, in bytes, when several have publishes queued.
const fairnessQuantum = 64 << 10

// work is what may be written of one kind, and how many write it. Guarded by admission.mu.
type work struct {
	running int      // at most admission.workers
	ready   turnList // tenants with a lane whose head may be written, in the order of their turns
}

// tenantTurns are a tenant's turns at one kind of work. Guarded by admission.mu.
type tenantTurns struct {
	pending int      // publications that are queued and that nobody writes yet
	deficit int64    // bytes that may be written in its turn
	turn    bool     // the deficit has been raised for the turn that it is in
	lanes   laneList // whose head may be written

	readyLink turnLink
}

// publishLane is the way into one shard: its queue, and who waits to get into that. Guarded by admission.mu.
type publishLane struct {
	shard       *Shard
	tenant      *publishTenant
	turns       *tenantTurns // of tenant
	work        *work
	busy        bool // somebody writes to the shard
	uncommitted int  // written, and waiting for their commit
	queue       publicationList
	waiting     publicationList

	readyLink, waitingLink laneLink
}

// beginLocked takes the lane and a worker's place for the caller, if it may write to the shard at once.
func (a *admission) beginLocked(lane *publishLane) bool {
	if lane.waiting.first != nil || lane.work.running >= a.workers || !a.idleLocked(lane) {
		return false
	}
	lane.busy = true
	lane.work.running++
	return true
}

// idleLocked tells whether the next publish to a lane may be written at once.
func (a *admission) idleLocked(lane *publishLane) bool {
	return !lane.busy && lane.queue.first == nil && lane.uncommitted < a.pipelined
}

func (a *admission) enqueueLocked(lane *publishLane, p *Publication) {
	t := lane.tenant
	a.queued++
	a.bytes += p.cost
	t.queued++
	t.bytes += p.cost
	lane.turns.pending++
	lane.queue.push(p)
	a.readyLocked(lane)
}

// readyLocked has the lane's head written when its tenant's turn comes, if it may be.
func (a *admission) readyLocked(lane *publishLane) {
	if lane.busy || lane.queue.first == nil || lane.uncommitted >= a.pipelined || lane.readyLink.in {
		return
	}
	t := lane.turns
	t.lanes.push(lane)
	if t.readyLink.in {
		return
	}
	if t.turn {
		lane.work.ready.pushFront(t) // its lanes were only busy: its turn goes on
	} else {
		lane.work.ready.push(t)
	}
}

// pickLocked takes the next publication to write, nil if there is none that may be. Its lane is busy from then on.
func (w *work) pickLocked() *Publication {
	for passed := 0; ; passed++ {
		t := w.ready.first
		if t == nil {
			return nil
		}
		lane := t.lanes.first
		p := lane.queue.first
		if !t.turn {
			t.turn = true
			t.deficit += fairnessQuantum
		}
		if t.deficit < p.cost {
			t.turn = false
			w.ready.remove(t)
			w.ready.push(t)
			if passed > 0 && passed%w.ready.count == 0 {
				w.skipTurnsLocked()
			}
			continue
		}
		t.deficit -= p.cost
		t.lanes.remove(lane)
		lane.queue.remove(p)
		lane.busy = true
		if t.pending--; t.pending == 0 {
			t.deficit, t.turn = 0, false
		}
		if t.lanes.first == nil {
			w.ready.remove(t)
		}
		return p
	}
}

// skipTurnsLocked gives every ready tenant as many turns at once as it takes for the first of them to have a publication written, less
// the one that it is about to get: a round of turns in which nothing can happen costs nothing.
func (w *work) skipTurnsLocked() {
	turns := int64(1 << 62)
	for t := w.ready.first; t != nil; t = t.readyLink.next {
		short := t.lanes.first.queue.first.cost - t.deficit
		turns = min(turns, (short+fairnessQuantum-1)/fairnessQuantum)
	}
	for t := w.ready.first; t != nil && turns > 1; t = t.readyLink.next {
		t.deficit += (turns - 1) * fairnessQuantum
	}
}

// carryOn ends the write that the caller made to a lane, and makes the next ones: steps of them at most, then a goroutine goes on. cost
// is what the written publication took of the queue, 0 if it was never in it.
func (a *admission) carryOn(lane *publishLane, cost int64, steps int) {
	for {
		a.mu.Lock()
		lane.busy = false
		a.readyLocked(lane)
		if cost > 0 {
			a.releaseLocked(lane.tenant, cost)
		}
		w := lane.work // what is written next is of the same kind
		p := w.pickLocked()
		if p == nil {
			if w.running--; w.running == 0 && a.closed {
				a.idle.Broadcast()
			}
			a.mu.Unlock()
			return
		}
		a.kickLocked() // of those who waited for room several may have been let in
		if steps == 0 {
			a.wg.Go(func() { a.write(p) })
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		steps--
		lane, cost = &p.Shard.lane, p.cost
		a.step(p)
	}
}

// write writes a publication that was picked, and then what comes.
func (a *admission) write(p *Publication) {
	lane, cost := &p.Shard.lane, p.cost
	a.step(p)
	a.carryOn(lane, cost, -1)
}

// kickLocked starts goroutines for what may be written and nobody writes, while a place is free: lanes that could not go on when the place
// became free, or in which there was nothing. So there is never both, and a caller that finds a place free overtakes nobody.
func (a *admission) kickLocked() {
	for _, w := range [...]*work{&a.disk, &a.memory} {
		for w.running < a.workers {
			p := w.pickLocked()
			if p == nil {
				break
			}
			w.running++
			a.wg.Go(func() { a.write(p) })
		}
	}
}

// dropLocked moves what a lane has queued to left.
func (a *admission) dropLocked(lane *publishLane, left *publicationList) {
	t, turns := lane.tenant, lane.turns
	for p := lane.queue.first; p != nil; p = lane.queue.first {
		lane.queue.remove(p)
		left.push(p)
		a.queued--
		a.bytes -= p.cost
		t.queued--
		t.bytes -= p.cost
		turns.pending--
	}
	if lane.readyLink.in {
		turns.lanes.remove(lane)
		if turns.lanes.first == nil {
			lane.work.ready.remove(turns)
		}
	}
}
