package kafkaproto

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

func TestAPIVersions(t *testing.T) {
	h := newHarness(t, nil)
	c := h.dial()
	for version := int16(0); version <= 4; version++ { // case 1
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(version)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test-client", "1.0"
		resp := c.ask(req).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(h.srv.apis.rows) {
			t.Fatalf("v%d: error %d, %d keys, want 0 and %d", version, resp.ErrorCode, len(resp.ApiKeys), len(h.srv.apis.rows))
		}
		if k := resp.ApiKeys[0]; k.ApiKey != 0 || k.MinVersion != 0 || k.MaxVersion != 13 {
			t.Errorf("v%d: Produce %d to %d, want 0 to 13 (trap 1)", version, k.MinVersion, k.MaxVersion)
		}
	}
}

func TestAPIVersionsAboveTheServed(t *testing.T) { // case 2
	h := newHarness(t, nil)
	c := h.dial()
	c.write([]byte{0, 0, 0, 16, 0, 18, 0, 99, 0, 0, 0, 77, 1, 2, 3, 4, 5, 6, 7, 8})
	b := c.frame()
	if binary.BigEndian.Uint32(b) != 77 {
		t.Fatalf("correlation id in %x", b)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	if err := resp.ReadFrom(b[4:]); err != nil {
		t.Fatal(err)
	}
	if len(b) != 4+2+4+6 || resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 4 {
		t.Fatalf("answer %x, want error 35 and key 18 alone in the layout of version 0", b)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(4)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "x", "y"
	if resp := c.ask(req).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 {
		t.Errorf("following v4: error %d", resp.ErrorCode)
	}
}

func TestAPIVersionsSoftwareName(t *testing.T) { // case 3
	h := newHarness(t, nil)
	c := h.dial()
	for _, name := range []string{"", "-a", "a-", "a b", "a/b"} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(3)
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, "1"
		if resp := c.ask(req).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 42 {
			t.Errorf("name %q: error %d, want 42", name, resp.ErrorCode)
		}
	}
}

func TestRefusedRequests(t *testing.T) { // cases 4 to 6
	header := func(key, version int16, body ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 1, 0, 1, 'c')
		b = append(b, body...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	cases := []struct {
		name  string
		bytes []byte
	}{
		{"unknown key", header(999, 0)},
		{"negative key", header(-1, 0)},
		{"produce v1", header(0, 1)},
		{"fetch v3", header(1, 3)},
		{"metadata v99", header(3, 99)},
		{"size -1", []byte{0xff, 0xff, 0xff, 0xff}},
		{"size 0", []byte{0, 0, 0, 0}},
		{"size 4", []byte{0, 0, 0, 4, 0, 3, 0, 0}},
		{"size above the limit", []byte{0x06, 0x40, 0, 1}},
		{"http", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"array count", header(3, 1, 0x7f, 0xff, 0xff, 0xff)},
		{"tags in the header", header(3, 9, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"tags in the body", header(3, 9, 0, 1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"produce without a body", header(0, 9, 0)},
		{"fetch without a body", header(1, 12, 0)},
		{"produce with a count beyond its bytes", header(0, 3, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0, 0, 0)},
	}
	h := newHarness(t, nil)
	other := h.dial()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := h.dial()
			c.write(tc.bytes)
			c.wantClosed()
		})
	}
	if resp := other.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse); len(resp.Brokers) != 2 {
		t.Error("the other connection is disturbed")
	}
}

func TestConnectionCap(t *testing.T) { // case 14
	h := newHarness(t, func(o *Options) { o.MaxConnections = 3 })
	var held []*client
	for range 3 {
		c := h.dial()
		c.ask(kmsg.NewPtrMetadataRequest())
		held = append(held, c)
	}
	for range 5 {
		h.dial().wantClosed()
	}
	held[0].ask(kmsg.NewPtrMetadataRequest())
	held[1].nc.Close()
	eventually(t, "the closed connection makes room", func() bool {
		h.srv.mu.Lock()
		defer h.srv.mu.Unlock()
		return h.srv.conns.n == 2
	})
	h.dial().ask(kmsg.NewPtrMetadataRequest())
}

func TestPipelinedAnswersKeepOrder(t *testing.T) { // case 7
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	c := h.dial()
	metadata := kmsg.NewPtrMetadataRequest()
	fetch := fetchRequestFor("a", 0)
	fetch.MaxWaitMillis, fetch.MinBytes = 300, 1
	silent := produceRequestFor("a", 0, makeBatch(t, 1, []byte("x")))
	silent.Acks = 0
	loud := produceRequestFor("a", 0, makeBatch(t, 1, []byte("y")))
	var b []byte
	reqs := []kmsg.Request{metadata, fetch, silent, metadata, loud, fetch, metadata}
	for i, req := range reqs {
		b = append(b, encode(req, int32(i))...)
	}
	c.write(b)
	for i, req := range reqs {
		if req != kmsg.Request(silent) {
			c.receive(req, int32(i))
		}
	}
	c.wantSilent()
}

func TestRequestInPieces(t *testing.T) {
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	c := h.dial()
	req := produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 300_000)))
	b := encode(req, 1)
	for len(b) > 0 {
		n := min(len(b), 70_000)
		c.write(b[:n])
		b = b[n:]
		time.Sleep(time.Millisecond)
	}
	resp := c.receive(req, 1).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("error %d", code)
	}
}

func TestCloseAnswersWhatIsOwed(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	sh.manual()
	waiting := h.dial()
	fetch := fetchRequestFor("a", 0)
	fetch.MaxWaitMillis, fetch.MinBytes = 20_000, 1
	waiting.send(fetch)
	producing := h.dial()
	produce := produceRequestFor("a", 0, makeBatch(t, 1, []byte("x")))
	producing.send(produce)
	idle := h.dial()
	idle.ask(kmsg.NewPtrMetadataRequest())
	eventually(t, "both wait", func() bool { return sh.waiting() == 2 })

	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- h.srv.Close(ctx)
	}()
	if resp := waiting.receive(fetch, 1).(*kmsg.FetchResponse); len(resp.Topics) != 1 {
		t.Error("the waiting fetch is answered without its partition")
	}
	waiting.wantClosed()
	idle.wantClosed()
	producing.wantSilent()
	sh.commitTo(1)
	if resp := producing.receive(produce, 1).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Error("the produce that was owed an answer failed")
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestCloseCutsOffAtItsDeadline(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.CommitTimeout = time.Minute })
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	sh.manual()
	c := h.dial()
	req := produceRequestFor("a", 0, makeBatch(t, 1, []byte("x")))
	req.TimeoutMillis = 60_000
	c.send(req)
	eventually(t, "the produce waits", func() bool { return sh.waiting() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := h.srv.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want a deadline error", err)
	}
	c.wantClosed()
	if sh.waiting() != 0 {
		t.Error("a waiter is left behind")
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.IdleTimeout = 30 * time.Millisecond })
	c := h.dial()
	c.ask(kmsg.NewPtrMetadataRequest())
	h.srv.mu.Lock()
	conn := h.srv.conns.first
	h.srv.mu.Unlock()
	_ = conn.nc.SetReadDeadline(time.Now()) // the tick that looks
	c.wantClosed()
}

func TestSlowReaderDoesNotHoldUpOthers(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	producer := h.dial()
	for range 8 {
		resp := producer.ask(produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 1<<20)))).(*kmsg.ProduceResponse)
		if resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatal("produce failed")
		}
	}
	slow := h.dial()
	fetch := fetchRequestFor("a", 0)
	fetch.MaxBytes, fetch.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	for range 4 {
		slow.send(fetch) // 32 MiB of answers that nobody reads
	}
	eventually(t, "answers are owed", func() bool { return h.srv.answers.used.Load() > 8<<20 })
	producer.ask(produceRequestFor("a", 0, makeBatch(t, 1, []byte("x"))))
	if got := h.node.shard(topic, 0).Bounds().End; got != 9 {
		t.Errorf("log end %d, want 9", got)
	}
	for i := range 4 {
		resp := slow.receive(fetch, int32(i+1)).(*kmsg.FetchResponse)
		if n := len(resp.Topics[0].Partitions[0].RecordBatches); n < 8<<20 {
			t.Errorf("answer %d has %d bytes", i, n)
		}
	}
}

func TestWireCodesOfFetchAreTolerable(t *testing.T) {
	tolerated := map[int16]bool{0: true, 6: true, 9: true, 56: true, 74: true, 78: true, 3: true, 100: true, 103: true, 1: true, 29: true, 75: true, -1: true, 2: true}
	topLevel := map[errcode.Kind]bool{
		errcode.FetchSessionIDNotFound: true, errcode.InvalidFetchSessionEpoch: true, errcode.FetchSessionTopicIDError: true,
		errcode.UnsupportedVersion: true,
	}
	for _, k := range errcode.Kinds() {
		for version := int16(4); version <= 18; version++ {
			if code := wireCode(k, keyFetch, version); !tolerated[code] && !topLevel[k] {
				t.Errorf("%v in v%d is %d, which kills Java's consumer", k, version, code)
			}
		}
		if code := wireCode(k, keyProduce, 9); code == 89 {
			t.Errorf("%v is 89 to a producer", k)
		}
	}
}
