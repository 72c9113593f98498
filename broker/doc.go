// Package broker is this node's shards and the verbs that both front ends use on them.
//
// It owns the registry of open shards, applies metadata images to it (opens, closes, deletes, new leader epochs, new
// configurations), checks what a caller may do, and turns a produce or a publish into an append: validation, timestamps,
// recompression, the in-sync check. Its types are our own: no Kafka or QUIC type comes up or goes down through it.
//
//	broker.go       Broker: construction, start, close, applying images
//	registry.go     shard id -> open shard; opening on demand, once
//	shard.go        Shard: reads, waits, bounds, look-ups
//	append.go       Shard.Append: what happens to a batch before the replica takes it
//	internal.go     what coordinators do with internal shards: append, scan
//	publish.go      Publish: native publishes, and the way of a key to its shard
//	admission.go    which of them, and of Kafka's batches, are written, when and by whom; lanes.go: turns; room.go: budgets, and who waits
//	                for them; lists.go, deadlines.go: what all that is made of
//	quota.go        publish budgets of tenants
//	admin.go        creating, deleting and configuring topics; producer ids
//	caller.go       who asks, and what they may do
//	maintenance.go  the one loop of retention, roll by age, compaction
//
// Invariants:
//   - a shard has at most one open log in the process, whoever asks first.
//   - a shard is looked up through the image, so a deleted topic is unknown the moment its image is published, whatever is
//     still open; the files of one topic id are never met by another.
//   - an idle shard has no goroutine and no timer.
//   - native publishes to one shard are written in the order in which they came. What was refused was not written, and what was not
//     acknowledged on commit may have been.
//   - authorization is decided before existence.
//
// Locks: applyMu (one image applied at a time) before registry.mu before a shard's opening. No lock is held across a disk
// read, a sync or a notification. Lock order with replica: registry.mu is never held while a replica's lock is taken. admission.mu and
// commitWaits.mu are leaves.
//
// Sources: design sections 5 and 10; Kafka request rules 4.2, 4.3, 4.5 to 4.7, 4.11; security rules 9.
//
// Non-obvious:
//   - a publication may be in use again as soon as it was told (Publication.finish): what is needed of it afterwards is read before.
//   - the Notify of an ephemeral shard's waiters is part of the publish that woke them, so that they can read what it wrote before the next
//     publish to the shard may push it out of the ring.
//   - a lane whose commits do not come is left alone, with what it has queued, until one comes: it holds no worker's place.
//   - a tenant whose only lanes are being written keeps its turn: otherwise one with a single shard would get one batch a round.
//   - files of a topic that no image knows are kept and reported, not removed: a lost metadata directory must not cost the
//     data. Only a topic that the metadata remembers as deleted is removed at start.
package broker
