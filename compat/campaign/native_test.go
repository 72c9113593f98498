package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNativeCheck tells the checker of small histories, most of them broken in one way.
func TestNativeCheck(t *testing.T) {
	one, four := nativePlace{"one", 0}, nativePlace{"four", 2}
	for _, c := range []struct {
		name string
		tell func(c *nativeChecker)
		want string // part of the only violation; empty for none
	}{
		{"right", func(c *nativeChecker) {
			first := c.sending(0, 2)
			c.meet(one, 1, nativeValue(0, 1, 50)) // ahead of the follower
			c.follow(one, 0, nativeValue(0, 0, 50))
			c.answered(0, first, 2, fateAcked, 0)
			c.follow(one, 1, nativeValue(0, 1, 50))
			c.follow(one, 0, nativeValue(0, 0, 50)) // another follower
			c.answered(0, first, 2, fateAcked, 0)   // sent again
		}, ""},
		{"unknown-fates", func(c *nativeChecker) {
			c.sending(0, 3)
			c.answered(0, 0, 1, fateUnknown, -1)
			c.follow(one, 0, nativeValue(0, 0, 50))
			c.answered(0, 2, 1, fateRefused, -1)
		}, ""},
		{"skipped-offset", func(c *nativeChecker) {
			c.sending(0, 1)
			c.answered(0, 0, 1, fateAcked, 3)
			c.follow(one, 3, nativeValue(0, 0, 50))
		}, ""},
		{"lost", func(c *nativeChecker) {
			c.sending(0, 1)
			c.answered(0, 0, 1, fateAcked, 0)
		}, "no reader met it"},
		{"other-offset", func(c *nativeChecker) {
			c.sending(0, 1)
			c.answered(0, 0, 1, fateAcked, 1)
			c.follow(one, 0, nativeValue(0, 0, 50))
		}, "acknowledged at 1 and met at 0"},
		{"twice", func(c *nativeChecker) {
			c.sending(1, 1)
			c.follow(nativePlace{"four", 1}, 0, nativeValue(1, 0, 50))
			c.follow(four, 0, nativeValue(1, 0, 50))
		}, "again"},
		{"order", func(c *nativeChecker) {
			c.sending(0, 2)
			c.follow(one, 0, nativeValue(0, 1, 50))
			c.follow(one, 1, nativeValue(0, 0, 50))
		}, "comes after"},
		{"refused-and-applied", func(c *nativeChecker) {
			c.sending(0, 1)
			c.answered(0, 0, 1, fateRefused, -1)
			c.follow(one, 0, nativeValue(0, 0, 50))
		}, "refused with nothing applied"},
		{"readers-differ", func(c *nativeChecker) {
			c.sending(0, 2)
			c.follow(one, 0, nativeValue(0, 0, 50))
			c.meet(one, 0, nativeValue(0, 1, 50))
		}, "for another"},
		{"readers-differ-ahead", func(c *nativeChecker) {
			c.sending(0, 2)
			c.meet(one, 0, nativeValue(0, 1, 50))
			c.follow(one, 0, nativeValue(0, 0, 50))
		}, "for another"},
		{"only-one-reader", func(c *nativeChecker) {
			c.sending(0, 1)
			c.meet(one, 0, nativeValue(0, 0, 50))
		}, "not by those who follow"},
		{"foreign", func(c *nativeChecker) {
			c.sending(0, 1)
			c.follow(four, 0, nativeValue(0, 0, 50))
		}, "nobody sent"},
		{"damaged", func(c *nativeChecker) {
			c.sending(0, 1)
			v := nativeValue(0, 0, 50)
			v[40]++
			c.follow(one, 0, v)
		}, "nobody sent"},
		{"duplicate-at-another-offset", func(c *nativeChecker) {
			c.sending(0, 1)
			c.answered(0, 0, 1, fateAcked, 0)
			c.answered(0, 0, 1, fateAcked, 1)
			c.follow(one, 0, nativeValue(0, 0, 50))
		}, "after another sending"},
		{"without-offset", func(c *nativeChecker) {
			c.sending(0, 1)
			c.follow(one, 0, nativeValue(0, 0, 50))
			c.answered(0, 0, 1, fateAcked, -1)
			c.publishers[0][0].acked = 0
		}, "without an offset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := newNativeChecker()
			for _, stream := range []string{"one", "four"} {
				check.publisher(stream)
			}
			c.tell(check)
			check.end()
			got := check.problems()
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("violations %q, want %q", got, c.want)
			}
		})
	}
}

// TestNativeJudge judges lives that are flat but for one thing.
func TestNativeJudge(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	life := func(change func(i int, s *nativeSample)) []nativeSample {
		out := make([]nativeSample, 30)
		for i := range out {
			out[i] = nativeSample{
				footprint: footprint{resident: 60 << 20, heap: 20 << 20, goroutines: 100, descriptors: 30},
				at:        begin.Add(time.Duration(i) * 2 * time.Second), acked: int64(i * 200),
			}
			if change != nil {
				change(i, &out[i])
			}
		}
		return out
	}
	for _, c := range []struct {
		name  string
		lives [][]nativeSample
		want  string
	}{
		{"flat", [][]nativeSample{life(nil), life(nil)}, ""},
		{"leak", [][]nativeSample{life(func(i int, s *nativeSample) { s.goroutines += float64(5 * i) })}, "goroutines"},
		{"later-life", [][]nativeSample{life(nil), life(func(_ int, s *nativeSample) { s.resident *= 2 })}, "the last third of life 1"},
		{"idle", [][]nativeSample{life(func(i int, s *nativeSample) { s.acked = int64(i * 20) })}, "acknowledgements a second"},
		{"short", [][]nativeSample{life(nil)[:6]}, "nothing was shown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(nativeResult{lives: c.lives, rate: 100}.problems(), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("problems %q, want %q", got, c.want)
			}
		})
	}
}

// TestNativeFrames holds the client's frames against the protocol's worked examples (docs/native-protocol.md).
func TestNativeFrames(t *testing.T) {
	got := fmt.Sprintf("%x", nativePublish{
		request: 7, stream: "demo", key: []byte("k7"), idempotent: true, producer: 0x1122334455667788, sequence: 3, payloads: [][]byte{[]byte("hello")},
	}.appendTo(nil))
	// The same but for its names is in the specification: tenant and namespace are constants here.
	want := "464c583100010149" + "00000042" + "0000000000000007" + "02" + "1122334455667788" + "0000000000000003" + "00026b37" +
		"000764656661756c74" + "000764656661756c74" + "000464656d6f" + "00000001" + "00000005" + "68656c6c6f"
	if got != want {
		t.Errorf("publish\n got %s\nwant %s", got, want)
	}
	a, err := parseAck(0x0610, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x0cshard moving\x00\x05\x01\x00\x06moving\x00\x00\x00\x00\x00\x00\x00\x32"))
	if err != nil || a.request != 9 || a.err == nil || a.err.Error() != "shard_unavailable (retry): shard moving moving" {
		t.Errorf("ack %+v, %v", a, err)
	}
	a, err = parseAck(0x1090, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x02b2\x00\x0d10.0.0.5:5000\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x2a"))
	if err != nil || a.request != 7 || a.err != nil || a.offset != 42 {
		t.Errorf("ack %+v, %v", a, err)
	}
	e, err := parseEvents(0x0824, []byte("\x00\x00\x00\x00\x00\x00\x00\x29\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bc"))
	if err != nil || e.base != 41 || e.skipped != 1 || string(bytes.Join(e.values, []byte("|"))) != "a|bc" {
		t.Errorf("events %+v, %v", e, err)
	}
	for name, parse := range map[string]func() error{
		"short-ack":     func() error { _, err := parseAck(0x0010, make([]byte, 10)); return err },
		"long-ack":      func() error { _, err := parseAck(0x0010, make([]byte, 12)); return err },
		"other-flags":   func() error { _, err := parseEvents(0x4004, make([]byte, 4)); return err },
		"false-count":   func() error { _, err := parseEvents(0x0004, []byte{0xFF, 0xFF, 0xFF, 0xFF}); return err },
		"false-length":  func() error { _, err := parseEvents(0x0004, []byte{0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 1}); return err },
		"trailing-byte": func() error { _, err := parseEvents(0x0004, make([]byte, 5)); return err },
	} {
		if parse() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
