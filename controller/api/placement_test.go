package api

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// downRig has a node that is not live, which leads one shard and follows in another. Nothing in this release makes a node so: the image is
// the test's own.
func downRig(t *testing.T) *rig {
	var image *cluster.Image
	r := newRig(t, func(o *Options) {
		b := cluster.NewBuilder(o.Controller.Image())
		b.PutNode(cluster.Node{ID: "node-2", Broker: 2, Incarnation: 1})
		b.PutNode(cluster.Node{ID: "node-3", Broker: 3, Incarnation: 1, Live: true})
		for i, replicas := range [][]ids.BrokerID{{1}, {2}, {1, 2}} {
			err := b.PutTopic(&cluster.Topic{
				ID: ids.TopicID{byte(i + 1)}, Tenant: acme, Namespace: "ns", Name: fmt.Sprint("s", i), Durable: true,
				Partitions: []cluster.Partition{{Leader: replicas[0], Replicas: replicas}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		image = b.Build(1000)
		o.Controller = shown{o.Controller, &image}
	})
	return r
}

// shown is a controller that shows another image.
type shown struct {
	Controller
	image **cluster.Image
}

func (s shown) Image() *cluster.Image { return *s.image }

func TestPlacement(t *testing.T) {
	r := downRig(t)
	operator := r.operator()
	same(t, r.want(200, "GET", "/v1/placement/plan", operator, ""), `{"items":[
		{"tenant_id":"acme","namespace":"ns","stream":"s1","shard":0,"kind":"stream","action":"waiting","reason":"node node-2, which holds it, is not live"}]}`)
	two := `{"tenant_id":"acme","namespace":"ns","stream":"s1","shard":0,"kind":"stream","leader":"node-2","desired_replicas":1,"current_replicas":0,
			"under_replicated":true,"unavailable":["node-2"],"halted":[]},
		{"tenant_id":"acme","namespace":"ns","stream":"s2","shard":0,"kind":"stream","leader":"node-1","desired_replicas":2,"current_replicas":1,
			"under_replicated":true,"unavailable":["node-2"],"halted":[]}`
	one := `{"tenant_id":"acme","namespace":"ns","stream":"s0","shard":0,"kind":"stream","leader":"node-1","desired_replicas":1,"current_replicas":1,
			"under_replicated":false,"unavailable":[],"halted":[]}`
	same(t, r.want(200, "GET", "/v1/placement/replication", operator, ""), `{"under_replicated":2,"items":[`+one+`,`+two+`]}`)
	same(t, r.want(200, "GET", "/v1/placement/replication?under_replicated=true", operator, ""), `{"under_replicated":2,"items":[`+two+`]}`)
	page := r.want(200, "GET", "/v1/placement/replication?under_replicated=true&limit=1", operator, "")
	cursor, _ := page.body["next_cursor"].(string)
	next := r.want(200, "GET", "/v1/placement/replication?under_replicated=true&limit=1&cursor="+cursor, operator, "")
	if items := next.body["items"].([]any); len(items) != 1 || items[0].(map[string]any)["stream"] != "s2" || next.body["next_cursor"] != nil {
		t.Errorf("the second page: %s", next)
	}
	for _, query := range []string{"?under_replicated=1", "?under_replicated=yes", "?under_replicated=true&under_replicated=true"} {
		r.want(400, "GET", "/v1/placement/replication"+query, operator, "")
	}
	same(t, r.want(200, "GET", "/v1/regions", operator, ""), `{"items":["local"]}`)
	same(t, r.want(200, "GET", "/v1/fleet/features", operator, ""), `{"supported":[],"enabled":[],"serving_nodes":2}`)
}

// TestMoves: what is refused is refused with the code that it will always have.
func TestMoves(t *testing.T) {
	r := downRig(t)
	operator := r.operator()
	move := func(stream string, shard int, kind, destination string) string {
		return fmt.Sprintf(`{"tenant_id":"acme","namespace":"ns","stream":%q,"shard":%d,"kind":%q,"destination":%q,"dry_run":true}`, stream, shard, kind, destination)
	}
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{move("s0", 0, "stream", "node-1"), 409, codeAlreadyLeader},
		{move("s0", 0, "stream", "node-2"), 409, codeDestinationNotLive},
		{move("s0", 0, "stream", "node-3"), 503, codeUnavailable},
		{move("s0", 0, "stream", "node-9"), 404, codeUnknownNode},
		{move("s0", 1, "stream", "node-1"), 404, codeUnknownShard},
		{move("none", 0, "stream", "node-1"), 404, codeUnknownShard},
		{move("s0", 0, "cache", "node-1"), 404, codeUnknownShard},
		{move("s0", 0, "queue", "node-1"), 400, codeInvalidRequest},
		{move("s0", -1, "stream", "node-1"), 400, codeInvalidRequest},
	} {
		if res := r.want(c.status, "POST", "/v1/shard-moves", operator, c.body); res.code() != c.code {
			t.Errorf("%s: %s, want %s", c.body, res, c.code)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"DELETE", "/v1/shard-moves/acme/ns/s0/0", 409, codeNotMoving},
		{"DELETE", "/v1/shard-moves/acme/ns/s0/0?kind=stream", 409, codeNotMoving},
		{"DELETE", "/v1/shard-moves/acme/ns/s0/0?kind=cache", 404, codeUnknownShard},
		{"DELETE", "/v1/shard-moves/acme/ns/s0/0?kind=x", 400, codeInvalidRequest},
		{"DELETE", "/v1/shard-moves/acme/ns/s0/x", 400, codeInvalidRequest},
		{"DELETE", "/v1/shard-moves/acme/ns/s0/-1", 400, codeInvalidRequest},
		{"DELETE", "/v1/shard-moves/acme/ns/none/0", 404, codeUnknownShard},
		{"POST", "/v1/placement/abandon/acme/ns/s0/0", 409, codeNotStranded},
		{"POST", "/v1/placement/abandon/acme/ns/s1/0", 503, codeUnavailable},
		{"POST", "/v1/placement/abandon/acme/ns/s1/7", 404, codeUnknownShard},
		{"POST", "/v1/fleet/features/majority_ack/finalize", 404, codeUnknownFeature},
		{"POST", "/v1/fleet/features/majority_ack/finalize?dry_run=true", 404, codeUnknownFeature},
	} {
		if res := r.want(c.status, c.method, c.path, operator, ""); res.code() != c.code {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, res, c.code)
		}
	}
}

// TestPause: the switch is stored, and setting it again is nothing else.
func TestPause(t *testing.T) {
	r := newRig(t)
	operator := r.operator()
	for _, c := range []struct {
		path   string
		paused bool
	}{{"resume", false}, {"pause", true}, {"pause", true}, {"resume", false}} {
		same(t, r.want(200, "POST", "/v1/placement/"+c.path, operator, ""), fmt.Sprintf(`{"paused":%t}`, c.paused))
		same(t, r.want(200, "GET", "/v1/shard-moves", operator, ""), fmt.Sprintf(`{"paused":%t,"items":[]}`, c.paused))
	}
}

// TestDevelopmentTokenOfAPrincipalWithRules: its rights are those of its rules and nothing else.
func TestDevelopmentTokenOfAPrincipalWithRules(t *testing.T) {
	r := newRig(t)
	for _, p := range [][3]string{
		{"p:alice", "stream:acme/ns/a", "stream.manage"}, {"role:lead", "namespace:acme/ns", "ns.manage"}, {"role:see", "cluster:*", "node.view"},
	} {
		r.propose(cluster.PutPolicy{Policy: cluster.Policy{Tenant: acme, Subject: p[0], Object: p[1], Action: p[2]}})
	}
	for _, g := range [][2]string{{"p:bob", "role:lead"}, {"role:lead", "role:see"}, {"p:carol", "role:empty"}} {
		r.propose(cluster.PutGrouping{Grouping: cluster.Grouping{Tenant: acme, User: g[0], Role: g[1]}})
	}
	token := func(principal string, status int) string {
		res := r.bootstrap(devTokenPath, "secret", `{"principal":"`+principal+`","audience":"felix-controlplane"}`)
		if res.status != status {
			t.Fatalf("%s: %s", principal, res)
		}
		text, _ := res.body["felix_token"].(string)
		return text
	}
	alice := token("p:alice", 200)
	r.want(201, "POST", nsPath+"/streams", alice, `{"stream":"a"}`)
	r.want(403, "POST", nsPath+"/streams", alice, `{"stream":"b"}`)
	r.want(403, "GET", "/v1/nodes", alice, "")
	bob := token("p:bob", 200)
	r.want(201, "POST", nsPath+"/caches", bob, `{"cache":"c"}`) // what the right carries with it
	r.want(200, "GET", "/v1/nodes", bob, "")
	r.want(403, "POST", "/v1/tenants/acme/namespaces", bob, `{"namespace":"n2"}`)
	token("p:carol", 403) // a role that allows nothing
	r.want(201, "POST", "/v1/tenants/acme/namespaces", token("p:dave", 200), `{"namespace":"n2"}`)

	// More rights than a token holds: what is asked for must be less.
	for i := range 600 {
		r.propose(cluster.PutPolicy{Policy: cluster.Policy{Tenant: acme, Subject: "p:erin", Object: fmt.Sprintf("namespace:acme/n%d", i), Action: "ns.manage"}})
	}
	token("p:erin", 400)
	if res := r.bootstrap(devTokenPath, "secret", `{"principal":"p:erin","requested":["ns.manage"],"resources":["namespace:acme/n7"]}`); res.status != 200 {
		t.Errorf("narrowed: %s", res)
	}

	// A rule that goes stops working with the next token.
	r.propose(cluster.DeleteGrouping{Grouping: cluster.Grouping{Tenant: acme, User: "role:lead", Role: "role:see"}})
	r.want(403, "GET", "/v1/nodes", token("p:bob", 200), "")
	if rights, ruled := rightsOf(r.c.Image(), acme, "p:new", "role:lead"); !ruled || len(rights) != 1 || !cmp.Equal(rights[0].String(), "ns.manage:namespace:acme/ns") {
		t.Errorf("of a group: %v, %t", rights, ruled)
	}
}
