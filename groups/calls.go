package groups

// Join asks for a place in the next generation of a group. done is called once the generation begins, which may take until the other
// members have joined or the rebalance timeout has passed.
//
// Errors: ErrInvalidGroupID, ErrInvalidSessionTimeout, ErrInconsistentProtocol, ErrGroupFull, ErrTooManyGroups, ErrMemberIDRequired with
// the id to come again with, ErrUnknownMember, ErrFencedInstance.
func (c *Coordinator) Join(r *JoinRequest, done func(*JoinResult)) {
	if r.Group == "" {
		done(&JoinResult{Err: ErrInvalidGroupID, Generation: -1, MemberID: r.MemberID})
		return
	}
	var out outbox
	s := c.shardFor(r.Key)
	s.mu.Lock()
	e, err := s.joinedLocked(r)
	if err == nil {
		e.g.join(c.now(), newMemberID(r), r, done, &out.fx)
		s.settleLocked(e, &out.fx)
		s.armLocked()
	}
	s.mu.Unlock()
	if err != nil {
		done(&JoinResult{Err: err, Generation: -1, MemberID: r.MemberID})
		return
	}
	out.send()
	s.pump()
}

// joinedLocked returns the group to join. One that is not known is made, unless the member claims to know it.
func (s *shard) joinedLocked(r *JoinRequest) (*entry, error) {
	if err := s.usableLocked(); err != nil {
		return nil, err
	}
	if r.MemberID == "" && s.c.held.Load() >= int64(s.c.opts.MaxHeldBytes) {
		return nil, ErrGroupFull
	}
	if e := s.findLocked(r.Key); e != nil || r.MemberID == "" {
		return s.makeLocked(r.Key)
	}
	return nil, ErrUnknownMember
}

// Sync asks for the member's assignment; the leader's sync brings everybody's. done is called once the assignments are committed.
//
// Errors: ErrInvalidGroupID, ErrUnknownMember, ErrIllegalGeneration, ErrFencedInstance, ErrInconsistentProtocol, ErrRebalanceInProgress;
// those of writing.
func (c *Coordinator) Sync(r *SyncRequest, done func(*SyncResult)) {
	var out outbox
	s := c.shardFor(r.Key)
	s.mu.Lock()
	e, err := s.memberLocked(r.Key)
	if err == nil {
		e.g.sync(c.now(), r, done, &out.fx)
		s.settleLocked(e, &out.fx)
		s.armLocked()
	}
	s.mu.Unlock()
	if err != nil {
		done(&SyncResult{Err: err})
		return
	}
	out.send()
	s.pump()
}

// memberLocked returns the group of somebody who claims to be a member.
func (s *shard) memberLocked(k Key) (*entry, error) {
	if k.Group == "" {
		return nil, ErrInvalidGroupID
	}
	if err := s.usableLocked(); err != nil {
		return nil, err
	}
	if e := s.findLocked(k); e != nil {
		return e, nil
	}
	return nil, ErrUnknownMember
}

// Heartbeat tells the group that a member lives. While the shard is being loaded every heartbeat is good: nothing is known against it, and
// clients do not expect to hear of loading here.
//
// Errors: ErrInvalidGroupID, ErrUnknownMember, ErrIllegalGeneration, ErrFencedInstance, ErrRebalanceInProgress.
func (c *Coordinator) Heartbeat(k Key, member, instance string, generation int32) error {
	s := c.shardFor(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == loading && k.Group != "" {
		return nil
	}
	e, err := s.memberLocked(k)
	if err != nil {
		return err
	}
	// It moves deadlines back only, so nothing has to be settled.
	return e.g.heartbeat(c.now(), member, instance, generation)
}

// Leave takes members out of a group. done gets an error for all (ErrInvalidGroupID), or one for each: ErrUnknownMember,
// ErrFencedInstance.
func (c *Coordinator) Leave(k Key, members []Leaving, done func(err error, each []error)) {
	var out outbox
	s := c.shardFor(k)
	s.mu.Lock()
	e, err := s.memberLocked(k)
	var each []error
	switch {
	case err == nil:
		each = e.g.leave(c.now(), members, &out.fx)
		s.settleLocked(e, &out.fx)
		s.armLocked()
	case s.phase == ready && k.Group != "": // no such group, so none of them is a member
		each = make([]error, len(members))
		for i := range each {
			each[i] = ErrUnknownMember
		}
		err = nil
	}
	s.mu.Unlock()
	out.send()
	done(err, each)
	s.pump()
}
