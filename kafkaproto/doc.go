// Package kafkaproto speaks the Kafka protocol: connections, versions, authentication, and one handler for each API, over the
// verbs of package broker. Wire types of kmsg do not leave it.
//
//	server.go        listeners, connection caps, shutdown
//	conn.go          one connection: its reader, its line of requests
//	input.go         reading frames; writer.go: the ordered writer; response.go: an answer ready to be written
//	budget.go        the bound on memory of requests and answers
//	handle.go        from frame to handler; dispatch.go: the table of APIs and the call type; apis_*.go: more rows
//	reader.go        primitives of the wire, bounded; guard.go: what a body may ask for before kmsg decodes it
//	versions.go      failure kind, API and version to wire code
//	convert.go       topic names to namespaces and streams, and back
//	fetch_wait.go    fetches that wait; fetch_session.go: incremental ones; produce_stream.go: large produces, while they arrive
//	tenant.go        connections end with the tenant that they were opened for
//	later.go         requests about groups, whose answers the coordinator brings
//	sasl.go metadata.go produce.go fetch.go …: one file an API, which opens with the versions served
//
// # How a request goes
//
// A connection has one goroutine. It reads a request into a buffer of its own and runs the handler; what a handler waits for
// holds up that connection alone. Produce with acks=all and fetch do not wait: they leave their slot in the connection's line
// and register with the shard; whoever moves the high watermark completes the slot. Requests about groups that may wait leave theirs to the
// coordinator (later.go). Answers leave in the order of their requests. Whoever
// completes the head of the line writes all that is finished, as far as the socket takes it without waiting; only then does a
// goroutine take over. So nothing that completes requests ever waits for a client.
//
// # Invariants
//
//   - answers leave a connection in the order of its requests; acks=0 has none.
//   - a slot is completed exactly once, by whoever has taken the request on (the answered flag of produce and fetch, the call of
//     a later, under its lock).
//   - an idle connection has a goroutine on a small stack, its struct, and no buffer.
//   - no length or count that a client sends sizes an allocation before as many bytes have arrived, and memory of requests and of
//     answers stays within the budget, but for one request that may go over it and the first batch of a fetch.
//   - everything that a pooled request object is registered with holds a reference to it: waiters, its timer, the connection.
//
// # Locks
//
// produce.mu or fetch.mu, then conn.mu, the shard's lock, budget.mu; fetchSessions.mu, then fetchSession.mu. Server.mu is a leaf. Nothing is
// called under conn.mu but pools. later.mu is a leaf. Notify runs outside the shard's lock and takes produce.mu or fetch.mu.
//
// # Non-obvious
//
//   - Produce is advertised from version 0 and served from 3: older librdkafka switches compression off otherwise.
//   - ApiVersions answers have the short response header in all versions.
//   - a goroutine that has handled requests has a large stack; after some seconds of quiet the reader is replaced by a fresh
//     one, or 5,000 idle connections would cost ten times as much.
//   - read deadlines are ticks, a few seconds apart: setting one for each request costs more than the request's decoding.
//   - a socket closed with unread bytes is reset, and the reset may overtake the last answer: see linger.
//   - fetch answers always name records, of length 0 if there are none: a null is dereferenced by clients.
//   - a client may send an OffsetFetch behind an OffsetCommit without waiting: see awaitOffsets.
//   - Java's consumer dies of fetch error codes that it does not know: see fetchCode.
//
// Sources: Kafka protocol; KIP-74, KIP-98, KIP-124, KIP-219, KIP-227, KIP-320, KIP-368, KIP-482, KIP-511, KIP-516, KIP-951.
package kafkaproto
