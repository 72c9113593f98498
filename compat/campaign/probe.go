package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// probeTopic takes the records of the probe; they are not checked.
const probeTopic = "campaign.probe"

// errNoTopic is what deleting a topic that is gone answers.
var errNoTopic error = kerr.UnknownTopicOrPartition

// probe writes a small record again and again without retries, to see what a producer is told.
type probe struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	full  int              // answers KAFKA_STORAGE_ERROR
	other map[int16]string // other error codes, with their text
}

// startProbe begins probing.
func startProbe(addr string) (*probe, error) {
	cl, err := dial(addr, kgo.DefaultProduceTopic(probeTopic), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.UnknownTopicRetries(0))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{cl: cl, cancel: cancel, other: map[int16]string{}}
	p.wg.Go(func() {
		for pause(ctx, 20*time.Millisecond) == nil {
			err := cl.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 4096)}).FirstErr()
			p.note(err)
		}
	})
	return p, nil
}

// note sorts an answer. A broken connection is no answer: the server may just have been killed.
func (p *probe) note(err error) {
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ke.Code == kerr.KafkaStorageError.Code {
		p.full++
	} else {
		p.other[ke.Code] = err.Error()
	}
}

func (p *probe) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full
}

// awaitFull waits for the first storage error.
func (p *probe) awaitFull(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for p.seen() == 0 {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("no storage error within %v of a filling disk: %w", limit, err)
		}
	}
	return nil
}

// stop ends the probe and returns how many storage errors and which other errors it saw.
func (p *probe) stop() (full int, other map[int16]string) {
	p.cancel()
	p.wg.Wait()
	p.cl.Close()
	return p.full, p.other
}

// fillTopic writes about size bytes to a topic, and waits for the answers.
func fillTopic(ctx context.Context, addr, topic string, size int) error {
	cl, err := dial(addr, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	const each = 16 << 10
	records := make([]*kgo.Record, size/each)
	for i := range records {
		// Not compressible, or the client's default codec would leave nothing on the disk.
		value := make([]byte, each)
		x := uint32(i)*2654435761 + 1
		for j := range value {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			value[j] = byte(x)
		}
		records[i] = &kgo.Record{Value: value}
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("fill %s: %w", topic, err)
	}
	return nil
}
