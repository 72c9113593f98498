// Command felixctl is the tool for people: topics, producing and consuming over a server's Kafka listener. See internal/ctl for the
// commands and the exit statuses.
//
// Non-obvious: the first interrupt ends a command in good order: exit status 0 for a consume that has no end of its own, with whatever
// was read already printed, and 130 for everything that was not done yet. The second one ends the process at once.
package main
