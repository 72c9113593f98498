// Package groups is the coordinator of Kafka's classic consumer groups: who is a member, which generation a group is in, who was
// assigned what, and which offsets were committed.
//
// group.go is the machine of one group: pure, without clock, lock, goroutine or IO. Time comes in as an argument; deadlines, replies
// and the wish to have the group's record written go out as values. The coordinator drives the machines of all groups that live in
// the shards led here, one lock a shard.
//
// Invariants of the machine:
//   - A generation has one leader, who is one of its members, until the next rebalance begins.
//   - The generation only rises: by one when a rebalance completes, and when the group becomes empty.
//   - Each reply function that was handed in is handed back exactly once, with one result.
//   - A member that has an answer outstanding is never expired by its session: only the rebalance timeout bounds its wait,
//     and five minutes the first wait of a new member, which cannot come back for its place if its connection broke.
//   - An assignment is given out only after the record that holds it is committed.
//   - Subscriptions and assignments are opaque bytes.
//
// Non-obvious:
//   - A rebalance waits for everybody that is known, also for member ids that were given out and have not come back (pending). Each
//     leave, expiry and rejoin asks again whether all have joined; forgetting one of these places leaves a group stuck.
//   - The subscription of a static member that comes back is not compared with what it said before: clients put their generation into
//     it, so that it always differs, and then each restart would move partitions. Only a change of the protocol chosen is a rebalance.
//   - A static member that comes back has a new member id but stands in the place of the old one, with its assignment. If that cannot
//     be written the old member id is put back, or two processes would both believe that they are the member.
//   - The tenant's incarnation is part of a group's key, so the groups of a deleted tenant are never those of the next one of its name, however
//     late the coordinator hears of the deletion. Burying them is a matter of tidiness, and is tried again at each load and each look.
//   - What is gone is asked of the newest image, under the lock of the shard. An older one lacks what clients have come in by since, and
//     would bury what was acknowledged to them; so would any that does not know yet of a tenant whose groups another leader wrote.
//   - A group that was loaded knows its members and their assignments but no sessions: each gets a full session from the load on.
//
// Sources: KIP-62 (rebalance timeout), KIP-134 (initial rebalance delay), KIP-345 (static members), KIP-394 (member ids required),
// KIP-559 (protocol type in answers), KIP-814 (static leader skips the assignment).
package groups
