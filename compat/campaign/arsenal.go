package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

const (
	// bombBytes is what a bomb decodes to: over the default bound of 16 MiB a batch, and in snappy, which packs zeros the least,
	// still under the 1 MiB that a topic takes.
	bombBytes = 17 << 20
	// frameLimit is the largest frame that the server takes, by default.
	frameLimit = 100 << 20
	// flatBytes is how many elements of one byte a request claims and brings.
	flatBytes = 64 << 10
)

// arsenal is the prepared ways to be hostile with one frame. It does not change once made, and is shared.
type arsenal struct {
	topic  string
	opened string // a topic whose batches the server opens when they come
	served []kmsg.ApiVersionsResponseApiKey
	bombs  [][]byte // whole frames, of batches that decode to more than the server opens
	only   string   // the one kind of frame to draw; empty for all
	good   []byte   // a small valid batch
}

// newArsenal prepares a crowd's frames; valid crowds need none.
func newArsenal(o crowdOptions) (*arsenal, error) {
	a := &arsenal{topic: o.Topic, opened: o.Opened, only: o.Only}
	if o.Kind != phaseHostile {
		return a, nil
	}
	c, err := raw.Dial(o.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	resp, err := c.Do(kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return nil, fmt.Errorf("which APIs are served: %w", err)
	}
	a.served = resp.(*kmsg.ApiVersionsResponse).ApiKeys
	a.prepare()
	return a, nil
}

// prepare makes the frames that take long to make.
func (a *arsenal) prepare() {
	a.good = raw.NewBatch(1, raw.Values("hostile")...).Encode()
	zeros := raw.NewBatch(1, raw.Record{Value: make([]byte, bombBytes)})
	for _, codec := range []raw.Codec{raw.Gzip, raw.Snappy, raw.Lz4, raw.Zstd} {
		// A log that is not compacted stores what it was given, opened or not; to a compacted one the bomb must be refused.
		zeros.Codec = codec
		bomb := zeros.Encode()
		a.bombs = append(a.bombs, a.produce(a.topic, bomb), a.produce(a.opened, bomb))
	}
}

// produce is a produce request to the attacked partition of a topic.
func (a *arsenal) produce(topic string, batch []byte) []byte {
	req := produceTo(topic, 1, batch)
	return request(req.Key(), req.Version, true, req.AppendTo(nil))
}

// request is a frame with a header and any body.
func request(key, version int16, flexible bool, body []byte) []byte {
	id := "hostile"
	return raw.Frame(append(raw.AppendHeader(nil, key, version, 7, &id, flexible), body...))
}

// frameKinds are the kinds of frame; a malformed request comes twice as often as any other, since it stands for every API.
var frameKinds = []string{"size", "garbage", "malformed", "malformed", "count", "tags", "crc", "bomb"}

// frame draws one hostile frame and names its kind.
func (a *arsenal) frame(random *rand.Rand) (string, []byte) {
	kind := frameKinds[random.IntN(len(frameKinds))]
	if a.only != "" {
		kind = a.only
	}
	switch kind {
	case "size":
		return kind, a.size(random)
	case "garbage":
		return kind, garbage(random)
	case "malformed":
		return kind, a.malformed(random)
	case "count":
		return kind, counts(random)
	case "tags":
		return kind, tags(random)
	case "crc":
		return kind, a.broken(random)
	default:
		return kind, a.bombs[random.IntN(len(a.bombs))]
	}
}

// size is a frame whose length is a lie that can be seen at once.
func (a *arsenal) size(random *rand.Rand) []byte {
	switch random.IntN(4) {
	case 0:
		return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	case 1:
		return []byte{22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3} // a TLS handshake
	default:
		sizes := []uint32{0, 1, 4, 0xffffffff, 0x80000000, frameLimit + 1, 0x7fffffff}
		return append(binary.BigEndian.AppendUint32(nil, sizes[random.IntN(len(sizes))]), 0, 3, 0, 9)
	}
}

// garbage is random bytes in a frame, mostly of an API and version that exist.
func garbage(random *rand.Rand) []byte {
	b := make([]byte, 8+random.IntN(400))
	for i := range b {
		b[i] = byte(random.UintN(256))
	}
	binary.BigEndian.PutUint16(b, uint16(random.UintN(95)))
	binary.BigEndian.PutUint16(b[2:], uint16(random.UintN(12)))
	return raw.Frame(b)
}

// malformed is a request of any served API and version, damaged after its API key and version.
func (a *arsenal) malformed(random *rand.Rand) []byte {
	req, version := kmsg.Request(nil), int16(0)
	for req == nil {
		api := a.served[random.IntN(len(a.served))]
		req = kmsg.RequestForKey(api.ApiKey)
		version = api.MinVersion + int16(random.IntN(int(api.MaxVersion-api.MinVersion)+1))
	}
	// Where the body of an untouched request is nearly empty there is little to damage. Requests that change topics stay empty: a
	// damaged one could still be a valid one.
	switch req.Key() {
	case int16(kmsg.Produce):
		req = produceTo(a.topic, 1, a.good)
	case int16(kmsg.Fetch):
		req = fetchFrom(a.topic, 1)
	case int16(kmsg.Metadata):
		req = metadataOf(a.topic)
	}
	req.SetVersion(version)
	frame := request(req.Key(), version, req.IsFlexible(), req.AppendTo(nil))
	return raw.Frame(damage(random, frame[4:]))
}

// damage changes a request's bytes from its correlation id on.
func damage(random *rand.Rand, b []byte) []byte {
	const kept = 4 // API key and version
	at := func() int { return kept + random.IntN(len(b)-kept) }
	switch random.IntN(5) {
	case 0:
		return b[:max(at(), 8)]
	case 1:
		for range 1 + random.IntN(8) {
			b[at()] ^= 1 << random.UintN(8)
		}
		return b
	case 2:
		return slices.Insert(b, at(), 0xff, 0xff, 0xff, 0xff, 0x0f)
	case 3:
		i := min(at(), len(b)-4)
		binary.BigEndian.PutUint32(b[i:], 0x7fffffff)
		return b
	default:
		i := at()
		return slices.Delete(b, i, min(i+1+random.IntN(4), len(b)))
	}
}

// counts claims far more elements than there are bytes, or elements of no substance.
func counts(random *rand.Rand) []byte {
	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	switch random.IntN(5) {
	case 0: // Metadata: topics
		return request(3, 1, false, append(huge, 0, 1, 'a'))
	case 1: // Produce: partitions
		return request(0, 3, false, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0x13, 0x88, 0, 0, 0, 1, 0, 1, 'a'}, huge...))
	case 2: // CreateTopics: configs
		return request(19, 2, false, append([]byte{0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, huge...))
	case 3: // Fetch: topics
		return request(1, 4, false, append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}, 0x10, 0, 0, 0))
	default: // Metadata: as many topics as bytes, none of which can be one
		return request(3, 9, true, append(binary.AppendUvarint(nil, flatBytes+1), make([]byte, flatBytes)...))
	}
}

// tags claims far more tagged fields than there are bytes: in the header, in a body, in a struct of the body.
func tags(random *rand.Rand) []byte {
	id := "hostile"
	count := binary.AppendUvarint(nil, []uint64{1 << 28, 1<<32 - 1}[random.IntN(2)])
	switch random.IntN(3) {
	case 0:
		return raw.Frame(append(raw.AppendHeader(nil, 3, 12, 7, &id, false), count...))
	case 1:
		return request(18, 3, true, append([]byte{2, 'a', 2, 'b'}, count...))
	default:
		return request(3, 12, true, append(append([]byte{2}, append(make([]byte, 16), 2, 'a')...), count...))
	}
}

// broken is a batch whose checksum does not fit, or whose header does not fit its records although the checksum does.
func (a *arsenal) broken(random *rand.Rand) []byte {
	b := slices.Clone(a.good)
	switch random.IntN(3) {
	case 0:
		b[21+random.IntN(len(b)-21)] ^= 1 << random.UintN(8)
	case 1:
		binary.BigEndian.PutUint32(b[57:], 0x7fffffff) // records
		raw.Seal(b)
	default:
		binary.BigEndian.PutUint32(b[8:], random.Uint32()) // length
	}
	return a.produce(a.topic, b)
}

// beginning is the start of a frame that never ends: a large claim and little of it, or a request cut anywhere.
func (a *arsenal) beginning(random *rand.Rand) []byte {
	if random.IntN(2) == 0 {
		claim := 1<<20 + uint32(random.Int64N(frameLimit-1<<20))
		return append(binary.BigEndian.AppendUint32(nil, claim), a.produce(a.topic, a.good)[4:]...)
	}
	frame := a.produce(a.topic, a.good)
	return frame[:1+random.IntN(len(frame)-1)]
}
