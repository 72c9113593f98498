// Package raftstore is the controller's command log over hashicorp/raft in the same process: raft-boltdb for the log and the file
// snapshot store, under one directory.
//
//	store.go      Store: Open, Propose, Close
//	bootstrap.go  making the files of a new cluster, all or nothing
//	seal.go       a checksum of the whole database at a clean stop
//	checksum.go   a checksum in every entry, and reading the log through
//	logs.go       what stands between raft and raft-boltdb: latching, and the term of a lone member
//	private.go    snapshots that nobody but the owner can read
//	transport.go  what stands between raft and the network: electing a lone member at once, withholding votes
//	fsm.go        raft's state machine over controller.Machine
//	hclog.go      raft's logger onto zap
//
// # What is durable when
//
// An entry is synced before raft counts it as written; a lone member's own write commits it. Propose returns after that and after the
// machine applied it. A crash of the process or the machine at any point loses no acknowledged command, and a command whose
// outcome was unknown is there once or not at all.
//
// # Files
//
//	raft.db          raft-boltdb: log entries, term, vote. Appears by rename, complete with the first entries.
//	raft.seal        checksum of raft.db at a clean stop; checked and removed at the next start
//	raft.db.tmp      left by a crash before that rename; removed at the next start
//	snapshots/       hashicorp/raft's file snapshots, the last two
//
// # Locks
//
// fsm.mu guards the applied position and its waiters. It is not held across a call into the machine.
//
// # Non-obvious
//
//   - A member that is alone need not make its term and vote durable before it asks itself for a vote: nobody else saw them, and
//     the first entry of the new term carries the term. At the next start the term is at least that of the last entry. This saves three
//     transactions, six syncs, at every start. Before a configuration with a second member is written, both are written too.
//   - Electing a lone member at once needs no change in raft: the transport delivers a TimeoutNow request from the member to itself.
//   - bbolt writes the pages of a transaction long before the transaction counts, so the bytes of the file change although its state does
//     not. A seal must be gone, durably, before the database is opened for writing; a version of it that went by the
//     transaction's number refused a good database after a kill.
//   - raft retries after a failed write by electing again and writing again. A disk that failed a sync must not be trusted with
//     that, so logs.go latches the first error.
//   - hashicorp/raft's AppliedIndex runs ahead of the state machine; fsm counts for itself.
//   - raft-boltdb keeps no checksum of an entry and panics on some damaged pages. Each entry gets a checksum over all that it does, in
//     raft's field for such things (checksum.go); the log is read through once at the start; panics become errors. What these cannot see
//     is entries that a damaged page hides: the seal of a clean stop can.
//
// Sources: hashicorp/raft v1.7.3, cluster rules 8.4, design decision 19.
package raftstore
