// Package log is one copy of one shard on disk.
package log
