// Package client runs the Go client of Felix against the real server, and where both can express it the same program through the Kafka
// listener with franz-go.
//
// rows_test.go is the table: each row is a behaviour of spec/streams.md, section 19, by its number, and a function that gets a side. Rows
// that both sides can express run with each; the others say which one and why. A side (side_test.go) is a client: native_test.go is our own,
// kafka_test.go is franz-go. crossed_test.go writes by one side and reads by the other: offsets, order, bounds and times must be the same,
// whoever looks.
//
// The environment chooses: FELIX_BIN as in package peer; the suite is skipped for any other server than Felix.
//
// Non-obvious:
//   - The server is one for the suite, except for rows that end it or need settings of their own. A fleet (main_test.go) has one node now;
//     rows speak of it as of several, by asking for the node that leads a shard.
//   - Times count in milliseconds, and a leader's clock gives them. A row that looks something up by time must let one pass.
package client
