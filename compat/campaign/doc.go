// Command campaign runs the long, seeded checks of the server's durability against real processes: `make campaign KIND=kill N=200
// SEED=1`. It prints its progress, can be interrupted and taken up again, and appends a row to docs/campaigns.md.
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
// PEER=kafka runs the kill campaign against Apache Kafka, without log verify and without a row, to try the campaign itself.
//
// Files: main.go (flags), load.go (producers), check.go (the checker, pure), read.go (feeding it from the server), kill.go, disk.go,
// state.go (what survives an interruption), ledger.go.
//
// Invariants
//   - Each round draws from a generator seeded by (seed, round), so an interrupted campaign continues with the rounds it would have
//     had, although the moments themselves depend on the machine.
//   - A violation ends the campaign, keeps data directory and server log under campaign/out, and is a row in the ledger.
//
// Non-obvious
//   - An acknowledgement and the log are compared in both directions: the log may hold what is not acknowledged yet, never less.
//   - After an interruption producers get new names: what was in flight is unknown, so their sequences start anew.
//   - A server that died by itself is a violation even though the next step would have killed it.
package main
