package groups

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func (h *harness) deleted(k Key) error {
	h.t.Helper()
	ch := make(chan error, 1)
	h.c.Delete(k, func(err error) { ch <- err })
	return receive(h.t, ch)
}

func (h *harness) deletedOffsets(k Key, list ...TopicPartition) outcome {
	h.t.Helper()
	ch := make(chan outcome, 1)
	h.c.DeleteOffsets(k, list, func(err error, each []error) { ch <- outcome{err, each} })
	return receive(h.t, ch)
}

func (h *harness) leave(k Key, member string) {
	h.t.Helper()
	ch := make(chan outcome, 1)
	h.c.Leave(k, []Leaving{{MemberID: member}}, func(err error, each []error) { ch <- outcome{err, each} })
	if o := receive(h.t, ch); o.err != nil || o.each[0] != nil {
		h.t.Fatalf("leave: %+v", o)
	}
}

func TestDeleteGroup(t *testing.T) {
	h := newHarness(t)
	wantErr(t, h.deleted(testKey), ErrGroupNotFound)
	r := h.settled(testKey)
	wantErr(t, receive(t, h.commit(testKey, r.MemberID, r.Generation, 7)).err, nil)
	wantErr(t, h.deleted(testKey), ErrNonEmptyGroup)
	h.leave(testKey, r.MemberID)
	wantErr(t, h.deleted(testKey), nil)
	for _, when := range []string{"at once", "after a restart"} {
		if got := h.offsetOf(testKey, 0); got != -1 {
			t.Errorf("%s: offset %d is left", when, got)
		}
		_, err := h.c.Describe(testKey)
		wantErr(t, err, ErrGroupNotFound)
		if n := h.c.groups.Load(); n != 0 {
			t.Errorf("%s: %d groups", when, n)
		}
		h.restart()
	}
}

// TestDeleteTakesWhatIsOnItsWay: offsets that are not committed yet when their group is deleted do not come back.
func TestDeleteTakesWhatIsOnItsWay(t *testing.T) {
	h := newHarness(t)
	log := h.log(testKey)
	log.manual = true
	first, second := h.commit(testKey, "", -1, 1), h.commit(testKey, "", -1, 1, 2)
	ch := make(chan error, 1)
	h.c.Delete(testKey, func(err error) { ch <- err })
	third := h.commit(testKey, "", -1, 9) // of the group that is made anew
	log.commit()
	h.until("the rest is on its way", func() bool { return log.waiting() == 1 })
	log.commit()
	for _, c := range []<-chan outcome{first, second, third} {
		wantErr(t, receive(t, c).err, nil)
	}
	wantErr(t, receive(t, ch), nil)
	log.mu.Lock()
	log.manual = false
	log.mu.Unlock()
	for range 2 {
		if a, b := h.offsetOf(testKey, 0), h.offsetOf(testKey, 1); a != 9 || b != -1 {
			t.Errorf("offsets %d %d, want 9 -1", a, b)
		}
		h.restart()
	}
}

// TestDeleteFails: a group whose tombstones are not written is still there.
func TestDeleteFails(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 5)
	log := h.log(testKey)
	log.appendErr = errDisk
	wantErr(t, h.deleted(testKey), ErrNotAvailable)
	log.mu.Lock()
	log.appendErr = nil
	log.mu.Unlock()
	h.loaded()
	if got := h.offsetOf(testKey, 0); got != 5 {
		t.Errorf("offset %d, want 5", got)
	}
}

func TestDeleteOffsets(t *testing.T) {
	h := newHarness(t)
	a0, a1, b0 := TopicPartition{topicA, 0}, TopicPartition{topicA, 1}, TopicPartition{topicB, 0}
	wantErr(t, h.deletedOffsets(testKey, a0).err, ErrGroupNotFound)
	h.committed(testKey, 1, 2)
	o := h.deletedOffsets(testKey, a0, b0)
	wantErr(t, o.err, nil)
	wantErr(t, o.each[0], nil)
	wantErr(t, o.each[1], nil)
	if a, b := h.offsetOf(testKey, 0), h.offsetOf(testKey, 1); a != -1 || b != 2 {
		t.Errorf("offsets %d %d, want -1 2", a, b)
	}

	// With members: what they are subscribed to stays, which is topic a.
	r := h.settled(testKey)
	ch := make(chan outcome, 1)
	h.c.Commit(&CommitRequest{Key: testKey, MemberID: r.MemberID, Generation: r.Generation, RetentionMs: -1, Offsets: []OffsetCommit{
		{Topic: topicB, Partition: 0, Offset: 3},
	}}, func(err error, each []error) { ch <- outcome{err, each} })
	wantErr(t, receive(t, ch).err, nil)
	o = h.deletedOffsets(testKey, a1, b0)
	wantErr(t, o.err, nil)
	wantErr(t, o.each[0], ErrSubscribedToTopic)
	wantErr(t, o.each[1], nil)
	h.restart()
	all, err := h.c.AllOffsets(testKey)
	if err != nil || len(all) != 1 || all[0].Topic != topicA || all[0].Partition != 1 || all[0].Offset != 2 {
		t.Errorf("offsets left: %+v, %v", all, err)
	}
}

func TestAllOffsetsAreSorted(t *testing.T) {
	h := newHarness(t)
	ch := make(chan outcome, 1)
	h.c.Commit(&CommitRequest{Key: testKey, Generation: -1, RetentionMs: -1, Offsets: []OffsetCommit{
		{Topic: topicB, Partition: 1, Offset: 4, LeaderEpoch: 2, Metadata: "m"},
		{Topic: topicA, Partition: 10, Offset: 3, LeaderEpoch: -1},
		{Topic: topicA, Partition: 2, Offset: 2, LeaderEpoch: -1},
		{Topic: topicB, Partition: 0, Offset: 1, LeaderEpoch: -1},
	}}, func(err error, each []error) { ch <- outcome{err, each} })
	wantErr(t, receive(t, ch).err, nil)
	for range 2 {
		all, err := h.c.AllOffsets(testKey)
		wantErr(t, err, nil)
		var got []CommittedOffset
		for _, o := range all {
			o.CommittedAt = 0
			got = append(got, o)
		}
		want := []CommittedOffset{
			{Topic: topicA, Partition: 2, Offset: 2, LeaderEpoch: -1},
			{Topic: topicA, Partition: 10, Offset: 3, LeaderEpoch: -1},
			{Topic: topicB, Partition: 0, Offset: 1, LeaderEpoch: -1},
			{Topic: topicB, Partition: 1, Offset: 4, LeaderEpoch: 2, Metadata: "m"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("offsets: %s", diff)
		}
		h.restart()
	}
	if all, err := h.c.AllOffsets(Key{Tenant: "t", Group: "none"}); err != nil || len(all) != 0 {
		t.Errorf("offsets of an unknown group: %v, %v", all, err)
	}
}

// TestDeletedTopic: its offsets go, at once or at the next load, and a group of which nothing is left goes at the next look.
func TestDeletedTopic(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 1, 2)
	ch := make(chan outcome, 1)
	h.c.Commit(&CommitRequest{Key: Key{Tenant: "t", Group: "both"}, Generation: -1, RetentionMs: -1, Offsets: []OffsetCommit{
		{Topic: topicA, Offset: 3}, {Topic: topicB, Offset: 4},
	}}, func(err error, each []error) { ch <- outcome{err, each} })
	wantErr(t, receive(t, ch).err, nil)

	h.setImage(h.image(1, topicB)) // at the same leader epoch, so that nothing is loaded anew
	h.until("offsets are gone", func() bool {
		all, err := h.c.AllOffsets(testKey)
		return err == nil && len(all) == 0
	})
	if got := h.offsetOf(Key{Tenant: "t", Group: "both"}, 0); got != -1 {
		t.Errorf("offset %d of the deleted topic is left", got)
	}
	h.c.ExpireOnce()
	if diff := cmp.Diff([]Overview{{Group: "both", State: "Empty", Type: "classic"}}, h.listed("t")); diff != "" {
		t.Errorf("groups: %s", diff)
	}
	h.restart()
	if n := len(h.listed("t")); n != 1 {
		t.Errorf("%d groups after a restart, want 1", n)
	}
}

// TestTopicDeletedWhileAway: a load removes the offsets of topics that the metadata does not know.
func TestTopicDeletedWhileAway(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 1)
	wantErr(t, h.c.Close(t.Context()), nil)
	h.img = h.image(2, topicB)
	h.start()
	h.until("the offset is gone", func() bool { return h.offsetOf(testKey, 0) == -1 })
	h.img = h.image(3, topicA, topicB) // as if it had come back: the tombstone stands
	h.restart()
	if got := h.offsetOf(testKey, 0); got != -1 {
		t.Errorf("offset %d is back", got)
	}
}

func TestExpiry(t *testing.T) {
	const week = 7 * 24 * time.Hour
	simple, live, empty, asked := Key{Tenant: "t", Group: "simple"}, Key{Tenant: "t", Group: "live"}, Key{Tenant: "t", Group: "empty"}, Key{Tenant: "t", Group: "asked"}
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(o *Options) { o.ExpiryInterval, o.MaxSessionTimeout = 1000*time.Hour, 2*week })
		h.committed(simple, 1)
		ch := make(chan outcome, 1)
		h.c.Commit(&CommitRequest{Key: asked, Generation: -1, RetentionMs: 1000, Offsets: []OffsetCommit{{Topic: topicA, Offset: 1}}},
			func(err error, each []error) { ch <- outcome{err, each} })
		wantErr(t, receive(t, ch).err, nil)
		r := h.settled(live)
		e := h.settled(empty)
		h.c.Commit(&CommitRequest{Key: live, MemberID: r.MemberID, Generation: r.Generation, RetentionMs: -1, Offsets: []OffsetCommit{
			{Topic: topicA, Offset: 1}, {Topic: topicB, Offset: 2},
		}}, func(err error, each []error) { ch <- outcome{err, each} })
		wantErr(t, receive(t, ch).err, nil)
		wantErr(t, receive(t, h.commit(empty, e.MemberID, e.Generation, 1)).err, nil)

		// beat lets time pass with the member of live, and at first that of empty, alive.
		beat := func(d time.Duration, both bool) {
			for ; d > 0; d -= 5 * time.Second {
				time.Sleep(5 * time.Second)
				wantErr(t, h.c.Heartbeat(live, r.MemberID, "", r.Generation), nil)
				if both {
					wantErr(t, h.c.Heartbeat(empty, e.MemberID, "", e.Generation), nil)
				}
			}
			h.c.ExpireOnce()
			synctest.Wait()
		}
		have := func(want ...Key) {
			t.Helper()
			var got, names []string
			for _, o := range h.listed("t") {
				got = append(got, o.Group)
			}
			for _, k := range want {
				names = append(names, k.Group)
			}
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("groups: %s", diff)
			}
		}
		beat(2*time.Second, true)
		have(empty, live, simple) // the one that asked for a second is over
		beat(24*time.Hour, true)
		h.leave(empty, e.MemberID)
		beat(week-24*time.Hour, false)
		have(empty, live) // simple counts from its commit
		if a, _, _ := h.c.Offset(live, topicA, 0); a.Offset != 1 {
			t.Error("an offset of a subscribed topic went")
		}
		if _, ok, _ := h.c.Offset(live, topicB, 0); ok {
			t.Error("an offset that nobody is subscribed to is left")
		}
		beat(24*time.Hour, false)
		have(live) // empty counts from the moment that it was empty
		h.restart()
		synctest.Wait()
		have(live)
		wantErr(t, h.c.Close(t.Context()), nil)
	})
}

func TestParseSubscription(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		want []string
		ok   bool
	}{
		{"two_topics", subscription("a", "bc"), []string{"a", "bc"}, true},
		{"none", subscription(), nil, true},
		{"no_user_data", []byte{0, 0, 0, 0, 0, 1, 0, 1, 'x'}, []string{"x"}, true},
		{"empty", nil, nil, false},
		{"short", []byte{0, 0, 0, 0, 0}, nil, false},
		{"count_too_large", []byte{0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, 'x'}, nil, false},
		{"negative_count", []byte{0, 0, 0xff, 0xff, 0xff, 0xff}, nil, false},
		{"negative_version", []byte{0xff, 0xff, 0, 0, 0, 0}, nil, false},
		{"name_too_long", []byte{0, 0, 0, 0, 0, 1, 0, 9, 'x'}, nil, false},
		{"null_name", []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			ok := parseSubscription(tt.in, func(name []byte) { got = append(got, string(name)) })
			if ok != tt.ok {
				t.Fatalf("ok is %v", ok)
			}
			if diff := cmp.Diff(tt.want, got); ok && diff != "" {
				t.Error(diff)
			}
		})
	}
}
