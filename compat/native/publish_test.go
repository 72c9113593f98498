package native

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestConnect connects without ALPN, which is the client's default, and with it.
func TestConnect(t *testing.T) {
	each(t, func(t *testing.T, a *agent) {
		for name, alpn := range map[string]bool{"without-alpn": false, "with-alpn": true} {
			t.Run(name, func(t *testing.T) {
				c := suite.server.connection(name)
				c["offer_alpn"] = alpn
				a.call(t, "connect", c)
				got := a.call(t, "endpoints", request{"client": name}).Endpoints
				if len(got) != 1 || got[0] != suite.server.Bound("native") {
					t.Errorf("endpoints %q, want the listener's alone", got)
				}
				stream := suite.server.durable(t, 1)
				res := a.call(t, "publish", request{"client": name, "stream": stream, "payloads": payloads("x", 1)})
				wantOffsets(t, res.Offsets, 0, 1)
			})
		}
	})
}

// TestPublish publishes in each ack mode, with and without a key, one by one and together, and reads it all back in order.
func TestPublish(t *testing.T) {
	cases := []struct {
		name    string
		request request
		durable bool
		offsets bool // the client is told them
	}{
		{"per_message", request{}, true, true},
		{"per_batch", request{"ack": "per_batch"}, true, true},
		{"none", request{"ack": "none"}, true, false},
		{"at_least_once", request{"at_least_once": true}, true, true},
		{"keyed", request{"key": []byte("k0")}, true, true},
		{"keyed-batch", request{"key": []byte("k0"), "ack": "per_batch"}, true, true},
		{"keyed-none", request{"key": []byte("k0"), "ack": "none"}, true, false},
		{"keyed-empty", request{"key": []byte{}}, true, true},
		{"ephemeral", request{}, false, false},
		{"ephemeral-none", request{"ack": "none"}, false, false},
	}
	each(t, func(t *testing.T, a *agent) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				create, first := suite.server.ephemeral, int64(-1)
				if c.durable {
					create, first = func(t *testing.T) string { t.Helper(); return suite.server.durable(t, 1) }, 0
				}
				stream := create(t)
				a.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream})
				want := payloads(c.name, 5)
				publish := request{"client": "dev", "stream": stream, "payloads": want}
				for k, v := range c.request {
					publish[k] = v
				}
				res := a.call(t, "publish", publish)
				if c.offsets {
					wantOffsets(t, res.Offsets, 0, len(want))
				} else {
					for i, o := range res.Offsets {
						if o != nil {
							t.Errorf("publish %d: offset %d, want none", i, *o)
						}
					}
				}
				got := a.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 10}).Events
				wantEvents(t, got, first, want...)
				a.call(t, "close", request{"subscription": stream})
			})
		}
	})
}

// TestPublishTogether has a hundred publishes on their way at once: each is answered with an offset of its own, and what the subscriber
// gets is in the order of the offsets.
func TestPublishTogether(t *testing.T) {
	stream := suite.server.durable(t, 1)
	const n = 100
	sent := payloads("p", n)
	res := suite.async.call(t, "publish_together", request{"client": "dev", "stream": stream, "payloads": sent})
	suite.async.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
	got := suite.async.call(t, "next", request{"subscription": stream, "count": n, "timeout": 20}).Events
	inOrder := make([][]byte, n)
	for i, o := range res.Offsets {
		if o == nil || *o < 0 || *o >= n || inOrder[*o] != nil {
			t.Fatalf("publish %d at offset %s: missing, out of range or given twice", i, offsetText(o))
		}
		inOrder[*o] = sent[i]
	}
	wantEvents(t, got, 0, inOrder...)
}

// TestLargePayload takes a payload of 8 MB there and back.
func TestLargePayload(t *testing.T) {
	stream := suite.server.durable(t, 1)
	want := make([]byte, 8_000_000)
	for i := range want {
		want[i] = byte(i * 7)
	}
	res := suite.sync.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": [][]byte{want}})
	wantOffsets(t, res.Offsets, 0, 1)
	suite.sync.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
	wantEvents(t, suite.sync.call(t, "next", request{"subscription": stream, "count": 1, "timeout": 20}).Events, 0, want)
}

// TestKafkaAndNative writes alternately as a Kafka producer and as a native publisher, and reads as both: the same records at the same
// offsets.
func TestKafkaAndNative(t *testing.T) {
	each(t, func(t *testing.T, a *agent) {
		stream := suite.server.durable(t, 1)
		a.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream})
		var want [][]byte
		for i, p := range payloads("r", 10) {
			want = append(want, p)
			if i%2 == 0 {
				if o := suite.server.produce(t, stream, 0, p); o[0] != int64(i) {
					t.Fatalf("produced at %d, want %d", o[0], i)
				}
				continue
			}
			res := a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": [][]byte{p}, "key": []byte("k")})
			wantOffsets(t, res.Offsets, int64(i), 1)
		}
		wantEvents(t, a.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 10}).Events, 0, want...)

		cl := suite.server.kafka(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{stream: {0: kgo.NewOffset().AtStart()}}))
		var read []*kgo.Record
		for len(read) < len(want) {
			fetches := cl.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			read = append(read, fetches.Records()...)
		}
		for i, r := range read {
			if r.Offset != int64(i) || string(r.Value) != string(want[i]) {
				t.Errorf("Kafka reads %q at %d, want %q at %d", r.Value, r.Offset, want[i], i)
			}
			if native := i%2 == 1; native != (string(r.Key) == "k") {
				t.Errorf("record %d has key %q", i, r.Key)
			}
		}
	})
}

// TestCompressedForNative has a Kafka producer compress its batches: the native subscriber gets the records.
func TestCompressedForNative(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			stream := suite.server.durable(t, 1)
			cl := suite.server.kafka(t, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0))
			want := payloads("the same again, the same again, the same again", 50)
			records := make([]*kgo.Record, len(want))
			for i, v := range want {
				records[i] = &kgo.Record{Topic: stream, Value: v}
			}
			if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			suite.sync.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
			got := suite.sync.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 10}).Events
			wantEvents(t, got, 0, want...)
		})
	}
}
