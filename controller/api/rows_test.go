package api

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// Each test of this file carries the number of a row of the security rules, section 13.4.

// tenantRoutes are the routes of a tenant that take its own tokens, with a body that is good.
var tenantRoutes = []struct{ method, path, body string }{
	{http.MethodGet, "/signing-keys", ""},
	{http.MethodPost, "/signing-keys", ""},
	{http.MethodPost, "/signing-keys/k/activate", ""},
	{http.MethodDelete, "/signing-keys/k", ""},
	{http.MethodGet, "/namespaces", ""},
	{http.MethodPost, "/namespaces", `{"namespace":"n2"}`},
	{http.MethodGet, "/namespaces/ns", ""},
	{http.MethodDelete, "/namespaces/ns", ""},
	{http.MethodGet, "/namespaces/ns/streams", ""},
	{http.MethodPost, "/namespaces/ns/streams", `{"stream":"s"}`},
	{http.MethodGet, "/namespaces/ns/streams/s", ""},
	{http.MethodPatch, "/namespaces/ns/streams/s", `{"delivery":"AtMostOnce"}`},
	{http.MethodDelete, "/namespaces/ns/streams/s", ""},
	{http.MethodPost, "/namespaces/ns/resources", `{"streams":[{"stream":"s"}]}`},
	{http.MethodGet, "/namespaces/ns/caches", ""},
	{http.MethodPost, "/namespaces/ns/caches", `{"cache":"s"}`},
	{http.MethodGet, "/namespaces/ns/caches/s", ""},
	{http.MethodPatch, "/namespaces/ns/caches/s", `{"display_name":"S"}`},
	{http.MethodDelete, "/namespaces/ns/caches/s", ""},
	{http.MethodGet, "/rbac/policies", ""},
	{http.MethodPost, "/rbac/policies", `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.publish"}`},
	{http.MethodDelete, "/rbac/policies", `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.publish"}`},
	{http.MethodGet, "/rbac/groupings", ""},
	{http.MethodPost, "/rbac/groupings", `{"user":"p:u","role":"role:r"}`},
	{http.MethodDelete, "/rbac/groupings", `{"user":"p:u","role":"role:r"}`},
}

// operatorRoutes are the routes of the cluster's operators.
var operatorRoutes = []struct{ method, path, body string }{
	{http.MethodGet, "/v1/tenants", ""},
	{http.MethodPost, "/v1/tenants", `{"tenant_id":"new"}`},
	{http.MethodGet, "/v1/tenants/acme", ""},
	{http.MethodDelete, "/v1/tenants/acme", ""},
	{http.MethodGet, "/v1/nodes", ""},
	{http.MethodGet, "/v1/nodes/node-1", ""},
	{http.MethodGet, "/v1/shard-assignments", ""},
	{http.MethodGet, "/v1/regions", ""},
	{http.MethodGet, "/v1/fleet/features", ""},
	{http.MethodPost, "/v1/fleet/features/f/finalize", ""},
	{http.MethodGet, "/v1/shard-moves", ""},
	{http.MethodPost, "/v1/shard-moves", `{"tenant_id":"acme","namespace":"ns","stream":"s","shard":0,"destination":"node-1"}`},
	{http.MethodDelete, "/v1/shard-moves/acme/ns/s/0", ""},
	{http.MethodGet, "/v1/placement/plan", ""},
	{http.MethodGet, "/v1/placement/replication", ""},
	{http.MethodPost, "/v1/placement/pause", ""},
	{http.MethodPost, "/v1/placement/resume", ""},
	{http.MethodPost, "/v1/placement/abandon/acme/ns/s/0", ""},
}

// ruler is a token with every right in a tenant, those over its rules included.
func (r *rig) ruler(tenant string) string {
	r.t.Helper()
	of := ":tenant:" + tenant
	return r.token(tenant, "tenant.manage"+of, "rbac.view"+of, "rbac.policy.manage"+of, "rbac.assignment.manage"+of)
}

// TestRow101 to 103: what is no token of ours for this audience is one answer, on every route.
func TestRow101To103(t *testing.T) {
	r := newRig(t)
	broker := r.claims(acme, "tenant.manage:tenant:acme")
	broker.Audience = auth.AudienceBroker
	good := r.admin(acme)
	expired := r.claims(acme, "tenant.manage:tenant:acme")
	expired.Issued, expired.Expires = began.Add(-time.Hour), began.Add(-2*time.Minute)
	cases := []struct {
		name   string
		header []string
		reason string
	}{
		{"101_no_header", nil, rejectMissing},
		{"102_basic", []string{"Basic " + good}, rejectMalformed},
		{"102_no_scheme", []string{good}, rejectMalformed},
		{"102_two_tokens", []string{"Bearer " + good + " " + good}, rejectMalformed},
		{"102_two_with_comma", []string{"Bearer " + good + "," + good}, rejectMalformed},
		{"102_two_headers", []string{"Bearer " + good, "Bearer " + good}, rejectMalformed},
		{"102_empty", []string{"Bearer "}, rejectMalformed},
		{"102_rubbish", []string{"Bearer rubbish"}, rejectMalformed},
		{"103_broker", []string{"Bearer " + r.sign(broker, acme)}, rejectInvalid},
		{"expired", []string{"Bearer " + r.sign(expired, acme)}, rejectInvalid},
		{"forged", []string{"Bearer " + r.sign(r.claims(acme, "tenant.manage:tenant:acme"), other)}, rejectInvalid},
	}
	before := r.c.Image()
	answers := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			count := r.counter("felix_controlplane_auth_rejected_total", c.reason)
			calls := 0.
			try := func(method, path, body string) {
				req := request(method, path, "", body)
				req.Header["Authorization"] = c.header
				res := r.send(req)
				if res.status != http.StatusUnauthorized || res.header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s %s: got %s, want 401", method, path, res)
				}
				answers[res.text] = true
				calls++
			}
			for _, rt := range tenantRoutes {
				try(rt.method, "/v1/tenants/acme"+rt.path, rt.body)
			}
			for _, rt := range operatorRoutes {
				try(rt.method, rt.path, rt.body)
			}
			if got := r.counter("felix_controlplane_auth_rejected_total", c.reason) - count; got != calls {
				t.Errorf("%v calls are counted as %s, want %v", got, c.reason, calls)
			}
		})
	}
	if len(answers) != 1 {
		t.Errorf("%d different answers: %v", len(answers), answers)
	}
	if r.c.Image() != before {
		t.Error("a call that was turned away changed something")
	}
}

// TestRow104And105: a tenant that does not exist and a token of another tenant get the very same answer.
func TestRow104And105(t *testing.T) {
	r := newRig(t)
	token := r.admin(other)
	operator := r.operator()
	answers := map[string]bool{}
	for _, rt := range append(tenantRoutes, struct{ method, path, body string }{http.MethodGet, "", ""}, struct{ method, path, body string }{http.MethodDelete, "", ""}) {
		for _, tenant := range []string{"nobody", "acme", "$system", "%20", "x%2ey"} {
			res := r.want(http.StatusUnauthorized, rt.method, "/v1/tenants/"+tenant+rt.path, token, rt.body)
			answers[res.text] = true
		}
		answers[r.want(http.StatusUnauthorized, rt.method, "/v1/tenants/nobody"+rt.path, operator, rt.body).text] = true
	}
	if len(answers) != 1 {
		t.Errorf("%d different answers: %v", len(answers), answers)
	}
	if got := r.counter("felix_controlplane_auth_rejected_total", rejectTenant); got != float64(len(tenantRoutes)+2) {
		t.Errorf("%v rejections for the tenant, want those on acme: %d", got, len(tenantRoutes)+2)
	}
	r.want(http.StatusNotFound, http.MethodGet, "/v1/tenants/nobody/.well-known/jwks.json", "", "")
	r.want(http.StatusUnauthorized, http.MethodGet, "/v1/tenants/bare/namespaces", token, "")
}

// TestRow106: without the right the answer is 403, and the same whether or not what is named exists.
func TestRow106(t *testing.T) {
	r := newRig(t)
	token := r.token(acme, "stream.publish:stream:acme/*/*", "cache.read:cache:acme/*/*", "node.manage:node:node-1")
	admin := r.ruler(acme)
	var before []string
	for _, round := range []string{"missing", "existing"} {
		if round == "existing" {
			r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s"}`)
			r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/namespaces", admin, `{"namespace":"n2"}`)
			r.want(http.StatusCreated, http.MethodPost, nsPath+"/caches", admin, `{"cache":"s"}`)
			r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/rbac/policies", admin, `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.publish"}`)
			r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/rbac/groupings", admin, `{"user":"p:u","role":"role:r"}`)
		}
		for i, rt := range tenantRoutes {
			res := r.want(http.StatusForbidden, rt.method, "/v1/tenants/acme"+rt.path, token, rt.body)
			if round == "missing" {
				before = append(before, res.text)
			} else if res.text != before[i] {
				t.Errorf("%s %s: %s when it exists, %s when not", rt.method, rt.path, res.text, before[i])
			}
		}
	}
	for _, rt := range operatorRoutes {
		// The tenant's own admin has no right on the cluster.
		if res := r.want(http.StatusForbidden, rt.method, rt.path, admin, rt.body); res.code() != codeForbidden {
			t.Errorf("%s %s: code %s", rt.method, rt.path, res.code())
		}
	}
	if a, b := r.do(http.MethodGet, "/v1/nodes/none", admin, ""), r.do(http.MethodGet, "/v1/nodes/node-1", admin, ""); a.text != b.text {
		t.Errorf("a node's answers differ: %s, %s", a, b)
	}
	if got := r.counter("felix_controlplane_auth_rejected_total", rejectForbidden); got != float64(2*len(tenantRoutes)+len(operatorRoutes)+2) {
		t.Errorf("%v forbidden calls are counted", got)
	}
	if r.c.Image().Tenant(acme) == nil || r.c.Image().Topic(acme, "ns", "s") == nil {
		t.Error("a forbidden call took effect")
	}
}

// TestRow107: a segment that would be another path when decoded again is refused, and never becomes another route.
func TestRow107(t *testing.T) {
	r := newRig(t)
	token := r.operator()
	for _, path := range []string{
		"/v1/tenants/acme%2Fnamespaces", "/v1/tenants/acme%2fnamespaces/ns", "/v1/tenants/..", "/v1/tenants/%2e%2e", "/v1/tenants/%2E%2e/nodes",
		"/v1/tenants/acme/../../nodes", "/v1/nodes/../tenants", "/v1/./nodes", "/v1/tenants/a%00b", "/v1/nodes/%00", "/v1/nodes/%ff",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
			r.want(http.StatusBadRequest, method, path, token, "")
		}
	}
	for _, path := range []string{"/", "//v1/nodes", "/v1//nodes", "/v1/nodes/", "/v1", "/v2/nodes", "/v1/caches", "/v1/tenants/acme/namespaces/ns/groups", strings.Repeat("/x", 100)} {
		r.want(http.StatusNotFound, http.MethodGet, path, token, "")
	}
	// Once decoded it is an ordinary name: %2E stands for a dot inside one, and a double encoding is decoded once.
	r.want(http.StatusNotFound, http.MethodGet, "/v1/nodes/a%2Eb", token, "")
	r.want(http.StatusNotFound, http.MethodGet, "/v1/nodes/%252F", token, "")
	res := r.want(http.StatusMethodNotAllowed, http.MethodPut, "/v1/tenants/acme", token, "")
	if got := res.header.Get("Allow"); got != "DELETE, GET" {
		t.Errorf("Allow is %q", got)
	}
}

// TestRow108: names outside the rules.
func TestRow108(t *testing.T) {
	r := newRig(t)
	admin, operator := r.admin(acme), r.operator()
	long := strings.Repeat("x", 129)
	for _, name := range []string{"", ".a", "-a", "_a", "a b", "a/b", "ä", "a:b", "*", long, "$system", "a\\u0000"} {
		r.want(http.StatusBadRequest, http.MethodPost, "/v1/tenants", operator, fmt.Sprintf(`{"tenant_id":"%s"}`, name))
		if name != "" { // an empty name is no namespace that anybody has a right on
			r.want(http.StatusBadRequest, http.MethodPost, "/v1/tenants/acme/namespaces", admin, fmt.Sprintf(`{"namespace":"%s"}`, name))
		}
	}
	for _, name := range []string{".", "..", "a b", "a/b", "ä", "a:b", "*", strings.Repeat("x", 247), "a\\u0000"} {
		r.want(http.StatusBadRequest, http.MethodPost, nsPath+"/streams", admin, fmt.Sprintf(`{"stream":"%s"}`, name))
		r.want(http.StatusBadRequest, http.MethodPost, nsPath+"/resources", admin, fmt.Sprintf(`{"streams":[{"stream":"good"},{"stream":"%s"}]}`, name))
	}
	for _, name := range []string{"_a", "-a", "...", "a.b", strings.Repeat("x", 246)} {
		r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, fmt.Sprintf(`{"stream":"%s"}`, name))
	}
	for _, body := range []string{`{}`, `{"stream":null}`, `{"stream":1}`, `{"stream":["s"]}`} {
		r.want(http.StatusBadRequest, http.MethodPost, nsPath+"/streams", admin, body)
	}
	if r.c.Image().Topic(acme, "ns", "good") != nil {
		t.Error("a batch with a bad name made something")
	}
}

// TestRow109: a name twice is refused, at any depth; an unknown field is ignored.
func TestRow109(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	for _, body := range []string{
		`{"stream":"a","stream":"b"}`, `{"stream":"a","retention":{"max_age_seconds":1,"max_age_seconds":2}}`, `{"stream":"a","x":[{"y":1,"y":1}]}`,
		`{"stream":"a","str\u0065am":"a"}`,
	} {
		r.want(http.StatusBadRequest, http.MethodPost, nsPath+"/streams", admin, body)
	}
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"a","colour":"blue","Shards":7,"more":{"x":[1,{"y":null}]}}`)
	if got := len(r.c.Image().Topic(acme, "ns", "a").Partitions); got != 1 {
		t.Errorf("%d shards: a name is matched without regard to case", got)
	}
}

// TestRow110: what is not JSON, not said to be JSON, or too large.
func TestRow110(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	for name, body := range map[string]string{
		"empty": "", "text": "stream", "half": `{"stream":`, "list": `["stream"]`, "two": `{"stream":"a"}{}`, "trailing": `{"stream":"a"} x`,
		"not_utf8": "{\"stream\":\"a\xff\"}", "single_quotes": `{'stream':'a'}`, "comment": `{"stream":"a"/**/}`, "bare_number": "1", "null": "null",
		"deep":        `{"stream":"a","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		"many_values": `{"stream":"a","x":[` + strings.Repeat("1,", 20000) + `1]}`, "trailing_comma": `{"stream":"a",}`,
	} {
		t.Run(name, func(t *testing.T) {
			req := request(http.MethodPost, nsPath+"/streams", admin, body)
			req.Header.Set("Content-Type", "application/json")
			if res := r.send(req); res.status != http.StatusBadRequest || res.code() != codeInvalidRequest {
				t.Errorf("got %s, want 400", res)
			}
		})
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/json;;", "json"} {
		req := request(http.MethodPost, nsPath+"/streams", admin, `{"stream":"a"}`)
		req.Header.Set("Content-Type", kind)
		if res := r.send(req); res.status != http.StatusUnsupportedMediaType {
			t.Errorf("content type %q: got %s, want 415", kind, res)
		}
	}
	encoded := request(http.MethodPost, nsPath+"/streams", admin, `{"stream":"a"}`)
	encoded.Header.Set("Content-Encoding", "gzip")
	if res := r.send(encoded); res.status != http.StatusUnsupportedMediaType {
		t.Errorf("an encoded body: got %s, want 415", res)
	}
	big := fmt.Sprintf(`{"stream":"a","x":"%s"}`, strings.Repeat("y", maxBodyBytes))
	r.want(http.StatusRequestEntityTooLarge, http.MethodPost, nsPath+"/streams", admin, big)
	hidden := request(http.MethodPost, nsPath+"/streams", admin, big)
	hidden.ContentLength = -1 // as a chunked body has it
	if res := r.send(hidden); res.status != http.StatusRequestEntityTooLarge || res.code() != codeTooLarge {
		t.Errorf("a chunked body of more than a mebibyte: %s", res)
	}
	if r.c.Image().TopicCount() != 0 {
		t.Error("something was made")
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		req := request(http.MethodPost, nsPath+"/streams", admin, `{"stream":"a"}`)
		req.Header.Set("Content-Type", kind)
		if res := r.send(req); res.status/100 != 2 {
			t.Errorf("content type %q: got %s", kind, res)
		}
	}
}

// TestRow111And113: numbers out of bounds and an empty region.
func TestRow111And113(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	for _, fields := range []string{
		`"shards":0`, `"shards":-1`, `"shards":1025`, `"shards":1e3`, `"shards":1.0`, `"shards":"1"`, `"shards":99999999999999999999`, `"shards":true`,
		`"replication_factor":0`, `"replication_factor":8`, `"replication_factor":-1`,
		`"region":""`, `"region":7`,
		`"retention":{"max_age_seconds":0}`, `"retention":{"max_age_seconds":-1}`, `"retention":{"max_size_bytes":0}`, `"retention":{"max_age_seconds":9223372036854775807}`,
		`"retention":7`, `"kind":"stream"`, `"kind":"Cache"`, `"kind":""`, `"delivery":"atleastonce"`, `"consistency":"leader"`, `"consistency":""`,
		`"routing":"hash"`, `"routing":""`, `"durable":"true"`, `"durable":1`,
	} {
		r.want(http.StatusBadRequest, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s",`+fields+`}`)
	}
	if r.c.Image().TopicCount() != 0 {
		t.Error("something was made")
	}
	if res := r.want(http.StatusConflict, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s","replication_factor":2}`); res.code() != codeUnplaceable {
		t.Errorf("two replicas on one node: %s", res)
	}
	if res := r.want(http.StatusConflict, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s","region":"mars"}`); res.code() != codeRegionNotAllowed {
		t.Errorf("another region: %s", res)
	}
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s","shards":1024,"replication_factor":1,"region":"local"}`)
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin,
		`{"stream":"nulls","shards":null,"replication_factor":null,"region":null,"retention":null,"kind":null,"delivery":null,"consistency":null,"routing":null,"durable":null}`)
}

// TestRow112: made once, there already, there otherwise.
func TestRow112(t *testing.T) {
	r := newRig(t)
	admin, operator := r.admin(acme), r.operator()
	first := r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s","shards":3}`)
	again := r.want(http.StatusOK, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s","shards":3,"durable":false,"kind":"Stream"}`)
	if first.text != again.text {
		t.Errorf("made: %s; there already: %s", first, again)
	}
	for _, fields := range []string{`"shards":4`, `"shards":3,"durable":true`, `"shards":3,"consistency":"Quorum"`, `"shards":3,"retention":{"max_size_bytes":1}`, `"shards":3,"routing":"jump_hash"`} {
		if res := r.want(http.StatusConflict, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s",`+fields+`}`); res.code() != codeExists {
			t.Errorf("code %s", res.code())
		}
	}
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"new","display_name":"New"}`)
	r.want(http.StatusConflict, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"new","display_name":"New"}`)
	r.want(http.StatusConflict, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"new"}`)
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/namespaces", admin, `{"namespace":"n2"}`)
	r.want(http.StatusConflict, http.MethodPost, "/v1/tenants/acme/namespaces", admin, `{"namespace":"n2"}`)
}

// TestRow114: limits and cursors.
func TestRow114(t *testing.T) {
	r := newRig(t)
	admin, operator := r.admin(acme), r.operator()
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/resources", admin, `{"streams":[{"stream":"a"},{"stream":"b"}]}`)
	cursor, _ := r.want(http.StatusOK, http.MethodGet, nsPath+"/streams?limit=1", admin, "").body["next_cursor"].(string)
	if cursor == "" {
		t.Fatal("no cursor")
	}
	paged := map[string]string{
		"/v1/tenants": operator, "/v1/nodes": operator, "/v1/shard-assignments": operator, "/v1/tenants/acme/namespaces": admin, nsPath + "/streams": admin,
	}
	shard := base64.RawURLEncoding.EncodeToString([]byte("shard-assignments\x00acme\x00ns\x00stream\x00a\x00x"))
	for path, token := range paged {
		for _, query := range []string{
			"limit=0", "limit=10001", "limit=-1", "limit=x", "limit=", "limit=1.0", "limit=01", "limit=+1", "limit=1&limit=1", "limit=99999999999999999999",
			"cursor=", "cursor=x", "cursor=%00", "cursor=AAAA", "cursor=" + shard, "cursor=" + cursor + "=", "cursor=" + cursor + "&cursor=" + cursor, "limit=%zz",
		} {
			r.want(http.StatusBadRequest, http.MethodGet, path+"?"+query, token, "")
		}
		for _, query := range []string{"limit=1", "limit=10000", "other=1"} {
			r.want(http.StatusOK, http.MethodGet, path+"?"+query, token, "")
		}
		if path != nsPath+"/streams" {
			r.want(http.StatusBadRequest, http.MethodGet, path+"?cursor="+cursor, token, "") // of another listing
		}
	}
}

// TestRow133And134: the key that signs cannot be retired, and one that is not there cannot be activated.
func TestRow133And134(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	const keys = "/v1/tenants/acme/signing-keys"
	current, _ := r.want(http.StatusOK, http.MethodGet, keys, admin, "").body["current"].(string)
	if res := r.want(http.StatusConflict, http.MethodDelete, keys+"/"+current, admin, ""); res.code() != cluster.ConflictSigningKey {
		t.Errorf("code %s", res.code())
	}
	r.want(http.StatusNotFound, http.MethodPost, keys+"/none/activate", admin, "")
	r.want(http.StatusNotFound, http.MethodDelete, keys+"/none", admin, "")
}

// TestRow146: a store that does not answer is 503 on every write, and reads go on.
func TestRow146(t *testing.T) {
	for _, err := range []error{errUnknown, errNotController, errStopped} {
		r := newRig(t)
		admin, operator := r.ruler(acme), r.operator()
		r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s"}`)
		r.want(http.StatusCreated, http.MethodPost, nsPath+"/caches", admin, `{"cache":"s"}`)
		r.store.Fail(err)
		for _, rt := range tenantRoutes {
			want := http.StatusServiceUnavailable
			if rt.method == http.MethodGet {
				want = http.StatusOK
			}
			res := r.want(want, rt.method, "/v1/tenants/acme"+rt.path, admin, rt.body)
			if want != http.StatusOK && res.code() != codeUnavailable {
				t.Errorf("code %s", res.code())
			}
		}
		r.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"new"}`)
		r.want(http.StatusServiceUnavailable, http.MethodDelete, "/v1/tenants/acme", operator, "")
		r.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/placement/pause", operator, "")
		r.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/placement/resume", operator, "")
		r.want(http.StatusOK, http.MethodGet, "/v1/system/live", "", "")
	}
}
