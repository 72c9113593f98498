package broker

import (
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
)

// diskSite is a broker on a real disk, so that writes cost what they cost.
func diskSite(t testing.TB) *site {
	t.Helper()
	t.Chdir(t.TempDir())
	return newSite(t, newStubMetadata(), vfs.OS{}, log.SyncPeriodic)
}

// BenchmarkPublishInline is one publish to an idle shard, from Publish to Done, on the caller's goroutine.
func BenchmarkPublishInline(b *testing.B) {
	for _, tc := range []struct {
		name    string
		durable bool
		mode    PublishMode
	}{{"ephemeral", false, OnAccept}, {"durable_on_commit", true, OnCommit}} {
		b.Run(tc.name, func(b *testing.B) {
			st := diskSite(b)
			s := st.shard(b, st.meta.native(b, "t", "s", tc.durable, 1), 0)
			raw := nativeBatch(b, st.pool, strings.Repeat("x", 100))
			p := inlinePublication(b, s, tc.mode)
			b.ReportAllocs()
			b.SetBytes(100)
			for b.Loop() {
				p.Batch = st.pool.Get(len(raw.Bytes()))
				copy(p.Batch.Bytes(), raw.Bytes())
				st.b.Publish(p)
			}
		})
	}
}

func inlinePublication(t testing.TB, s *Shard, mode PublishMode) *Publication {
	return &Publication{
		Caller: tester, Shard: s, Records: 1, Bytes: 100, Mode: mode, Expected: ids.NoOffset,
		Done: func(_ *Publication, r PublishResult) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		},
	}
}

// TestPublishInlineAllocates holds the inline path to its budget: nothing.
func TestPublishInlineAllocates(t *testing.T) {
	st := diskSite(t)
	for _, durable := range []bool{false, true} {
		name := map[bool]string{false: "memory", true: "disk"}[durable]
		s := st.shard(t, st.meta.native(t, "t", name, durable, 1), 0)
		raw := nativeBatch(t, st.pool, strings.Repeat("x", 100))
		p := inlinePublication(t, s, OnCommit)
		publish := func() {
			p.Batch = st.pool.Get(len(raw.Bytes()))
			copy(p.Batch.Bytes(), raw.Bytes())
			st.b.Publish(p)
		}
		for range 5000 {
			publish() // what grows has grown
		}
		if n := testing.AllocsPerRun(2000, publish); n >= 1 {
			t.Errorf("%s: %v allocations a publish", name, n)
		}
	}
}
