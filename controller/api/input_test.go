package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// tokenFor is a token that has every right that a route of the matrix can ask for.
func (r *rig) tokenFor(rt *route) string {
	r.t.Helper()
	switch rt.access {
	case open:
		return ""
	case byTenant:
		return r.ruler(acme)
	default:
		return r.operator()
	}
}

// TestRow107OnEveryRoute: a NUL, a slash or two dots for any name in a path is 400, whoever asks.
func TestRow107OnEveryRoute(t *testing.T) {
	r, key := matrixRig(t)
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		for at, s := range strings.Split(rt.path, "/") {
			if !strings.HasPrefix(s, "{") {
				continue
			}
			for _, bad := range []string{"a%00b", "a%2Fb", "%2e%2e", "%ff"} {
				path, _ := endpoints[rt.method+" "+rt.path].call(rt.path, key, false)
				parts := strings.Split(path, "/")
				parts[at] = bad
				r.want(http.StatusBadRequest, rt.method, strings.Join(parts, "/"), r.tokenFor(rt), "")
			}
			schemas.note(rt, http.StatusBadRequest) // the path alone decides, so that no route answers
		}
	}
}

// TestRow109And110OfBootstrap: what is no JSON object, has a name twice, is of another type or is too large.
func TestRow109And110OfBootstrap(t *testing.T) {
	r := newRig(t)
	for path, body := range map[string]string{
		devTokenPath: `{"principal":"p:a"}`, bootstrapPrefix + "tenants/new/initialize": `{"display_name":"New","initial_admin_principals":["p:a"]}`,
	} {
		for _, bad := range []string{"[]", "{", body + body, strings.Replace(body, "{", `{"x":[{"y":1,"y":2}],`, 1)} {
			if res := r.bootstrap(path, "secret", bad); res.status != http.StatusBadRequest {
				t.Errorf("%s %s: %s", path, bad, res)
			}
		}
		if res := r.bootstrap(path, "secret", strings.Replace(body, "{", `{"x":"`+strings.Repeat("x", maxBodyBytes)+`",`, 1)); res.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s", path, res)
		}
		text := request(http.MethodPost, path, "", body)
		text.Header.Set(bootstrapHeader, "secret")
		text.Header.Set("Content-Type", "text/plain")
		if res := r.sendTo(r.s.httpBootstrap.Handler, text); res.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %s", path, res)
		}
	}
	for range cap(r.s.reads) {
		r.s.reads <- struct{}{} // as many bodies are read as may be
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whoever waits for room gives up
	waiting := request(http.MethodPost, devTokenPath, "", `{"principal":"p:a"}`).WithContext(ctx)
	waiting.Header.Set(bootstrapHeader, "secret")
	if res := r.sendTo(r.s.httpBootstrap.Handler, waiting); res.status != http.StatusServiceUnavailable {
		t.Errorf("no room for a body: %s", res)
	}
	for range cap(r.s.reads) {
		<-r.s.reads
	}
	r.store.Fail(errUnknown)
	if res := r.bootstrap(bootstrapPrefix+"tenants/new/initialize", "secret", `{"display_name":"New","initial_admin_principals":["p:a"]}`); res.status != http.StatusServiceUnavailable {
		t.Errorf("the store does not answer: %s", res)
	}
	if r.c.Image().Tenant("new") != nil {
		t.Error("something was made")
	}
}

// TestRow109And110OnEveryRoute: what is no JSON object, has a name twice, is of another type or is too large.
func TestRow109And110OnEveryRoute(t *testing.T) {
	r, key := matrixRig(t)
	before := r.c.Image()
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		if rt.takes == nil {
			continue
		}
		path, body := endpoints[rt.method+" "+rt.path].call(rt.path, key, true)
		token := r.tokenFor(rt)
		for _, bad := range []string{"[]", "{", "7", `{"a":1,"a":1}`, body + body, strings.Replace(body, "{", `{"x":[{"y":1,"y":2}],`, 1)} {
			r.want(http.StatusBadRequest, rt.method, path, token, bad)
		}
		req := request(rt.method, path, token, body)
		req.Header.Set("Content-Type", "text/plain")
		if res := r.send(req); res.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s %s with a text: %s", rt.method, path, res)
		}
		r.want(http.StatusRequestEntityTooLarge, rt.method, path, token, strings.Replace(body, "{", `{"x":"`+strings.Repeat("x", maxBodyBytes)+`",`, 1))
	}
	if r.c.Image() != before {
		t.Error("something was changed")
	}
}

// TestDeclaredFieldsAreRead: every field that the document has in a body is one that the call looks at: given as another type it is refused.
// So is a field that must be there and is not.
func TestDeclaredFieldsAreRead(t *testing.T) {
	r, key := matrixRig(t)
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		if rt.takes == nil {
			continue
		}
		path, good := endpoints[rt.method+" "+rt.path].call(rt.path, key, true)
		token := r.tokenFor(rt)
		for _, f := range reflect.VisibleFields(reflect.TypeOf(rt.takes)) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			var values map[string]any
			if err := json.Unmarshal([]byte(good), &values); err != nil {
				t.Fatal(err)
			}
			values[name] = [][]int{{1}}
			bad, _ := json.Marshal(values)
			r.want(http.StatusBadRequest, rt.method, path, token, string(bad))
			if options != "omitempty" {
				delete(values, name)
				bad, _ = json.Marshal(values)
				r.want(http.StatusBadRequest, rt.method, path, token, string(bad))
			}
		}
	}
}

// TestDeclaredParametersAreRead: every parameter of a query that the document has is one that the call looks at.
func TestDeclaredParametersAreRead(t *testing.T) {
	r, key := matrixRig(t)
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		path, _ := endpoints[rt.method+" "+rt.path].call(rt.path, key, false)
		for _, p := range rt.query {
			bad := p.name + "=%00&" + p.name + "=" // twice, or no value of its type
			r.want(http.StatusBadRequest, rt.method, path+"?"+bad, r.tokenFor(rt), "")
		}
	}
}

// fated is a controller whose proposals meet a fate.
type fated struct {
	Controller
	fate func(cluster.Command) (cluster.Result, error)
}

func (f fated) Propose(_ context.Context, cmd cluster.Command) (cluster.Result, error) {
	return f.fate(cmd)
}

// TestFates: what the state machine finds although the call found it otherwise, and limits that take long to reach.
func TestFates(t *testing.T) {
	gone := errcode.Newf(errcode.ResourceNotFound, "it does not exist")
	full := errcode.Newf(errcode.PolicyViolation, "as many as are kept")
	for _, c := range []struct {
		method, path, body string
		err                error
		status             int
		code               string
	}{
		{"DELETE", "/v1/tenants/acme", "", gone, 404, codeNotFound},
		{"POST", "/v1/tenants/acme/namespaces", `{"namespace":"n2"}`, gone, 404, codeNotFound},
		{"POST", "/v1/tenants/acme/rbac/policies", `{"subject":"s","object":"tenant:acme","action":"rbac.view"}`, full, 409, codeLimitExceeded},
		{"POST", "/v1/tenants/acme/rbac/groupings", `{"user":"u","role":"r"}`, full, 409, codeLimitExceeded},
	} {
		r := newRig(t, func(o *Options) {
			o.Controller = fated{o.Controller, func(cluster.Command) (cluster.Result, error) { return cluster.Result{Err: c.err}, nil }}
		})
		token := r.ruler(acme)
		if c.method == "DELETE" {
			token = r.operator()
		}
		if res := r.want(c.status, c.method, c.path, token, c.body); res.code() != c.code {
			t.Errorf("%s %s: %s", c.method, c.path, res)
		}
	}
	r := newRig(t, func(o *Options) {
		o.Controller = fated{o.Controller, func(cluster.Command) (cluster.Result, error) { return cluster.Result{}, nil }}
	})
	if res := r.bootstrap(bootstrapPrefix+"tenants/new/initialize", "secret", `{"display_name":"New","initial_admin_principals":["p:a"]}`); res.status != http.StatusNotFound {
		t.Errorf("initialized and deleted at once: %s", res)
	}
}

// TestRow111To113OfCaches: the rows of bad values, for caches.
func TestRow111To113OfCaches(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	path := nsPath + "/caches"
	for _, fields := range []string{
		`"shards":0`, `"shards":-1`, `"shards":1025`, `"shards":1.5`, `"replication_factor":0`, `"replication_factor":8`, `"consistency":"quorum"`, `"consistency":""`,
		`"display_name":"` + strings.Repeat("x", 257) + `"`,
	} {
		r.want(400, "POST", path, admin, `{"cache":"c",`+fields+`}`)
	}
	for _, name := range []string{".a", "-a", "_a", "a b", "a/b", "ä", "*", "a:b", strings.Repeat("x", 129), "a\\u0000"} {
		r.want(400, "POST", path, admin, `{"cache":"`+name+`"}`)
		r.want(400, "POST", nsPath+"/resources", admin, `{"streams":[{"stream":"good"}],"caches":[{"cache":"good"},{"cache":"`+name+`"}]}`)
	}
	if res := r.want(409, "POST", path, admin, `{"cache":"c","replication_factor":2}`); res.code() != codeUnplaceable {
		t.Errorf("two replicas on one node: %s", res)
	}
	if m := r.c.Image(); m.CacheCount() != 0 || m.TopicCount() != 0 {
		t.Error("something was made")
	}
	r.want(201, "POST", path, admin, `{"cache":"nulls","shards":null,"replication_factor":null,"consistency":null,"display_name":null,"more":[{}]}`)
	r.want(200, "POST", path, admin, `{"cache":"nulls","shards":1,"consistency":"Leader"}`)
	for _, fields := range []string{`"shards":2`, `"consistency":"Quorum"`, `"display_name":"N"`} {
		if res := r.want(409, "POST", path, admin, `{"cache":"nulls",`+fields+`}`); res.code() != codeExists {
			t.Errorf("%s: %s", fields, res)
		}
	}
}

// rulesPath is where the rules of the rig's tenant are.
const rulesPath = "/v1/tenants/acme/rbac/"

func policyText(subject, object, action string) string {
	return fmt.Sprintf(`{"subject":%q,"object":%q,"action":%q}`, subject, object, action)
}

// TestRow115And120: objects that no rule can name, and actions that an object cannot have.
func TestRow115And120(t *testing.T) {
	r := newRig(t)
	ruler := r.ruler(acme)
	for _, c := range [][2]string{
		{"tenant:*", "rbac.view"},
		{"stream:*", "stream.publish"},
		{"node:*", "node.manage"},
		{"cluster:nodes", "node.view"},
		{"cluster:", "node.view"},
		{"tenant:other", "rbac.view"},
		{"stream:other/ns/s", "stream.publish"},
		{"namespace:*/ns", "ns.manage"},
		{"stream:acme/*/s", "stream.publish"},
		{"stream:acme/ns", "stream.publish"},
		{"", "stream.publish"},
		{"acme", "stream.publish"},
		{"Stream:acme/ns/s", "stream.publish"},
		{"group:acme/ns/*/g", "group.consume"},
		{"cache:acme/ns/c/k", "cache.manage"},
		{"cache:acme/ns/c/k*", "rbac.view"},
		{"cache:acme/ns/c/*", "cache.read"},
		{"cache:acme/ns/c/a*b", "cache.read"},
		{"cache:acme/*/c/k", "cache.read"},
		{"stream:acme/ns/s", "cache.read"},
		{"tenant:acme", "stream.publish"},
		{"stream:acme/ns/s", "no.such"},
		{"stream:acme/ns/s", ""},
	} {
		for _, method := range []string{"POST", "DELETE"} {
			r.want(400, method, rulesPath+"policies", ruler, policyText("role:r", c[0], c[1]))
		}
	}
	for _, subject := range []string{"", "a\\u0000b", "a\\nb", strings.Repeat("s", 1025)} {
		r.want(400, "POST", rulesPath+"policies", ruler, `{"subject":"`+subject+`","object":"tenant:acme","action":"rbac.view"}`)
		r.want(400, "POST", rulesPath+"groupings", ruler, `{"user":"`+subject+`","role":"role:r"}`)
		r.want(400, "POST", rulesPath+"groupings", ruler, `{"user":"p:u","role":"`+subject+`"}`)
	}
	if r.c.Image().PolicyCount() != 0 || r.c.Image().GroupingCount() != 0 {
		t.Error("something was stored")
	}
	for _, c := range [][2]string{
		{"cache:acme/ns/c/k/with/slashes", "cache.read"}, {"cache:acme/ns/c/k*", "cache.write"}, {"group:acme/ns/s/*", "group.consume"}, {"namespace:acme/*", "ns.manage"},
	} {
		r.want(201, "POST", rulesPath+"policies", ruler, policyText("group:https://idp.example#ops é", c[0], c[1]))
	}
}

// TestRow116And117: a rule broader than what its author may give, and one on the cluster.
func TestRow116And117(t *testing.T) {
	r := newRig(t)
	ruler := r.ruler(acme)
	for _, c := range [][2]string{{"cluster:*", "node.view"}, {"cluster:*", "tenant.manage"}, {"node:node-1", "node.manage"}, {"cluster:*", "no.such"}} {
		for _, method := range []string{"POST", "DELETE"} {
			r.want(403, method, rulesPath+"policies", ruler, policyText("role:r", c[0], c[1]))
		}
	}
	// Who has the whole tenant and the very right on the cluster may give it away, and nobody else sees it.
	holder := r.token(acme, "rbac.policy.manage:tenant:acme", "rbac.view:tenant:acme", "node.view:cluster:*", "node.manage:node:node-1")
	r.want(201, "POST", rulesPath+"policies", holder, policyText("role:r", "cluster:*", "node.view"))
	r.want(201, "POST", rulesPath+"policies", holder, policyText("role:r", "node:node-1", "node.manage"))
	r.want(403, "POST", rulesPath+"policies", holder, policyText("role:r", "node:node-2", "node.manage"))
	r.want(403, "POST", rulesPath+"policies", holder, policyText("role:r", "cluster:*", "node.manage"))
	if res := r.want(200, "GET", rulesPath+"policies", holder, ""); len(res.list) != 2 {
		t.Errorf("the holder sees %s", res)
	}
	if res := r.want(200, "GET", rulesPath+"policies", ruler, ""); res.text != "[]" {
		t.Errorf("the tenant's admin sees %s", res)
	}
	r.want(403, "POST", rulesPath+"groupings", ruler, `{"user":"p:u","role":"role:r"}`) // row 118

	narrow := r.token(acme, "rbac.policy.manage:namespace:acme/ns")
	for object, status := range map[string]int{
		"namespace:acme/ns": 201, "namespace:acme/*": 403, "namespace:acme/n2": 403, "tenant:acme": 403,
	} {
		r.want(status, "POST", rulesPath+"policies", narrow, policyText("role:n", object, "rbac.view"))
	}
	for object, status := range map[string]int{"stream:acme/ns/s": 201, "stream:acme/ns/*": 201, "stream:acme/*/*": 403, "stream:acme/n2/s": 403} {
		r.want(status, "POST", rulesPath+"policies", narrow, policyText("role:n", object, "stream.publish"))
		r.want(map[int]int{201: 204, 403: 403}[status], "DELETE", rulesPath+"policies", narrow, policyText("role:n", object, "stream.publish"))
	}
	one := r.token(acme, "rbac.policy.manage:stream:acme/ns/s")
	for object, status := range map[string]int{"group:acme/ns/s/g": 201, "group:acme/ns/s/*": 201, "group:acme/ns/*/*": 403, "group:acme/ns/t/g": 403} {
		r.want(status, "POST", rulesPath+"policies", one, policyText("role:g", object, "group.consume"))
	}
	keys := r.token(acme, "rbac.policy.manage:cache:acme/ns/c")
	for object, status := range map[string]int{"cache:acme/ns/c": 201, "cache:acme/ns/c/k*": 201, "cache:acme/ns/d/k": 403} {
		r.want(status, "POST", rulesPath+"policies", keys, policyText("role:k", object, "cache.read"))
	}
	// The management of what a rule is about confers no right over rules.
	r.want(403, "POST", rulesPath+"policies", r.admin(acme), policyText("role:n", "stream:acme/ns/s", "stream.publish"))
	r.want(403, "GET", rulesPath+"policies", r.admin(acme), "")
}

// TestRow118: a role that has one policy outside the scope of whoever gives it, by itself or through a role of its own.
func TestRow118(t *testing.T) {
	r := newRig(t)
	ruler := r.ruler(acme)
	for _, p := range [][3]string{
		{"role:in", "stream:acme/ns/s", "stream.publish"},
		{"role:in", "stream:acme/ns/*", "stream.subscribe"},
		{"role:mixed", "stream:acme/ns/s", "stream.publish"},
		{"role:mixed", "stream:acme/n2/s", "stream.publish"},
		{"role:top", "stream:acme/ns/t", "stream.publish"},
	} {
		r.want(201, "POST", rulesPath+"policies", ruler, policyText(p[0], p[1], p[2]))
	}
	r.want(201, "POST", rulesPath+"groupings", ruler, `{"user":"role:top","role":"role:mixed"}`)
	narrow := r.token(acme, "rbac.assignment.manage:namespace:acme/ns", "rbac.view:namespace:acme/ns")
	for role, status := range map[string]int{"role:in": 201, "role:mixed": 403, "role:top": 403, "role:empty": 403} {
		body := `{"user":"p:u","role":"` + role + `"}`
		r.want(status, "POST", rulesPath+"groupings", narrow, body)
		if status == 201 {
			r.want(200, "POST", rulesPath+"groupings", narrow, body)
			r.want(204, "DELETE", rulesPath+"groupings", narrow, body)
			r.want(404, "DELETE", rulesPath+"groupings", narrow, body) // row 119
		} else {
			r.want(201, "POST", rulesPath+"groupings", ruler, body)
			r.want(403, "DELETE", rulesPath+"groupings", narrow, body)
		}
	}
	r.want(201, "POST", rulesPath+"groupings", ruler, `{"user":"p:u","role":"role:in"}`)
	// Listings show what lies inside the view of the caller.
	if res := r.want(200, "GET", rulesPath+"groupings", narrow, ""); res.text != `[{"user":"p:u","role":"role:in"}]` {
		t.Errorf("groupings %s", res)
	}
	if res := r.want(200, "GET", rulesPath+"policies", narrow, ""); len(res.list) != 4 {
		t.Errorf("policies %s", res)
	}
	if res := r.want(200, "GET", rulesPath+"groupings", ruler, ""); len(res.list) != 5 {
		t.Errorf("all groupings %s", res)
	}
	r.want(400, "POST", rulesPath+"groupings", ruler, `{"user":"role:in","role":"role:in"}`)
	r.want(400, "DELETE", rulesPath+"groupings", ruler, `{"user":"role:in"}`)
}

// TestRow119: what is not there cannot be removed.
func TestRow119(t *testing.T) {
	r := newRig(t)
	ruler := r.ruler(acme)
	body := policyText("role:r", "stream:acme/ns/s", "stream.publish")
	r.want(404, "DELETE", rulesPath+"policies", ruler, body)
	r.want(404, "DELETE", rulesPath+"groupings", ruler, `{"user":"p:u","role":"role:r"}`)
	if first, again := r.want(201, "POST", rulesPath+"policies", ruler, body), r.want(200, "POST", rulesPath+"policies", ruler, body); first.text != body || again.text != body {
		t.Errorf("made: %s; there: %s", first, again)
	}
	r.want(204, "DELETE", rulesPath+"policies", ruler, body)
	r.want(404, "DELETE", rulesPath+"policies", ruler, body)
}

// TestPagingOfRules: a bare list without limit and cursor, pages with either, filled after filtering by rights.
func TestPagingOfRules(t *testing.T) {
	r := newRig(t)
	var want []string
	for i := range 25 {
		for _, ns := range []string{"a", "ns"} {
			r.propose(cluster.PutPolicy{Policy: cluster.Policy{Tenant: acme, Subject: fmt.Sprintf("role:%02d", i), Object: "stream:acme/" + ns + "/*", Action: "stream.publish"}})
		}
		r.propose(cluster.PutGrouping{Grouping: cluster.Grouping{Tenant: acme, User: fmt.Sprintf("p:%02d", i), Role: "role:00"}})
		want = append(want, fmt.Sprintf("role:%02d", i))
	}
	r.propose(cluster.PutPolicy{Policy: cluster.Policy{Tenant: other, Subject: "role:00", Object: "tenant:other", Action: "rbac.view"}})
	token := r.token(acme, "rbac.view:namespace:acme/ns")
	for _, limit := range []int{1, 7, 24, 25, 26} {
		var got []string
		for query := fmt.Sprintf("?limit=%d", limit); query != ""; {
			res := r.want(200, "GET", rulesPath+"policies"+query, token, "")
			items := res.body["items"].([]any)
			for _, item := range items {
				got = append(got, item.(map[string]any)["subject"].(string))
			}
			cursor, more := res.body["next_cursor"].(string)
			if more && len(items) != limit {
				t.Fatalf("a page of %d has %d", limit, len(items))
			}
			if query = ""; more {
				query = fmt.Sprintf("?limit=%d&cursor=%s", limit, cursor)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if res := r.want(200, "GET", rulesPath+"policies?subject=role:07", token, ""); res.text != "["+policyText("role:07", "stream:acme/ns/*", "stream.publish")+"]" {
		t.Errorf("of one subject: %s", res)
	}
	ruler := r.ruler(acme)
	if res := r.want(200, "GET", rulesPath+"groupings?limit=10&role=role:00", ruler, ""); len(res.body["items"].([]any)) != 10 || res.body["next_cursor"] == nil {
		t.Errorf("groupings %s", res)
	}
	if res := r.want(200, "GET", rulesPath+"groupings?role=role:01", ruler, ""); res.text != "[]" {
		t.Errorf("groupings %s", res)
	}
	for _, query := range []string{"?limit=0", "?cursor=x", "?limit=10001"} {
		r.want(400, "GET", rulesPath+"policies"+query, ruler, "")
		r.want(400, "GET", rulesPath+"groupings"+query, ruler, "")
	}
}
