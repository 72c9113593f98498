// Command felixctl is the tool for people: topics, producing and consuming over a server's Kafka listener. See internal/ctl for the
// commands and the exit statuses.
//
// Non-obvious: the first interrupt ends a running consume politely, with exit status 0 and whatever was read already printed.
package main
