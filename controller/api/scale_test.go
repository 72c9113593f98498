package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// bulk asks for streams or caches of one namespace through the route for many.
func (r *rig) bulk(kind, token string, count int) {
	r.t.Helper()
	for i := 0; i < count; i += cluster.MaxCreateResources {
		var items []string
		for j := i; j < min(i+cluster.MaxCreateResources, count); j++ {
			items = append(items, fmt.Sprintf(`{%q:"s%05d"}`, kind, j))
		}
		r.want(http.StatusCreated, http.MethodPost, nsPath+"/resources", token, fmt.Sprintf(`{"%ss":[%s]}`, kind, strings.Join(items, ",")))
	}
}

// bytesOf is what a call allocates, with its answer: the least of a few times, as others allocate beside it. What a call costs for what is
// there besides what it shows is seen in it.
func (r *rig) bytesOf(status int, method, path, token string, body func(i int) string) uint64 {
	r.t.Helper()
	least := ^uint64(0)
	for i := range 5 {
		req, w := request(method, path, token, body(i)), httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.s.httpAPI.Handler.ServeHTTP(w, req)
		runtime.ReadMemStats(&after)
		if w.Code != status {
			r.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestCostIsIndependentOfTheTotal: a page of a hundred of 10,000 streams, caches or shards costs what one of 500 costs, wherever it is, and
// so does making one more; also right after a change, which is when nothing could have been prepared.
func TestCostIsIndependentOfTheTotal(t *testing.T) {
	r := newRig(t)
	admin, operator := r.admin(acme), r.operator()
	none := func(int) string { return "" }
	costs := func(round string) map[string]uint64 {
		at := func(kind string) string { return "?limit=100&cursor=" + cursorOf(kind, []string{"s00300"}) }
		out := map[string]uint64{
			"stream": r.bytesOf(201, "POST", nsPath+"/streams", admin, func(i int) string { return fmt.Sprintf(`{"stream":"z%s%d"}`, round, i) }),
			"cache":  r.bytesOf(201, "POST", nsPath+"/caches", admin, func(i int) string { return fmt.Sprintf(`{"cache":"z%s%d"}`, round, i) }),
		}
		// The first listing of a version, since what it asks for could be remembered for later ones.
		for name, c := range map[string][2]string{
			"streams": {nsPath + "/streams" + at("streams"), admin}, "caches": {nsPath + "/caches" + at("caches"), admin}, "first streams": {nsPath + "/streams?limit=100", admin},
			"shards": {"/v1/shard-assignments?limit=100&cursor=" + cursorOf("shard-assignments", []string{acme, "ns", "stream", "s00300", "0"}), operator},
			"plan":   {"/v1/placement/plan", operator}, "replication": {"/v1/placement/replication?limit=100", operator},
		} {
			out[name] = ^uint64(0)
			for range 3 {
				r.propose(cluster.UpdateStream{Stream: cluster.TopicRef{Tenant: acme, Namespace: "ns", Name: "s00001"}, Retention: &cluster.Retention{Ms: int64(1 + r.c.Image().Version())}})
				req, w := request("GET", c[0], c[1], ""), httptest.NewRecorder()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r.s.httpAPI.Handler.ServeHTTP(w, req)
				runtime.ReadMemStats(&after)
				if w.Code != http.StatusOK {
					t.Fatalf("%s: %d %s", c[0], w.Code, w.Body)
				}
				out[name] = min(out[name], after.TotalAlloc-before.TotalAlloc)
			}
		}
		out["show"] = r.bytesOf(200, "GET", nsPath+"/streams/s00300", admin, none)
		return out
	}
	r.bulk("stream", admin, 500)
	r.bulk("cache", admin, 500)
	few := costs("few")
	for i := 500; i < 10_000; i += 100 {
		var cmd cluster.CreateResources
		for j := i; j < i+100; j++ {
			ref := cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: fmt.Sprintf("s%05d", j)}
			cmd.Streams = append(cmd.Streams, cluster.NewStream{TopicRef: ref, Shards: 1, ReplicationFactor: 1})
			cmd.Caches = append(cmd.Caches, cluster.NewCache{TopicRef: ref, Shards: 1, ReplicationFactor: 1})
		}
		r.propose(cmd)
	}
	many := costs("many")
	for name, bytes := range many {
		t.Logf("%s: %d bytes among 500, %d among 10,000", name, few[name], bytes)
		if bytes > 2*few[name]+16<<10 {
			t.Errorf("%s costs %d bytes among 10,000 and %d among 500", name, bytes, few[name])
		}
	}
	if n := r.c.Image().TopicCount(); n < 10_000 {
		t.Errorf("%d streams", n)
	}
	seen := 0
	for query := "?limit=1000"; query != ""; {
		res := r.want(http.StatusOK, http.MethodGet, nsPath+"/streams"+query, admin, "")
		seen += len(res.body["items"].([]any))
		cursor, more := res.body["next_cursor"].(string)
		if query = ""; more {
			query = "?limit=1000&cursor=" + cursor
		}
	}
	if seen != r.c.Image().TopicCount() {
		t.Errorf("%d streams are listed of %d", seen, r.c.Image().TopicCount())
	}
}

// TestThousandTenants makes and lists them, one call each.
func TestThousandTenants(t *testing.T) {
	r := newRig(t)
	operator := r.operator()
	for i := range 1000 {
		r.want(http.StatusCreated, http.MethodPost, "/v1/tenants", operator, fmt.Sprintf(`{"tenant_id":"t%04d"}`, i))
	}
	seen, pages := 0, 0
	for query := "?limit=100"; query != ""; pages++ {
		res := r.want(http.StatusOK, http.MethodGet, "/v1/tenants"+query, operator, "")
		seen += len(res.body["items"].([]any))
		cursor, more := res.body["next_cursor"].(string)
		if query = ""; more {
			query = "?limit=100&cursor=" + cursor
		}
	}
	if seen != 1004 || pages != 11 {
		t.Errorf("%d tenants on %d pages", seen, pages)
	}
	r.want(http.StatusNoContent, http.MethodDelete, "/v1/tenants/t0500", operator, "")
}

// TestPagingOfCachesAndNamespaces is check 2 of the control API's section 14 for what is no stream: pages of several sizes, a caller who sees
// one in a hundred, and what comes and goes on both sides of the cursor.
func TestPagingOfCachesAndNamespaces(t *testing.T) {
	r := newRig(t)
	var cacheRights, namespaceRights, few []string
	for i := range 1000 {
		name := fmt.Sprintf("s%04d", i)
		r.propose(cluster.CreateNamespace{Tenant: acme, Name: name})
		r.propose(cluster.CreateResources{Caches: []cluster.NewCache{{
			TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: name}, Shards: 1, ReplicationFactor: 1,
		}}})
		if i%100 == 7 {
			few = append(few, name)
			cacheRights, namespaceRights = append(cacheRights, "cache.manage:cache:acme/ns/"+name), append(namespaceRights, "ns.manage:namespace:acme/"+name)
		}
	}
	for _, kind := range []struct {
		path, field string
		admin, few  string
		all         int
		come        func(name string) cluster.Command
		goAway      func(name string) cluster.Command
	}{
		{
			nsPath + "/caches", "cache", r.admin(acme), r.token(acme, cacheRights...), 1000,
			func(name string) cluster.Command {
				return cluster.CreateResources{Caches: []cluster.NewCache{{
					TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: name}, Shards: 1, ReplicationFactor: 1,
				}}}
			},
			func(name string) cluster.Command {
				return cluster.DeleteCache{Tenant: acme, Namespace: "ns", Name: name, ID: r.c.Image().Cache(acme, "ns", name).ID}
			},
		},
		{
			"/v1/tenants/acme/namespaces", "namespace", r.admin(acme), r.token(acme, namespaceRights...), 1001,
			func(name string) cluster.Command { return cluster.CreateNamespace{Tenant: acme, Name: name} },
			func(name string) cluster.Command { return cluster.DeleteNamespace{Tenant: acme, Name: name} },
		},
	} {
		walk := func(token string, limit int, between func(page int, last string)) (names []string) {
			for page, cursor := 0, ""; ; page++ {
				res := r.want(http.StatusOK, http.MethodGet, fmt.Sprintf("%s?limit=%d%s", kind.path, limit, cursor), token, "")
				items := res.body["items"].([]any)
				for _, item := range items {
					names = append(names, item.(map[string]any)[kind.field].(string))
				}
				next, more := res.body["next_cursor"].(string)
				if !more {
					return names
				}
				if len(items) != limit {
					t.Fatalf("%s: page %d of %d has %d", kind.path, page, limit, len(items))
				}
				between(page, names[len(names)-1])
				cursor = "&cursor=" + next
			}
		}
		nothing := func(int, string) {}
		for _, limit := range []int{99, 999, 1000, 1001} {
			if got := walk(kind.admin, limit, nothing); len(got) != kind.all || !slices.IsSorted(got) {
				t.Errorf("%s by %d: %d, sorted %t", kind.path, limit, len(got), slices.IsSorted(got))
			}
		}
		for _, limit := range []int{1, 9, 10, 11} {
			if got := walk(kind.few, limit, nothing); !slices.Equal(got, few) {
				t.Errorf("%s by %d: %v", kind.path, limit, got)
			}
		}
		gone := map[string]bool{}
		got := walk(kind.admin, 37, func(page int, last string) {
			r.propose(kind.come(fmt.Sprintf("a%04d", page)))
			r.propose(kind.come(fmt.Sprintf("z%04d", page)))
			if strings.HasPrefix(last, "s") && page%2 == 0 {
				r.propose(kind.goAway(last)) // the key of the cursor
				gone[last] = true
			}
		})
		seen := map[string]int{}
		for _, name := range got {
			seen[name]++
		}
		for i := range 1000 {
			if name := fmt.Sprintf("s%04d", i); seen[name] != 1 {
				t.Errorf("%s: %s is listed %d times, gone %t", kind.path, name, seen[name], gone[name])
			}
		}
		if len(gone) < 5 || !slices.IsSorted(got) {
			t.Errorf("%s: %d went, sorted %t", kind.path, len(gone), slices.IsSorted(got))
		}
	}
}
