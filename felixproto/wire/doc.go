// Package wire is the codec of the native Felix protocol: frames, flags, features, messages, binary batches, error codes and the hash
// that routes a key. It is a leaf that server and client share. It keeps no state, knows no clock and starts no goroutine; the only IO
// is ReadFrame, which reads from what it is given.
//
// # What is where
//
//   - frame.go: the 12 bytes before every payload, and reading a frame. flags.go: which layout a payload has. features.go: the two
//     words of capabilities. codes.go: error codes and retry classes. routing.go: key to shard.
//   - payloads.go: the counted list of payloads that publish and event batches share. publishframe.go, ackframe.go, eventframe.go: the
//     three binary layouts.
//   - message.go: JSON messages, parsed by direction. session.go, discovery.go, publish.go, subscribe.go, cache.go, group.go, commit.go,
//     read.go, inspect.go: the messages, a family a file. Each describes its fields once, for both directions (coder.go). scan.go: the
//     strict JSON scanner below them.
//   - errors.go: what was wrong with an input, and whether its stream may go on.
//
// # Use
//
// A receiver calls ReadFrame, asks Flags.Layout, and gives the payload to ParseRequest (server) or ParseReply (client) for JSON, or to
// ParseBinaryPublish, ParsePublishAck or ParseEventBatch. A sender appends whole frames: AppendMessage, AppendBinaryPublish,
// AppendPublishAck, AppendEventBatch.
//
// # Invariants
//
//   - No input makes a function panic, or allocate more than a small multiple of the bytes that have arrived. Counts and lengths are
//     claims and are checked against the rest of the input, and against a named limit, before anything is made of them.
//   - Whatever is not understood is refused, never masked or skipped: unknown flags, sets of flags that mean nothing, bytes behind a
//     binary payload, unknown values of a closed enumeration. Only unknown keys of a JSON object are ignored, as the protocol grows so.
//   - JSON is exact: keys match byte for byte, no key stands twice in an object, text is valid UTF-8, base64 is padded and has no line
//     breaks, integers are plain and in range. A null reads as an absent field.
//   - What parses encodes to an equal value, and for binary layouts to equal bytes (two documented readings of an ack aside).
//   - Binary parse results point into what was parsed: the caller must not change or reuse the bytes while it uses them. JSON messages
//     own their memory, except Extension.Body.
//   - Publish and event batches are walked without an allocation, and so are they written.
//
// All functions may be called concurrently on different data.
//
// # Sources
//
// spec/felix-wire.md sections 2 to 6, native.md N10 to N26, spec/security.md section 13; RFC 8259 (JSON), RFC 4648 (base64); Lamping and
// Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm".
//
// # Non-obvious
//
//   - The payloads of a publish body and of an event body without timestamps are the same bytes, so a server re-heads a publish: it
//     writes EventHead's bytes and then Payloads.Encoded, and copies no payload.
//   - JSON lists of payloads are decoded into the same form, which costs 4 bytes a payload: a slice of slices would cost 24 for the
//     3 bytes of an empty one.
//   - An empty key is a key, and goes through the hash; only a missing one means shard 0. So nil and empty differ in BinaryPublish.Key.
//   - encoding/json matches keys without regard to case, takes the last of two equal keys, repairs bad UTF-8, and its base64 skips line
//     breaks, which is why it is not used here.
//   - A shard that a request names (FeatureExplicitShard) is an unknown field to who has not agreed to it, and unknown fields are ignored
//     with whatever is in them: ParseRequestWithout must not even refuse one that is no number.
//   - A malformed acked publish whose request id can be read is answered and its stream goes on; any other malformed frame ends it.
package wire
