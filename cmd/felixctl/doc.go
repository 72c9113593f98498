// Command felixctl is the tool for people: it works with the native listener, the Kafka listener and the control API of a server. See
// internal/ctl for the commands and the exit statuses, and docs/felixctl.md for how they are used.
//
// Non-obvious: the first interrupt ends a command in good order: exit status 0 for a consume that has no end of its own, with whatever
// was read already printed, and 130 for everything that was not done yet. The second one ends the process at once.
package main
