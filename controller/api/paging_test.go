package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

func streamName(i int) string { return fmt.Sprintf("s%04d", i) }

func (r *rig) makeStreams(from, limit int) {
	r.t.Helper()
	for i := from; i < limit; i += cluster.MaxCreateStreams {
		var cmd cluster.CreateStreams
		for j := i; j < min(i+cluster.MaxCreateStreams, limit); j++ {
			cmd.Streams = append(cmd.Streams, cluster.NewStream{
				TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: streamName(j)}, Shards: 1, ReplicationFactor: 1,
			})
		}
		r.propose(cmd)
	}
}

// pageOfStreams asks for one page and returns the names on it and the cursor of the next.
func (r *rig) pageOfStreams(token, cursor string, limit int) (names []string, next string) {
	r.t.Helper()
	query := fmt.Sprintf("?limit=%d", limit)
	if cursor != "" {
		query += "&cursor=" + cursor
	}
	res := r.want(http.StatusOK, http.MethodGet, nsPath+"/streams"+query, token, "")
	for _, item := range res.body["items"].([]any) {
		names = append(names, item.(map[string]any)["stream"].(string))
	}
	next, _ = res.body["next_cursor"].(string)
	return names, next
}

// walk follows the cursors to the end and calls between after every page.
func (r *rig) walk(token string, limit int, between func(page int, names []string)) []string {
	r.t.Helper()
	var all []string
	cursor := ""
	for page := 0; ; page++ {
		names, next := r.pageOfStreams(token, cursor, limit)
		all = append(all, names...)
		if next == "" {
			return all
		}
		if len(names) != limit {
			r.t.Fatalf("page %d has %d streams of %d and is not the last", page, len(names), limit)
		}
		cursor = next
		between(page, names)
	}
}

// TestPaging is check 2 of the control API's section 14: 2500 streams in pages of 1, 999 and 1000.
func TestPaging(t *testing.T) {
	r := newRig(t)
	r.makeStreams(0, 2500)
	var want []string
	for i := range 2500 {
		want = append(want, streamName(i))
	}
	admin := r.admin(acme)
	for _, limit := range []int{1, 999, 1000, 2499, 2500, 2501} {
		pages := 1
		got := r.walk(admin, limit, func(int, []string) { pages++ })
		if !cmp.Equal(got, want) {
			t.Errorf("limit %d: %d streams, sorted %t, want 2500", limit, len(got), slices.IsSorted(got))
		}
		if full := (2500 + limit - 1) / limit; pages != full {
			t.Errorf("limit %d: %d pages, want %d", limit, pages, full)
		}
	}
	if names, next := r.pageOfStreams(admin, "", defaultLimit); len(names) != 1000 || next == "" {
		t.Errorf("%d streams", len(names))
	}
	res := r.want(http.StatusOK, http.MethodGet, nsPath+"/streams", admin, "")
	if n := len(res.body["items"].([]any)); n != defaultLimit {
		t.Errorf("without a limit the page has %d streams", n)
	}
}

// TestPagingWhileStreamsComeAndGo: what is there throughout is neither repeated nor skipped, whatever is made and deleted on both sides of
// the cursor, its own key included.
func TestPagingWhileStreamsComeAndGo(t *testing.T) {
	for _, limit := range []int{1, 7, 100} {
		r := newRig(t)
		r.makeStreams(0, 300)
		churn := func(page int, names []string) {
			last := names[len(names)-1]
			var i int
			if _, err := fmt.Sscanf(last, "s%04d", &i); err != nil {
				return // one of those that came
			}
			make1 := func(name string) {
				r.propose(cluster.CreateStreams{Streams: []cluster.NewStream{{
					TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: name}, Shards: 1, ReplicationFactor: 1,
				}}})
			}
			remove := func(i int) {
				if r.c.Image().Topic(acme, "ns", streamName(i)) != nil {
					r.propose(cluster.DeleteTopics{Topics: []cluster.TopicRef{{Tenant: acme, Namespace: "ns", Name: streamName(i)}}})
				}
			}
			make1(fmt.Sprintf("a%04d", page)) // behind
			make1(fmt.Sprintf("z%04d", page)) // ahead
			switch page % 3 {
			case 0:
				remove(i) // the key of the cursor
			case 1:
				remove(max(0, i-3))
			default:
				if (i+3)%5 == 0 {
					remove(i + 3)
				}
			}
		}
		seen := map[string]int{}
		got := r.walk(r.admin(acme), limit, func(page int, names []string) {
			if page < 60 {
				churn(page, names)
			}
		})
		for _, name := range got {
			seen[name]++
		}
		for i := range 300 {
			there := r.c.Image().Topic(acme, "ns", streamName(i)) != nil
			if n := seen[streamName(i)]; n > 1 || there && n != 1 {
				t.Errorf("limit %d: stream %d is listed %d times, there throughout: %t", limit, i, n, there)
			}
		}
		if !slices.IsSorted(got) {
			t.Errorf("limit %d: out of order", limit)
		}
		for _, name := range got {
			if strings.HasPrefix(name, "a") {
				t.Errorf("limit %d: %s came behind the cursor and is listed", limit, name)
			}
		}
	}
}

// TestPagingOfAFew: pages are filled after rights were applied: who sees one in a hundred gets full pages.
func TestPagingOfAFew(t *testing.T) {
	r := newRig(t)
	r.makeStreams(0, 2500)
	var rights, want []string
	for i := 0; i < 2500; i += 100 {
		rights = append(rights, "stream.manage:stream:acme/ns/"+streamName(i))
		want = append(want, streamName(i))
	}
	token := r.token(acme, rights...)
	for _, limit := range []int{1, 10, 24, 25, 1000} {
		if got := r.walk(token, limit, func(int, []string) {}); !cmp.Equal(got, want) {
			t.Errorf("limit %d: got %v", limit, got)
		}
	}
	elsewhere := r.token(acme, "stream.manage:stream:acme/ns/none")
	if names, next := r.pageOfStreams(elsewhere, "", 1000); len(names) != 0 || next != "" {
		t.Errorf("who may manage a stream that is not there sees %v", names)
	}
	r.want(http.StatusForbidden, http.MethodGet, nsPath+"/streams", r.token(acme, "stream.manage:stream:acme/n2/*"), "")
}

func TestCursor(t *testing.T) {
	for _, key := range [][]string{{"a"}, {""}, {"a", "b", "stream", "c", "0"}} {
		got, ok := parseCursor("k", cursorOf("k", key))
		if !ok || !cmp.Equal(got, key) {
			t.Errorf("%q: %q, %t", key, got, ok)
		}
		if _, ok := parseCursor("l", cursorOf("k", key)); ok {
			t.Errorf("%q: good for another listing", key)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursorOf("streams", []string{"s"}))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		key, ok := parseCursor("streams", cursor)
		if ok && cursorOf("streams", key) != cursor {
			t.Errorf("%q has the key %q, whose cursor is %q", cursor, key, cursorOf("streams", key))
		}
	})
}

func BenchmarkListLastPage(b *testing.B) {
	m := cluster.NewBuilder(cluster.NewImage(nil))
	m.PutTenant(cluster.Tenant{Name: acme})
	m.PutNamespace(cluster.Namespace{Tenant: acme, Name: "ns"})
	for i := range 10_000 {
		if err := m.PutTopic(&cluster.Topic{ID: ids.TopicID{byte(i), byte(i >> 8)}, Tenant: acme, Namespace: "ns", Name: streamName(i), Partitions: make([]cluster.Partition, 1)}); err != nil {
			b.Fatal(err)
		}
	}
	image := m.Build(1)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range streamsBehind(image, acme, "ns", page{after: []string{"s9900"}}) {
			n++
		}
		if n != 99 {
			b.Fatal(n)
		}
	}
}
