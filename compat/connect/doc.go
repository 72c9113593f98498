// Package connect runs Kafka Connect with its file connectors against a server, and checks that what is written to a file comes out of
// another one by way of a topic.
//
// It owns the workers' processes (Worker), their REST interface (Rest), and pairs of a file source and a file sink on a topic of their
// own (Pipe) with the judgement of the sink's file (lines.go). The tests run a standalone worker, and two distributed workers of which
// one is killed; `make campaign KIND=connect` disturbs two workers at random. PEER chooses the server (package peer).
//
// What must hold, connectors being at-least-once (exactly.once.source.support stays disabled, so there are no transactions):
//   - No line is ever missing: each line of the sink's file is the one after the highest before it, or one that was there already.
//   - While workers, connectors and tasks were only stopped, paused and restarted, each line is there once and in order.
//   - The three internal topics (configurations, offsets, status) are compacted, and what a worker knows after a kill it knows from them.
//
// Non-obvious
//   - A worker that is killed comes back on another port, so that a status that names it is of the present process.
//   - Connect's own producers are not idempotent unless exactly-once is on, and have one request in flight: a server that ends may cause
//     repeated lines, and never lines out of order.
//   - Lines are ASCII: a file source counts characters and goes on at that many bytes, so that others would be cut when it starts again.
//   - The position of a file source is committed on a timer (offset.flush.interval.ms), and by a clean stop.
package connect
