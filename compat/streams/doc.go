// Package streams runs a Kafka Streams application, the word count of java/, against a server and checks its counts.
//
// It owns the application's processes (App), the topics of one application with what was written to them (Job), and the judgement of
// the counts (tally). The test runs one application through a clean close, a kill, a lost state directory and a killed server; `make
// campaign KIND=streams` does so at random. PEER chooses the server (package peer).
//
// What must hold, processing being at-least-once:
//   - No count is less than what was written, ever.
//   - While the application was only closed and started again, with its state or without, each count is exactly what was written.
//   - After a kill, of it or of the server, only words written since the last settled moment may be counted again. What was settled is
//     committed, so every other count stands still.
//   - The changelog topic is compacted and its last record of a word is the word's count; the repartition topic keeps records for ever
//     (retention -1), but for those that the application has deleted when they were processed (KIP-204).
//
// Non-obvious
//   - An application may lose its place in the group although nothing was killed, for want of time on a busy machine, and as a late
//     consequence of a server's restart: it says so in its log (App.Setbacks), and exactness is not asked of it then.
//   - Settled means: the group has committed the ends of the lines first and then of the repartition topic. The application waits for
//     its own writes before it commits, so nothing is on its way to the counts any more.
//   - An instance that does not leave the group is waited for until its session ends, 6 s, when the next one joins: Kafka's rule.
package streams
