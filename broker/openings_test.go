package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

func TestOpeningsSetDoubtfulBatchesAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOpenings(make(chan struct{}), time.Now, newMetrics(nil))
		var asked []int
		bomb := func(most int) error {
			asked = append(asked, most)
			time.Sleep(10 * time.Millisecond) // what decoding costs
			return recordbatch.ErrDecodedTooLarge
		}
		if err := o.run(100, 16<<20, bomb); !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
			t.Errorf("bomb: %v", err)
		}
		if len(asked) != 2 || asked[0] != plainDecoded || asked[1] != 16<<20 {
			t.Errorf("opened to %v, want %d and then all", asked, plainDecoded)
		}
		// The next doubtful one waits out the rest, a likely one does not.
		began := time.Now()
		if err := o.run(100, 16<<20, func(int) error { return nil }); err != nil || time.Since(began) != 0 {
			t.Errorf("likely batch: %v after %v", err, time.Since(began))
		}
		zeros := 0
		if err := o.run(100, 16<<20, func(most int) error {
			if zeros++; most < 1<<20 {
				return recordbatch.ErrDecodedTooLarge
			}
			return nil
		}); err != nil || zeros != 2 || time.Since(began) != doubtfulRest*10*time.Millisecond {
			t.Errorf("batch that expands a lot but within the limit: %v after %v in %d openings", err, time.Since(began), zeros)
		}
		// While one is at it, others are refused after a while with something to retry on.
		o.doubtful <- struct{}{}
		if err := o.run(100, 16<<20, bomb); !errors.Is(err, ErrOpeningBusy) || errcode.Of(err) != errcode.Overloaded {
			t.Errorf("while busy: %v", err)
		}
	})
}

func TestOpeningsEndWithTheBroker(t *testing.T) {
	closing := make(chan struct{})
	o := newOpenings(closing, time.Now, newMetrics(nil))
	o.doubtful <- struct{}{}
	close(closing)
	if err := o.run(1, 16<<20, func(int) error { return recordbatch.ErrDecodedTooLarge }); !errors.Is(err, ErrClosed) && !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		t.Errorf("after closing: %v", err)
	}
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
