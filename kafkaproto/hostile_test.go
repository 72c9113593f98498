package kafkaproto

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

func TestTLS(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.TLSConfig = selfSigned(t) })
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	c := h.dial()
	c.nc = tls.Client(c.nc, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is the test's own
	for i := range 3 {
		resp := c.ask(produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 200_000)))).(*kmsg.ProduceResponse)
		if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Errorf("produce: %+v", got)
		}
	}
	fetch := fetchRequestFor("a", 0)
	if got := c.ask(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(got.RecordBatches) < 600_000 {
		t.Errorf("fetch: %d bytes", len(got.RecordBatches))
	}
	fetch.Topics[0].Partitions[0].FetchOffset, fetch.MaxWaitMillis = 3, 20_000
	id := c.send(fetch)
	eventually(t, "it waits", func() bool { return sh.waiting() == 1 })
	produced(t, sh, "x")
	if got := c.receive(fetch, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(got.RecordBatches) == 0 {
		t.Error("the waiting fetch got nothing")
	}
	plain := h.dial() // row 77
	plain.write(encode(kmsg.NewPtrMetadataRequest(), 1))
	_ = plain.nc.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 64)
	for {
		n, err := plain.nc.Read(buf)
		if n > 0 && buf[0] != 21 { // a TLS alert may come first
			t.Errorf("plaintext on a TLS listener was answered: %x", buf[:n])
		}
		if err != nil {
			break
		}
	}
}

func TestTLSWithoutHandshake(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.TLSConfig, o.AuthTimeout = selfSigned(t), 2*time.Second })
	c := h.dial()
	c.nc = tls.Client(c.nc, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is the test's own
	c.ask(kmsg.NewPtrMetadataRequest())
	h.dial().wantClosed() // which takes longer than the first connection has left
	c.ask(kmsg.NewPtrMetadataRequest())
}

func TestTLSToPlaintext(t *testing.T) { // row 77
	h := newHarness(t, nil)
	c := h.dial()
	if err := tls.Client(c.nc, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); err == nil { //nolint:gosec // it must fail
		t.Error("a TLS handshake on a plaintext listener succeeded")
	}
}

// TestClaimedSizesTakeNoMemory: connections that claim large requests and send little of them hold little, and do not keep others
// from working.
func TestClaimedSizesTakeNoMemory(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MemoryBudgetBytes = 32 << 20 })
	h.node.add("default", "a", 1)
	for range 50 {
		c := h.dial()
		b := binary.BigEndian.AppendUint32(nil, 90<<20)
		c.write(append(b, make([]byte, 10_000)...))
	}
	eventually(t, "all are being read", func() bool { return h.srv.requests.used.Load() >= 50*unproven })
	if used := h.srv.requests.used.Load(); used > 50*unproven {
		t.Errorf("%d bytes set aside for 500,000 sent", used)
	}
	c := h.dial()
	for range 20 {
		c.ask(produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 100_000))))
	}
}

// TestLargeRequestsShareTheBudget: more and larger requests than the budget holds at a time all get through.
func TestLargeRequestsShareTheBudget(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MemoryBudgetBytes = 4 << 20 })
	topic := h.node.add("default", "a", 1)
	batch := makeBatch(t, 1, make([]byte, 1500_000))
	var wg sync.WaitGroup
	for range 8 {
		c := h.dial()
		wg.Go(func() {
			for range 3 {
				req := produceRequestFor("a", 0, batch)
				req.Acks = 1
				if got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	wg.Wait()
	if got := h.node.shard(topic, 0).Bounds().End; got != 24 {
		t.Errorf("log end %d, want 24", got)
	}
}

// TestPipeliningIsBounded: a client that sends requests and takes no answers stops being read.
func TestPipeliningIsBounded(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	sh.manual()
	c := h.dial()
	one := encode(produceRequestFor("a", 0, makeBatch(t, 1, nil)), 1)
	for range 2 * maxPending {
		c.write(one)
	}
	eventually(t, "the line is full", func() bool { return sh.waiting() == maxPending })
	time.Sleep(20 * time.Millisecond)
	if got := sh.Bounds().End; got != maxPending {
		t.Errorf("%d requests were read, want %d", got, maxPending)
	}
	sh.mu.Lock()
	sh.commit = true
	sh.mu.Unlock()
	sh.commitTo(maxPending)
	for range 2 * maxPending {
		c.receive(produceRequestFor("a", 0, nil), 1)
	}
}

func TestConcurrentClients(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 4)
	var wg sync.WaitGroup
	for i := range 8 {
		c := h.dial()
		wg.Go(func() {
			for range 50 {
				req := produceRequestFor("a", int32(i%4), makeBatch(t, 1, []byte("value")))
				if i%2 == 0 {
					req.Acks = 1
				}
				if got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
					t.Errorf("produce: %+v", got)
				}
			}
		})
	}
	for i := range int32(4) {
		c := h.dial()
		wg.Go(func() {
			req := fetchRequestFor("a", i)
			req.MaxWaitMillis = 100
			for next := int64(0); next < 100; {
				req.Topics[0].Partitions[0].FetchOffset = next
				p := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
				if p.ErrorCode != 0 {
					t.Errorf("fetch: %+v", p)
					return
				}
				records, _ := surveyBatches(p.RecordBatches)
				next += int64(records)
			}
		})
	}
	wg.Wait()
	for i := range int32(4) {
		if got := h.node.shard(topic, i).Bounds().End; got != 100 {
			t.Errorf("partition %d ends at %d, want 100", i, got)
		}
	}
}
