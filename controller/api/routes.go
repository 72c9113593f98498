package api

import "net/http"

// apiRoutes is everything that the API listener serves, in the order of the documents. What is not in it is 404.
var apiRoutes = []route{
	{method: http.MethodGet, path: "/v1/system/live", summary: "whether the process answers", handle: live},
	{method: http.MethodGet, path: "/v1/system/ready", summary: "whether this member can serve", handle: ready},
	{method: http.MethodGet, path: "/v1/system/health", summary: "the same as ready", handle: ready},

	{method: http.MethodGet, path: "/v1/tenants/{tenant}/.well-known/jwks.json", summary: "the keys that verify a tenant's tokens", handle: keySet},
	{
		method: http.MethodGet, path: "/v1/tenants/{tenant}/signing-keys", access: byTenant, right: "tenant.manage on the tenant",
		summary: "the ids of a tenant's keys", handle: listKeys,
	},
	{
		method: http.MethodPost, path: "/v1/tenants/{tenant}/signing-keys", access: byTenant, right: "tenant.manage on the tenant",
		summary: "stage a new key: it verifies and does not sign yet", handle: stageKey,
	},
	{
		method: http.MethodPost, path: "/v1/tenants/{tenant}/signing-keys/{kid}/activate", access: byTenant, right: "tenant.manage on the tenant",
		summary: "sign with a key from now on", handle: activateKey,
	},
	{
		method: http.MethodDelete, path: "/v1/tenants/{tenant}/signing-keys/{kid}", access: byTenant, right: "tenant.manage on the tenant",
		summary: "retire a key that does not sign", handle: retireKey,
	},

	{method: http.MethodGet, path: "/v1/tenants", access: byToken, right: "tenant.manage on cluster:*", summary: "list tenants", handle: listTenants},
	{method: http.MethodPost, path: "/v1/tenants", access: byToken, right: "tenant.manage on cluster:*", summary: "make a tenant with its first signing key", handle: createTenant},
	{method: http.MethodGet, path: "/v1/tenants/{tenant}", access: byOperator, right: "tenant.manage on cluster:*", summary: "show a tenant", handle: getTenant},
	{
		method: http.MethodDelete, path: "/v1/tenants/{tenant}", access: byOperator, right: "tenant.manage on cluster:*",
		summary: "delete a tenant with everything in it", handle: deleteTenant,
	},

	{
		method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces", access: byTenant, right: "ns.manage",
		summary: "list the namespaces that the caller may manage", handle: listNamespaces,
	},
	{
		method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces", access: byTenant, right: "ns.manage on the namespace",
		summary: "make a namespace", handle: createNamespace,
	},
	{
		method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}", access: byTenant, right: "ns.manage on the namespace",
		summary: "show a namespace", handle: getNamespace,
	},
	{
		method: http.MethodDelete, path: "/v1/tenants/{tenant}/namespaces/{namespace}", access: byTenant, right: "ns.manage on the namespace",
		summary: "delete a namespace with everything in it", handle: deleteNamespace,
	},

	{
		method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams", access: byTenant, right: "stream.manage",
		summary: "list the streams that the caller may manage", handle: listStreams,
	},
	{
		method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams", access: byTenant, right: "stream.manage on the stream",
		summary: "make a stream", handle: createStream,
	},
	{
		method: http.MethodGet, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
		summary: "show a stream", handle: getStream,
	},
	{
		method: http.MethodPatch, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
		summary: "change retention, consistency or delivery", handle: patchStream,
	},
	{
		method: http.MethodDelete, path: "/v1/tenants/{tenant}/namespaces/{namespace}/streams/{stream}", access: byTenant, right: "stream.manage on the stream",
		summary: "delete a stream with its records", handle: deleteStream,
	},
	{
		method: http.MethodPost, path: "/v1/tenants/{tenant}/namespaces/{namespace}/resources", access: byTenant, right: "stream.manage on each stream",
		summary: "make up to 256 streams, all or none", handle: createResources,
	},

	{method: http.MethodGet, path: "/v1/nodes", access: byToken, right: "node.view on cluster:*", summary: "list nodes", handle: listNodes},
	{method: http.MethodGet, path: "/v1/nodes/{node}", access: byToken, right: "node.view on cluster:*", summary: "show a node", handle: getNode},
	{
		method: http.MethodGet, path: "/v1/shard-assignments", access: byToken, right: "node.view on cluster:*",
		summary: "list which node leads and holds each shard", handle: listAssignments,
	},
}

// bootstrapRoutes is what the bootstrap listener serves.
func bootstrapRoutes(o BootstrapOptions) []route {
	if !o.DevTokens {
		return nil
	}
	return []route{{
		method: http.MethodPost, path: "/internal/bootstrap/tenants/{tenant}/dev-token", summary: "mint a development token", handle: devToken,
	}}
}
