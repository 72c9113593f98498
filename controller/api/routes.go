package api

import (
	"net/http"
	"slices"
)

// What calls read from their queries.
var (
	aText = object{"type": "string"}
	aFlag = object{"type": "boolean"}
	aKind = object{"type": "string", "enum": []any{kindOfStream, kindOfCache}}

	// paging is clipped: rows append to it.
	paging = []parameter{
		{name: "limit", about: "items at most; default 1000", schema: object{"type": "integer", "minimum": 1, "maximum": maxLimit}},
		{name: "cursor", about: "the next_cursor of the page before", schema: aText},
	}[:2:2]
	nodeFilters = append(
		paging, parameter{name: "lifecycle", about: "only nodes in this state", schema: object{"type": "string", "enum": lifecycles}},
		parameter{name: "region", about: "only nodes in this region", schema: aText},
		parameter{name: "label", about: "only nodes with this label, KEY=VALUE", schema: aText, repeats: true},
	)
)

// apiRoutes is everything that the API listener serves, in the order of the documents. What is not in it is 404. It is filled when the
// program starts, since one of the routes shows the table itself.
var apiRoutes []route

func init() { apiRoutes = served() }

// documented is what the document shows: the routes of both listeners, those that are switched off too.
func documented() []route {
	return slices.Concat(apiRoutes, bootstrapRoutes(BootstrapOptions{DevTokens: true}))
}

func served() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/openapi.json",
			summary: "this document", handle: openAPI,
			gives: map[int]any{http.StatusOK: map[string]any{}},
		},
		{
			method: http.MethodGet, path: "/v1/system/live",
			summary: "whether the process answers", handle: live,
			gives: map[int]any{http.StatusOK: statusBody{}},
		},
		{
			method: http.MethodGet, path: "/v1/system/ready",
			summary: "whether this member can serve", handle: ready,
			gives: map[int]any{http.StatusOK: statusBody{}}, refuses: []int{http.StatusServiceUnavailable},
		},
		{
			method: http.MethodGet, path: "/v1/system/health",
			summary: "the same as ready", handle: health,
			gives: map[int]any{http.StatusOK: statusBody{}}, refuses: []int{http.StatusServiceUnavailable},
		},

		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/.well-known/jwks.json",
			summary: "the keys that verify a tenant's tokens", handle: keySet,
			gives: map[int]any{http.StatusOK: keySetBody{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/signing-keys", access: byTenant, right: "tenant.manage on the tenant",
			summary: "the ids of a tenant's keys", handle: listKeys,
			gives: map[int]any{http.StatusOK: keysBody{}},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/signing-keys", access: byTenant, right: "tenant.manage on the tenant",
			summary: "stage a new key: it verifies and does not sign yet", handle: stageKey,
			gives: map[int]any{http.StatusCreated: keyBody{}}, refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/signing-keys/{kid}/activate", access: byTenant, right: "tenant.manage on the tenant",
			summary: "sign with a key from now on", handle: activateKey,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/signing-keys/{kid}", access: byTenant, right: "tenant.manage on the tenant",
			summary: "retire a key that does not sign", handle: retireKey,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound, http.StatusConflict},
		},

		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/rbac/policies", access: byTenant, right: "rbac.view",
			summary: "list the policies that the caller may see: a bare list without limit and cursor", handle: listPolicies,
			query: append(paging, parameter{name: "subject", about: "only those of this subject", schema: aText}),
			gives: map[int]any{http.StatusOK: either{[]policyBody{}, pageOf[policyBody]{}}},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/rbac/policies", access: byTenant, right: "rbac.policy.manage over the object",
			summary: "add a policy", handle: createPolicy,
			takes: policyBody{}, gives: map[int]any{http.StatusCreated: policyBody{}, http.StatusOK: policyBody{}},
			refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/rbac/policies", access: byTenant, right: "rbac.policy.manage over the object",
			summary: "remove the policy in the body", handle: deletePolicy,
			takes: policyBody{}, gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/rbac/groupings", access: byTenant, right: "rbac.view",
			summary: "list the groupings to roles that the caller may see: a bare list without limit and cursor", handle: listGroupings,
			query: append(paging, parameter{name: "role", about: "only those to this role", schema: aText}),
			gives: map[int]any{http.StatusOK: either{[]groupingBody{}, pageOf[groupingBody]{}}},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/rbac/groupings", access: byTenant, right: "rbac.assignment.manage over every policy of the role",
			summary: "give a role to a user", handle: createGrouping,
			takes: groupingBody{}, gives: map[int]any{http.StatusCreated: groupingBody{}, http.StatusOK: groupingBody{}},
			refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/rbac/groupings", access: byTenant, right: "rbac.assignment.manage over every policy of the role",
			summary: "take the role in the body from its user", handle: deleteGrouping,
			takes: groupingBody{}, gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},

		{
			method: http.MethodGet, path: "/v1/tenants", access: byToken, right: "tenant.manage on cluster:*",
			summary: "list tenants", handle: listTenants,
			query: paging, gives: map[int]any{http.StatusOK: pageOf[tenantBody]{}},
		},
		{
			method: http.MethodPost, path: "/v1/tenants", access: byToken, right: "tenant.manage on cluster:*",
			summary: "make a tenant with its first signing key", handle: createTenant,
			takes: tenantRequest{}, gives: map[int]any{http.StatusCreated: tenantBody{}}, refuses: []int{http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}", access: byOperator, right: "tenant.manage on cluster:*",
			summary: "show a tenant", handle: getTenant,
			gives: map[int]any{http.StatusOK: tenantBody{}},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}", access: byOperator, right: "tenant.manage on cluster:*",
			summary: "delete a tenant with everything in it", handle: deleteTenant,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},

		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces", access: byTenant, right: "ns.manage",
			summary: "list the namespaces that the caller may manage", handle: listNamespaces,
			query: paging, gives: map[int]any{http.StatusOK: pageOf[namespaceBody]{}},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces", access: byTenant, right: "ns.manage on the namespace",
			summary: "make a namespace", handle: createNamespace,
			takes: namespaceRequest{}, gives: map[int]any{http.StatusCreated: namespaceBody{}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}", access: byTenant, right: "ns.manage on the namespace",
			summary: "show a namespace", handle: getNamespace,
			gives: map[int]any{http.StatusOK: namespaceBody{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/namespaces/{namespace}", access: byTenant, right: "ns.manage on the namespace",
			summary: "delete a namespace with everything in it", handle: deleteNamespace,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},

		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams", access: byTenant, right: "stream.manage",
			summary: "list the streams that the caller may manage", handle: listStreams,
			query: paging, gives: map[int]any{http.StatusOK: pageOf[streamBody]{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams", access: byTenant, right: "stream.manage on the stream",
			summary: "make a stream: 201 made, 200 it exists as asked", handle: createStream,
			takes: streamRequest{}, gives: map[int]any{http.StatusCreated: streamBody{}, http.StatusOK: streamBody{}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
			summary: "show a stream", handle: getStream,
			gives: map[int]any{http.StatusOK: streamBody{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodPatch, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
			summary: "change retention, consistency or delivery", handle: patchStream,
			takes: streamPatch{}, gives: map[int]any{http.StatusOK: streamBody{}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
			summary: "delete a stream with its records", handle: deleteStream,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},

		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/caches", access: byTenant, right: "cache.manage",
			summary: "list the caches that the caller may manage", handle: listCaches,
			query: paging, gives: map[int]any{http.StatusOK: pageOf[cacheBody]{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces/{namespace}/caches", access: byTenant, right: "cache.manage on the cache",
			summary: "register a cache: 201 made, 200 it exists as asked", handle: createCache,
			takes: cacheRequest{}, gives: map[int]any{http.StatusCreated: cacheBody{}, http.StatusOK: cacheBody{}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}", access: byTenant, right: "cache.manage on the cache",
			summary: "show a cache", handle: getCache,
			gives: map[int]any{http.StatusOK: cacheBody{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodPatch, path: "/v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}", access: byTenant, right: "cache.manage on the cache",
			summary: "change the display name", handle: patchCache,
			takes: cachePatch{}, gives: map[int]any{http.StatusOK: cacheBody{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodDelete, path: "/v1/tenants/{tenant}/namespaces/{namespace}/caches/{cache}", access: byTenant, right: "cache.manage on the cache",
			summary: "delete a cache", handle: deleteCache,
			gives: map[int]any{http.StatusNoContent: nil}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces/{namespace}/resources", access: byTenant, right: "stream.manage or cache.manage on each item",
			summary: "make up to 256 streams and caches, all or none: 201 when any was made", handle: createResources,
			takes: resourcesRequest{}, gives: map[int]any{http.StatusCreated: resourcesBody{}, http.StatusOK: resourcesBody{}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},

		{
			method: http.MethodGet, path: "/v1/nodes", access: byToken, right: "node.view on cluster:*",
			summary: "list nodes", handle: listNodes,
			query: nodeFilters, gives: map[int]any{http.StatusOK: pageOf[placedNode]{}},
		},
		{
			method: http.MethodGet, path: "/v1/nodes/{node}", access: byToken, right: "node.view on cluster:*",
			summary: "show a node", handle: getNode,
			gives: map[int]any{http.StatusOK: placedNode{}}, refuses: []int{http.StatusNotFound},
		},
		{
			method: http.MethodGet, path: "/v1/regions", access: byToken, right: "node.view on cluster:*",
			summary: "list the regions that nodes stand in", handle: listRegions,
			gives: map[int]any{http.StatusOK: regionsBody{}},
		},
		{
			method: http.MethodGet, path: "/v1/fleet/features", access: byToken, right: "node.view on cluster:*",
			summary: "what every serving node speaks, and what was finalized", handle: getFeatures,
			gives: map[int]any{http.StatusOK: featuresBody{}},
		},
		{
			method: http.MethodPost, path: "/v1/fleet/features/{feature}/finalize", access: byToken, right: "node.manage on cluster:*",
			summary: "refused: no node of this release has a feature to finalize", handle: finalizeFeature,
			query: []parameter{{name: "dry_run", about: "look and change nothing", schema: aFlag}}, refuses: []int{http.StatusNotFound},
		},

		{
			method: http.MethodGet, path: "/v1/shard-assignments", access: byToken, right: "node.view on cluster:*",
			summary: "list which node leads and holds each shard", handle: listAssignments,
			query: append(paging, parameter{name: "leader", about: "only those that this node leads", schema: aText}),
			gives: map[int]any{http.StatusOK: pageOf[assignmentBody]{}},
		},
		{
			method: http.MethodGet, path: "/v1/shard-moves", access: byToken, right: "node.view on cluster:*",
			summary: "the moves under way, of which there are none on one node", handle: listMoves,
			gives: map[int]any{http.StatusOK: movesBody{}},
		},
		{
			method: http.MethodPost, path: "/v1/shard-moves", access: byToken, right: "node.manage on cluster:*",
			summary: "refused: the nodes of this release do not hand shards to each other", handle: startMove,
			takes: moveRequest{}, refuses: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
		},
		{
			method: http.MethodDelete, path: "/v1/shard-moves/{owner}/{namespace}/{stream}/{shard}", access: byToken, right: "node.manage on cluster:*",
			summary: "refused: no shard moves", handle: cancelMove,
			query:   []parameter{{name: "kind", about: "what holds the shard; default stream", schema: aKind}},
			refuses: []int{http.StatusNotFound, http.StatusConflict},
		},
		{
			method: http.MethodGet, path: "/v1/placement/plan", access: byToken, right: "node.view on cluster:*",
			summary: "the shards that want something done; those of a node that is not live wait for it", handle: getPlan,
			query: paging, gives: map[int]any{http.StatusOK: pageOf[plannedBody]{}},
		},
		{
			method: http.MethodGet, path: "/v1/placement/replication", access: byToken, right: "node.view on cluster:*",
			summary: "the replicas of each shard", handle: getReplication,
			query: append(paging, parameter{name: "under_replicated", about: "true: only shards that lack a replica", schema: aFlag}),
			gives: map[int]any{http.StatusOK: replicationPage{}},
		},
		{
			method: http.MethodPost, path: "/v1/placement/pause", access: byToken, right: "node.manage on cluster:*",
			summary: "leave every shard where it is", handle: pausePlacement,
			gives: map[int]any{http.StatusOK: pausedBody{}},
		},
		{
			method: http.MethodPost, path: "/v1/placement/resume", access: byToken, right: "node.manage on cluster:*",
			summary: "end a pause", handle: resumePlacement,
			gives: map[int]any{http.StatusOK: pausedBody{}},
		},
		{
			method: http.MethodPost, path: "/v1/placement/abandon/{owner}/{namespace}/{stream}/{shard}", access: byToken, right: "node.manage on cluster:*",
			summary: "refused: not_stranded, or unavailable while the node that holds the shard is not live", handle: abandonShard,
			query:   []parameter{{name: "kind", about: "what holds the shard; default stream", schema: aKind}},
			refuses: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
		},
	}
}

// bootstrapPrefix begins the paths of the bootstrap listener.
const bootstrapPrefix = "/internal/bootstrap/"

// bootstrapRoutes is what the bootstrap listener serves.
func bootstrapRoutes(o BootstrapOptions) []route {
	routes := []route{{
		method: http.MethodPost, path: bootstrapPrefix + "tenants/{tenant}/initialize",
		summary: "give a tenant its first key and its first administrators, once", handle: initializeTenant,
		takes: initializeRequest{}, gives: map[int]any{http.StatusOK: initializedBody{}}, refuses: []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict},
	}}
	if o.DevTokens {
		routes = append(routes, route{
			method: http.MethodPost, path: bootstrapPrefix + "tenants/{tenant}/dev-token", summary: "mint a development token", handle: devToken,
			takes: devTokenRequest{}, gives: map[int]any{http.StatusOK: tokenBody{}},
			refuses: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound},
		})
	}
	return routes
}
