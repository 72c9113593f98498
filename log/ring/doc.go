// Package ring is one shard's records in memory alone: the newest record batches of an ephemeral stream, kept for subscribers that
// join or fall behind a little.
//
// A Ring stands where a log stands for a durable stream, so appends, waits and reads go the same way. It owns its batches and what is
// remembered of idempotent producers; both are gone with it. Nothing is ever written to disk.
//
// Invariants:
//   - start <= end; the batches are contiguous, and offsets are dense. They are for the server's own use: no client is told them.
//   - a ring that was appended to holds its newest batch, whatever the bounds; beyond it at most Options.Batches and Options.Bytes.
//   - only an append to the same ring, AdvanceStart, Reset, Close and Delete remove a batch: one shard's traffic cannot take away
//     what another shard's reader is about to read.
//   - what a reader holds stays valid until it releases it, whatever is removed meanwhile.
//
// Memory: all rings of a node share a Budget. A ring that appends while it is overdrawn gives up its own older batches, down to the
// newest, so the most that is held is the budget and a batch for each ring.
//
// Locks: Ring.mu, a leaf. Appends have one caller at a time, the shard's replica.
//
// Source: streams rules 2.1 and 9.5; the sizes are this package's choice.
package ring
