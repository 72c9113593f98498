// Command campaign runs the long, seeded checks of the server against real processes, and its fuzz targets: `make campaign KIND=kill
// N=200 SEED=1`. It prints its progress and appends a row to docs/campaigns.md. kill and fuzz can be interrupted and taken up again.
//
// kill: three idempotent acks=all producers of different libraries (franz-go, librdkafka 2, Java) write numbered records to a few
// partitions; the server is killed with SIGKILL at a random moment and sometimes again while it starts; `felix log verify` must
// find the stopped directory clean or repairable (exit 0 or 6); after the restart the producers go on by themselves, and every
// acknowledged record must be there exactly once, in order, at the offset it was acknowledged with. Every few kills the topic is
// read whole, deleted and replaced.
//
// disk: the data directory is a small tmpfs that is filled. Producers must see KAFKA_STORAGE_ERROR (56) and nothing else, reads must
// go on, nothing acknowledged may be lost, and writing must resume by itself when space returns. Some rounds kill the server while
// the disk is full.
//
// hostile: a healthy franz-go producer sends at a steady rate with acks=all, open loop: alone, beside 200 busy valid connections, and
// beside 200 hostile ones at the same rate of actions, in turn. The hostile ones draw from a seeded mix: false sizes, garbage, damaged
// requests of every served API, counts and tag counts beyond the bytes, broken batches, batches that decode to more than the server
// opens, frames that stop, bytes that drip, connections that reset. The producer's p99 beside them may be 1.1 times that beside the
// valid ones and 1 ms (medians over the rounds); none of its records may fail or be lost; the server's peak of resident memory stays
// within its budget and the floor that docs/configuration.md gives. Latencies mean something only on a machine that does nothing else.
//
// native: N minutes (6 at least say something) of native clients, written here over quic-go, in three lives of the server or more, of about
// three minutes each; between two lives it is stopped twice and killed twice with all clients at work. Seven publishers write numbered
// records to two durable streams, of one shard and of four: single ones, batches, keyed ones, and idempotent ones that send again what was
// not answered, and now and then what was. Followers read each shard from offset 0 to the end of the campaign by subscribing again after
// their last record; others replay pieces of history across the point where it joins the present, fall behind on purpose, or are malformed:
// garbage datagrams, false lengths and counts, broken frames and messages, wrong tokens, connections and frames that stop half way. Every
// acknowledged record must come to every follower once, at the offset of its answer, each publisher's in the order of its sends; what was
// refused with nothing applied must never come; answers come in the order of the publishes; no event stream may end as if it were over. In
// each life an ephemeral stream, and a durable one whose readers take no notices, have subscribers that stall: what they missed must be
// what the server counts as dropped. Of resident memory, heap, goroutines and descriptors, sampled after 80 s of each life, the median of
// the last third may be 1.15 times that of the first, and that of the first life's last third, and 16 MiB (heap: and 12 MiB); for
// goroutines and descriptors 1.1 times and 40 or 25.
//
// fuzz: every fuzz target of the root module runs for N minutes, one after the other, on all cores. A row says time and executions of
// each target and the generation of the code that ran, a hash of its sources; the campaign adds the rows of the page up and prints the
// totals. ARGS='-target-total M' skips what has M minutes of its present code. The seed only names the row: Go's fuzzer takes none.
//
// PEER=kafka runs the kill campaign against Apache Kafka, without log verify and without a row, to try the campaign itself.
//
// Files: main.go (flags), load.go (producers), check.go (the checker, pure), read.go (feeding it from the server), kill.go, disk.go,
// state.go (what survives an interruption of kill), ledger.go; for hostile: hostile.go, steady.go (the producer), crowd.go (the child
// process with the connections), busy.go, attack.go, arsenal.go (the frames), verdict.go (pure); for native: native.go, nativewire.go (the
// client), nativeload.go, nativeread.go, nativeexam.go, nativehostile.go, nativecheck.go and nativejudge.go (pure); for fuzz: fuzz.go,
// generation.go, fuzzledger.go (pure).
//
// Invariants
//   - Each round draws from a generator seeded by (seed, round), so an interrupted campaign continues with the rounds it would have
//     had, although the moments themselves depend on the machine.
//   - A violation ends the campaign, keeps data directory and server log under campaign/out, and is a row in the ledger.
//
// Non-obvious
//   - An acknowledgement and the log are compared in both directions: the log may hold what is not acknowledged yet, never less.
//   - After an interruption producers get new names: what was in flight is unknown, so their sequences start anew.
//   - A client notices a killed server by its silence, after 6 s. What fails before is no violation; what fails later is.
//   - A subscriber that reads nothing still gets what its flow control window and the server's queue hold, and is told only then.
//   - A server that died by itself is a violation even though the next step would have killed it.
//   - The connections of the hostile campaign are a process of their own: their work and garbage would delay the producer in its own.
//   - A crowd that did less than its share, or a phase without records, is a violation: it would make any server look good.
//   - Zeros that compress well are a bomb only where the server opens batches: a compacted topic. Elsewhere they are a valid batch.
package main
