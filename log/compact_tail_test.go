package log

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestCompactedRecordsLeaveTheTail: readers used to get superseded records from memory until they were evicted.
func TestCompactedRecordsLeaveTheTail(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(compacting), func(e *env) { e.shared.Tail = NewTailCache(0, e.shared.Pool, testMetrics) })
	l := e.open()
	for _, value := range []string{"1", "2", "3"} {
		if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 100, "a", value)); err != nil {
			t.Fatal(err)
		}
	}
	roll(t, l)
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 500, "b", "active")); err != nil {
		t.Fatal(err)
	}
	if got := mustRecords(t, l, 0); len(got) != 4 {
		t.Fatalf("%d records before compaction, want 4", len(got))
	}
	if res := e.pass(l); res.Compacted != 1 {
		t.Fatalf("result %+v, want one segment compacted", res)
	}
	want := []kept{{2, 100, "a", "3", false}, {3, 500, "b", "active", false}}
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("after compaction (-want +got):\n%s", diff)
	}
	if _, err := l.Append(keyed(t, recordbatch.BuilderOptions{}, 600, "c", "later")); err != nil {
		t.Fatal(err)
	}
	want = append(want, kept{4, 600, "c", "later", false})
	if diff := cmp.Diff(want, mustRecords(t, l, 0)); diff != "" {
		t.Errorf("after a further append (-want +got):\n%s", diff)
	}
}
