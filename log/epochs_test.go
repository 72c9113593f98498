package log

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

func TestEpochTable(t *testing.T) {
	var table epochTable
	for _, e := range []epochStart{{2, 0}, {2, 5}, {4, 10}, {3, 11}, {7, 20}} {
		table = table.with(e.epoch, e.offset)
	}
	all := cmp.AllowUnexported(epochStart{})
	if diff := cmp.Diff(epochTable{{2, 0}, {4, 10}, {7, 20}}, table, all); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for off, want := range map[ids.Offset]ids.LeaderEpoch{0: 2, 9: 2, 10: 4, 19: 4, 20: 7, 99: 7} {
		if got := table.at(off); got != want {
			t.Errorf("at(%d) = %d, want %d", off, got, want)
		}
	}
	ends := []struct {
		asked, epoch ids.LeaderEpoch
		offset       ids.Offset
	}{
		{0, 0, 0}, {1, 1, 0}, {2, 2, 10}, {3, 2, 10}, {4, 4, 20}, {6, 4, 20}, {7, 7, 30}, {8, -1, -1}, {-1, -1, -1},
	}
	for _, tc := range ends {
		if e, off := table.endOf(tc.asked, 30); e != tc.epoch || off != tc.offset {
			t.Errorf("endOf(%d) = %d, %d, want %d, %d", tc.asked, e, off, tc.epoch, tc.offset)
		}
	}
	if e, off := epochTable(nil).endOf(0, 0); e != -1 || off != -1 {
		t.Errorf("of an empty table: %d, %d", e, off)
	}
	changes := []struct {
		name string
		got  epochTable
		want epochTable
	}{
		{"truncated_between", table.truncated(15), epochTable{{2, 0}, {4, 10}}},
		{"truncated_at_start", table.truncated(10), epochTable{{2, 0}}},
		{"truncated_all", table.truncated(0), epochTable{}},
		{"from_inside", table.from(12), epochTable{{4, 12}, {7, 20}}},
		{"from_boundary", table.from(10), epochTable{{4, 10}, {7, 20}}},
		{"from_start", table.from(0), table},
		{"from_end", table.from(90), epochTable{{7, 90}}},
		{"between", table.between(5, 15), epochTable{{2, 5}, {4, 10}}},
	}
	for _, tc := range changes {
		if diff := cmp.Diff(tc.want, tc.got, all); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if table[1].offset != 10 {
		t.Error("a change has changed the table itself")
	}
}

func TestEpochsOfALog(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 400 }))
	l := e.open()
	for i := range 12 {
		mustAppend(t, l, spec{epoch: ids.LeaderEpoch(i / 3 * 2)})
	}
	if _, err := l.Append(spec{epoch: 5}.input(t)); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("an older epoch: %v", err)
	}
	check := func(when string) {
		t.Helper()
		for off := range ids.Offset(12) {
			if got, want := l.EpochAt(off), ids.LeaderEpoch(off/3*2); got != want {
				t.Errorf("%s: EpochAt(%d) = %d, want %d", when, off, got, want)
			}
		}
		if got := l.EpochAt(12); got != -1 {
			t.Errorf("%s: EpochAt(end) = %d", when, got)
		}
		if e, off := l.EndOfEpoch(3); e != 2 || off != 6 {
			t.Errorf("%s: EndOfEpoch(3) = %d, %d", when, e, off)
		}
		if e, off := l.EndOfEpoch(6); e != 6 || off != 12 {
			t.Errorf("%s: EndOfEpoch(6) = %d, %d", when, e, off)
		}
	}
	check("first")
	for _, clean := range []bool{true, false} {
		e, l = e.restart(l, clean)
		check("after a restart")
	}
	if err := l.TruncateTo(7); err != nil {
		t.Fatal(err)
	}
	if e, off := l.EndOfEpoch(4); e != 4 || off != 7 {
		t.Errorf("after a truncation: %d, %d", e, off)
	}
	if e, off := l.EndOfEpoch(6); e != -1 || off != -1 {
		t.Errorf("a truncated epoch: %d, %d", e, off)
	}
	if err := l.AdvanceStart(5); err != nil {
		t.Fatal(err)
	}
	if e, off := l.EndOfEpoch(0); e != 0 || off != 5 {
		t.Errorf("an epoch below the start: %d, %d", e, off)
	}
}
