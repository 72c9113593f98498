// Package raw is the black-box suite of requests written by hand: frames, headers and record batches built byte by byte or
// with kmsg, sent over a bare TCP connection, without any client library in between.
//
// It holds the numbered acceptance cases of the Kafka listener (spec/kafka.md section 6), the traps of section 5 that
// concern the served APIs, the hostile inputs of spec/security.md 13.3, and a walk over every served (API, version) pair.
// The same tests run against Felix and against Apache Kafka 4.3.1 (PEER, see package peer).
//
// How a case is written: a row {ID, What, Want, WantKafka, Why} is registered beside the test; the test observes the server
// and hands the observation, a short text, to expect. WantKafka is set only where Felix differs by decision, with the
// reason in Why; OnlyFelix is the only exclusion. TestMissingNumbers lists the numbers without a row, TestDocsTable keeps
// docs/kafka-cases.md equal to the rows (go test ./raw -run TestDocsTable -update).
//
// Invariants
//   - Every response is decoded and encoded again, and both must be the same bytes: so a null where the protocol has an
//     empty array, bytes left over, or a tagged field with its default value fails the test that asked for something else.
//   - A test makes its own topics, so tests may run in any order and against a server that was used before.
//   - Input that is bad on purpose is bounded: a few requests, at most fifty connections.
//
// Non-obvious
//   - A response to ApiVersions has header version 0 always, also in flexible versions.
//   - Apache Kafka serves a request that arrives before the last one was answered only later; so does the suite expect it.
//
// Sources: Apache Kafka protocol guide; KIP-98, KIP-219, KIP-227, KIP-320, KIP-360, KIP-511, KIP-516, KIP-734.
package raw
