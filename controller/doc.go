// Package controller is the control plane's state machine and the client's side of it: metadata commands are encoded, put in one
// durable order by a Store, and applied by every member to the same effect.
//
//	controller.go  Controller: Open, Propose, Image, Changed, Close
//	store.go       Store and Machine: what a command log must do; storetest checks it
//	codec.go       commands to bytes and back           (format: FORMAT.md)
//	snapshot.go    the whole metadata to bytes and back (format: FORMAT.md)
//	state.go       applying a command; nodes, tenants, producer ids
//	topics.go      applying commands about topics
//	streams.go     applying commands about native streams, and deletions of what holds streams
//	keys.go        applying commands about signing keys
//	initialize.go  applying the command that gives a tenant what people begin with
//	caches.go      applying commands about caches, and streams and caches together
//	rules.go       applying commands about policies and groupings
//	placement.go   which brokers hold a new partition
//
// # Invariants
//
//   - Applying is a pure function of the state and the command: no clock, no randomness, no iteration over a map. Two machines
//     that apply the same commands give byte-identical snapshots.
//   - Every check that decides whether a command may take effect is made when it is applied, so that of two concurrent creations
//     of one name exactly one succeeds, whoever proposed them.
//   - Propose returns after the command is durable, applied here, and visible through Image.
//   - An image's version is the position of the last applied command in the store's order; it only rises, also over restarts.
//   - A command that cannot be decoded stops the machine with an error; it is never skipped.
//
// # Ownership and locks
//
// The state belongs to the store's apply goroutine (Machine's methods are called by one goroutine at a time). Readers get images through
// an atomic pointer. One mutex guards the channel behind Changed; it is never held across a call.
//
// # Non-obvious
//
//   - A command's answer is not part of its encoding: it is recomputed by each member that applies it, and only the proposer reads it.
//   - ValidateOnly commands never reach the store: they are applied to a copy of the newest image, which is thrown away.
//   - Default values of topic configurations belong to a node, not to the state: see cluster.ParseTopicConfig.
//   - A tenant's incarnation is the version of the last deletion of any tenant before it was made, so a cluster that never deleted one has
//     the incarnation 0 everywhere, which is what was stored before there were incarnations.
//   - Commands on behalf of callers are guarded (cluster.Guarded): what the proposer checked may have gone before the command is applied.
//   - Shares of tenants (shares.go) are a matter of guarded commands: older logs have none, and must come to what they came to.
//   - When Propose fails with ErrUnknownOutcome the command may still take effect later.
//
// Sources: design sections 8 and 10 (decisions 4, 6, 8, 9, 17, 22), cluster rules 8.1, 8.2, 8.4.
package controller
