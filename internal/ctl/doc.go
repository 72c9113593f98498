// Package ctl is felixctl's commands: topics, groups, produce and consume over the Kafka listener of a Felix server (or of Apache Kafka),
// and tokens, for which no server is asked.
//
// Conventions (spec control-api.md section 12): settings come from flag, then environment, then the context of a file; data goes to
// standard output and talk to standard error; -o json gives every table's facts as JSON; exit status 0 success, 1 other failure,
// 2 arguments, 3 nobody reachable, 4 refused, 5 not there, 130 interrupted before the work was done; an error says what to do next.
//
// It owns nothing beyond one command's run: a client is made for the command and closed with it.
//
// Sources: spec control-api.md sections 12 and 13.1.
//
// Non-obvious:
//   - franz-go is used here and nowhere else in the server's module: felixctl speaks as any client does, so that what works with it
//     works with others. Groups are looked at and moved, never joined: consume names partitions and offsets itself.
//   - A client library retries for minutes where a person waits for seconds: a command first asks whether anybody is there (reach),
//     and its own deadline ends the rest.
//   - What a client library does not say is heard by its hooks (watcher): that a server is gone, and that it answers without records.
//     An --exit ends well only at the end offsets of its start, or where two empty answers and a second look at the offsets prove
//     that the rest holds no record: silence alone proves nothing.
//   - Servers describe a group of the other protocol (KIP-848) and one that is not there alike: "not found", or state Dead from old
//     versions. A group is missing only when both requests have said so.
//   - reset-offsets commits as nobody (no member, generation -1): the server refuses that while the group has members, so a member
//     that joins between the look and the commit is never overrun.
//   - /dev/null is a character device: a script that reads from it looks like a terminal, so a question is asked only where both
//     input and output are terminals, and end of input is "no".
package ctl
