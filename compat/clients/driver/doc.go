// Package driver runs Kafka clients for the client suite and the campaigns: each client answers the requests of package agent,
// whether it is another process (librdkafka twice, Java, Python, Node, sarama, kafka-go), a command-line tool (kcat) or a library in
// this process (franz-go). Another starts each of them as a process of its own, so that it can be killed.
//
// It owns the processes it starts: Close ends them. One operation at a time runs on a Client.
//
// Non-obvious:
//   - franz-go and kcat are served through the same pipes and JSON as the others, so that there is one code path and a difference
//     between clients is the client's.
//   - kcat cannot choose timestamps and reports no offsets; Features says so, and the suite then checks what can be known.
//   - kcat's -Z makes an empty key null too, so null values and empty keys go in different runs of it.
//   - Child processes die with their parent (Pdeathsig): a JVM left behind takes memory that other suites need.
package driver
