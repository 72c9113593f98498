package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// endpoint is how one route is called in the matrix.
type endpoint struct {
	there, missing string // the names in the path, in order, for what exists and what does not
	body           string // of both
	none           string // the body for what does not exist, if it stands in the body
	right          string // what is enough by itself
	ok             int    // the status with the right, for what exists
	absent         int    // and for what does not
}

const (
	rightTenant = "tenant.manage:tenant:acme"
	rightNS     = "ns.manage:namespace:acme/ns"
	rightN2     = "ns.manage:namespace:acme/n2"
	rightStream = "stream.manage:stream:acme/ns/s"
	rightCache  = "cache.manage:cache:acme/ns/c"
	rightSee    = "rbac.view:stream:acme/ns/s"
	rightGive   = "rbac.policy.manage:stream:acme/ns/s"
	rightAssign = "rbac.assignment.manage:stream:acme/ns/s"
	rightOps    = "tenant.manage:cluster:*"
	rightView   = "node.view:cluster:*"
	rightManage = "node.manage:cluster:*"
)

// endpoints are all routes that take a token.
var endpoints = map[string]endpoint{
	"GET /v1/tenants/{tenant}/signing-keys":                 {right: rightTenant, ok: 200},
	"POST /v1/tenants/{tenant}/signing-keys":                {right: rightTenant, ok: 201},
	"POST /v1/tenants/{tenant}/signing-keys/{kid}/activate": {there: "KEY", missing: "none", right: rightTenant, ok: 204, absent: 404},
	"DELETE /v1/tenants/{tenant}/signing-keys/{kid}":        {there: "KEY", missing: "none", right: rightTenant, ok: 204, absent: 404},

	"GET /v1/tenants/{tenant}/rbac/policies": {right: rightSee, ok: 200},
	"POST /v1/tenants/{tenant}/rbac/policies": {
		body: `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.publish"}`, right: rightGive, ok: 200,
		none: `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.manage"}`, absent: 201,
	},
	"DELETE /v1/tenants/{tenant}/rbac/policies": {
		body: `{"subject":"role:r","object":"stream:acme/ns/s","action":"stream.publish"}`, right: rightGive, ok: 204,
		none: `{"subject":"role:none","object":"stream:acme/ns/s","action":"stream.publish"}`, absent: 404,
	},
	"GET /v1/tenants/{tenant}/rbac/groupings": {right: rightSee, ok: 200},
	"POST /v1/tenants/{tenant}/rbac/groupings": {
		body: `{"user":"p:u","role":"role:r"}`, right: rightAssign, ok: 200, none: `{"user":"p:none","role":"role:r"}`, absent: 201,
	},
	"DELETE /v1/tenants/{tenant}/rbac/groupings": {
		body: `{"user":"p:u","role":"role:r"}`, right: rightAssign, ok: 204, none: `{"user":"p:none","role":"role:r"}`, absent: 404,
	},

	"GET /v1/tenants":             {right: rightOps, ok: 200},
	"POST /v1/tenants":            {body: `{"tenant_id":"other"}`, none: `{"tenant_id":"new"}`, right: rightOps, ok: 409, absent: 201},
	"GET /v1/tenants/{tenant}":    {right: rightOps, ok: 200},
	"DELETE /v1/tenants/{tenant}": {right: rightOps, ok: 204},

	"GET /v1/tenants/{tenant}/namespaces":                {right: rightNS, ok: 200},
	"POST /v1/tenants/{tenant}/namespaces":               {body: `{"namespace":"n2"}`, right: rightN2, ok: 201},
	"GET /v1/tenants/{tenant}/namespaces/{namespace}":    {there: "ns", missing: "n9", right: rightNS, ok: 200, absent: 404},
	"DELETE /v1/tenants/{tenant}/namespaces/{namespace}": {there: "ns", missing: "n9", right: rightNS, ok: 204, absent: 404},

	"GET /v1/tenants/{tenant}/namespaces/{namespace}/streams": {there: "ns", missing: "n2", right: rightStream, ok: 200, absent: 404},
	"POST /v1/tenants/{tenant}/namespaces/{namespace}/streams": {
		there: "ns", missing: "n2", body: `{"stream":"s"}`, right: rightStream, ok: 200, absent: 404,
	},
	"GET /v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}": {there: "ns s", missing: "ns x", right: rightStream, ok: 200, absent: 404},
	"PATCH /v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}": {
		there: "ns s", missing: "ns x", body: `{"delivery":"AtMostOnce"}`, right: rightStream, ok: 200, absent: 404,
	},
	"DELETE /v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}": {there: "ns s", missing: "ns x", right: rightStream, ok: 204, absent: 404},

	"GET /v1/tenants/{tenant}/namespaces/{namespace}/caches": {there: "ns", missing: "n2", right: rightCache, ok: 200, absent: 404},
	"POST /v1/tenants/{tenant}/namespaces/{namespace}/caches": {
		there: "ns", missing: "n2", body: `{"cache":"c"}`, right: rightCache, ok: 200, absent: 404,
	},
	"GET /v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}": {there: "ns c", missing: "ns x", right: rightCache, ok: 200, absent: 404},
	"PATCH /v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}": {
		there: "ns c", missing: "ns x", body: `{"display_name":"C"}`, right: rightCache, ok: 200, absent: 404,
	},
	"DELETE /v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}": {there: "ns c", missing: "ns x", right: rightCache, ok: 204, absent: 404},
	"POST /v1/tenants/{tenant}/namespaces/{namespace}/resources": {
		there: "ns", missing: "n2", body: `{"streams":[{"stream":"s"}]}`, right: rightStream, ok: 200, absent: 404,
	},

	"GET /v1/nodes":                              {right: rightView, ok: 200},
	"GET /v1/nodes/{node}":                       {there: "node-1", missing: "none", right: rightView, ok: 200, absent: 404},
	"GET /v1/regions":                            {right: rightView, ok: 200},
	"GET /v1/fleet/features":                     {right: rightView, ok: 200},
	"POST /v1/fleet/features/{feature}/finalize": {there: "f", missing: "g", right: rightManage, ok: 404, absent: 404},
	"GET /v1/shard-assignments":                  {right: rightView, ok: 200},
	"GET /v1/shard-moves":                        {right: rightView, ok: 200},
	"POST /v1/shard-moves": {
		body: `{"tenant_id":"acme","namespace":"ns","stream":"s","shard":0,"destination":"node-1"}`, right: rightManage, ok: 409,
		none: `{"tenant_id":"acme","namespace":"ns","stream":"x","shard":0,"destination":"node-1"}`, absent: 404,
	},
	"DELETE /v1/shard-moves/{owner}/{namespace}/{stream}/{shard}": {there: "acme ns s 0", missing: "acme ns s 1", right: rightManage, ok: 409, absent: 404},
	"GET /v1/placement/plan":                                          {right: rightView, ok: 200},
	"GET /v1/placement/replication":                                   {right: rightView, ok: 200},
	"POST /v1/placement/pause":                                        {right: rightManage, ok: 200},
	"POST /v1/placement/resume":                                       {right: rightManage, ok: 200},
	"POST /v1/placement/abandon/{owner}/{namespace}/{stream}/{shard}": {there: "acme ns s 0", missing: "acme ns s 1", right: rightManage, ok: 409, absent: 404},
}

// matrixRig has one of everything that the matrix names, and a staged key.
func matrixRig(t *testing.T) (*rig, string) {
	r := newRig(t)
	fillMatrix(r)
	return r, matrixKey.ID
}

var matrixKey = cluster.KeyFromSeed([]byte(strings.Repeat("k", 32)))

// fillMatrix makes what the matrix names.
func fillMatrix(r *rig) {
	r.propose(cluster.PutSigningKey{Tenant: acme, Key: matrixKey})
	r.propose(cluster.CreateResources{
		Streams: []cluster.NewStream{{TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: "s"}, Shards: 1, ReplicationFactor: 1}},
		Caches:  []cluster.NewCache{{TopicRef: cluster.TopicRef{ID: ids.NewTopicID(), Tenant: acme, Namespace: "ns", Name: "c"}, Shards: 1, ReplicationFactor: 1}},
	})
	r.propose(cluster.PutPolicy{Policy: cluster.Policy{Tenant: acme, Subject: "role:r", Object: "stream:acme/ns/s", Action: "stream.publish"}})
	r.propose(cluster.PutGrouping{Grouping: cluster.Grouping{Tenant: acme, User: "p:u", Role: "role:r"}})
}

// call returns the path and the body of an endpoint for what exists, or for what does not.
func (e endpoint) call(path, key string, missing bool) (string, string) {
	names, body := e.there, e.body
	if missing {
		names = e.missing
		if e.none != "" {
			body = e.none
		}
	}
	path = strings.Replace(path, "{tenant}", acme, 1)
	for _, name := range strings.Fields(strings.ReplaceAll(names, "KEY", key)) {
		i, j := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
		path = path[:i] + name + path[j+1:]
	}
	return path, body
}

// TestCheck1 is check 1 of the control API's section 14: every endpoint with no token, one for brokers, one of another tenant, one without the
// right, one with nothing but the right, and an operator's; for what exists and what does not alike.
func TestCheck1(t *testing.T) {
	all := []string{
		rightTenant, rightNS, rightN2, rightStream, rightCache, rightSee, rightGive, rightAssign, rightOps, rightView, rightManage,
		"stream.publish:stream:acme/ns/s", "stream.manage:stream:acme/ns/y", "cache.manage:cache:acme/ns/y", "node.manage:node:node-1", "rbac.view:cache:acme/ns/c",
		"rbac.policy.manage:cache:acme/ns/*", "rbac.assignment.manage:stream:acme/n2/*", "cache.write:cache:acme/ns/*", "group.manage:stream:acme/ns/s",
	}
	exact := func(r *rig, rights ...string) string {
		c := r.claims(acme, rights...)
		c.Exact = true
		return r.sign(c, acme)
	}
	for i := range apiRoutes {
		rt := &apiRoutes[i]
		name := rt.method + " " + rt.path
		e, there := endpoints[name]
		if there == (rt.access == open) {
			t.Errorf("%s: in the matrix %t", name, there)
		}
		if !there {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r, key := matrixRig(t)
			broker := r.claims(acme, all...)
			broker.Audience = auth.AudienceBroker
			before := r.c.Image()
			for _, missing := range []bool{false, true} {
				path, body := e.call(rt.path, key, missing)
				for caller, token := range map[string]string{"none": "", "broker": r.sign(broker, acme)} {
					if res := r.want(401, rt.method, path, token, body); res.code() != codeUnauthenticated {
						t.Errorf("%s: %s", caller, res)
					}
				}
				foreign := map[access]int{byTenant: 401, byToken: 403, byOperator: 401}
				r.want(foreign[rt.access], rt.method, path, r.token(other, "tenant.manage:tenant:other", "stream.publish:stream:other/*/*"), body)
				// Every other right together is not enough.
				others := slices.DeleteFunc(slices.Clone(all), func(right string) bool {
					return right == e.right || strings.HasPrefix(right, "rbac.view:") && strings.HasPrefix(e.right, "rbac.view:") ||
						rt.operation() == "listNamespaces" && strings.HasPrefix(right, "ns.manage:") ||
						(rt.operation() == "listStreams" || rt.operation() == "listCaches") && strings.HasPrefix(right, strings.TrimRight(e.right, "sc"))
				})
				r.want(403, rt.method, path, exact(r, others...), body)
			}
			if r.c.Image() != before {
				t.Error("a call that was turned away changed something")
			}
			for _, missing := range []bool{false, true} {
				if missing && e.absent == 0 {
					continue
				}
				status := e.ok
				if missing {
					status = e.absent
				}
				path, body := e.call(rt.path, key, missing)
				right := e.right
				if missing {
					right = strings.NewReplacer("acme/ns/s", "acme/*/*", "acme/ns/c", "acme/*/*", "acme/ns", "acme/*").Replace(right)
				}
				r, _ := matrixRig(t)
				r.want(status, rt.method, path, exact(r, right), body)
				r, _ = matrixRig(t)
				if rt.access == byTenant {
					status = 401 // the token of an operator is one of another tenant
				}
				r.want(status, rt.method, path, r.operator(), body)
			}
		})
	}
}
