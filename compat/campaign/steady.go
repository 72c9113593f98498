package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
)

// steadyName is the healthy producer's name in its records, which the checker reads.
const steadyName = "steady"

// steady is the healthy producer of the hostile campaign: franz-go with acks=all, open loop. Records are due at fixed times, and what
// delays one, in the client or in the server, counts as its latency.
type steady struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
	check  *checker
	sent   atomic.Int64

	mu      sync.Mutex
	samples []sample // in order of their answers
	failed  []string // records that the client gave up, at most maxViolations of them
}

// sample is one acknowledged record.
type sample struct {
	due     time.Time
	latency time.Duration // from due to its acknowledgement
}

// startSteady starts producing rate records of size bytes a second to the only partition of the topic.
func startSteady(addr, topic string, rate, size int, check *checker) (*steady, error) {
	cl, err := dial(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &steady{cl: cl, cancel: cancel, check: check}
	s.wg.Go(func() { s.run(ctx, rate, size) })
	return s, nil
}

// run sends each record when it is due. A Go timer is late by up to a millisecond, which is what is measured here, so a thread of its
// own sleeps in the kernel.
func (s *steady) run(ctx context.Context, rate, size int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	for i := int64(0); ctx.Err() == nil; i++ {
		due := start.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		for ahead := time.Until(due); ahead > 0; ahead = time.Until(due) {
			wait := syscall.NsecToTimespec(int64(ahead))
			_ = syscall.Nanosleep(&wait, nil) // an interrupted sleep is taken up again
		}
		s.sent.Add(1)
		// What was sent is waited for, also when the campaign is over.
		s.cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: agent.LoadValue(steadyName, 0, i, size)}, func(r *kgo.Record, err error) {
			s.answered(i, due, r.Offset, err)
		})
	}
}

func (s *steady) answered(sequence int64, due time.Time, offset int64, err error) {
	latency := time.Since(due)
	if err == nil {
		s.check.ack(steadyName, agent.Ack{Partition: 0, Sequence: sequence, Offset: offset})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.samples = append(s.samples, sample{due, latency})
	case len(s.failed) < maxViolations:
		s.failed = append(s.failed, fmt.Sprintf("record %d of the healthy producer failed: %v", sequence, err))
	}
}

// failures returns what the client gave up.
func (s *steady) failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failed)
}

// window returns the latencies of the records that were due in [from, to), sorted. It waits until all of them are answered.
func (s *steady) window(ctx context.Context, from, to time.Time) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, progressLimit, fmt.Errorf("records due before %v are not answered within %v", to.Format(time.TimeOnly), progressLimit))
	defer cancel()
	// One producer's records are answered in order, so an answer to a later one says that the window is complete.
	for {
		s.mu.Lock()
		complete := len(s.failed) > 0 || len(s.samples) > 0 && !s.samples[len(s.samples)-1].due.Before(to)
		s.mu.Unlock()
		if complete {
			break
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []time.Duration
	for _, one := range s.samples {
		if !one.due.Before(from) && one.due.Before(to) {
			out = append(out, one.latency)
		}
	}
	slices.Sort(out)
	return out, nil
}

// stop ends producing, waits for all answers, and returns how many records were sent.
func (s *steady) stop(ctx context.Context) (int64, error) {
	s.cancel()
	s.wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	err := s.cl.Flush(ctx)
	s.cl.Close()
	if err != nil {
		return s.sent.Load(), fmt.Errorf("the healthy producer's last records are not answered: %w", err)
	}
	return s.sent.Load(), nil
}
