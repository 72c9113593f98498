// Package clients runs real Kafka clients against one server: kcat, franz-go, librdkafka 1.9 and 2.x through confluent-kafka-go,
// Apache Kafka's own Java clients and tools, confluent-kafka, kafka-python and aiokafka of Python, kafkajs, sarama and kafka-go. PEER
// chooses the server (package peer): Felix, Apache Kafka or an address.
//
// Every test that stands for a case of spec/kafka.md section 6 carries its number (TestCase17…); a trap of section 5 that a case
// guards is named in the comment. The outcome of each case and client is kept in results/<peer>.json when CLIENTS_DOCS=1; package
// report writes the documents from the results of both peers. What a library cannot do is noted with the reason, not left out.
//
// The heart is the matrix (TestCase17CodecMatrix): every client writes in each of the five codecs, the stored batches are fetched
// raw and must carry that codec's bits, and every client reads what every other wrote, byte for byte.
//
// Groups (groups_*_test.go): a member tells each change of what it owns and each record with its own time, so that what several
// processes did can be put in one order: a partition with two owners shows. Members that crash are processes of their own.
//
// Non-obvious:
//   - A producer may store a batch uncompressed when compressing does not make it smaller; the fixture repeats itself enough that
//     none does, so a missing codec bit means that the client was talked out of compressing (trap 1).
//   - One JVM serves all Java cases; the command-line tools are processes of their own, as users run them.
//   - kafkajs consumes in groups only, and kafka-go's group Reader does not tell what it owns: see the programs in node and kafkago.
//   - A server that does not advertise JoinGroup fails the group tests.
//   - Order of Java metrics, kcat's missing offsets and timestamps: see driver.Features.
package clients
