// Package agent is the line protocol between the client suite and the programs that each drive one Kafka client library: rdkafka1
// and rdkafka2 (two librdkafka of different age, which cannot be linked into one binary), sarama and kafkago, and the agents of Java,
// Python and Node, which write the same JSON from their languages. It is a module of its own, without dependencies, so that each
// program's module stays as small as its client.
//
// The driver writes one JSON Request a line to the program's standard input; the program answers each with one JSON Response a
// line on standard output, in order, and ends when its input ends. Three operations, tail, load and member, also write Event lines
// between their start and their stop; every line says which of the two it is by the field that it fills.
//
// Byte strings are base64, so null and empty stay apart: null is a JSON null, empty is "".
//
// Non-obvious:
//   - encoding/json turns "" into an empty, non-nil slice and null into nil. The suite relies on it: keys, values and header
//     values are compared with that difference.
//   - A program must write nothing else on standard output; client libraries log to standard error.
package agent
