package agent

import (
	"slices"
	"testing"
)

func TestOwner(t *testing.T) {
	var events []Event
	o := NewOwner(func(e Event) { events = append(events, e) })
	o.Assigned(2, 0, 1)
	o.Record(Record{Partition: 1, Offset: 5})
	o.Revoked(0)
	o.RevokedAll()
	o.RevokedAll() // nothing is left: no event
	if len(events) != 4 {
		t.Fatalf("%d events, want 4: %+v", len(events), events)
	}
	if got := events[0].Owned; got == nil || !slices.Equal(got.Assigned, []int32{2, 0, 1}) || got.Revoked != nil {
		t.Errorf("assignment told as %+v", got)
	}
	if got := events[1].Record; got == nil || got.Offset != 5 {
		t.Errorf("record told as %+v", got)
	}
	if got := events[3].Owned; got == nil || !slices.Equal(got.Revoked, []int32{1, 2}) {
		t.Errorf("the rest told as %+v", got)
	}
	for i, e := range events {
		if e.At == 0 || (i > 0 && e.At < events[i-1].At) {
			t.Errorf("event %d at %d, after one at %d", i, e.At, events[max(0, i-1)].At)
		}
	}
}
