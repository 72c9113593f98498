// Package felixproto speaks the native Felix protocol over QUIC: connections, authentication, publishes, subscriptions, reads and
// discovery, over the verbs of package broker. Types of the QUIC library do not leave it; the codec is package wire.
//
//	server.go        sockets, admission of connections, shutdown; package internal/udp receives
//	conn.go          one connection: its streams, identities, subscriptions and what they may use
//	stream.go        one stream that a client opened: reading, answering, ending; inbox.go: its frames; budget.go: shared memory
//	auth.go          the first frame; message.go: which request is served by what
//	publish.go       publishes of every form, and the order of their answers; commit.go: events with state
//	subscribe.go     opening a subscription; subscription.go: what waits for it and how it ends
//	replay.go        what a subscription reads from the log itself; write.go: frames on its stream
//	fanout.go        from a shard to its live subscriptions; frame.go: batches to event frames; delivery.go: their memory
//	reads.go discovery.go inspect.go: requests that change nothing
//	failure.go       from an error to what a client is told
//
// # How a publish goes
//
// A stream has one goroutine, which reads requests and serves most of them on the spot. A publish is turned into a record batch and given
// to the broker, which writes it on the same goroutine if its shard is idle. Whoever completes it writes the answer: at once, or, where the
// client asked for answers in order, together with those behind it that were waiting. Writing an answer never waits for the client: what
// its flow control holds up is written by a goroutine of its own, and reading the stream pauses while too much of that lies around.
//
// # How an event goes
//
// A subscription begins in the log and reads it by itself, as fast as its client takes it. Where it meets its shard's hub it becomes live:
// the hub reads what was committed once, cuts it into frames once, and puts those into every queue. A hub may come with far more at once
// than a queue has places, so on a durable stream what a full queue has no room for is not dropped yet: when the queue is written the
// subscription reads it from the log. A client that takes nothing for about three seconds meanwhile is dropped for, alone; that is the
// subscription's end, with the offset to resume from as its last frame. A hub keeps no records: when it is late it reads the log again, so
// nothing can be lost before a queue. A small frame that finds nothing queued goes to the library at once, a few of them without waiting.
//
// Whoever reads the log has a lease of memory for a page. One who does not take his page while others wait for memory is asked to give it
// back, even in the middle of a frame: the log has it, and when the client goes on the frame is cut once more from where it stopped.
//
// # Invariants
//
//   - every stream authenticates by itself; nothing of another stream's identity or features counts on it.
//   - authorization comes before existence, and both before anything is queued.
//   - a publish that asked for an answer gets exactly one, and none that did not.
//   - a frame is never allocated for by what its header claims, and memory of reading, of flow control windows and of delivery each
//     comes out of a bound. Of what clients can hold by standing still a connection and a tenant have shares.
//   - an event stream's first frame is written before the subscription is answered, and the answer before any event.
//   - between the last record that a subscription read from the log and the first that its hub gave it lies nothing.
//   - event streams are never ended by a plain FIN unless a last frame says why: clients take that for a clean end.
//   - an idle stream or subscription has at most a goroutine that waits to read, a small buffer, and no timer.
//
// # Locks
//
// Server.mu, then conn.mu; hubs.mu, then hub.mu, then subscription.mu; hub.mu, then the shard's. conn.mu and stream.mu are not held
// together, and stream.mu is a leaf but for pools and the QUIC library; so is history.mu. Done of a publication and Notify of a waiter
// take stream.mu, conn.mu or hub.mu and never wait.
//
// # Non-obvious
//
//   - a TLS stack of QUIC refuses clients that offer no protocol as soon as the server lists one, so the choice is made for each hello.
//   - upstream's client sends its whole first flight in one datagram of 4,096 bytes on loopback: see package internal/udp.
//   - the client ends its sending side right after a subscribe and stops reading the answer's stream: the subscription must survive both.
//   - an answer that is followed at once by the connection's close may never arrive: see conn.finish.
//   - a listener's close waits for the connections that are being admitted, so no lock that admission takes may be held over it.
//   - a stream that nobody reads to its end holds the client's stream credit for ever: every end reads or cancels.
//   - a subscription that joined a hub at its own place, not the hub's, must leave out what the hub still brings from before it.
//   - skipped_before is counted by each subscription: a hub that began later does not know what lies before its first event.
//
// Sources: the felix-wire, streams and security specifications; RFC 9000, RFC 9001.
package felixproto
