package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// nativeDepth is how many unanswered publishes a publisher has at most; the server grants more.
const nativeDepth = 128

// nativePublisher writes numbered records to one durable stream.
type nativePublisher struct {
	c          *nativeCampaign
	id         int32
	stream     string
	keys       int // keys that it takes at random; 0 publishes without
	batch      int // records a publish, at most
	rate       int // publishes a second
	idempotent bool
	acks       atomic.Int64 // publishes acknowledged

	// What an idempotent publisher remembers over connections. Owned by run.
	producer, sequence uint64
	key                []byte
	pending            *sentBatch
}

// sentBatch is a publish that waits for its answer.
type sentBatch struct {
	publish nativePublish
	first   int64
}

// run publishes until stop ends, over all connections that it takes. Publishers that end have all their answers.
func (p *nativePublisher) run(ctx, stop context.Context, random *rand.Rand) error {
	for stop.Err() == nil || p.pending != nil {
		began := time.Now()
		var err error
		if p.idempotent {
			err = p.once(ctx, stop, random)
		} else {
			err = p.pipeline(ctx, stop, random)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !p.c.inOutage(began) {
			p.c.check.violate("publisher %d to %s: %v", p.id, p.stream, err)
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// make makes the next publish.
func (p *nativePublisher) make(random *rand.Rand) sentBatch {
	n := 1 + random.IntN(p.batch)
	first := p.c.check.sending(p.id, n)
	b := sentBatch{first: first, publish: nativePublish{stream: p.stream, payloads: make([][]byte, n)}}
	for i := range b.publish.payloads {
		b.publish.payloads[i] = nativeValue(p.id, first+int64(i), p.c.o.size)
	}
	if p.keys > 0 {
		b.publish.key = fmt.Appendf(nil, "key-%d", random.IntN(p.keys))
	}
	return b
}

// note tells the checker what became of a publish. An error is a refusal that a healthy server does not give.
func (p *nativePublisher) note(b sentBatch, a nativeAnswer) error {
	f := fateAcked
	var refused *nativeRefusal
	if errors.As(a.err, &refused) {
		f = fateRefused
		if refused.retry == "outcome_unknown" {
			f = fateUnknown
		}
	}
	p.c.check.answered(p.id, b.first, len(b.publish.payloads), f, a.offset)
	if f == fateAcked {
		p.acks.Add(1)
		return nil
	}
	if refused.code == "overloaded" {
		return nil // a slow disk
	}
	return a.err
}

// pipeline publishes over one connection without waiting for answers, which must come in order.
func (p *nativePublisher) pipeline(ctx, stop context.Context, random *rand.Rand) error {
	conn, err := p.c.target.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	s, err := p.c.target.open(ctx, conn, offeredFeatures)
	if err != nil {
		return err
	}
	sent := make(chan sentBatch, nativeDepth)
	heard := make(chan error, 1)
	go func() {
		err := p.hear(s, sent)
		if err != nil {
			_ = conn.CloseWithError(0, "") // the other half notices
		}
		heard <- err
	}()
	tick := time.NewTicker(time.Second / time.Duration(p.rate))
	defer tick.Stop()
	err = nil
	for request := uint64(1); err == nil && stop.Err() == nil; request++ {
		select {
		case <-tick.C:
		case <-stop.Done():
			continue
		case <-conn.Context().Done():
			err = context.Cause(conn.Context())
			continue
		}
		b := p.make(random)
		b.publish.request = request
		select {
		case sent <- b: // noted before it goes out: its answer may come at once
		case <-conn.Context().Done():
			err = context.Cause(conn.Context())
			continue
		}
		_, err = s.out.Write(b.publish.appendTo(nil))
	}
	close(sent)
	return errors.Join(err, <-heard)
}

// hear reads the answers of one connection in their order.
func (p *nativePublisher) hear(s *nativeStream, sent <-chan sentBatch) error {
	for b := range sent {
		a, err := s.answer(nativeLimit)
		if err == nil && a.request != b.publish.request {
			p.c.check.violate("publisher %d to %s: the answer of request %d, and that of %d is owed before it", p.id, p.stream, a.request, b.publish.request)
			err = errViolated
		}
		if err == nil {
			err = p.note(b, a)
		}
		if err != nil {
			for range sent { // what became of them is not known
			}
			return err
		}
	}
	return nil
}

// again is how often an idempotent publisher sends what was acknowledged once more.
const again = 0.05

// once publishes idempotently over one connection, one publish at a time. What has no answer is sent again over the next one.
func (p *nativePublisher) once(ctx, stop context.Context, random *rand.Rand) error {
	conn, err := p.c.target.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	s, err := p.c.target.open(ctx, conn, offeredFeatures)
	if err != nil {
		return err
	}
	if p.producer == 0 {
		reply, err := s.ask(map[string]any{
			"type": "producer_init", "tenant_id": nativeTenant, "namespace": nativeNamespace, "stream": p.stream, "request_id": 1,
		})
		if err != nil {
			return err
		}
		if reply.Type != "producer_init_ok" {
			return reply.refusal()
		}
		p.producer = reply.ProducerID
		if p.keys > 0 {
			p.key = fmt.Appendf(nil, "producer-%d", p.id) // numbers count by shard, so it stays with one
		}
	}
	tick := time.NewTicker(time.Second / time.Duration(p.rate))
	defer tick.Stop()
	for request := uint64(2); ; request++ {
		if p.pending == nil {
			select {
			case <-tick.C:
			case <-stop.Done():
				return nil
			case <-conn.Context().Done():
				return context.Cause(conn.Context())
			}
			b := p.make(random)
			b.publish.idempotent, b.publish.producer, b.publish.sequence, b.publish.key = true, p.producer, p.sequence, p.key
			p.pending = &b
		}
		p.pending.publish.request = request
		if _, err := s.out.Write(p.pending.publish.appendTo(nil)); err != nil {
			return err
		}
		a, err := s.answer(nativeLimit)
		if err != nil {
			return err
		}
		if a.request != request {
			return fmt.Errorf("the answer of request %d, asked was %d", a.request, request)
		}
		if a.err != nil {
			var refused *nativeRefusal
			if errors.As(a.err, &refused) && refused.retry == "fatal" {
				p.c.check.violate("publisher %d to %s, number %d: %v", p.id, p.stream, p.sequence, a.err)
				p.pending = nil
				return errViolated
			}
			if refused != nil && refused.code == "overloaded" {
				return nil // a slow disk; it is sent again
			}
			return a.err // and it is sent again
		}
		if err := p.note(*p.pending, a); err != nil {
			return err
		}
		if random.Float64() < again {
			p.c.repeats.Add(1)
			continue // the same once more: answered as the first time
		}
		p.pending = nil
		p.sequence++
	}
}
