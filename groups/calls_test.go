package groups

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// TestCommitIsAnsweredWhenCommitted: not before the high watermark has passed it, and it is not read before either.
func TestCommitIsAnsweredWhenCommitted(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	log.manual = true
	done := h.commit(testKey, "", -1, 5)
	silent(t, done)
	if got := h.offsetOf(testKey, 0); got != -1 {
		t.Errorf("read %d before it was committed", got)
	}
	log.commit()
	if o := receive(t, done); o.err != nil || len(o.each) != 1 || o.each[0] != nil {
		t.Errorf("answer: %+v", o)
	}
	if got := h.offsetOf(testKey, 0); got != 5 {
		t.Errorf("read %d, want 5", got)
	}
}

// TestCommitsShareAppends: what is asked for while a batch is on its way goes into one next batch, however many ask.
func TestCommitsShareAppends(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	log.manual = true
	var done []<-chan outcome
	for i := range 100 {
		done = append(done, h.commit(testKey, "", -1, int64(i)))
	}
	for i := range 2 {
		h.until("a batch is on its way", func() bool { return log.waiting() == 1 })
		log.commit()
		if i == 0 {
			receive(t, done[0])
		}
	}
	for _, d := range done[1:] {
		receive(t, d)
	}
	if log.appends != 2 {
		t.Errorf("%d appends, want 2", log.appends)
	}
	if got := h.offsetOf(testKey, 0); got != 99 {
		t.Errorf("the last commit does not stand: %d", got)
	}
}

func TestCommitRefusals(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxGroups = 2 })
	member := h.settled(testKey)
	tests := []struct {
		name       string
		key        Key
		member     string
		generation int32
		want       error
	}{
		{"outside_of_an_active_group", testKey, "", -1, ErrUnknownMember},
		{"unknown_member", testKey, "x", member.Generation, ErrUnknownMember},
		{"wrong_generation", testKey, member.MemberID, member.Generation + 1, ErrIllegalGeneration},
		{"unknown_group_with_a_generation", Key{Tenant: "t", Group: "none"}, "x", 1, ErrIllegalGeneration},
		{"member", testKey, member.MemberID, member.Generation, nil},
		{"second_group", Key{Tenant: "t", Group: "second"}, "", -1, nil},
		{"too_many_groups", Key{Tenant: "t", Group: "third"}, "", -1, ErrTooManyGroups},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantErr(t, receive(t, h.commit(tt.key, tt.member, tt.generation, 1)).err, tt.want)
		})
	}
	if got := h.c.groups.Load(); got != 2 {
		t.Errorf("%d groups are counted, want 2", got)
	}
}

func TestCommitMetadata(t *testing.T) {
	h := newHarness(t)
	long := string(make([]byte, 5000))
	answers := make(chan outcome, 1)
	r := &CommitRequest{Key: testKey, Generation: -1, RetentionMs: -1, Offsets: []OffsetCommit{
		{Topic: topicA, Partition: 0, Offset: 1, Metadata: "kept"}, {Topic: topicA, Partition: 1, Offset: 2, Metadata: long},
	}}
	h.c.Commit(r, func(err error, each []error) { answers <- outcome{err, each} })
	o := receive(t, answers)
	wantErr(t, o.err, nil)
	wantErr(t, o.each[0], nil)
	wantErr(t, o.each[1], ErrOffsetMetadataTooLarge)
	got, ok, err := h.c.Offset(testKey, topicA, 0)
	if err != nil || !ok || got.Metadata != "kept" {
		t.Errorf("offset: %+v, %v, %v", got, ok, err)
	}
	if got := h.offsetOf(testKey, 1); got != -1 {
		t.Errorf("an offset with too much metadata was committed: %d", got)
	}
	// A group is not made for a commit that stores nothing.
	r.Key, r.Offsets = Key{Tenant: "t", Group: "other"}, r.Offsets[1:]
	h.c.Commit(r, func(err error, each []error) { answers <- outcome{err, each} })
	wantErr(t, receive(t, answers).each[0], ErrOffsetMetadataTooLarge)
	if n := len(h.listed("t")); n != 1 {
		t.Errorf("%d groups are listed, want 1", n)
	}
}

// TestRestart: what was acknowledged is there after a restart, and members of the generation just go on.
func TestRestart(t *testing.T) {
	h := newHarness(t)
	r := h.settled(testKey)
	wantErr(t, receive(t, h.commit(testKey, r.MemberID, r.Generation, 7, 8)).err, nil)
	h.committed(Key{Tenant: "t", Group: "simple"}, 3)
	before, err := h.c.Describe(testKey)
	wantErr(t, err, nil)
	h.restart()
	after, err := h.c.Describe(testKey)
	wantErr(t, err, nil)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("another group after the restart:\n%s", diff)
	}
	wantErr(t, h.c.Heartbeat(testKey, r.MemberID, "", r.Generation), nil)
	wantErr(t, receive(t, h.commit(testKey, r.MemberID, r.Generation, 9)).err, nil)
	if a, b, c := h.offsetOf(testKey, 0), h.offsetOf(testKey, 1), h.offsetOf(Key{Tenant: "t", Group: "simple"}, 0); a != 9 || b != 8 || c != 3 {
		t.Errorf("offsets %d %d %d, want 9 8 3", a, b, c)
	}
	if s := receive(t, h.sync(testKey, &JoinResult{MemberID: r.MemberID, Generation: r.Generation})); string(s.Assignment) != "part of "+r.MemberID {
		t.Errorf("assignment %q, %v", s.Assignment, s.Err)
	}
}

// TestWhileLoading: calls are told so, heartbeats are good, and lists say that they are incomplete.
func TestWhileLoading(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 1)
	log := h.log(testKey)
	log.scanGate = make(chan struct{})
	h.setImage(h.image(2, topicA, topicB))
	_, _, err := h.c.Offset(testKey, topicA, 0)
	wantErr(t, err, ErrLoading)
	wantErr(t, h.c.Heartbeat(testKey, "m", "", 1), nil)
	wantErr(t, h.c.List("t", 0, func(Overview) bool { return true }), ErrLoading)
	wantErr(t, receive(t, h.commit(testKey, "", -1, 2)).err, ErrLoading)
	wantErr(t, receive(t, h.join(testKey, "")).Err, ErrLoading)
	_, err = h.c.Describe(testKey)
	wantErr(t, err, ErrLoading)
	close(log.scanGate)
	h.loaded()
	if got := h.offsetOf(testKey, 0); got != 1 {
		t.Errorf("offset %d, want 1", got)
	}
}

// TestLeadershipLost: whoever waits is told, and a leadership that comes back begins with what the log says.
func TestLeadershipLost(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	member := h.settled(testKey)
	log.manual = true
	done := h.commit(testKey, member.MemberID, member.Generation, 4)
	waits := h.join(testKey, "") // a second member: a rebalance, which waits for the first
	h.mu.Lock()
	h.leader = 2
	h.mu.Unlock()
	h.setImage(h.image(2, topicA, topicB))
	wantErr(t, receive(t, done).err, ErrNotCoordinator)
	wantErr(t, receive(t, waits).Err, ErrNotCoordinator)
	h.loaded()
	wantErr(t, h.c.Heartbeat(testKey, member.MemberID, "", member.Generation), ErrNotCoordinator)
	wantErr(t, h.c.List("t", 0, func(Overview) bool { return true }), nil)

	h.mu.Lock()
	h.leader = self
	h.mu.Unlock()
	log.tell(errcode.New(errcode.NotLeader, "test: resigned")) // late news of the old leadership
	log.manual = false
	log.commit()
	h.setImage(h.image(3, topicA, topicB))
	h.loaded()
	wantErr(t, h.c.Heartbeat(testKey, member.MemberID, "", member.Generation), nil)
	if got := h.offsetOf(testKey, 0); got != 4 {
		t.Errorf("offset %d, want 4: it was in the log, though nobody was told", got)
	}
	wantErr(t, receive(t, h.commit(testKey, member.MemberID, member.Generation, 5)).err, nil)
}

// TestWriteFails: a write that left no trace costs those who asked for it; any other has the shard loaded again.
func TestWriteFails(t *testing.T) {
	tests := []struct {
		name      string
		appendErr error
		waitErr   error
		want      error
		scans     int
	}{
		{"disk_full", errcode.New(errcode.Overloaded, "test: full"), nil, ErrNotAvailable, 1},
		{"too_large", errcode.New(errcode.RecordListTooLarge, "test: large"), nil, ErrTooLarge, 1},
		{"stopped", errDisk, nil, ErrNotAvailable, 2},
		{"resigned", nil, &errcode.NotLeaderError{Leader: 2}, ErrNotCoordinator, 2},
		{"sync_failed", nil, errDisk, ErrNotAvailable, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t)
			h.committed(testKey, 1)
			log := h.log(testKey)
			log.appendErr, log.manual = tt.appendErr, true
			done := h.commit(testKey, "", -1, 2)
			if tt.waitErr != nil {
				log.tell(tt.waitErr)
			}
			wantErr(t, receive(t, done).err, tt.want)
			log.mu.Lock()
			log.appendErr, log.manual = nil, false
			log.mu.Unlock()
			log.commit()
			h.until("the shard was loaded again", func() bool { log.commit(); return log.scanned() == tt.scans })
			h.loaded()
			h.until("commits go on", func() bool { return receive(t, h.commit(testKey, "", -1, 3)).err == nil })
			if got := h.offsetOf(testKey, 0); got != 3 {
				t.Errorf("offset %d, want 3", got)
			}
		})
	}
}

// TestFailedAssignmentIsNotGivenOut: the leader's sync whose record is refused is told so, and the members join again.
func TestFailedAssignmentIsNotGivenOut(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	r := receive(t, h.join(testKey, ""))
	log.appendErr = errcode.New(errcode.Overloaded, "test: full")
	s := receive(t, h.sync(testKey, r))
	if errcode.Of(s.Err) == errcode.OK || s.Assignment != nil {
		t.Fatalf("sync: %+v", s)
	}
	log.mu.Lock()
	log.appendErr = nil
	log.mu.Unlock()
	wantErr(t, h.c.Heartbeat(testKey, r.MemberID, "", r.Generation), ErrRebalanceInProgress)
	again := receive(t, h.join(testKey, r.MemberID))
	wantErr(t, receive(t, h.sync(testKey, again)).Err, nil)
}

// TestLoadFails: calls are told that the shard is not available, and it is tried again.
func TestLoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.committed(testKey, 1)
		h.mu.Lock()
		h.refuse = errDisk
		h.mu.Unlock()
		h.setImage(h.image(2, topicA, topicB))
		synctest.Wait()
		_, _, err := h.c.Offset(testKey, topicA, 0)
		wantErr(t, err, ErrNotAvailable)
		wantErr(t, h.c.List("t", 0, func(Overview) bool { return true }), ErrNotAvailable)
		h.mu.Lock()
		h.refuse = nil
		h.mu.Unlock()
		time.Sleep(firstRetry)
		synctest.Wait()
		if got := h.offsetOf(testKey, 0); got != 1 {
			t.Errorf("offset %d, want 1", got)
		}
		wantErr(t, h.c.Close(t.Context()), nil)
	})
}

// TestCommitTimeout: who waits too long is answered; what was written counts when it is committed after all.
func TestCommitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		log := h.log(testKey)
		log.manual = true
		first, second := h.commit(testKey, "", -1, 1), h.commit(testKey, "", -1, 2)
		time.Sleep(5*time.Second + minTick)
		synctest.Wait()
		wantErr(t, receive(t, first).err, ErrNotAvailable)
		wantErr(t, receive(t, second).err, ErrNotAvailable)
		log.commit()
		synctest.Wait()
		log.commit()
		synctest.Wait()
		if got := h.offsetOf(testKey, 0); got != 2 {
			t.Errorf("offset %d, want 2", got)
		}
		wantErr(t, h.c.Close(t.Context()), nil)
	})
}

// TestSessionExpires: a member that is silent is removed, the group is then empty, and no timer is left running.
func TestSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.session = 10 * time.Second
		r := h.settled(testKey)
		for range 5 {
			time.Sleep(8 * time.Second)
			wantErr(t, h.c.Heartbeat(testKey, r.MemberID, "", r.Generation), nil)
		}
		time.Sleep(10*time.Second + minTick)
		synctest.Wait()
		wantErr(t, h.c.Heartbeat(testKey, r.MemberID, "", r.Generation), ErrUnknownMember)
		d, err := h.c.Describe(testKey)
		if err != nil || d.State != "Empty" {
			t.Errorf("group: %+v, %v", d, err)
		}
		s := h.c.shardFor(testKey)
		s.mu.Lock()
		if !s.armed.IsZero() {
			t.Errorf("a timer is left for %v", s.armed)
		}
		s.mu.Unlock()
		h.restart()
		if d, err = h.c.Describe(testKey); err != nil || d.State != "Empty" {
			t.Errorf("group after a restart: %+v, %v", d, err)
		}
		wantErr(t, h.c.Close(t.Context()), nil)
	})
}

// TestClose: whoever waits for others is told, a write that is under way is waited for, and calls are refused.
func TestClose(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	member := h.settled(testKey)
	waits := h.join(testKey, "")
	log.mu.Lock()
	log.manual = true
	log.mu.Unlock()
	done := h.commit(testKey, member.MemberID, member.Generation, 4)
	closed := make(chan error, 1)
	go func() { closed <- h.c.Close(context.Background()) }()
	wantErr(t, receive(t, waits).Err, ErrNotCoordinator)
	silent(t, closed)
	wantErr(t, receive(t, h.commit(testKey, "", -1, 4)).err, ErrNotCoordinator)
	h.until("the commit is on its way", func() bool { return log.waiting() == 1 })
	log.commit()
	wantErr(t, receive(t, done).err, nil)
	wantErr(t, receive(t, closed), nil)
	wantErr(t, h.c.Heartbeat(testKey, member.MemberID, "", 1), ErrNotCoordinator)
}

// TestCloseGivesUp: a write that the log never decides does not hold the close up past its context.
func TestCloseGivesUp(t *testing.T) {
	h := newHarness(t)
	h.log(testKey).manual = true
	done := h.commit(testKey, "", -1, 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, h.c.Close(ctx), nil)
	wantErr(t, receive(t, done).err, ErrNotCoordinator)
	h.log(testKey).commit() // late news
}

func TestLeaveOfUnknownGroup(t *testing.T) {
	h := newHarness(t)
	ch := make(chan outcome, 1)
	h.c.Leave(testKey, []Leaving{{MemberID: "m"}, {InstanceID: "i"}}, func(err error, each []error) { ch <- outcome{err, each} })
	o := receive(t, ch)
	wantErr(t, o.err, nil)
	for _, err := range o.each {
		wantErr(t, err, ErrUnknownMember)
	}
	wantErr(t, receive(t, h.join(testKey, "made-up")).Err, ErrUnknownMember)
	wantErr(t, receive(t, h.join(Key{Tenant: "t"}, "")).Err, ErrInvalidGroupID)
	if got := h.c.groups.Load(); got != 0 {
		t.Errorf("%d groups were made for nothing", got)
	}
}

// TestMembersAreBounded: no new member is let in once all groups together hold too much.
func TestMembersAreBounded(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxHeldBytes = 100 })
	r := h.settled(testKey)
	if h.c.held.Load() <= 100 {
		t.Fatalf("%d bytes are held", h.c.held.Load())
	}
	wantErr(t, receive(t, h.join(Key{Tenant: "t", Group: "other"}, "")).Err, ErrGroupFull)
	ch := make(chan outcome, 1)
	h.c.Leave(testKey, []Leaving{{MemberID: r.MemberID}}, func(err error, each []error) { ch <- outcome{err, each} })
	receive(t, ch)
	if got := h.c.held.Load(); got != 0 {
		t.Errorf("%d bytes are held for nobody", got)
	}
	wantErr(t, receive(t, h.join(Key{Tenant: "t", Group: "other"}, "")).Err, nil)
}

// TestTenantsAreApart: one group id in two tenants is two groups.
func TestTenantsAreApart(t *testing.T) {
	h := newHarness(t)
	other := Key{Tenant: "u", Group: testKey.Group}
	h.committed(testKey, 1)
	h.committed(other, 2)
	if a, b := h.offsetOf(testKey, 0), h.offsetOf(other, 0); a != 1 || b != 2 {
		t.Errorf("offsets %d %d, want 1 2", a, b)
	}
	want := []Overview{{Group: "g", State: "Empty", Type: "classic"}}
	if diff := cmp.Diff(want, h.listed("u")); diff != "" {
		t.Errorf("list: %s", diff)
	}
	deleted := make(chan error, 1)
	h.c.Delete(other, func(err error) { deleted <- err })
	wantErr(t, receive(t, deleted), nil)
	if got := h.offsetOf(testKey, 0); got != 1 {
		t.Errorf("offset %d, want 1", got)
	}
}

// TestShardOfIsStable: what is stored is looked for where it was put, so these numbers must never change.
func TestShardOfIsStable(t *testing.T) {
	used := map[int32]int{}
	for i := range 1600 {
		used[shardOf(Key{Tenant: "default", Group: fmt.Sprintf("group-%d", i)})]++
	}
	for p, n := range used {
		if n < 50 || n > 150 {
			t.Errorf("shard %d has %d of 1600 groups", p, n)
		}
	}
	for k, want := range map[Key]int32{
		{Tenant: "default", Group: "billing"}: 1, {Tenant: "t", Group: "g"}: 0, {Tenant: "t", Group: "g", Incarnation: 7}: 0, {Tenant: "tg"}: 13, {}: 1,
	} {
		if got := shardOf(k); got != want {
			t.Errorf("%+v is in shard %d, want %d", k, got, want)
		}
	}
}
