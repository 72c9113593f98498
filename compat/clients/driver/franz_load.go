package driver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
)

// answered is one record's answer on its way from kgo's callback to the load loop.
type answered struct {
	ack agent.Ack
	err error
}

// Load sends at a steady rate, round the partitions, with kgo's default idempotent producer, which retries without end. The batch
// size may be set by Config["batch.size"], to give two such clients different batching.
func (franz) Load(ctx context.Context, req agent.Request, emit func(agent.Event)) ([]int64, error) {
	load := req.Load
	if load == nil || len(load.First) == 0 || load.MaxInFlight <= 0 {
		return nil, errors.New("load: no load described")
	}
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(req.Topic),
		kgo.ProducerLinger(2 * time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.MaxBufferedRecords(load.MaxInFlight + 1),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.ProducerOnDataLossDetected(func(topic string, partition int32) {
			emit(agent.Event{Failed: fmt.Sprintf("%s/%d: the client detected data loss", topic, partition)})
		}),
	}
	if size := req.Config["batch.size"]; size != "" {
		n, err := strconv.ParseInt(size, 10, 32)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(n)))
	}
	cl, err := dial(req, opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var (
		next     = append([]int64(nil), load.First...)
		answers  = make(chan answered, load.MaxInFlight) // never blocks a callback: no more records are in flight
		inFlight int
	)
	pace := agent.NewPacer(load.Rate)
	for ctx.Err() == nil {
		for inFlight < load.MaxInFlight && pace.Due() {
			p := int32(pace.Sent() % int64(len(next)))
			ack := agent.Ack{Partition: p, Sequence: next[p]}
			r := &kgo.Record{Partition: p, Value: agent.LoadValue(load.Name, p, next[p], load.Size)}
			// The record's own context has no end: a cancelled load still waits for what it sent.
			cl.Produce(context.WithoutCancel(ctx), r, func(done *kgo.Record, err error) {
				ack.Offset = done.Offset
				answers <- answered{ack, err}
			})
			next[p]++
			inFlight++
			pace.Count()
		}
		select {
		case a := <-answers:
			inFlight -= settle(a, answers, emit)
		case <-pace.Wait(inFlight < load.MaxInFlight):
		case <-ctx.Done():
		}
	}
	limit := time.NewTimer(agent.DrainLimit)
	defer limit.Stop()
	for inFlight > 0 {
		select {
		case a := <-answers:
			inFlight -= settle(a, answers, emit)
		case <-limit.C:
			return next, fmt.Errorf("load: %d records without an answer after %v", inFlight, agent.DrainLimit)
		}
	}
	return next, nil
}

// settle emits an answer and those already waiting behind it, and returns how many there were.
func settle(a answered, answers <-chan answered, emit func(agent.Event)) int {
	var acks []agent.Ack
	for n := 1; ; n++ {
		if a.err != nil {
			failed := agent.Event{Failed: fmt.Sprintf("partition %d sequence %d: %v", a.ack.Partition, a.ack.Sequence, a.err)}
			var ke *kerr.Error
			if errors.As(a.err, &ke) {
				failed.Code = int(ke.Code)
			}
			emit(failed)
		} else {
			acks = append(acks, a.ack)
		}
		select {
		case a = <-answers:
			continue
		default:
		}
		if len(acks) > 0 {
			emit(agent.Event{Acks: acks})
		}
		return n
	}
}
