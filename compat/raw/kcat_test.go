package raw_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

var _ = register(
	Case{ID: "8.kcat", What: "kcat -L with the right credentials (old and new librdkafka: compat/clients)", Want: "brokers by the address used, no error"},
	Case{ID: "9.kcat", What: "kcat -L with a wrong password", Want: "says that authentication failed; no topic information"},
	Case{ID: "16.kcat", What: "kcat -P a, b, c with acks=all; kcat -C from the beginning", Want: "0 a,1 b,2 c"},
	Case{ID: "17.gzip", What: "kcat -P -z gzip: read back, stored codec", Want: "same records, stored as gzip"},
	Case{ID: "17.snappy", What: "kcat -P -z snappy", Want: "same records, stored as snappy"},
	Case{ID: "17.lz4", What: "kcat -P -z lz4", Want: "same records, stored as lz4"},
	Case{ID: "17.zstd", What: "kcat -P -z zstd", Want: "same records, stored as zstd"},
	Case{ID: "19.kcat", What: "kcat -P -K: -H h1=v1 -H h2= -H h1=v3, keys and values null and empty (-Z)", Want: "unchanged"},
	Case{ID: "20.kcat", What: "kcat -P with acks=0, 1000 records", Want: "all stored in order"},
	Case{ID: "39.kcat", What: "kcat -C -o end, then one record is produced", Want: "delivered at once"},
	Case{ID: "50.kcat", What: "kcat -Q for -2, -1, a time in the middle, a time in the future", Want: "0 6 2 -1"},
)

// kcatTimeout bounds one run of kcat.
const kcatTimeout = 30 * time.Second

// kcat runs kcat against an address with this input, and returns its output and what it said.
func kcat(t *testing.T, addr, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kcatTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", addr}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// mustKcat is kcat that has to succeed.
func mustKcat(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, errs, err := kcat(t, server.Addr(), input, args...)
	if err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, errs)
	}
	return out
}

// plainFlags are kcat's settings for SASL/PLAIN.
func plainFlags(user, password string) []string {
	return []string{
		"-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN",
		"-X", "sasl.username=" + user, "-X", "sasl.password=" + password,
	}
}

func TestCase08Kcat(t *testing.T) {
	addr := secureAddr(t, peer.SASL)
	out, errs, err := kcat(t, addr, "", append(plainFlags("acme", "acme-secret"), "-L")...)
	got := fmt.Sprintf("%v: %s %s", err, out, errs)
	if err == nil && strings.Contains(out, " at "+addr) && !strings.Contains(strings.ToLower(errs), "error") {
		got = "brokers by the address used, no error"
	}
	expect(t, "8.kcat", got)
}

func TestCase09Kcat(t *testing.T) {
	out, errs, err := kcat(t, secureAddr(t, peer.SASL), "", append(plainFlags("acme", "wrong-secret"), "-L", "-m", "3")...)
	got := fmt.Sprintf("%v: %s %s", err, out, errs)
	if err != nil && strings.Contains(errs, "uthentication") && !strings.Contains(out, "topic \"") && !strings.Contains(errs, "wrong-secret") {
		got = "says that authentication failed; no topic information"
	}
	expect(t, "9.kcat", got)
}

func TestCase16Kcat(t *testing.T) {
	topic := dial(t).topic(3)
	mustKcat(t, "a\nb\nc\n", "-P", "-t", topic, "-p", "0", "-X", "acks=all")
	out := mustKcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", `%o %s\n`)
	expect(t, "16.kcat", strings.ReplaceAll(strings.TrimSpace(out), "\n", ","))
}

func TestCase17KcatCodecs(t *testing.T) {
	c := dial(t)
	for _, codec := range []raw.Codec{raw.Gzip, raw.Snappy, raw.Lz4, raw.Zstd} {
		topic := c.topic(1)
		var lines []string
		for i := range 50 {
			lines = append(lines, fmt.Sprintf("%d %s", i, strings.Repeat("compressible ", 20)))
		}
		input := strings.Join(lines, "\n") + "\n"
		mustKcat(t, input, "-P", "-t", topic, "-p", "0", "-z", codec.String(), "-X", "linger.ms=100")
		got := "other records"
		if mustKcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == input {
			got = "same records"
		}
		codecs := map[raw.Codec]bool{}
		for _, s := range c.batches(topic, 0, 0) {
			codecs[s.Codec()] = true
		}
		for stored := range codecs {
			got += ", stored as " + stored.String()
		}
		expect(t, "17."+codec.String(), got)
	}
}

func TestCase19KcatKeysAndHeaders(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	before := now()
	mustKcat(t, "k:v\n:w\nk2:\n", "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "h1=v1", "-H", "h2=", "-H", "h1=v3")
	mustKcat(t, "no key\n", "-P", "-t", topic, "-p", "0")
	records := c.records(topic, 0, 0)
	got := "unchanged"
	wantKey, wantValue := []string{"k", "null", "k2", "null"}, []string{"v", "w", "null", "no key"}
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return string(b)
	}
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if text(r.Key) != wantKey[i] || text(r.Value) != wantValue[i] {
			got = fmt.Sprintf("record %d: %s %s", i, text(r.Key), text(r.Value))
		}
		if h := fmt.Sprintf("%q", r.Headers); i < 3 && h != `[{"h1" "v1"} {"h2" ""} {"h1" "v3"}]` {
			got = h
		}
		if r.Timestamp < before || r.Timestamp > now() {
			got = fmt.Sprintf("timestamp %d", r.Timestamp)
		}
	}
	// Empty, not null, key and value, with a null header value: kcat cannot write those, so a batch of ours does; kcat reads it.
	ours := raw.Record{Key: []byte{}, Value: []byte{}, Headers: []raw.Header{{Key: "n"}, {Key: "e", Value: []byte{}}}}
	c.mustProduce(topic, 0, raw.NewBatch(1234567, ours).Encode())
	if r := c.records(topic, 0, 4)[0]; r.Key == nil || r.Value == nil || r.Headers[0].Value != nil || r.Headers[1].Value == nil || r.Timestamp != 1234567 {
		got = fmt.Sprintf("%+v", r)
	}
	out := mustKcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "0", "-e", "-q", "-Z", "-f", `%k|%K|%s|%S|%T|%h;`)
	for _, want := range []string{"k|1|v|1|", "NULL|-1|w|1|", "k2|2|NULL|-1|", "NULL|-1|no key|6|", "NULL|0|NULL|0|1234567|n=NULL,e=;", "h1=v1,h2=,h1=v3"} {
		if !strings.Contains(out, want) {
			got = fmt.Sprintf("kcat shows %s, not %s", out, want)
		}
	}
	expect(t, "19.kcat", got)
}

func TestCase20KcatAcks0(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprint(i))
	}
	mustKcat(t, strings.Join(lines, "\n")+"\n", "-P", "-t", topic, "-p", "0", "-X", "acks=0")
	await(t, "1000 records", func() bool { return c.offset(topic, 0, -1) >= 1000 })
	got := "other records"
	if c.stored(topic, 0) == strings.Join(lines, ",") {
		got = "all stored in order"
	}
	expect(t, "20.kcat", got)
}

func TestCase39KcatAtTheEnd(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	ctx, cancel := context.WithTimeout(context.Background(), kcatTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", "-b", server.Addr(), "-C", "-t", topic, "-p", "0", "-o", "end", "-u", "-c", "1", "-q", "-X", "fetch.wait.max.ms=5000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan time.Time, 1)
	go func() {
		b := make([]byte, 1)
		if _, err := out.Read(b); err == nil {
			read <- time.Now()
		}
		close(read)
	}()
	// Nothing tells when kcat has begun to wait, so records come until one of them is delivered while its fetch waits.
	got := "never delivered"
	tick := time.NewTicker(700 * time.Millisecond)
	defer tick.Stop()
	var produced time.Time
	for range 20 {
		select {
		case at, ok := <-read:
			if ok {
				got = fmt.Sprintf("after %v", at.Sub(produced))
				if at.Sub(produced) < 500*time.Millisecond {
					got = "delivered at once"
				}
			}
		case <-tick.C:
			produced = time.Now()
			c.mustProduce(topic, 0, values("x"))
			continue
		}
		break
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("kcat: %v", err)
	}
	expect(t, "39.kcat", got)
}

func TestCase50Kcat(t *testing.T) {
	topic, base := timedTopic(dial(t))
	var got []string
	for _, ts := range []int64{-2, -1, base + 15, base + 100_000} {
		out := mustKcat(t, "", "-Q", "-t", fmt.Sprintf("%s:0:%d", topic, ts))
		_, offset, _ := strings.Cut(strings.TrimSpace(out), "offset ")
		got = append(got, offset)
	}
	expect(t, "50.kcat", strings.Join(got, " "))
}
