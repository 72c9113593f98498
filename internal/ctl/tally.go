package ctl

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tally counts acknowledged records, from the client's callbacks.
type tally struct {
	topic string
	blind bool // nobody acknowledges, so offsets are not known

	changed chan struct{} // has a value after a change

	mu     sync.Mutex
	total  int // handed to the client
	n      int // acknowledged
	failed int
	frozen bool // the command has ended: what comes now changes nothing
	first  error
	spans  map[int32]*offsetSpan
}

func newTally(topic string, blind bool) *tally {
	return &tally{topic: topic, blind: blind, changed: make(chan struct{}, 1), spans: map[int32]*offsetSpan{}}
}

// offsetSpan is the range of offsets that one partition got.
type offsetSpan struct {
	Partition int32 `json:"partition"`
	Records   int   `json:"records"`
	First     int64 `json:"first_offset"` // -1 when the acknowledgement carried none
	Last      int64 `json:"last_offset"`
}

// done is called by the Kafka client for each record.
func (t *tally) done(r *kgo.Record, err error) {
	if err != nil {
		err = refusal("produce to "+t.topic, err, "")
	}
	t.answered(r.Partition, r.Offset, err)
}

// answered counts an answer.
func (t *tally) answered(partition int32, offset int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return
	}
	select {
	case t.changed <- struct{}{}:
	default: // a value is there already
	}
	if err != nil {
		t.failed++
		if t.first == nil {
			t.first = err
		}
		return
	}
	t.n++
	if t.blind {
		offset = -1
	}
	s := t.spans[partition]
	if s == nil {
		s = &offsetSpan{Partition: partition, First: offset, Last: offset}
		t.spans[partition] = s
	}
	s.Records++
	s.First, s.Last = min(s.First, offset), max(s.Last, offset)
}

func (t *tally) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// handed counts a record that the client takes.
func (t *tally) handed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.frozen {
		t.total++
	}
}

// freeze ends the counting.
func (t *tally) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = true
}

// state is how many records are acknowledged, and how many the client still works on.
func (t *tally) state() (n, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n, t.total - t.n - t.failed
}

// unacknowledged is how many records have no acknowledgement, whether they failed or nothing is known of them.
func (t *tally) unacknowledged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total - t.n
}

// unanswered is the beginning of a sentence about records that got no answer for the whole time-out.
func (t *tally) unanswered(left int, timeout time.Duration) string {
	return fmt.Sprintf("%d record%s to %s not acknowledged within %s (written or not)", left, plural(left), t.topic, timeout)
}

// sorted are the spans by partition.
func (t *tally) sorted() []offsetSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]offsetSpan, 0, len(t.spans))
	for _, s := range t.spans {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(x, y offsetSpan) int { return int(x.Partition - y.Partition) })
	return list
}

// report writes what was acknowledged; of a failure that let nothing through, people read the failure alone.
func (t *tally) report(a *app, failure error) error {
	list := t.sorted()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case a.json():
		return a.emit(map[string]any{"topic": t.topic, "published": t.n, "unacknowledged": t.total - t.n - t.failed, "offsets": list}, nil, nil)
	case failure != nil && t.n == 0:
		return nil
	}
	if _, err := fmt.Fprintf(a.p.Out, "%d record%s to %s\n", t.n, plural(t.n), t.topic); err != nil {
		return err
	}
	for _, s := range list {
		where := fmt.Sprintf("offset %d", s.First)
		if s.Last > s.First {
			where = fmt.Sprintf("offsets %d to %d", s.First, s.Last)
		}
		if s.First < 0 {
			where = "offset not told (acks 0)"
		}
		if _, err := fmt.Fprintf(a.p.Out, "  partition %d: %s\n", s.Partition, where); err != nil {
			return err
		}
	}
	return nil
}

func plural[N int | int64](n N) string {
	if n == 1 {
		return ""
	}
	return "s"
}
