package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// env is a node's worth of what logs share, over a disk that a test chooses.
type env struct {
	t       testing.TB
	fs      vfs.FS
	shared  *Shared
	journal *journal.Journal
	config  Config
	now     time.Time
	// durable collects what OnDurable said.
	durable []durableReport
}

type durableReport struct {
	end ids.Offset
	err error
}

// setup changes what newEnv makes.
type setup func(*env)

func withMode(mode SyncMode) setup {
	return func(e *env) { e.shared.Syncer = NewSyncer(mode, time.Hour, 1) }
}

func withConfig(change func(*Config)) setup { return func(e *env) { change(&e.config) } }

func withShared(change func(*Shared)) setup { return func(e *env) { change(e.shared) } }

// testMetrics are shared by all tests: making them takes longer than most of what they measure.
var testMetrics = NewMetrics(nil)

const (
	testData = "data"
	testDir  = "data/shards/topic/0"
)

var testShard = ids.ShardID{Topic: ids.TopicID{1, 2, 3}, Partition: 0}

// newEnv makes an env over fsys, which may hold the files of an earlier one. The syncer is not started unless a test does: nothing
// then happens by itself.
func newEnv(t testing.TB, fsys vfs.FS, setups ...setup) *env {
	t.Helper()
	e, err := tryEnv(t, fsys, setups...)
	if err != nil {
		t.Fatalf("open journal: %v", err)
	}
	return e
}

func tryEnv(t testing.TB, fsys vfs.FS, setups ...setup) (*env, error) {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll(testData, 0o755), fsys.SyncDir(".")); err != nil {
		return nil, err
	}
	j, err := journal.Open(fsys, path.Join(testData, "journal"), journal.Options{})
	if err != nil {
		return nil, err
	}
	pool := buf.NewPool(64 << 20)
	e := &env{t: t, fs: fsys, journal: j, now: time.UnixMilli(1_700_000_000_000)}
	e.config = Config{SegmentBytes: 1 << 20, RetentionBytes: -1, RetentionAge: -1, Delete: true, IndexIntervalBytes: 256}
	e.shared = &Shared{
		FS: fsys, Pool: pool, Journal: j, Syncer: NewSyncer(SyncPeriodic, time.Hour, 1),
		Tail:    NewTailCache(-1, pool, testMetrics), // readers go to the files unless a test says otherwise
		Metrics: testMetrics,
		Now:     func() time.Time { return e.now },
	}
	for _, s := range setups {
		s(e)
	}
	return e, nil
}

func (e *env) tryOpen() (*Log, error) {
	return Open(Options{
		Shared: e.shared, Dir: testDir, Shard: testShard, Name: "tenant/ns/stream/0", Config: e.config,
		OnDurable: func(end ids.Offset, err error) { e.durable = append(e.durable, durableReport{end, err}) },
	})
}

func (e *env) open() *Log {
	e.t.Helper()
	l, err := e.tryOpen()
	if err != nil {
		e.t.Fatalf("open: %v", err)
	}
	return l
}

// restart closes the log and the journal and opens both again over the same disk, as a new process would.
func (e *env) restart(l *Log, clean bool, setups ...setup) (*env, *Log) {
	e.t.Helper()
	if err := l.Close(clean); err != nil {
		e.t.Fatalf("close: %v", err)
	}
	if err := e.journal.Close(); err != nil {
		e.t.Fatalf("close journal: %v", err)
	}
	next := newEnv(e.t, e.fs, append([]setup{func(n *env) { n.config, n.now = e.config, e.now }}, setups...)...)
	return next, next.open()
}

// spec is a batch as a test writes it.
type spec struct {
	records   int // default 1
	size      int // of each value; default 8
	value     string
	key       string
	timestamp int64 // default 1_000
	producer  *recordbatch.Producer
	codec     recordbatch.Codec
	epoch     ids.LeaderEpoch
}

func (s spec) build(t testing.TB) ([]byte, recordbatch.Header) {
	t.Helper()
	if s.timestamp == 0 {
		s.timestamp = 1000
	}
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Producer: s.producer, Codec: s.codec})
	var key []byte
	if s.key != "" {
		key = []byte(s.key)
	}
	for i := range max(1, s.records) {
		v := []byte(s.value)
		if s.value == "" {
			v = bytes.Repeat([]byte{byte('a' + i%26)}, max(8, s.size))
		}
		b.Append(s.timestamp+int64(i), key, v)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		t.Fatal(err)
	}
	return batch, h
}

// input is what Append takes for a batch.
func (s spec) input(t testing.TB) AppendInput {
	t.Helper()
	batch, h := s.build(t)
	return AppendInput{Batch: batch, Header: h, Epoch: s.epoch}
}

func mustAppend(t testing.TB, l *Log, s spec) AppendResult {
	t.Helper()
	r, err := l.Append(s.input(t))
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return r
}

// readAll reads everything from an offset on in pieces of at most maxBytes and returns the batches.
func readAll(l *Log, from ids.Offset, maxBytes int) ([][]byte, error) {
	var out [][]byte
	end := l.Bounds().End
	for from < end {
		chunks, n, err := l.Read(from, end, maxBytes, true, nil)
		if err != nil {
			return out, err
		}
		if n == 0 {
			return out, fmt.Errorf("nothing at offset %d of %d", from, end)
		}
		for _, c := range chunks {
			rest := c.Data
			for len(rest) > 0 {
				h, batch, tail, err := recordbatch.Next(rest)
				if err != nil {
					return out, err
				}
				if err := recordbatch.CheckCRC(batch); err != nil {
					return out, fmt.Errorf("batch at %d was given out: %w", h.BaseOffset, err)
				}
				out = append(out, bytes.Clone(batch))
				from = ids.Offset(h.NextOffset())
				rest = tail
			}
			c.Ref.Release()
		}
	}
	return out, nil
}

func mustReadAll(t testing.TB, l *Log, from ids.Offset) [][]byte {
	t.Helper()
	out, err := readAll(l, from, 1<<20)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return out
}

// wantBatches fails unless what was read is what was appended, byte for byte.
func wantBatches(t testing.TB, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("read %d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d differs from what was appended", i)
		}
	}
}

// appendMany appends n batches of differing sizes and returns their bytes as stored.
func appendMany(t testing.TB, l *Log, n int) [][]byte {
	t.Helper()
	var out [][]byte
	for i := range n {
		in := spec{records: 1 + i%3, size: 20 + (i*37)%200, timestamp: int64(1000 + i*10)}.input(t)
		if _, err := l.Append(in); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		out = append(out, bytes.Clone(in.Batch))
	}
	return out
}

// crcOf is the checksum that all files use.
func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
