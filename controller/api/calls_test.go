package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

var errUnknown, errNotController, errStopped = controller.ErrUnknownOutcome, controller.ErrNotController, controller.ErrStopped

// same wants a JSON answer.
func same(t *testing.T, got response, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.text), &b); err != nil {
		t.Fatalf("%q: %v", got.text, err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("want -, got +: %s", diff)
	}
}

func TestStreamLife(t *testing.T) {
	r := newRig(t)
	admin := r.token(acme, "stream.manage:stream:acme/ns/*")
	r.want(http.StatusNotFound, http.MethodGet, nsPath+"/streams/s", admin, "")
	same(t, r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, `{"stream":"s"}`), `{
		"tenant_id":"acme","namespace":"ns","stream":"s","kind":"Stream","shards":1,"replication_factor":1,"retention":{},
		"consistency":"Leader","delivery":"AtLeastOnce","durable":false}`)
	full := `{"tenant_id":"acme","namespace":"ns","stream":"full","kind":"Queue","shards":4,"replication_factor":1,
		"retention":{"max_age_seconds":60,"max_size_bytes":1048576},"consistency":"Quorum","delivery":"AtMostOnce","durable":true,"region":"local","routing":"jump_hash"}`
	same(t, r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, full), full)
	same(t, r.want(http.StatusOK, http.MethodGet, nsPath+"/streams/full", admin, ""), full)
	topic := r.c.Image().Topic(acme, "ns", "full")
	if !topic.Durable || topic.MadeByKafka || topic.Config.RetentionMs != 60_000 || topic.Consistency != cluster.ConsistencyQuorum || topic.ID[6]>>4 != 4 {
		t.Errorf("%+v", topic)
	}

	path := nsPath + "/streams/full"
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", `{}`, 200, ""},
		{"unknown_field", `{"colour":1}`, 200, ""},
		{"same_durable", `{"durable":true}`, 200, ""},
		{"durable", `{"durable":false}`, 409, "durability_fixed"},
		{"durable_and_more", `{"durable":false,"delivery":"AtLeastOnce"}`, 409, "durability_fixed"},
		{"shards", `{"shards":5}`, 400, "invalid_request"},
		{"region", `{"region":"local"}`, 400, "invalid_request"},
		{"zero", `{"retention":{"max_age_seconds":0}}`, 400, "invalid_request"},
		{"bad_word", `{"delivery":"Once"}`, 400, "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if res := r.want(c.status, http.MethodPatch, path, admin, c.body); res.code() != c.code {
				t.Errorf("code %q, want %q", res.code(), c.code)
			}
			same(t, r.do(http.MethodGet, path, admin, ""), full)
		})
	}
	changed := r.want(http.StatusOK, http.MethodPatch, path, admin, `{"retention":{"max_age_seconds":5},"consistency":"Leader","delivery":"AtLeastOnce"}`)
	same(t, changed, `{"tenant_id":"acme","namespace":"ns","stream":"full","kind":"Queue","shards":4,"replication_factor":1,
		"retention":{"max_age_seconds":5},"consistency":"Leader","delivery":"AtLeastOnce","durable":true,"region":"local","routing":"jump_hash"}`)
	r.want(http.StatusOK, http.MethodPatch, path, admin, `{"retention":{}}`)
	if got := r.c.Image().Topic(acme, "ns", "full").Retention(); got != (cluster.Retention{}) {
		t.Errorf("retention %+v after it was reset", got)
	}
	r.want(http.StatusNotFound, http.MethodPatch, nsPath+"/streams/none", admin, `{"delivery":"AtMostOnce"}`)

	r.want(http.StatusNoContent, http.MethodDelete, path, admin, "")
	r.want(http.StatusNotFound, http.MethodDelete, path, admin, "")
	r.want(http.StatusNotFound, http.MethodGet, path, admin, "")
	if !r.c.Image().WasDeleted(topic.ID) {
		t.Error("the deletion is not remembered for the brokers")
	}
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", admin, full)
	if got := r.c.Image().Topic(acme, "ns", "full").ID; got == topic.ID {
		t.Error("made again, it has the same id")
	}
}

// TestKafkaTopicsAreStreams: what Kafka's tools made and configured is shown as far as there are words for it.
func TestKafkaTopicsAreStreams(t *testing.T) {
	r := newRig(t)
	r.propose(cluster.CreateTopics{Topics: []cluster.NewTopic{{
		ID: ids.TopicID{1}, Tenant: acme, Namespace: "ns", Name: "k", Partitions: 2, ReplicationFactor: 1, Durable: true, MadeByKafka: true,
		Overrides: map[string]string{"retention.ms": "1500", "retention.bytes": "-1", "cleanup.policy": "compact"},
	}}})
	r.propose(cluster.CreateTopics{Topics: []cluster.NewTopic{cluster.GroupsTopic()}})
	want := `{"tenant_id":"acme","namespace":"ns","stream":"k","kind":"Stream","shards":2,"replication_factor":1,"retention":{"max_age_seconds":2},
		"consistency":"Leader","delivery":"AtLeastOnce","durable":true}`
	same(t, r.want(http.StatusOK, http.MethodGet, nsPath+"/streams/k", r.admin(acme), ""), want)
	if got := r.c.Image().Topic(acme, "ns", "k").Overrides["cleanup.policy"]; got != "compact" {
		t.Errorf("cleanup.policy %q", got)
	}
	r.want(http.StatusOK, http.MethodPatch, nsPath+"/streams/k", r.admin(acme), `{"delivery":"AtMostOnce"}`)
	if got := r.c.Image().Topic(acme, "ns", "k").Overrides["cleanup.policy"]; got != "compact" {
		t.Errorf("cleanup.policy %q after a change of something else", got)
	}
	items := r.want(http.StatusOK, http.MethodGet, "/v1/shard-assignments", r.operator(), "").body["items"].([]any)
	if len(items) != 2 {
		t.Errorf("%d shards are listed, want 2: the server's own are nobody's", len(items))
	}
}

func TestTenantLife(t *testing.T) {
	r := newRig(t)
	operator := r.operator()
	same(t, r.want(http.StatusCreated, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"new","display_name":"New é"}`), `{"tenant_id":"new","display_name":"New é"}`)
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants/new", operator, ""), `{"tenant_id":"new","display_name":"New é"}`)
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants?limit=2", operator, ""), `{
		"items":[{"tenant_id":"acme","display_name":""},{"tenant_id":"bare","display_name":""}],"next_cursor":"dGVuYW50cwBiYXJl"}`)
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants?cursor=dGVuYW50cwBiYXJl&limit=2", operator, ""), `{
		"items":[{"tenant_id":"new","display_name":"New é"},{"tenant_id":"ops","display_name":""}],"next_cursor":"dGVuYW50cwBvcHM"}`)
	r.want(http.StatusBadRequest, http.MethodPost, "/v1/tenants", operator, `{"tenant_id":"x","display_name":"`+strings.Repeat("n", 257)+`"}`)

	// Its key signs at once: the new tenant's admin can work with it.
	admin := r.admin("new")
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/new/namespaces", admin, `{"namespace":"a","display_name":"A"}`)
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/new/namespaces/a/streams", admin, `{"stream":"s"}`)
	r.want(http.StatusForbidden, http.MethodDelete, "/v1/tenants/new", admin, "")
	id := r.c.Image().Topic("new", "a", "s").ID
	r.want(http.StatusNoContent, http.MethodDelete, "/v1/tenants/new", operator, "")
	r.want(http.StatusUnauthorized, http.MethodGet, "/v1/tenants/new/namespaces", admin, "")
	r.want(http.StatusUnauthorized, http.MethodDelete, "/v1/tenants/new", operator, "")
	r.want(http.StatusNotFound, http.MethodGet, "/v1/tenants/new/.well-known/jwks.json", "", "")
	if m := r.c.Image(); m.Tenant("new") != nil || m.TopicByID(id) != nil || !m.WasDeleted(id) || len(m.Namespaces("new")) != 0 {
		t.Error("something of the tenant is left")
	}
}

func TestNamespaceLife(t *testing.T) {
	r := newRig(t)
	admin := r.admin(acme)
	same(t, r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/namespaces", admin, `{"namespace":"a","display_name":"A"}`), `{"tenant_id":"acme","namespace":"a","display_name":"A"}`)
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants/acme/namespaces/a", admin, ""), `{"tenant_id":"acme","namespace":"a","display_name":"A"}`)
	one := r.token(acme, "ns.manage:namespace:acme/a")
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants/acme/namespaces", one, ""), `{"items":[{"tenant_id":"acme","namespace":"a","display_name":"A"}]}`)
	r.want(http.StatusForbidden, http.MethodGet, nsPath, one, "")
	r.want(http.StatusForbidden, http.MethodPost, "/v1/tenants/acme/namespaces", one, `{"namespace":"b"}`)
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/namespaces/a/streams", one, `{"stream":"s"}`)
	r.want(http.StatusNoContent, http.MethodDelete, "/v1/tenants/acme/namespaces/a", one, "")
	r.want(http.StatusNotFound, http.MethodDelete, "/v1/tenants/acme/namespaces/a", one, "")
	r.want(http.StatusNotFound, http.MethodGet, "/v1/tenants/acme/namespaces/a", one, "")
	r.want(http.StatusNotFound, http.MethodGet, "/v1/tenants/acme/namespaces/a/streams", one, "")
	r.want(http.StatusNotFound, http.MethodPost, "/v1/tenants/acme/namespaces/a/streams", one, `{"stream":"s"}`)
	if r.c.Image().Topic(acme, "a", "s") != nil {
		t.Error("the stream is left")
	}
	r.want(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/namespaces", one, `{"namespace":"a"}`)
}

func TestBatch(t *testing.T) {
	r := newRig(t)
	admin := r.token(acme, "stream.manage:stream:acme/ns/*")
	path := nsPath + "/resources"
	res := r.want(http.StatusCreated, http.MethodPost, path, admin, `{"streams":[{"stream":"a"},{"stream":"b","shards":2}]}`)
	if got := results(res); got != "a:created b:created" {
		t.Errorf("got %s", got)
	}
	if got := results(r.want(http.StatusCreated, http.MethodPost, path, admin, `{"streams":[{"stream":"a"},{"stream":"c"}]}`)); got != "a:unchanged c:created" {
		t.Errorf("got %s", got)
	}
	if got := results(r.want(http.StatusOK, http.MethodPost, path, admin, `{"streams":[{"stream":"a"},{"stream":"c"}]}`)); got != "a:unchanged c:unchanged" {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		body   string
		status int
		index  any
	}{
		{`{"streams":[{"stream":"d"},{"stream":"b","shards":3}]}`, 409, 1.},
		{`{"streams":[{"stream":"d"},{"stream":"e","shards":0}]}`, 400, 1.},
		{`{"streams":[{"stream":"d"},{}]}`, 400, 1.},
		{`{"streams":[{"stream":"d"},7]}`, 400, nil},
		{`{"streams":[]}`, 400, nil},
		{`{}`, 400, nil},
		{`{"streams":{}}`, 400, nil},
		{`{"streams":[{"stream":"d"}],"caches":[{"cache":"c","shards":0}]}`, 403, 1.}, // the admin of streams may not
		{`{"streams":[` + strings.Repeat(`{"stream":"d"},`, 256) + `{"stream":"d"}]}`, 400, nil},
	} {
		res := r.want(c.status, http.MethodPost, path, admin, c.body)
		if got := res.body["index"]; got != c.index {
			t.Errorf("%.80s: index %v, want %v", c.body, got, c.index)
		}
	}
	narrow := r.token(acme, "stream.manage:stream:acme/ns/d")
	if res := r.want(http.StatusForbidden, http.MethodPost, path, narrow, `{"streams":[{"stream":"d"},{"stream":"a"}]}`); res.body["index"] != 1. {
		t.Errorf("index %v", res.body["index"])
	}
	if r.c.Image().Topic(acme, "ns", "d") != nil || r.c.Image().TopicCount() != 3 {
		t.Error("a batch that failed made something")
	}
	var many []string
	for i := range 256 {
		many = append(many, fmt.Sprintf(`{"stream":"m%d"}`, i))
	}
	r.want(http.StatusCreated, http.MethodPost, path, admin, `{"streams":[`+strings.Join(many, ",")+`]}`)
}

func results(r response) string {
	var out []string
	list, _ := r.body["items"].([]any)
	for _, item := range list {
		m := item.(map[string]any)
		out = append(out, fmt.Sprintf("%v:%v", m["stream"].(map[string]any)["stream"], m["result"]))
	}
	return strings.Join(out, " ")
}

func TestSigningKeys(t *testing.T) {
	r := newRig(t)
	const keys = "/v1/tenants/acme/signing-keys"
	admin := r.admin(acme)
	list := func() (current string, verifying []string) {
		res := r.want(http.StatusOK, http.MethodGet, keys, r.admin(acme), "")
		for _, v := range res.body["verifying"].([]any) {
			verifying = append(verifying, v.(string))
		}
		return res.body["current"].(string), verifying
	}
	set := func() (kids []string) {
		res := r.want(http.StatusOK, http.MethodGet, "/v1/tenants/acme/.well-known/jwks.json", "", "")
		for _, k := range res.body["keys"].([]any) {
			m := k.(map[string]any)
			kids = append(kids, m["kid"].(string))
			if len(m) != 6 || m["kty"] != "OKP" || m["crv"] != "Ed25519" || m["alg"] != "EdDSA" || m["use"] != "sig" || len(m["x"].(string)) != 43 {
				t.Errorf("key %v", m)
			}
		}
		return kids
	}
	first, _ := list()
	staged, _ := r.want(http.StatusCreated, http.MethodPost, keys, admin, "").body["kid"].(string)
	if current, verifying := list(); current != first || !cmp.Equal(verifying, []string{staged}) || !cmp.Equal(set(), []string{first, staged}) {
		t.Errorf("staged: %s, %v, %v", current, verifying, set())
	}
	r.want(http.StatusNoContent, http.MethodPost, keys+"/"+staged+"/activate", admin, "")
	if current, verifying := list(); current != staged || !cmp.Equal(verifying, []string{first}) || !cmp.Equal(set(), []string{staged, first}) {
		t.Errorf("activated: %s, %v, %v", current, verifying, set())
	}
	r.want(http.StatusOK, http.MethodGet, keys, admin, "") // signed with the old key, which still verifies
	r.want(http.StatusConflict, http.MethodDelete, keys+"/"+staged, admin, "")
	r.want(http.StatusNoContent, http.MethodDelete, keys+"/"+first, admin, "")
	r.want(http.StatusUnauthorized, http.MethodGet, keys, admin, "")
	if got := set(); !cmp.Equal(got, []string{staged}) {
		t.Errorf("retired: %v", got)
	}
	admin = r.admin(acme)
	for range cluster.MaxSigningKeys - 1 {
		r.want(http.StatusCreated, http.MethodPost, keys, admin, "")
	}
	if res := r.want(http.StatusConflict, http.MethodPost, keys, admin, ""); res.code() != cluster.ConflictTooManyKeys {
		t.Errorf("code %s", res.code())
	}
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/tenants/bare/.well-known/jwks.json", "", ""), `{"keys":[]}`)
}

func TestNodes(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.ClientAddr = func(node ids.NodeID) string {
			if node == "node-1" {
				return "127.0.0.1:5000"
			}
			return ""
		}
	})
	operator := r.operator()
	one := `{"node":{"node_id":"node-1","spec":{"region":"local","client_addr":"127.0.0.1:5000","kafka_addr":"127.0.0.1:9092","labels":{}},
		"status":{"lifecycle":"live","incarnation":1,"features":[]}},"placement":{"eligible":true,"routable":true,"reasons":[]}}`
	same(t, r.want(http.StatusOK, http.MethodGet, "/v1/nodes/node-1", operator, ""), one)
	r.want(http.StatusNotFound, http.MethodGet, "/v1/nodes/node-2", operator, "")
	for query, want := range map[string]bool{
		"": true, "?lifecycle=live": true, "?lifecycle=down": false, "?region=local": true, "?region=x": false, "?label=k%3Dv": false,
		"?lifecycle=live&region=local": true, "?lifecycle=live&region=x": false,
	} {
		text := `{"items":[]}`
		if want {
			text = `{"items":[` + one + `]}`
		}
		same(t, r.want(http.StatusOK, http.MethodGet, "/v1/nodes"+query, operator, ""), text)
	}
	for _, query := range []string{"?lifecycle=dead", "?lifecycle=live&lifecycle=down", "?label=k", "?label=%3Dv"} {
		r.want(http.StatusBadRequest, http.MethodGet, "/v1/nodes"+query, operator, "")
	}
	r.propose(cluster.RegisterNode{ID: "a-node", KafkaHost: "h", KafkaPort: 1, Rack: "z"})
	items := r.want(http.StatusOK, http.MethodGet, "/v1/nodes", operator, "").body["items"].([]any)
	if first := items[0].(map[string]any)["node"].(map[string]any); len(items) != 2 || first["node_id"] != "a-node" || first["spec"].(map[string]any)["zone"] != "z" {
		t.Errorf("nodes %v", items)
	}
}

func TestAssignments(t *testing.T) {
	r := newRig(t)
	operator := r.operator()
	r.propose(cluster.RegisterNode{ID: "node-2", KafkaHost: "h", KafkaPort: 1})
	r.propose(cluster.CreateTopics{Topics: []cluster.NewTopic{{
		ID: ids.TopicID{1}, Tenant: other, Namespace: "ns", Name: "b", Assignment: [][]ids.BrokerID{{1, 2}, {2, 1}, {2, 1}}, Durable: true,
	}}})
	r.want(http.StatusCreated, http.MethodPost, nsPath+"/streams", r.admin(acme), `{"stream":"a","routing":"jump_hash"}`)
	r.propose(cluster.RegisterNode{ID: "node-2", KafkaHost: "h", KafkaPort: 1}) // after an unclean stop
	shards := func(query string) (out []string, cursor string) {
		res := r.want(http.StatusOK, http.MethodGet, "/v1/shard-assignments"+query, operator, "")
		for _, item := range res.body["items"].([]any) {
			m := item.(map[string]any)
			out = append(out, fmt.Sprint(m["tenant_id"], "/", m["namespace"], "/", m["stream"], "/", m["shard"], " ", m["leader"], " ", m["generation"], " ", m["state"]))
		}
		cursor, _ = res.body["next_cursor"].(string)
		return out, cursor
	}
	all, _ := shards("")
	if len(all) != 4 || !strings.HasPrefix(all[0], "acme/ns/a/0 ") || !cmp.Equal(all[1:], []string{
		"other/ns/b/0 node-1 0 active", "other/ns/b/1 node-2 1 active", "other/ns/b/2 node-2 1 active",
	}) {
		t.Errorf("assignments %q", all)
	}
	var paged []string
	for query := "?limit=1"; query != ""; {
		page, cursor := shards(query)
		paged = append(paged, page...)
		if query = ""; cursor != "" {
			query = "?limit=1&cursor=" + cursor
		}
	}
	if !cmp.Equal(paged, all) {
		t.Errorf("one at a time: %q", paged)
	}
	if got, _ := shards("?leader=node-2"); !slices.Contains(got, "other/ns/b/1 node-2 1 active") || slices.Contains(got, "other/ns/b/0 node-1 0 active") {
		t.Errorf("of node-2: %q", got)
	}
	if got, _ := shards("?leader=nobody"); len(got) != 0 {
		t.Errorf("of nobody: %q", got)
	}
	first := r.do(http.MethodGet, "/v1/shard-assignments?limit=1", operator, "").body["items"].([]any)[0].(map[string]any)
	if first["routing"] != "jump_hash" || first["kind"] != "stream" || len(first["replicas"].([]any)) != 1 {
		t.Errorf("%v", first)
	}
}
