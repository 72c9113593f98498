// Package api is the control plane's REST API: HTTP requests of operators and tools become commands for the state machine and readings of
// its image.
//
//	routes.go     the table of routes: what is served, to whom, by which function
//	router.go     from a path to a route; what is refused before anybody is asked who they are
//	server.go     listeners, limits, the way of one request
//	access.go     who calls, and what they may do
//	body.go       reading JSON strictly
//	limits.go     shares of what callers may hold at once, connections among it
//	pages.go      pages of listings and their cursors
//	errors.go     refusals, and from error kinds to statuses
//	tenants.go namespaces.go streams.go caches.go resources.go signing_keys.go rbac.go coverage.go nodes.go assignments.go placement.go system.go   the calls
//	openapi.go    the OpenAPI document, made from the routes and their types; schemas.go: types for it alone
//	bootstrap.go  the bootstrap listener: a tenant's first key and rules; development tokens
//
// # The way of a request
//
// The checks come in one order, and the first that fails decides the answer: route, authentication, the body's shape where what is to be
// authorized stands in it, authorization, the body's values, existence, state. So nobody learns from an answer whether something exists
// that they have no right to.
//
// # Invariants
//
//   - A path is matched as it was sent: each segment is decoded once and never joined or cleaned again. A segment that could mean another
//     route once decoded (a slash, a dot or two, NUL) is refused.
//   - A tenant that does not exist and a token that is not accepted get the same answer.
//   - A body holds nothing that others wait for before it is there: reading goes by shares of accounts and addresses, and work begins after.
//     Work ends before the answer is sent, whose reader may be slow.
//   - What a client sends is bounded before it is read: header, body, JSON depth and the number of JSON values, connections, bodies at once.
//   - No secret leaves: answers name signing keys by id, and logs and metrics hold neither tokens nor seeds.
//   - A call that changes something answers after the change is durable and visible here.
//   - A page of a listing, and one creation, cost what they show and make, not what there is.
//   - What a route takes and answers stands in the table of routes, and the OpenAPI document is made from it. Every answer that a test gets
//     is held against the document, and every status in the document must be answered in some test.
//
// # Ownership and locks
//
// Server owns its HTTP servers and their goroutines; Close ends them. The one lock guards the remembered readiness and is not held across
// the question.
//
// # Non-obvious
//
//   - encoding/json matches field names without regard to case and takes the last of two equal names. Bodies are therefore read token by
//     token (body.go), and fields are looked up by their exact names.
//   - A cursor holds the last key of its page and the kind of listing. A page starts behind that key, whether or not it still exists.
//   - A role is given away with the policies of its own roles: the check of who may give it follows groupings from role to role.
//     A listing asks it of every role that it meets, so what is found out about one is kept for the others: a chain of roles
//     would cost its square.
//   - A policy on cluster:* or node:ID lies inside no scope. Only who holds that very right, and the rules of the whole tenant, gives or sees it.
//   - The routes of one tenant (GET, DELETE /v1/tenants/{tenant}) are for operators of the cluster, whose tokens belong to a tenant of
//     their own: their keys are chosen by the token and not by the path.
//
// Sources: spec control-api.md sections 1, 2, 5 to 9 and 14; security.md sections 2.2, 2.4, 2.5, 3.7, 4.7, 5, 13.4; operations.md
// sections 8.6 and 9.
package api
