// Package peer starts and stops the server that a black-box test talks to: Felix, Apache Kafka 4.3.1, or one that already
// runs somewhere else.
//
// It owns the server's processes, their data directories and their ports, and nothing else: it imports no package of the
// server, and knows Felix only by its command line (design.md section 11), its environment (spec/operations.md 5) and the
// ready file. Apache Kafka is one KRaft node from the Maven jars of pom.xml.
//
// The environment chooses: PEER=felix (default), PEER=kafka or PEER=host:port; FELIX_BIN names the binary (default
// ../bin/felix from the compat module); KAFKA_JARS the jar directory (default .cache/kafka-4.3.1/lib, filled by
// compat/install.sh); PEER_LOG=1 leaves the servers' output files behind.
//
// Invariants
//   - An address stays the same over Kill9 and Restart, so that a client which was told it keeps working.
//   - After Stop no process of the peer runs, and its temporary directory is gone.
//   - A peer that cannot do what is asked says so with ErrRemote; it never pretends.
//
// Non-obvious
//   - The children are killed by the kernel if the test process dies (Pdeathsig), since a JVM left behind takes a GiB.
//   - Kafka's secure listeners belong to the same process. Felix has one Kafka listener, so SecureAddr starts a second
//     server beside the first one, with its own data: what is written through one is not seen through the other.
//   - A Child is no server: what a test runs beside one, such as a Kafka Streams application, lives and dies by the same rules.
//   - Kafka's authorizer is on: the anonymous plaintext user is a superuser, PLAIN users have only what an ACL gives them.
package peer
