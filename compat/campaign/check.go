package main

import (
	"fmt"
	"sync"

	"github.com/felixlog/felix/compat/clients/agent"
)

// streamKey names the records of one producer in one partition: they carry consecutive sequences from 0.
type streamKey struct {
	producer  string
	partition int32
}

// stream is what is known of one such sequence.
type stream struct {
	acked int64           // one past the highest acknowledged sequence
	next  int64           // the sequence that the log must hold next
	ackAt map[int64]int64 // acknowledged offset of sequences not yet met in the log
	logAt map[int64]int64 // offset of sequences met in the log, not yet acknowledged
}

// checker compares acknowledgements with the log. It does no IO. Acknowledgements come from the producers' goroutines while the log
// is read, hence the lock.
type checker struct {
	mu         sync.Mutex
	streams    map[streamKey]*stream
	checkpoint map[int32]int64 // offset from which each partition is read next
	violations []string
	acks       int64 // acknowledgements in all
	records    int64 // records read in all
}

// maxViolations bounds what one broken log can fill the report with.
const maxViolations = 20

func newChecker() *checker {
	return &checker{streams: map[streamKey]*stream{}, checkpoint: map[int32]int64{}}
}

func (c *checker) violateLocked(format string, args ...any) {
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

// violate notes something that is against the promise and that another part of the campaign saw.
func (c *checker) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violateLocked(format, args...)
}

// problems returns what was found so far.
func (c *checker) problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.violations...)
}

func (c *checker) streamLocked(key streamKey) *stream {
	s := c.streams[key]
	if s == nil {
		s = &stream{ackAt: map[int64]int64{}, logAt: map[int64]int64{}}
		c.streams[key] = s
	}
	return s
}

// ack notes an acknowledgement. An idempotent producer is answered in order, once for each record.
func (c *checker) ack(producer string, a agent.Ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks++
	s := c.streamLocked(streamKey{producer, a.Partition})
	if a.Sequence != s.acked {
		c.violateLocked("%s partition %d: sequence %d was acknowledged, the one before was %d", producer, a.Partition, a.Sequence, s.acked-1)
	}
	s.acked = max(s.acked, a.Sequence+1)
	if a.Offset < 0 {
		return // the answer to a duplicate may have no offset
	}
	if at, met := s.logAt[a.Sequence]; met {
		delete(s.logAt, a.Sequence)
		c.sameOffsetLocked(producer, a.Partition, a.Sequence, a.Offset, at)
		return
	}
	if a.Sequence >= s.next {
		s.ackAt[a.Sequence] = a.Offset
	}
}

func (c *checker) sameOffsetLocked(producer string, partition int32, sequence, acked, inLog int64) {
	if acked != inLog {
		c.violateLocked("%s partition %d: sequence %d was acknowledged at offset %d and stands at %d", producer, partition, sequence, acked, inLog)
	}
}

// record notes the next record of a partition. Records of one producer must come in sequence, without holes and repeats.
func (c *checker) record(partition int32, offset int64, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records++
	if want := c.checkpoint[partition]; offset != want {
		c.violateLocked("partition %d: offset %d follows %d", partition, offset, want-1)
	}
	c.checkpoint[partition] = offset + 1
	producer, named, sequence, ok := agent.ParseLoadValue(value)
	if !ok || named != partition {
		c.violateLocked("partition %d offset %d: a record that no producer sent here: %.60q", partition, offset, value)
		return
	}
	s := c.streamLocked(streamKey{producer, partition})
	switch {
	case sequence < s.next:
		c.violateLocked("%s partition %d: sequence %d again at offset %d, the log was at %d", producer, partition, sequence, offset, s.next-1)
	case sequence > s.next:
		c.violateLocked("%s partition %d: sequence %d at offset %d, and %d to %d are missing", producer, partition, sequence, offset, s.next, sequence-1)
	}
	s.next = max(s.next, sequence+1)
	if acked, ok := s.ackAt[sequence]; ok {
		delete(s.ackAt, sequence)
		c.sameOffsetLocked(producer, partition, sequence, acked, offset)
	} else if sequence >= s.acked {
		s.logAt[sequence] = offset
	}
}

// acked is how far each stream was acknowledged at this moment.
func (c *checker) acked() map[streamKey]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[streamKey]int64{}
	for key, s := range c.streams {
		out[key] = s.acked
	}
	return out
}

// mustHold checks that everything acknowledged at an earlier moment was met in the log by now.
func (c *checker) mustHold(acked map[streamKey]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, upTo := range acked {
		if s := c.streams[key]; s.next < upTo {
			c.violateLocked("%s partition %d: sequences %d to %d were acknowledged and are not in the log", key.producer, key.partition, s.next, upTo-1)
		}
	}
}

// mustEnd checks a producer that was stopped and got all its answers: the log holds exactly what it sent.
func (c *checker) mustEnd(producer string, sent []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, n := range sent {
		s := c.streamLocked(streamKey{producer, int32(p)})
		if s.acked != n || s.next != n {
			c.violateLocked("%s partition %d: %d sent, %d acknowledged, %d in the log", producer, p, n, s.acked, s.next)
		}
	}
}

// endOf checks that a partition's end is not before what was already read from it.
func (c *checker) endOf(partition int32, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.checkpoint[partition]; end < at {
		c.violateLocked("partition %d: the log ends at %d, records up to %d were read before", partition, end, at-1)
	}
}
