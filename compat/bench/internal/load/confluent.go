package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/felixlog/felix/compat/bench/internal/gen"
)

// confluentConfig is librdkafka's configuration for producing as spec says.
func confluentConfig(spec *Spec) *kafka.ConfigMap {
	codec := spec.Codec
	if codec == "" {
		codec = "none"
	}
	batch := spec.BatchBytes
	if batch == 0 {
		batch = 1_000_000
	}
	return &kafka.ConfigMap{
		"bootstrap.servers": spec.Broker, "acks": spec.Acks, "enable.idempotence": spec.Idempotent, "compression.type": codec,
		"linger.ms": spec.LingerMS, "batch.size": batch, "batch.num.messages": 1_000_000,
		"queue.buffering.max.kbytes": 64 << 10, "queue.buffering.max.messages": 1_000_000,
		// One report a message through a Go channel would measure that channel. Errors are found by comparing the log's end
		// offsets with the records sent, after every trial.
		"go.delivery.reports": false,
	}
}

// runProduceConfluent is Produce with confluent-kafka-go.
func runProduceConfluent(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	values := gen.Values(spec.RecordBytes)
	p, err := kafka.NewProducer(confluentConfig(spec))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	wg.Go(func() { // ends when Close closes the channel
		for e := range p.Events() {
			if ke, ok := e.(kafka.Error); ok {
				err := error(ke)
				failed.CompareAndSwap(nil, &err)
			}
		}
	})
	res := &Result{}
	part := func(bytes int64, seconds float64) (n int64, err error) {
		topic, until := spec.Topic, deadline(seconds)
		tp := kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}
		wait := time.NewTimer(0)
		<-wait.C
		defer wait.Stop()
		for ; n*int64(spec.RecordBytes) < bytes; n++ {
			if n&1023 == 0 {
				if err := failed.Load(); err != nil {
					return n, *err
				}
				if ctx.Err() != nil || (!until.IsZero() && time.Now().After(until)) {
					break
				}
			}
			if err := enqueue(p, &kafka.Message{TopicPartition: tp, Value: values[int(n)%len(values)]}, wait); err != nil {
				return n, err
			}
		}
		res.AllRecords += n
		if left := p.Flush(60_000); left > 0 {
			return n, fmt.Errorf("%d records unacknowledged after a minute", left)
		}
		return n, ctx.Err()
	}
	if spec.WarmBytes > 0 {
		if _, err := part(spec.WarmBytes, spec.WarmSeconds); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	if res.Records, err = part(spec.Bytes, spec.Seconds); err != nil {
		return nil, err
	}
	res.Bytes = res.Records * int64(spec.RecordBytes)
	return res, m.end(res)
}

// enqueue hands one record to librdkafka, waiting while its queue is full.
func enqueue(p *kafka.Producer, msg *kafka.Message, wait *time.Timer) error {
	for {
		err := p.Produce(msg, nil)
		var ke kafka.Error
		if err == nil || !errors.As(err, &ke) || ke.Code() != kafka.ErrQueueFull {
			return err
		}
		// Not Flush, which would also cut the linger time short and make small batches.
		wait.Reset(time.Millisecond)
		<-wait.C
	}
}

// runConsumeConfluent is Consume with confluent-kafka-go and one consumer.
func runConsumeConfluent(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	pass := func(bytes int64) (int64, error) {
		c, err := kafka.NewConsumer(&kafka.ConfigMap{
			"bootstrap.servers": spec.Broker, "group.id": "bench", "enable.auto.commit": false, "auto.offset.reset": "earliest",
			"queued.min.messages": 100_000, "fetch.max.bytes": 50 << 20, "queued.max.messages.kbytes": 64 << 10,
			// Else it stops for a second each time that its queue is full: the faster the server, the more often.
			"fetch.queue.backoff.ms": 5,
		})
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		var tps []kafka.TopicPartition
		for i := range spec.Partitions {
			tps = append(tps, kafka.TopicPartition{Topic: &spec.Topic, Partition: int32(i), Offset: kafka.OffsetBeginning})
		}
		if err := c.Assign(tps); err != nil {
			return 0, err
		}
		var got, n int64
		last := time.Now()
		for got < bytes {
			switch e := c.Poll(100).(type) {
			case *kafka.Message:
				if e.TopicPartition.Error != nil {
					return n, e.TopicPartition.Error
				}
				got += int64(len(e.Value))
				if n++; n&1023 == 0 {
					last = time.Now()
				}
			case kafka.Error:
				// A consumer that is assigned its partitions needs no group, but looks for the coordinator of its name all the same: a
				// server without groups refuses that.
				if e.Code() != kafka.ErrGroupAuthorizationFailed {
					return n, e
				}
			case nil:
				if ctx.Err() != nil || time.Since(last) > 30*time.Second {
					return n, errors.New("no records for 30 s after " + strconv.FormatInt(n, 10))
				}
			}
		}
		return n, nil
	}
	part := func(bytes int64) (total int64, err error) {
		for left := bytes; left > 0 && err == nil; {
			size := left
			if spec.PassBytes > 0 {
				size = min(left, spec.PassBytes)
			}
			var n int64
			n, err = pass(size)
			total += n
			left -= size
		}
		return total, err
	}
	if spec.WarmBytes > 0 {
		if _, err := part(spec.WarmBytes); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	res := &Result{}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	if res.Records, err = part(spec.Bytes); err != nil {
		return nil, err
	}
	res.Bytes = res.Records * int64(spec.RecordBytes)
	return res, m.end(res)
}
