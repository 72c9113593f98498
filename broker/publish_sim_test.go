package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// simulation publishes at random from many publishers of several tenants to shards of both kinds, while syncs stand still and go on,
// lanes are held and writes fail. Then it looks at what was written:
//   - of what was acknowledged everything, once; but for what was acknowledged when it was queued;
//   - of what was refused nothing;
//   - of each publisher and shard in the order of its publishes;
//   - and everybody was told, once.
type simulation struct {
	st     *site
	rnd    *rand.Rand
	disk   *vfs.Fault
	gate   *gateFS
	shards []*Shard

	mu   sync.Mutex
	sent []*sentPublish
}

type sentPublish struct {
	shard, publisher, number int
	mode                     PublishMode
	seq                      uint64 // of an idempotent producer, from 1; 0: of none
	told                     int
	result                   PublishResult
}

func (s *sentPublish) value() string { return fmt.Sprintf("%d.%d", s.publisher, s.number) }

func TestPublishSimulation(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, uint64(seed)) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 99))
	mem := vfs.NewMem()
	s := &simulation{rnd: rnd, disk: vfs.NewFault(mem)}
	s.gate = &gateFS{FS: s.disk}
	mode := []log.SyncMode{log.SyncPeriodic, log.SyncOnCommit}[seed%2]
	s.st = newSite(t, newStubMetadata(), s.gate, mode, func(o *Options) {
		o.PublishQueueDepth, o.PublishWorkers = 2+rnd.IntN(8), 1+rnd.IntN(4)
		o.CommitConcurrency = 1 + rnd.IntN(6)
		o.TenantPublishBytes, o.PublishBytes = int64(500+rnd.IntN(5000)), int64(2000+rnd.IntN(10_000))
		if rnd.IntN(2) == 0 {
			o.Quotas = PublishQuotas{Default: PublishRate{Messages: 50, Bytes: 50_000}, Burst: time.Second}
		}
	})
	for tenant := range 3 {
		for _, durable := range []bool{true, false} {
			topic := s.st.meta.native(t, string(rune('t'+tenant)), fmt.Sprint("d-", durable), durable, 2)
			for p := range int32(2) {
				s.shards = append(s.shards, s.st.shard(t, topic, p))
			}
		}
	}
	stop := make(chan struct{})
	var trouble, publishers sync.WaitGroup
	trouble.Go(func() { s.trouble(t, rand.New(rand.NewPCG(seed, 1)), stop) })
	for p := range 8 {
		publishers.Go(func() { s.publisher(t, p, rand.New(rand.NewPCG(seed, uint64(100+p)))) })
	}
	publishers.Go(func() { s.producer(t, 8, rand.New(rand.NewPCG(seed, 200))) })
	publishers.Wait()
	close(stop)
	trouble.Wait()
	time.Sleep(30 * time.Second)
	synctest.Wait()
	s.check(t)
	s.st.end()
}

// trouble holds lanes and syncs for a while, and fails writes.
func (s *simulation) trouble(t *testing.T, rnd *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.IntN(50)) * time.Millisecond):
		}
		switch rnd.IntN(4) {
		case 0:
			open := s.gate.shut()
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			open()
		case 1:
			sh := s.shards[rnd.IntN(len(s.shards))]
			gate := make(chan struct{})
			w := &Waiter{Until: sh.Bounds().End + 1, Notify: func(error) { <-gate }}
			if _, err := sh.Wait(w); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			sh.CancelWait(w)
			close(gate)
		case 2:
			s.disk.Clear()
			s.disk.Add(vfs.Rule{Nth: 1 + rnd.Int64N(3), Err: syscall.ENOSPC, ShortWrite: true, Match: func(op vfs.Op) bool {
				return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".log")
			}})
		}
	}
}

// publisher sends to a few shards, waiting for answers now and then.
func (s *simulation) publisher(t *testing.T, number int, rnd *rand.Rand) {
	next := map[int]uint64{} // of the idempotent ones among the shards
	idempotent := number%4 == 0
	for i := range 60 {
		p := &sentPublish{shard: rnd.IntN(len(s.shards)), publisher: number, number: i, mode: PublishMode(rnd.IntN(3))}
		sh := s.shards[p.shard]
		a := make(chan struct{}, 2)
		pub := s.st.publication(t, sh, p.mode, func(r PublishResult) {
			s.mu.Lock()
			p.told++
			p.result = r
			s.mu.Unlock()
			a <- struct{}{}
		}, append([]string{p.value()}, strings.Split(strings.Repeat("z", rnd.IntN(4)), "")...)...)
		caller := &Caller{Tenant: sh.Topic().Tenant, Principal: "p"}
		pub.Caller, pub.Wait = caller, rnd.IntN(2) == 0
		if idempotent {
			pub.Producer, pub.Sequence = producerOf(caller, uint64(number)), next[p.shard]
			p.seq = next[p.shard] + 1
		}
		s.mu.Lock()
		s.sent = append(s.sent, p)
		s.mu.Unlock()
		s.st.b.Publish(pub)
		if idempotent {
			<-a // one at a time, and on only when it is known to be written
			a <- struct{}{}
			if p.result.Err == nil {
				next[p.shard]++
			} else if s.resent(t, sh, p, caller, rnd) {
				next[p.shard]++
			}
		}
		switch rnd.IntN(6) {
		case 0:
			<-a
		case 1:
			time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		}
	}
}

// producer sends to durable shards as a Kafka client does.
func (s *simulation) producer(t *testing.T, number int, rnd *rand.Rand) {
	for i := range 60 {
		p := &sentPublish{shard: rnd.IntN(len(s.shards)), publisher: number, number: i, mode: OnCommit, told: 1}
		sh := s.shards[p.shard]
		if !sh.Durable() {
			continue
		}
		batch := nativeBatch(t, s.st.pool, p.value())
		recordbatch.SetTimestamps(batch.Bytes(), time.Now().UnixMilli(), false)
		recordbatch.Recrc(batch.Bytes())
		res, err := sh.Append(AppendInput{Records: batch.Bytes(), Owner: batch})
		batch.Release()
		if p.result = (PublishResult{Offset: res.Base, Err: err}); err != nil {
			p.result.Offset = ids.NoOffset
		}
		s.mu.Lock()
		s.sent = append(s.sent, p)
		s.mu.Unlock()
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
	}
}

// resent sends a batch again until it is known to be written or gives up. What was refused is refused under the same number or written once.
func (s *simulation) resent(t *testing.T, sh *Shard, p *sentPublish, caller *Caller, rnd *rand.Rand) bool {
	for range 5 {
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		a := newAnswer()
		pub := s.st.publication(t, sh, OnCommit, a.told, p.value())
		pub.Caller, pub.Producer, pub.Sequence = caller, producerOf(caller, uint64(p.publisher)), p.seq-1
		s.st.b.Publish(pub)
		r := <-a
		if r.Err == nil || refusedSequence(r.Err) == "sequence_reused" { // the first send had more records
			s.mu.Lock()
			p.result = PublishResult{Offset: r.Offset}
			s.mu.Unlock()
			return true
		}
	}
	// Nothing more is sent under this number: the later ones find a gap.
	s.mu.Lock()
	p.result.Err = errcode.New(errcode.Unacknowledged, "given up")
	s.mu.Unlock()
	return false
}

func (s *simulation) check(t *testing.T) {
	for i, sh := range s.shards {
		written := map[string]ids.Offset{}
		last := map[int]int{}
		start := sh.Bounds().Start
		for k, v := range values(t, sh, start) {
			if v == "z" {
				continue
			}
			if _, twice := written[v]; twice {
				t.Errorf("shard %d: %s is written twice", i, v)
			}
			written[v] = start + ids.Offset(k)
			publisher, number, _ := strings.Cut(v, ".")
			p, _ := strconv.Atoi(publisher)
			n, _ := strconv.Atoi(number)
			if before, ok := last[p]; ok && before >= n {
				t.Errorf("shard %d: %s comes behind number %d of its publisher", i, v, before)
			}
			last[p] = n
		}
		for _, p := range s.sent {
			if p.shard == i {
				s.checkOne(t, p, sh, written, start)
			}
		}
	}
}

func (s *simulation) checkOne(t *testing.T, p *sentPublish, sh *Shard, written map[string]ids.Offset, start ids.Offset) {
	at, there := written[p.value()]
	if p.told != 1 {
		t.Errorf("%s was told %d times", p.value(), p.told)
	}
	r := p.result
	onAccept := p.seq == 0 && p.mode == OnAccept
	switch kind := errcode.Of(r.Err); {
	case r.Err == nil && !there && !onAccept && start == 0:
		t.Errorf("%s was acknowledged and is lost", p.value())
	case r.Err == nil && r.Offset != ids.NoOffset && there && r.Offset != at:
		t.Errorf("%s is at %d, and was told %d", p.value(), at, r.Offset)
	case r.Err == nil && r.Offset == ids.NoOffset && sh.Durable() && (p.mode == OnCommit || p.seq > 0):
		t.Errorf("%s was told no offset", p.value())
	case r.Err != nil && there && kind != errcode.Unacknowledged && kind != errcode.QuorumTimeout:
		t.Errorf("%s was refused with %v and is written", p.value(), r.Err)
	}
	var o *OverloadError
	if errors.As(r.Err, &o) && o.RetryAfter <= 0 {
		t.Errorf("%s was told no time to wait: %v", p.value(), r.Err)
	}
}

// TestPublishSimulationInRealTime is the same load without virtual time: for the race detector.
func TestPublishSimulationInRealTime(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic, small(4, 2), func(o *Options) { o.PublishQueueWait = time.Millisecond })
	s := &simulation{st: st}
	for tenant := range 2 {
		topic := st.meta.native(t, string(rune('t'+tenant)), "s", tenant == 0, 2)
		for p := range int32(2) {
			s.shards = append(s.shards, st.shard(t, topic, p))
		}
	}
	var wg sync.WaitGroup
	for number := range 6 {
		rnd := rand.New(rand.NewPCG(5, uint64(number)))
		wg.Go(func() {
			for i := range 500 {
				p := &sentPublish{shard: rnd.IntN(4), publisher: number, number: i, mode: PublishMode(rnd.IntN(3))}
				s.mu.Lock()
				s.sent = append(s.sent, p)
				s.mu.Unlock()
				wg.Add(1)
				pub := st.publication(t, s.shards[p.shard], p.mode, func(r PublishResult) {
					s.mu.Lock()
					p.told++
					p.result = r
					s.mu.Unlock()
					wg.Done()
				}, p.value())
				pub.Wait = i%2 == 0
				st.b.Publish(pub)
			}
		})
	}
	wg.Wait()
	waitWritten(st)
	s.check(t)
}

// waitWritten returns when nothing is queued and nobody writes.
func waitWritten(st *site) {
	a := st.b.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true // so that the last one tells
	for a.disk.running > 0 || a.memory.running > 0 || a.queued > 0 {
		a.idle.Wait()
	}
	a.closed = false
}
