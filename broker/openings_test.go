package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// zeros returns a batch of n zeros in gzip.
func zeros(t *testing.T, n int) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: recordbatch.CodecGzip})
	b.Append(0, []byte("k"), make([]byte, n))
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestOpeningsSetDoubtfulBatchesAside(t *testing.T) {
	const limit = 16 << 20
	var shard ids.ShardID
	bomb, likely, doubtful := zeros(t, limit+1), zeros(t, 1000), zeros(t, 1<<20)
	closing := make(chan struct{})
	clock := time.UnixMilli(0)
	o := newOpenings(closing, func() time.Time { clock = clock.Add(time.Millisecond); return clock }, newMetrics(nil))
	slept := time.Duration(0)
	o.sleep = func(d time.Duration) { slept += d }
	var asked []int
	open := func(batch []byte) error {
		return o.run(shard, batch, limit, func(most int) error {
			asked = append(asked, most)
			_, err := recordbatch.Validate(batch, recordbatch.ValidateOptions{Open: true, MaxDecodedBytes: limit, DecodeBytes: most})
			return err
		})
	}

	// In peace nothing pauses, and a batch that decodes to a lot within the limit is opened.
	if err := open(doubtful); err != nil || !slices.Equal(asked, []int{plainDecoded, limit}) || slept != 0 {
		t.Errorf("doubtful batch: %v, asked for %d, slept %v", err, asked, slept)
	}
	asked = nil
	if err := open(bomb); !errors.Is(err, recordbatch.ErrDecodedTooLarge) || !slices.Equal(asked, []int{max(plainDecoded, plainRatio*len(bomb))}) || slept != 0 {
		t.Errorf("bomb of %d bytes: %v, asked for %d, slept %v", len(bomb), err, asked, slept)
	}
	// After a bomb the sizes of doubtful batches are found out at leisure; likely ones do not notice.
	if err := open(likely); err != nil || slept != 0 {
		t.Errorf("likely batch after a bomb: %v, slept %v", err, slept)
	}
	if err := open(bomb); !errors.Is(err, recordbatch.ErrDecodedTooLarge) || slept != leisureMost {
		t.Errorf("second bomb: %v, slept %v, want %v", err, slept, leisureMost)
	}
	slept = 0
	if err := open(doubtful); err != nil || slept < 16*leisure*time.Millisecond {
		t.Errorf("doubtful batch after a bomb: %v, slept only %v", err, slept)
	}
	slept, shard.Partition = 0, 1
	if err := open(doubtful); err != nil || slept != 0 {
		t.Errorf("doubtful batch of another shard: %v, slept %v", err, slept)
	}
	shard.Partition = 0
	clock, slept = clock.Add(alarm), 0
	if err := open(doubtful); err != nil || slept != 0 {
		t.Errorf("doubtful batch long after a bomb: %v, slept %v", err, slept)
	}
	if len(o.lanes) != 0 {
		t.Errorf("%d lanes are left in peace", len(o.lanes))
	}
	// What decodes to more than a batch usually does is measured first, however large it is itself.
	large := zeros(t, 5<<20)
	large = append(large, make([]byte, 1<<20)...)
	asked = nil
	if err := o.run(shard, large, limit, func(most int) error {
		asked = append(asked, most)
		return recordbatch.ErrDecodedTooLarge
	}); err == nil || len(asked) == 0 || asked[0] != plainMost {
		t.Errorf("large batch: asked for %d, want %d first", asked, plainMost)
	}
}

func TestOpeningsRefuseDoubtfulBatchesWhileBusy(t *testing.T) {
	doubtful := zeros(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		o := newOpenings(closing, time.Now, newMetrics(nil))
		var busy, other ids.ShardID
		other.Partition = 1
		l := o.enter(busy)
		l.busy <- struct{}{}
		tooLarge := func(int) error { return recordbatch.ErrDecodedTooLarge }
		began := time.Now()
		if err := o.run(busy, doubtful, 16<<20, tooLarge); !errors.Is(err, ErrOpeningBusy) || errcode.Of(err) != errcode.Overloaded || time.Since(began) != doubtfulWait {
			t.Errorf("while busy: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := o.run(other, doubtful, 16<<20, func(most int) error {
			if most < 1<<20 {
				return recordbatch.ErrDecodedTooLarge
			}
			return nil
		}); err != nil || time.Since(began) != 0 {
			t.Errorf("another shard meanwhile: %v after %v", err, time.Since(began))
		}
		close(closing)
		if err := o.run(busy, doubtful, 16<<20, tooLarge); !errors.Is(err, ErrClosed) && !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
			t.Errorf("after closing: %v", err)
		}
	})
}

// TestManyTinyRecords: a batch of many equal records expands a lot and claims more records than a likely batch could hold.
func TestManyTinyRecords(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	s := f.shard(t, f.meta.topic(t, "compacted", 1, map[string]string{"cleanup.policy": "compact"}), 0)
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: recordbatch.CodecGzip})
	const n = 60_000
	for range n {
		b.Append(f.now.UnixMilli(), []byte("k"), []byte(strings.Repeat("v", 20)))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Append(AppendInput{Records: batch})
	if err != nil || res.Records != n {
		t.Errorf("batch of %d bytes: %v, %d records", len(batch), err, res.Records)
	}
	big := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: recordbatch.CodecZstd})
	big.Append(f.now.UnixMilli(), []byte("k"), make([]byte, 17<<20))
	bomb, err := big.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(AppendInput{Records: bomb, ZstdAllowed: true}); errcode.Of(err) != errcode.BatchTooLarge {
		t.Errorf("bomb of %d bytes: %v, want batch too large", len(bomb), fmt.Sprint(err))
	}
}
