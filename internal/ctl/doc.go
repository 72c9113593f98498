// Package ctl is felixctl's commands, by what they speak to: pub, sub, topology, inspect and bench to the native listener (native.go);
// tenants, namespaces, streams, caches, nodes, shards, rules, keys, placement and the cluster to the control API (rest.go); topics,
// groups, produce and consume to the Kafka listener of a Felix server or of Apache Kafka (kafka.go); contexts, tokens, completions and
// manuals to nobody.
//
// A command is marked with what it speaks to (of), and prepare fills in the settings for that server alone: the same context serves
// all three, though their addresses, logins and certificates differ. Each family is a file; what a table, a listing, a confirmation or an
// error looks like is in output.go, command.go and errors.go alone. docs/felixctl.md is generated from the commands by a test.
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
//   - A listing is written as it comes, page by page, and one that fails half-way leaves its JSON array open: a part must not pass for the
//     whole.
//   - A syscall.Errno is a net.Error to errors.As: a full disk or a closed output would count as a server that is not reachable.
//   - sub reads ranges with an end by pages and does not subscribe: offsets that hold no event (marks of new leaders) would never come.
//   - To a tenant that is not there the control API answers as to a bad token, for everybody: tenant info looks into the listing to tell the
//     two apart.
//   - Settings are not defaults of flags: cobra prints defaults in help, and one of them is a token.
//   - Completion runs the root's PersistentPreRunE for the hidden command __complete, before the flags of the completed command are read:
//     whoever completes names calls prepare again.
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
