package kafkaproto

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that takes nothing for many ticks of the writer, and then all: nothing is lost on the way.
func TestPausedReaderGetsItsAnswer(t *testing.T) {
	for name, secure := range map[string]bool{"plaintext": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(o *Options) {
				o.writeTick = 5 * time.Millisecond
				if secure {
					o.TLSConfig = selfSigned(t)
				}
			})
			sh := h.node.shard(h.node.add("default", "a", 1), 0)
			stored := 0
			for range 16 {
				stored += len(produced(t, sh, string(make([]byte, 1<<20))))
			}
			c := h.pausing(t, secure)
			fetch := fetchRequestFor("a", 0)
			fetch.MaxBytes, fetch.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
			id := c.send(fetch)
			eventually(t, "the answer is owed", func() bool { return h.srv.answers.used.Load() >= int64(stored) })
			began := time.Now()
			eventually(t, "many ticks pass", func() bool { return time.Since(began) > 200*time.Millisecond })
			if n := len(c.receive(fetch, id).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches); n != stored {
				t.Errorf("%d bytes, want %d", n, stored)
			}
			// The tick that the last write was given passes with nothing to write; the next answer is not measured by it.
			began = time.Now()
			eventually(t, "many ticks pass", func() bool { return time.Since(began) > 50*time.Millisecond })
			if n := len(c.ask(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches); n != stored {
				t.Errorf("after a pause: %d bytes, want %d", n, stored)
			}
		})
	}
}

func TestPausedReaderIsGivenUpForMemory(t *testing.T) {
	for name, secure := range map[string]bool{"plaintext": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(o *Options) {
				o.writeTick = 5 * time.Millisecond
				if secure {
					o.TLSConfig = selfSigned(t)
				}
			})
			sh := h.node.shard(h.node.add("default", "a", 1), 0)
			for range 16 {
				produced(t, sh, string(make([]byte, 1<<20)))
			}
			c := h.pausing(t, secure)
			fetch := fetchRequestFor("a", 0)
			fetch.MaxBytes, fetch.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
			c.send(fetch)
			eventually(t, "the answer is owed", func() bool { return h.srv.answers.used.Load() > 0 })
			h.srv.answers.force(h.srv.answers.limit)
			eventually(t, "its memory is given back", func() bool { return h.srv.answers.used.Load() == h.srv.answers.limit })
			h.srv.answers.put(h.srv.answers.limit)
		})
	}
}

// pausing dials with a small buffer, so that little is taken unless the client reads.
func (h *harness) pausing(t *testing.T, secure bool) *client {
	t.Helper()
	c := h.dial()
	if err := c.nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if secure {
		c.nc = tls.Client(c.nc, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is the test's own
	}
	return c
}
