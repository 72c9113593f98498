// Package recordbatch is the codec of the record batch, format v2: the unit on disk and on every wire. It parses, checks, reads,
// builds and rewrites batches. It is pure: no IO, no clock, no goroutine. Offsets and epochs are plain integers here, as on the
// wire.
//
// # What is where
//
//   - header.go: the 61 bytes before the records, and the fields that a broker patches in place. crc.go: the checksum.
//   - split.go: which bytes of a produce request are the batch. validate.go: what a broker checks before it appends one.
//   - record.go, iter.go: one record, and all of an opened batch without an allocation a record. reader.go: the same in pieces, for
//     batches that are large once decompressed.
//   - codec.go and a file a codec: compression, every decode under a limit.
//   - builder.go: new batches. rewrite.go: batches made from batches, by compaction and for compression.type.
//
// # Invariants
//
//   - No input makes a function panic or allocate more than a small multiple of the input or of the limit that was given.
//     Every length, count and size in the input is a claim and is checked against the bytes that are there before it is used.
//   - What Iterator and RecordReader yield has been checked whole: a Record's headers never fail later.
//   - Slices that come out of parsing point into what was parsed. The caller owns the bytes before and after and must not change
//     them while it uses the slices.
//   - Null and empty differ everywhere: null is a nil slice, empty is a slice of length 0 that is not nil.
//   - Functions that take dst append to it and return the extended slice; dst must not overlap the source.
//
// All functions may be called concurrently on different data. Values are not safe for concurrent use.
//
// # Sources
//
// Kafka protocol, Record Batch; KIP-98 (format v2), KIP-534 (delete horizon), KIP-110 (zstd); spec/kafka.md section 3; RFC 1952
// (gzip), RFC 8878 (zstd), the LZ4 frame format 1.6.3, the Snappy format and xerial's framing of it.
//
// # Non-obvious
//
//   - Base offset, length, leader epoch and magic lie outside the checksum. A broker patches the first and the third without
//     touching it, and a flipped bit there is not found by it.
//   - last_offset_delta counts offsets, records_count counts records present: after compaction they differ, and a batch may hold no
//     record at all.
//   - base_timestamp is the delete horizon when bit 6 of the attributes is set. Record timestamps are deltas to it all the same,
//     so a rewrite that sets the horizon must move every delta.
//   - Under LogAppendTime every record has the batch's max_timestamp, whatever its own delta says.
//   - Snappy comes raw (librdkafka, franz-go) or in xerial's framing (Java, sarama). Only the eight magic bytes tell; the version
//     fields behind them have been written in both byte orders.
//   - The lz4 library's pooled Reader keeps the last 64 KiB that it decoded as a dictionary over Reset, and a crafted frame can
//     copy from it: bytes of another tenant. So frames are decoded here, block by block, with a dictionary that begins with the
//     batch.
//   - gzip allows any number of empty members, and lz4 and zstd any number of empty or skipped frames: input that costs time and
//     decodes to nothing. Their number is limited.
//   - A zstd frame made by a streaming encoder at a high level declares a window of up to 128 MiB for a few bytes. Refusing by
//     declared window alone would refuse real producers.
package recordbatch
