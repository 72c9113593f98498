package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// largeProduce is a request over two topics, one of them unknown, with batches small and large: 300 KiB in all.
func largeProduce(t *testing.T, version int16, known, unknown *cluster.Topic) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.Acks, req.TimeoutMillis = -1, 5000
	add := func(name string, id [16]byte, sizes ...int) {
		tp := kmsg.NewProduceRequestTopic()
		if version >= 13 {
			tp.TopicID = id
		} else {
			tp.Topic = name
		}
		for i, size := range sizes {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = int32(i), makeBatch(t, 1, make([]byte, size))
			tp.Partitions = append(tp.Partitions, p)
		}
		req.Topics = append(req.Topics, tp)
	}
	add("ns.a.b", known.ID, 1, 200_000, 10, 0)
	add("ns.unknown", unknown.ID, 50_000, 3)
	add("ns.a.b", known.ID, 50_000)
	return req
}

func TestStreamedProduceAnswersAsTheWholeOne(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		var answers []kmsg.Response
		for _, pieces := range []int{0, 1, 7} {
			h := newHarness(t, nil)
			topic := h.node.add("ns", "a.b", 3)
			c := h.dial()
			req := largeProduce(t, version, topic, &cluster.Topic{ID: [16]byte{9}})
			if pieces == 0 { // a client id too long for a streamed header
				b := encodeAs(req, 5, string(make([]byte, 2*streamHeader)))
				c.write(b)
			} else {
				b := encode(req, 5)
				if len(b) < streamFrom {
					t.Fatalf("request of %d bytes would not be streamed", len(b))
				}
				random := rand.New(rand.NewPCG(1, uint64(pieces)))
				for i := 1; i < pieces; i++ {
					n := 1 + random.IntN(min(len(b)-pieces, 60_000))
					c.write(b[:n])
					b = b[n:]
				}
				c.write(b)
			}
			answers = append(answers, c.receive(req, 5))
			for p, want := range []int64{2, 1, 1} {
				if end := h.node.shard(topic, int32(p)).Bounds().End; int64(end) != want {
					t.Errorf("v%d in %d pieces: partition %d ends at %d, want %d", version, pieces, p, end, want)
				}
			}
			// The connection is in step: a small request follows.
			if got := c.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse); len(got.Brokers) == 0 {
				t.Errorf("v%d: no answer after the streamed request", version)
			}
		}
		for _, got := range answers[1:] {
			if diff := cmp.Diff(answers[0], got, cmp.AllowUnexported(kmsg.Tags{})); diff != "" {
				t.Errorf("v%d (-whole +streamed):\n%s", version, diff)
			}
		}
	}
}

func encodeAs(req kmsg.Request, correlation int32, client string) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, correlation)
}

func TestStreamedProduceKeepsTheOrderOfAnswers(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 3)
	c := h.dial()
	req := largeProduce(t, 9, topic, topic)
	silent := largeProduce(t, 9, topic, topic)
	silent.Acks = 0
	silent.Topics = silent.Topics[2:]
	silent.Topics[0].Partitions[0].Records = makeBatch(t, 1, make([]byte, 2*streamFrom))
	meta := kmsg.NewPtrMetadataRequest()
	c.write(bytes.Join([][]byte{encode(meta, 1), encode(req, 2), encode(silent, 3), encode(meta, 4), encode(req, 5)}, nil))
	c.receive(meta, 1)
	c.receive(req, 2)
	c.receive(meta, 4)
	c.receive(req, 5)
	if end := h.node.shard(topic, 0).Bounds().End; end != 5 {
		t.Errorf("partition 0 ends at %d, want 5", end)
	}
}

func TestStreamedProduceRefusedAsAWhole(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 3)
	c := h.dial()
	req := largeProduce(t, 9, topic, topic)
	req.Acks = 2
	resp := c.ask(req).(*kmsg.ProduceResponse)
	for _, tp := range resp.Topics {
		for _, p := range tp.Partitions {
			if p.ErrorCode != errcode.InvalidRequiredAcks.Kafka() {
				t.Errorf("partition %d of %s: error %d, want 21", p.Partition, tp.Topic, p.ErrorCode)
			}
		}
	}
	if end := h.node.shard(topic, 0).Bounds().End; end != 0 {
		t.Errorf("partition 0 ends at %d, want 0", end)
	}
	req.Acks = -1
	id := "tx"
	req.TransactionID = &id
	resp = c.ask(req).(*kmsg.ProduceResponse)
	if got := resp.Topics[0].Partitions[0].ErrorCode; got != errcode.UnauthorizedTransactionalID.Kafka() {
		t.Errorf("transactional: error %d, want 53", got)
	}
}

func TestStreamedProduceOfAcksZeroClosesOnFailure(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 3)
	c := h.dial()
	req := largeProduce(t, 9, topic, topic)
	req.Acks = 0
	c.send(req) // ns.unknown fails
	c.wantClosed()
}

func TestStreamedProduceMalformed(t *testing.T) {
	body := func(f func(b []byte) []byte) []byte {
		h := []byte{0, 0, 0, 3, 0, 0, 0, 7, 0, 1, 'x'} // Produce v3, correlation 7, client x
		return f(h)
	}
	frame := func(b []byte, size int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(size)), b...)
	}
	const size = 2 * streamFrom
	head := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} // no transactional id, acks -1, timeout 0
	pad := make([]byte, size)
	cases := map[string][]byte{
		"topics beyond the bytes": body(func(b []byte) []byte { return append(append(b, head...), 0x7f, 0xff, 0xff, 0xff) }),
		"negative count":          body(func(b []byte) []byte { return append(append(b, head...), 0x80, 0, 0, 0) }),
		"records beyond the bytes": body(func(b []byte) []byte {
			return append(append(b, head...), 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff)
		}),
		"partitions beyond the bytes": body(func(b []byte) []byte { return append(append(b, head...), 0, 0, 0, 1, 0, 1, 'a', 0x10, 0, 0, 0) }),
		"name beyond the bytes":       body(func(b []byte) []byte { return append(append(b, head...), 0, 0, 0, 1, 0x80, 1) }),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.node.add("default", "a", 1)
			c := h.dial()
			c.write(frame(append(b, pad[:size-len(b)]...), size))
			c.wantClosedOrReset()
			h.dial().ask(kmsg.NewPtrMetadataRequest())
		})
	}
}

// wantClosedOrReset is wantClosed for a server that leaves bytes unread.
func (c *client) wantClosedOrReset() {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.nc.Read(make([]byte, 64)); n > 0 || err == nil {
		c.t.Fatalf("read %d bytes, %v; want the connection closed", n, err)
	}
}

func TestStreamedProduceCutOff(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 3)
	c := h.dial()
	b := encode(largeProduce(t, 9, topic, topic), 1)
	c.write(b[:len(b)-20_000])
	// What arrived whole is appended, without waiting for the rest.
	eventually(t, "batches of the part that arrived", func() bool { return h.node.shard(topic, 2).Bounds().End == 1 })
	if err := c.nc.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connection forgotten", func() bool { return h.srv.open() == 0 })
}

// open is how many connections the server knows.
func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns.n
}

func TestCutStreamCommitsWhatItAppended(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.SyncOnCommit = true })
	topic := h.node.add("ns", "a.b", 3)
	sh := h.node.shard(topic, 0)
	b := encode(largeProduce(t, 9, topic, &cluster.Topic{ID: [16]byte{9}}), 1)
	c := h.dial()
	c.write(b[:280_000])
	eventually(t, "the first batch is appended", func() bool { return sh.Bounds().End > 0 })
	c.nc.Close()
	eventually(t, "it is committed", func() bool { return sh.commits.Load() > 0 })
}
