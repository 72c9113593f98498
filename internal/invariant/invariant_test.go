package invariant

import (
	"errors"
	"testing"
)

// catch runs check and returns the violation it reported, by whichever way this build reports.
func catch(t *testing.T, check func() error) (got *Violation) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok || !Enabled {
				t.Fatalf("panicked with %v, invariants enabled: %v", r, Enabled)
			}
			got = v
		}
	}()
	err := check()
	if err == nil {
		return nil
	}
	if Enabled {
		t.Fatalf("returned %v in a build that panics", err)
	}
	if !errors.As(err, &got) {
		t.Fatalf("got %T, want *Violation", err)
	}
	return got
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		check func() error
		want  string
	}{
		{"holds", func() error { return Check(true, "start is at most end") }, ""},
		{"broken", func() error { return Check(false, "start is at most end") }, "start is at most end"},
		{"formatted_holds", func() error { return Checkf(true, "start %d is at most end %d", 1, 2) }, ""},
		{"formatted_broken", func() error { return Checkf(false, "start %d is at most end %d", 3, 2) }, "start 3 is at most end 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := catch(t, tt.check)
			switch {
			case v == nil && tt.want != "":
				t.Fatalf("got nothing, want %q", tt.want)
			case v != nil && (v.What != tt.want || v.Error() != "invariant broken: "+tt.want):
				t.Errorf("got %q, want %q", v, tt.want)
			}
		})
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = Check(true, "holds") }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
