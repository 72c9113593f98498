// Package cluster holds what every part of Felix knows about the cluster: the immutable metadata image, the commands that change
// it, the table of topic and broker configurations, and the rules for names.
//
// # Image
//
// An Image is one version of the metadata: nodes, tenants, namespaces, client quotas, topics with their partitions and configurations. It
// never changes after Build; whoever holds one may read it without a lock for as long as it likes. Versions share what did not change
// (see index.go), so that creating one topic among ten thousand copies a few kilobytes, and Diff visits only what differs.
//
// A tenant's name may come again after it was deleted; its incarnation does not. Whoever keeps something on behalf of a tenant (a session, a
// group) keeps the incarnation with it and asks HasTenant.
//
// # Commands
//
// A Command is a request to the control plane's state machine. It carries everything that is not a function of the state: random
// topic ids and the cluster id are drawn by the proposer. Package controller encodes, orders and applies commands; this package only says
// what they are, so that broker can propose without importing controller.
//
// # Streams and topics
//
// There is one type for both, Topic. A native stream is one that was not made by Kafka: it has a kind, a delivery, a routing and a
// region, may be ephemeral, and never grows. Its retention and consistency are overrides like those that Kafka's tools set (stream.go),
// so that each is stored once.
//
// # Invariants
//
//   - The seed of a signing key is in the image and in commands, and leaves the process in neither text nor JSON (keys.go).
//   - Topic, Partition, Node, TopicConfig, Tenant and Namespace values reachable from an Image are never written after Build.
//     Slices and maps in them are shared between versions.
//   - A topic id names one incarnation. A name that is deleted and made again gets a new id; leader epochs restart only then.
//   - Broker numbers and producer ids are handed out once and never again, also after the node or the producer is gone.
//   - Leader epochs of a topic id never fall.
//
// # Non-obvious
//
//   - Topic.Config is derived from Overrides and from this node's own defaults. It is not replicated: two nodes with different
//     default settings see different values, and decisions of the state machine must never depend on it.
//   - Overrides keep the text in canonical form but in the order the user gave (cleanup.policy "delete,compact" stays so): tools
//     that compare what they wrote with what they read otherwise plan a change for ever.
//   - The hash behind the index has a random seed per process. Nothing may depend on the order in which buckets are visited;
//     listings and snapshots are sorted.
//   - The default namespace is special only in how Kafka clients spell its topics (no prefix). Package kafkaproto alone translates those names.
//
// Sources: Apache Kafka 4.3.1 (names, types, defaults and bounds of configurations), KIP-516 (topic ids), KIP-107, KIP-1161
// (empty cleanup.policy).
package cluster
