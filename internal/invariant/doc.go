// Package invariant states what must hold between parts of the server's state, at the place where it would first be seen broken.
//
// A build with the tag "invariants" (all tests) panics at once, with the sentence that failed. A production build reports instead:
// Check returns a *Violation, and the caller fails the one shard or request that the state belongs to. The process and its other
// shards go on: a wrong number in one shard is no reason to stop the thousands beside it.
//
// It owns no state and may be called from any goroutine.
//
// Non-obvious:
//   - The returned error must be used. A caller that has nothing to fail has no invariant to check.
//   - Check takes a constant sentence, so that it costs one comparison and no allocation where it holds; Checkf formats, and its
//     arguments are boxed even when it holds, so it stays off the hot paths.
//   - Expensive checks (walks over a whole structure) are guarded by Enabled, a constant: the compiler drops them.
package invariant
