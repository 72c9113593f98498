// Package errcode is the one table of failures that a client must be told about.
//
// Each Kind is a row: its name, the Kafka error code, and whether trying again can help; felix.go has the same kind's code, retry class
// and reason on the native wire. Packages make their errors with
// New, or give a typed error a Kind method; front ends call Of and write no code by hand. Where an API or an old
// version needs another code, kafkaproto maps by (kind, API, version) in one function.
//
// It is a leaf: it imports nothing of ours, so data-carrying errors (NotLeaderError, RangeError, RecordError) hold plain
// integers. All values are immutable after construction and safe for concurrent use.
//
// Sources: Kafka protocol error codes; the core rows of the style guide; spec/felix-wire.md section 5.
package errcode
