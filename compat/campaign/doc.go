// Command campaign runs the long, seeded checks of the server against real processes, and its fuzz targets: `make campaign KIND=kill
// N=200 SEED=1`. It prints its progress and appends a row to docs/campaigns.md. kill, groups and fuzz can be interrupted
// and taken up again.
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
// streams: a Kafka Streams word count runs while lines are written. Every round it is disturbed once: the application is closed or killed,
// sometimes with its state lost, a second instance comes and goes, the server is killed or restarted. When all is processed and committed
// no word may be counted too rarely, none again that was settled before the round, and none again at all when nothing was killed. Every
// ten rounds the internal topics are checked (configurations, the changelog against the counts, the repartition topic purged) and a new
// application begins, every other one with static members. See compat/streams.
//
// connect: two distributed Connect workers carry lines from files to files through topics. Every round something is disturbed: workers
// stopped or killed, the server killed or restarted, connectors restarted, paused, or deleted and created. No line may be missing or out
// of order, and none may come again when nothing was killed. See compat/connect.
//
// groups: ten consumer groups with up to five franz-go members each, some static, eager and cooperative assignors in turn, read what one
// producer writes, and commit after each poll. In each round members join, leave, crash, are cut off for longer than a session and come
// back, while the server is killed, sometimes again while it starts. An independent client asks for all committed offsets five times a
// second. Nothing acknowledged as committed, and nothing that was shown as committed, may go back; a commit below it may not be accepted,
// and so not those that are sent in the name of members that are gone and of generations that are over; no member may be told a generation
// below one that was known when it asked; every record comes to every group, and what is committed has come. While the server is up, a
// partition of a group that has members may be without owner for a session timeout (6 s), a rebalance timeout (6 s) and 3 s at most; the
// time counts from the last thing that the campaign did to the group, or from the server's start if that is later. Each member takes a
// record and gets a commit acknowledged within 5 s more, and a member that leaves is gone by then: an error alone is not enough. Every
// round ends only when all groups are at rest and have had all that the log holds.
//
// soak: a mixed load of eleven clients for N minutes (20 at least say something) in three lives of the server, between which it is stopped
// once and killed once: loads of four clients, round trips of the seven others, members of groups of all but kcat that join, leave and
// crash, topics and groups that come and go. kafkajs reads its round trips as the only member of a new group each time; members of
// kafka-go have a group of their own, since they and most others cannot lead each other. Resident memory, heap, goroutines and descriptors
// are sampled every two seconds. Of each life the first 100 s (of a short one the first third) are warm-up; of the rest, the median of the
// last third is compared with that of the first third, and that of each later life's last third with the first life's: at most 1.15 times
// it and 16 MiB (heap: and 12 MiB), for goroutines and descriptors 1.1 times and 25. Both thirds must have had at least half of the load;
// in each life each client's members must have had records, and each client without a load have made round trips. The load's records must
// be there once and in order, and a client may fail only when the server was down, or back for less than 20 s.
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
// client: the Go client (package client of the root module) under N kills of the server at random moments, some of them while it starts,
// some followed by more silence than connections live. Seven publishers write numbered records to a durable stream of one shard and one of
// four: idempotent ones, one that may store twice, and ones that give up; waiting for each answer, in batches, and without waiting. Five
// subscribers read all of it: two from the beginning to the end of the campaign, two that end now and then and begin anew from their
// positions, one from where it came. Nothing is repeated or resumed by the campaign: that is the client's work. Every subscriber must get
// each offset once and in order; each idempotent record must be stored once, at the offset of its answer; what failed as not stored may not
// be there; records of one publisher stay in order in each shard. After each start all publishers and subscribers must go on within 30 s.
// Goroutines may not grow from the first third of the kills to the last, and at the end none may be left.
//
// fuzz: every fuzz target of the root module runs for N minutes, one after the other, on all cores. A row says time and executions of
// each target and the generation of the code that ran, a hash of its sources; the campaign adds the rows of the page up and prints the
// totals. ARGS='-target-total M' skips what has M minutes of its present code. The seed only names the row: Go's fuzzer takes none.
//
// PEER=kafka runs kill, groups, streams and connect against Apache Kafka, without log verify and without a row, to try the campaign itself.
//
// Files: main.go (flags), load.go (producers), check.go (the checker, pure), read.go (feeding it from the server), kill.go, disk.go,
// state.go (what survives an interruption), footprint.go (what a server takes), ledger.go; for hostile: hostile.go, steady.go (the
// producer), crowd.go (the child process with the connections), busy.go, attack.go, arsenal.go (the frames), verdict.go (pure); streams.go
// and connect.go, whose work is done by the packages beside this one; for native: native.go, nativewire.go (the client), nativeload.go,
// nativeread.go, nativeexam.go, nativehostile.go, nativecheck.go and nativejudge.go (pure); for client: client.go, clientload.go,
// clientcheck.go (pure); for fuzz: fuzz.go, generation.go, fuzzledger.go (pure); for groups: groups.go, groupmember.go, grouptotals.go,
// grouplate.go (late commits), churn.go (who comes and goes, pure), groupcheck.go (pure); for soak: soak.go, soakwork.go (what the clients do), soakcheck.go (pure).
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
//   - A member that crashes is a client whose connections are closed and whose new ones are refused: it can say nothing more, and the
//     server sees what the death of a process shows.
//   - A member that was cut off does not count as an owner, whatever it believes; what it says when it is back does.
//   - A client whose connection is cut gives its partitions up by itself before it is back, so it sends no late commit: the campaign does.
//   - A group reads each partition from its committed offset, so a record that is left out shows as a gap, without a list of all records.
//   - Restarts hide leaks, so a soak judges within a life too, and lives are long.
//   - Zeros that compress well are a bomb only where the server opens batches: a compacted topic. Elsewhere they are a valid batch.
package main
