package ctl

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// feed writes lines to a command's input; each is taken by the command before feed returns.
func feed(t *testing.T, w io.Writer, lines string) {
	t.Helper()
	if _, err := io.WriteString(w, lines); err != nil {
		t.Fatal(err)
	}
}

func TestProduceDoesNotHangWhenTheServerIsGone(t *testing.T) {
	s := newServer(t)
	in, feeder := io.Pipe()
	defer feeder.Close()
	c := begin(t, in, "produce", "orders", "--timeout", "2s", s.flag())
	feed(t, feeder, "one\n")
	c.wroteRecord("orders", s)
	s.stop()
	feed(t, feeder, "two\nthree\n")
	c.end(exitUnreachable, "the server at "+s.addr+" is gone", "retrying", "2 records to orders not acknowledged within 2s")
	if !strings.Contains(c.out.String(), "1 record to orders") {
		t.Errorf("got %q, want what was acknowledged", c.out)
	}
}

// wroteRecord returns when the topic holds a record.
func (c *command) wroteRecord(topic string, s *server) {
	c.t.Helper()
	want(c.t, exitOK, "", []string{"topic", "create", topic, "--if-not-exists", s.flag()})
	want(c.t, exitOK, "", []string{"consume", topic, "-n", "1", s.flag()})
}

func TestProduceGoesOnWhenTheServerComesBack(t *testing.T) {
	s := newServer(t)
	in, feeder := io.Pipe()
	c := begin(t, in, "produce", "orders", s.flag())
	feed(t, feeder, "one\n")
	c.wroteRecord("orders", s)
	s.stop()
	feed(t, feeder, "two\n")
	c.err.wait(t, "is gone")
	s.start()
	c.err.wait(t, "answers again")
	feeder.Close()
	c.end(exitOK)
	want(t, exitOK, "", []string{"consume", "orders", "--exit", s.flag()}, "one\ntwo\n")
}

func TestProduceInterrupted(t *testing.T) {
	s := newServer(t)
	in, feeder := io.Pipe()
	defer feeder.Close()
	c := begin(t, in, "produce", "orders", s.flag())
	feed(t, feeder, "one\n")
	c.wroteRecord("orders", s)
	c.interrupt() // while the input has not ended
	c.end(exitInterrupted, "interrupted: 1 record acknowledged")
	if !strings.Contains(c.out.String(), "1 record to orders\n  partition 0: offset 0") {
		t.Errorf("got %q, want what was written", c.out)
	}
}

func TestProduceInterruptedWhileTheServerIsGone(t *testing.T) {
	s := newServer(t)
	in, feeder := io.Pipe()
	defer feeder.Close()
	c := begin(t, in, "produce", "orders", "--timeout", "5m", s.flag())
	feed(t, feeder, "one\n")
	c.wroteRecord("orders", s)
	s.stop()
	feed(t, feeder, "two\n")
	c.err.wait(t, "is gone")
	c.interrupt()
	c.end(exitInterrupted, "interrupted: 1 record acknowledged, 1 not acknowledged")
}

// breakLog makes the log of the only shard one that cannot be opened.
func breakLog(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "shards", "*", "*", "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("got segments %v (%v), want several", logs, err)
	}
	if err := os.Remove(logs[1]); err != nil {
		t.Fatal(err)
	}
}

func TestFailedPartitionIsShown(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "", []string{"topic", "create", "orders", "-p", "1", "-c", "segment.bytes=1048576", s.flag()})
	want(t, exitOK, strings.Repeat(strings.Repeat("x", 900_000)+"\n", 4), []string{"produce", "orders", s.flag()})
	s.stop()
	breakLog(t, s.dir)
	s.start()
	want(t, exitRefused, "", []string{"produce", "orders", "x", "--timeout", "2s", s.flag()}, "1 record to orders not acknowledged", "partition 0", "KAFKA_STORAGE_ERROR")
	want(t, exitRefused, "", []string{"consume", "orders", "--exit", s.flag()}, "KAFKA_STORAGE_ERROR")
	got := want(t, exitOK, "", []string{"topic", "list", s.flag()}, "orders partition 0", "KAFKA_STORAGE_ERROR")
	if !strings.Contains(got.out, "1 of 1 failed") || strings.Contains(got.out, "0 B") {
		t.Errorf("got a listing that hides the failure: %s", got.out)
	}
	want(t, exitUsage, "", []string{"topic", "delete", "orders", s.flag()}, "records of unknown number")
	rows := decode[[]topicRow](t, want(t, exitOK, "", []string{"topic", "list", "-o", "json", s.flag()}))
	if len(rows) != 1 || len(rows[0].Failed) != 1 || rows[0].Failed[0].Partition != 0 || rows[0].Failed[0].Error == "" || rows[0].Bytes != -1 {
		t.Errorf("got %+v", rows)
	}
}
