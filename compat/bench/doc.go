// Command bench compares Felix with Apache Kafka on one machine: the rows P1 to P8c of the project's speed and memory figures;
// and its native front end with NATS and a bare QUIC relay: rows P9 to P13.
//
//	bench [flags]    run rows, write results/<time>.json and the tables of docs/benchmarks.md
//	bench report     write the tables again from the results at hand
//	bench load       internal: one client process, see package load
//	bench null       internal: the throw-away server, see package null
//	bench relay      internal: the bare QUIC server, see package relay
//
// Each trial starts a fresh server process on a fresh data directory (rows that read start it on a copy-free, kept one), drives it
// from a fresh client process, and takes turns: Kafka, Felix, throw-away server, Kafka, ... The table shows medians.
//
// Non-obvious:
//   - Kafka's JVM is warmed up with load before the measured part; without it, its figures are those of the interpreter.
//   - One trial writes less than 2 GiB, since the kernel starts to throttle writers by dirty pages beyond that.
//   - The server's processor time is read by the client process at the ends of the measured part, not by the harness, so that
//     connecting, warming up and closing are left out.
//   - franz-go keeps at most five produce requests in flight on a connection when idempotent; sixteen in flight are four clients.
//   - A client of the native rows is publisher and subscribers in one process: one clock, and a window that the slowest subscriber moves.
//   - After each produce trial the log's end offsets must equal the records sent: a fast server that loses records fails.
package main
