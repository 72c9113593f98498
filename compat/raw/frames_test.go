package raw_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

// frameLimit is the largest request that either peer accepts after authentication (design.md decision 12).
const frameLimit = 100 << 20

var _ = register(
	Case{ID: "4.key", What: "raw request with API key 999", Want: "closed, no bytes; others served"},
	Case{ID: "4.produce", What: "raw Produce v1", Want: "closed, no bytes; others served"},
	Case{ID: "4.fetch", What: "raw Fetch v3", Want: "closed, no bytes; others served"},
	Case{ID: "4.metadata", What: "raw Metadata v99", Want: "closed, no bytes; others served"},
	Case{ID: "5.negative", What: "frame size -1", Want: "closed, no bytes"},
	Case{ID: "5.zero", What: "frame size 0", Want: "closed, no bytes"},
	Case{ID: "5.four", What: "frame of 4 bytes", Want: "closed, no bytes"},
	Case{ID: "5.limit", What: "frame size limit + 1 (100 MiB + 1)", Want: "closed, no bytes"},
	Case{
		ID: "5.claim", What: "20 connections that claim 90 MiB each and send ten bytes", Want: "open, little memory",
		OnlyFelix: "a JVM's heap is no measure; Kafka takes the memory at once",
	},
	Case{ID: "5.http", What: "the text `GET / HTTP/1.1`", Want: "closed, no bytes"},
	Case{ID: "6.count", What: "Metadata whose array count exceeds the bytes left", Want: "closed, no bytes; little CPU"},
	Case{ID: "6.header-tags", What: "tag count 2^32-1 in the request header", Want: "closed, no bytes; little CPU"},
	Case{
		ID: "6.body-tags", What: "tag count 2^32-1 in the body of ApiVersions v3", Want: "closed, no bytes; little CPU",
		WantKafka: "answered", Why: "spec/kafka.md 4.1: a body that does not decode closes the connection; Kafka reads the count as -1, so as none",
	},
	Case{
		ID: "6.elements", What: "8 MiB of one-byte array elements in Metadata, 50 connections in parallel", Want: "closed; little CPU; memory within the budget",
		OnlyFelix: "Kafka makes a Java object an element, and its heap of 1 GiB has no room for 50 of these",
	},
	Case{ID: "7.order", What: "ten pipelined requests (Metadata, Fetch that waits 500 ms, ListOffsets, Produce acks=0, ...) in one write", Want: "nine answers in request order, none for acks=0"},
	Case{
		ID: "7.stop", What: "a fetch waits for 20 s and the server is told to stop", Want: "answered, then closed; the server stops within 5 s; its data is there afterwards",
		OnlyFelix: "Kafka closes the connection without an answer",
	},
	Case{ID: "14.surplus", What: "200 connections beyond the limit, then normal use", Want: "surplus closed, existing served, new ones accepted once there is room"},
	Case{ID: "15.franz-go", What: "franz-go with default settings lists topics (the other clients: compat/clients)", Want: "listed"},
	Case{ID: "T16.order", What: "five acks=0 and five acks=1 produces, interleaved, in one write", Want: "five answers in order"},
	Case{ID: "T29.string", What: "a string length beyond the frame, in the header and in the body", Want: "closed, no bytes"},
	Case{ID: "T29.nested", What: "Produce with 2^31-1 partitions claimed; CreateTopics with 2^31-1 configs claimed; Fetch with 2^28 topics claimed", Want: "closed, no bytes; little CPU"},
	Case{ID: "T29.tags", What: "tag count 2^28 in the header, in the body of ApiVersions v3, in a nested struct of Metadata v12", Want: "closed, no bytes; little CPU"},
	Case{ID: "T34.idle", What: "a connection idle for 3 seconds, then a request", Want: "served"},
	Case{ID: "S87.unknown", What: "API key 999: what the connection shows", Want: "closed, no bytes"},
	Case{ID: "4.tags", What: "unknown tagged fields in the header and in the body of Metadata v12", Want: "skipped, answered"},
	Case{ID: "4.trailing", What: "Metadata v12 with bytes after the body", Want: "answered"},
	Case{ID: "4.null-client", What: "null and empty client id", Want: "answered"},
)

// rawRequest is a frame with a header and any body.
func rawRequest(key, version int16, flexible bool, body []byte) []byte {
	id := "raw"
	return raw.Frame(append(raw.AppendHeader(nil, key, version, 7, &id, flexible), body...))
}

// outcomeOf sends bytes on a new connection and says what happened.
func outcomeOf(t *testing.T, frame []byte) string {
	t.Helper()
	c := dial(t)
	if err := c.SendBytes(frame); err != nil {
		return "closed, no bytes" // while we were still writing
	}
	return c.Outcome(closeWait)
}

// cpu is the processor time that the peer used so far; 0 when the process is not ours.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
}

// peakMemory is the largest resident size that the process had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// frugal sends the frame ten times on a connection each and adds whether the server used less than 100 ms for each.
func frugal(t *testing.T, frames ...[]byte) string {
	t.Helper()
	const times = 10
	outcomeOf(t, frames[0]) // a JVM compiles at the first time
	before := cpu(t, server.PID())
	got := ""
	for _, frame := range frames {
		for range times {
			if o := outcomeOf(t, frame); got == "" || got == o {
				got = o
			} else {
				return "once " + got + ", then " + o
			}
		}
	}
	return got + cpuVerdict((cpu(t, server.PID())-before)/time.Duration(times*len(frames)))
}

func cpuVerdict(used time.Duration) string {
	if used >= 100*time.Millisecond {
		return fmt.Sprintf("; %v of CPU each", used)
	}
	return "; little CPU"
}

func TestCase04UnservedRequests(t *testing.T) {
	others := dial(t)
	for id, frame := range map[string][]byte{
		"4.key":      rawRequest(999, 0, false, []byte{0, 0, 0, 0}),
		"4.produce":  rawRequest(0, 1, false, produceRequest(1, 1, "raw.t", part{0, values("x")}).AppendTo(nil)),
		"4.fetch":    rawRequest(1, 3, false, fetchBody(3)),
		"4.metadata": rawRequest(3, 99, true, metadataRequest(12).AppendTo(nil)),
	} {
		got := outcomeOf(t, frame)
		if brokers(others.metadata(12)) == "0, brokers listed" {
			got += "; others served"
		}
		expect(t, id, got)
	}
	expect(t, "S87.unknown", outcomeOf(t, rawRequest(999, 0, false, []byte{0, 0, 0, 0})))
}

func fetchBody(version int16) []byte {
	req := fetchRequest("raw.t", 0, 0)
	req.Version = version
	return req.AppendTo(nil)
}

func TestCase04Tolerance(t *testing.T) {
	body := metadataRequest(12).AppendTo(nil)
	id := "raw"
	header := raw.AppendHeader(nil, 3, 12, 7, &id, true)
	tags := []byte{2, 0x70, 3, 'a', 'b', 'c', 0x81, 0x01, 0} // two: tag 112 of three bytes, tag 129 of none
	expect(t, "4.tags", answered(t, append(append(header[:len(header)-1:len(header)-1], tags...), append(body[:len(body)-1:len(body)-1], tags...)...), "skipped, answered"))
	expect(t, "4.trailing", answered(t, append(header[:len(header):len(header)], append(body, 1, 2, 3)...), "answered"))
	empty := ""
	got := answered(t, append(raw.AppendHeader(nil, 3, 12, 7, nil, true), body...), "answered")
	if got == "answered" {
		got = answered(t, append(raw.AppendHeader(nil, 3, 12, 7, &empty, true), body...), "answered")
	}
	expect(t, "4.null-client", got)
}

// answered sends a Metadata v12 request and returns yes if it was answered with brokers.
func answered(t *testing.T, payload []byte, yes string) string {
	t.Helper()
	c := dial(t)
	if err := c.SendBytes(raw.Frame(payload)); err != nil {
		t.Fatal(err)
	}
	b, err := c.ReadFrame()
	if err != nil {
		return err.Error()
	}
	resp, err := raw.Decode(metadataRequest(12), 7, b)
	if err != nil {
		return err.Error()
	}
	if got := brokers(resp.(*kmsg.MetadataResponse)); got != "0, brokers listed" {
		return got
	}
	return yes
}

func TestCase05FrameSizes(t *testing.T) {
	size := func(n int64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	expect(t, "5.negative", outcomeOf(t, size(-1)))
	expect(t, "5.zero", outcomeOf(t, size(0)))
	expect(t, "5.four", outcomeOf(t, append(size(4), 0, 3, 0, 9)))
	expect(t, "5.limit", outcomeOf(t, append(size(frameLimit+1), 0, 3, 0, 9)))
	expect(t, "5.http", outcomeOf(t, []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")))
}

func TestCase05ClaimedSizes(t *testing.T) {
	if onlyFelix(t, "5.claim") {
		return
	}
	p := startFelix(t, peer.Options{})
	before := peakMemory(t, p.PID())
	clients := make([]*client, 20)
	for i := range clients {
		clients[i] = dialAddr(t, p.Addr())
		if err := clients[i].SendBytes([]byte{5, 0xa0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	got := "open"
	for _, c := range clients {
		if o := c.Outcome(10 * time.Millisecond); o != "open, no bytes" {
			got = o
		}
	}
	if grown := peakMemory(t, p.PID()) - before; grown > 64<<20 {
		got += fmt.Sprintf(", %d MiB", grown>>20)
	} else {
		got += ", little memory"
	}
	expect(t, "5.claim", got)
}

func TestCase06Counts(t *testing.T) {
	count := binary.BigEndian.AppendUint32(nil, 1<<30)
	expect(t, "6.count", frugal(t, rawRequest(3, 1, false, append(count, 0, 1, 'a'))))
	manyTags := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	id := "raw"
	header := raw.AppendHeader(nil, 3, 12, 7, &id, false)
	expect(t, "6.header-tags", frugal(t, raw.Frame(append(header, manyTags...))))
	// ApiVersions is served before authentication, so its body is the first that a stranger can reach.
	body := rawRequest(18, 3, true, append([]byte{2, 'a', 2, 'b'}, manyTags...))
	if server.Kind() == peer.Kafka {
		code := versionsError(t, body)
		if code == 0 {
			expect(t, "6.body-tags", "answered")
		} else {
			expect(t, "6.body-tags", name(code))
		}
		return
	}
	expect(t, "6.body-tags", frugal(t, body))
}

// versionsError sends an ApiVersions request and returns the error code of the answer.
func versionsError(t *testing.T, frame []byte) int16 {
	t.Helper()
	c := dial(t)
	if err := c.SendBytes(frame); err != nil {
		t.Fatal(err)
	}
	b, err := c.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	return int16(binary.BigEndian.Uint16(b[4:]))
}

func TestTrap29TagCounts(t *testing.T) {
	count := binary.AppendUvarint(nil, 1<<28)
	id := "raw"
	header := raw.Frame(append(raw.AppendHeader(nil, 3, 12, 7, &id, false), count...))
	versions := rawRequest(18, 3, true, append([]byte{2, 'a', 2, 'b'}, count...))
	// One topic: no id, the name "a", and then the tags of the topic.
	nested := rawRequest(3, 12, true, append(append([]byte{2}, append(make([]byte, 16), 2, 'a')...), count...))
	expect(t, "T29.tags", frugal(t, header, versions, nested))
}

func TestCase06ManyElements(t *testing.T) {
	if onlyFelix(t, "6.elements") {
		return
	}
	const budget, connections, size = 256 << 20, 50, 8 << 20
	p := startFelix(t, peer.Options{FelixEnv: []string{"FELIX_MEMORY_BUDGET_BYTES=" + strconv.Itoa(budget)}})
	// As many elements as bytes are left, none of which can be a whole element.
	body := append(binary.AppendUvarint(nil, size+1), make([]byte, size)...)
	frame := rawRequest(3, 9, true, body)
	before := cpu(t, p.PID())
	outcomes := make([]string, connections)
	var wait sync.WaitGroup
	for i := range connections {
		c := dialAddr(t, p.Addr())
		wait.Go(func() {
			if err := c.SendBytes(frame); err != nil {
				outcomes[i] = "closed, no bytes"
				return
			}
			outcomes[i] = c.Outcome(raw.Timeout)
		})
	}
	wait.Wait()
	got := "closed"
	for _, o := range outcomes {
		if o != "closed, no bytes" {
			got = o
		}
	}
	got += cpuVerdict((cpu(t, p.PID()) - before) / connections)
	if peak := peakMemory(t, p.PID()); peak > budget+256<<20 {
		got += fmt.Sprintf("; %d MiB of memory", peak>>20)
	} else {
		got += "; memory within the budget"
	}
	expect(t, "6.elements", got)
}

func TestCase07Pipelined(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	wait := fetchRequest(topic, 0, 0)
	wait.MaxWaitMillis, wait.MinBytes = 500, 1<<20
	initPID := kmsg.NewPtrInitProducerIDRequest()
	initPID.Version = 4
	versions := kmsg.NewPtrApiVersionsRequest()
	requests := []kmsg.Request{
		metadataRequest(12, topic), wait, listOffsetsRequest(7, topic, 0, -1),
		produceRequest(9, 0, topic, part{0, values("a", "b")}), metadataRequest(5, topic), versions, initPID,
		fetchRequest(topic, 0, 0), produceRequest(9, -1, topic, part{0, values("c")}), metadataRequest(12),
	}
	got := pipeline(c, requests)
	if got == "" {
		got = "nine answers in request order, none for acks=0"
	}
	expect(t, "7.order", got)
	if s := c.stored(topic, 0); s != "a,b,c" {
		t.Errorf("stored %q", s)
	}
}

// pipeline writes all requests at once and reads the answers in order; it returns what is wrong, or nothing.
func pipeline(c *client, requests []kmsg.Request) string {
	c.t.Helper()
	var all []byte
	ids := make([]int32, len(requests))
	for i, req := range requests {
		frame, id := c.Encode(req)
		all, ids[i] = append(all, frame...), id
	}
	if err := c.SendBytes(all); err != nil {
		c.t.Fatal(err)
	}
	for i, req := range requests {
		if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
			continue
		}
		resp, err := c.Receive(req, ids[i])
		if err != nil {
			return fmt.Sprintf("request %d: %v", i, err)
		}
		if p, ok := resp.(*kmsg.ProduceResponse); ok && p.Topics[0].Partitions[0].ErrorCode != 0 {
			return fmt.Sprintf("request %d: %s", i, name(p.Topics[0].Partitions[0].ErrorCode))
		}
	}
	return ""
}

func TestCase07GracefulStop(t *testing.T) {
	if onlyFelix(t, "7.stop") {
		return
	}
	p := startFelix(t, peer.Options{})
	c := dialAddr(t, p.Addr())
	topic := c.topic(1)
	if code := c.produceAs(9, 1, topic, 0, values("kept")).ErrorCode; code != 0 {
		t.Fatal(name(code))
	}
	wait := fetchRequest(topic, 0, 1)
	wait.MaxWaitMillis = 20_000
	id, err := c.Send(wait)
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Outcome(100 * time.Millisecond); o != "open, no bytes" {
		t.Fatalf("a fetch that should wait: %s", o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	took := timed(func() { err = p.Restart(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	got := "answered"
	if _, err := c.Receive(wait, id); err != nil {
		got = "not answered: " + err.Error()
	}
	state, _, _ := strings.Cut(c.Outcome(closeWait), ",")
	got += ", then " + state
	if took < 5*time.Second {
		got += "; the server stops within 5 s"
	}
	if dialAddr(t, p.Addr()).stored(topic, 0) == "kept" {
		got += "; its data is there afterwards"
	}
	expect(t, "7.stop", got)
}

func TestTrap16NoAnswerToAcks0(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	var requests []kmsg.Request
	for i := range 10 {
		requests = append(requests, produceRequest(9, int16(i%2), topic, part{0, values(strconv.Itoa(i))}))
	}
	got := pipeline(c, requests)
	if got == "" {
		got = "five answers in order"
	}
	expect(t, "T16.order", got)
	if s := c.stored(topic, 0); s != "0,1,2,3,4,5,6,7,8,9" {
		t.Errorf("stored %q", s)
	}
}

func TestCase14ConnectionLimit(t *testing.T) {
	const limit, surplus = 20, 200
	addr := server.Addr()
	if server.Kind() == peer.Felix {
		addr = startFelix(t, peer.Options{FelixEnv: []string{"FELIX_KAFKA_MAX_CONNECTIONS=" + strconv.Itoa(limit)}}).Addr()
	} else {
		admin := kadm.NewClient(franz(t))
		alter := func(op kadm.IncrementalOp) {
			// Connections of other tests count too, so the limit is set while ours are open, and lifted afterwards.
			value := "127.0.0.1:" + strconv.Itoa(limit)
			configs := []kadm.AlterConfig{{Op: op, Name: "max.connections.per.ip.overrides", Value: &value}}
			if _, err := admin.AlterBrokerConfigs(context.Background(), configs, 1); err != nil {
				t.Fatal(err)
			}
		}
		alter(kadm.SetConfig)
		defer alter(kadm.DeleteConfig)
	}
	var existing []*client
	await(t, "the limit to be reached", func() bool {
		c, err := raw.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Do(kmsg.NewPtrApiVersionsRequest()); err != nil {
			return true
		}
		existing = append(existing, &client{t: t, Conn: c})
		return false
	})
	if len(existing) > limit {
		t.Errorf("%d connections served, the limit is %d", len(existing), limit)
	}
	got := "surplus closed"
	for range surplus {
		if o := dialAddr(t, addr).Outcome(closeWait); o != "closed, no bytes" {
			got = o
		}
	}
	served := ", existing served"
	for _, c := range existing {
		if brokers(c.metadata(12)) != "0, brokers listed" {
			served = ", existing not served"
		}
	}
	_ = existing[0].Close()
	await(t, "room for a new connection", func() bool {
		c, err := raw.Dial(addr)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		_, err = c.Do(kmsg.NewPtrApiVersionsRequest())
		return err == nil
	})
	expect(t, "14.surplus", got+served+", new ones accepted once there is room")
}

func TestCase15FranzGo(t *testing.T) {
	topic := dial(t).topic(2)
	ctx, cancel := context.WithTimeout(context.Background(), raw.Timeout)
	defer cancel()
	topics, err := kadm.NewClient(franz(t)).ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := "not listed"
	if d, ok := topics[topic]; ok && d.Err == nil && len(d.Partitions) == 2 {
		got = "listed"
	}
	expect(t, "15.franz-go", got)
}

func TestTrap29Lengths(t *testing.T) {
	// A client id of 32767 bytes in a header of ten, and a topic name of 32767 bytes in a body of four.
	header := []byte{0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff}
	got := outcomeOf(t, raw.Frame(header))
	if got == "closed, no bytes" {
		got = outcomeOf(t, rawRequest(3, 1, false, []byte{0, 0, 0, 1, 0x7f, 0xff, 'a', 'b'}))
	}
	expect(t, "T29.string", got)

	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	produce := append([]byte{0xff, 0xff, 0, 1, 0, 0, 0x13, 0x88, 0, 0, 0, 1, 0, 1, 'a'}, huge...)
	create := append([]byte{0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, huge...)
	fetch := append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}, 0x10, 0, 0, 0)
	expect(t, "T29.nested", frugal(t, rawRequest(0, 3, false, produce), rawRequest(19, 2, false, create), rawRequest(1, 4, false, fetch)))
}

func TestTrap34IdleConnection(t *testing.T) {
	c := dial(t)
	if o := c.Outcome(3 * time.Second); o != "open, no bytes" {
		t.Fatal(o)
	}
	got := "not served"
	if brokers(c.metadata(12)) == "0, brokers listed" {
		got = "served"
	}
	expect(t, "T34.idle", got)
}

// TestGarbageFrames sends a bounded number of frames of random bytes: the server closes or answers, and goes on serving.
func TestGarbageFrames(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		b := make([]byte, 8+rnd.IntN(200))
		for i := range b {
			b[i] = byte(rnd.UintN(256))
		}
		binary.BigEndian.PutUint16(b, uint16(rnd.UintN(80)))    // mostly keys that exist
		binary.BigEndian.PutUint16(b[2:], uint16(rnd.UintN(8))) // and versions
		c := dial(t)
		if err := c.SendBytes(raw.Frame(b)); err != nil {
			t.Fatal(err)
		}
		c.Outcome(20 * time.Millisecond)
	}
	if got := brokers(dial(t).metadata(12)); got != "0, brokers listed" {
		t.Error(got)
	}
}
