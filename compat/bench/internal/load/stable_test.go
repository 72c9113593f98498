package load

import "testing"

func TestSharesAreEvenOnceEveryMemberHasItsPart(t *testing.T) {
	s := newShares(2, 4)
	even := func() bool {
		select {
		case <-s.even:
			return true
		default:
			return false
		}
	}
	s.assigned(0, []int32{0, 1, 2, 3})
	s.assigned(1, nil)
	if even() {
		t.Error("even with one member holding all")
	}
	s.lost(0, []int32{2, 3})
	if even() {
		t.Error("even with partitions that are nobody's")
	}
	s.assigned(1, []int32{3})
	if even() {
		t.Error("even with one partition missing")
	}
	s.assigned(1, []int32{2})
	if !even() || s.at.IsZero() || s.failure() != nil {
		t.Errorf("even %v, at %v, error %v", even(), s.at, s.failure())
	}
	s.lost(1, []int32{2, 3}) // once more
	s.assigned(1, []int32{2, 3})
	if s.failure() != nil {
		t.Error(s.failure())
	}
	s.assigned(0, []int32{3})
	if s.failure() == nil {
		t.Error("a partition with two owners went unseen")
	}
}
