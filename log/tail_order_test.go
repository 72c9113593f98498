package log

import (
	"testing"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
)

func TestLogsThatComeAndGoLeaveNothingInTheTail(t *testing.T) {
	c := NewTailCache(1<<20, buf.NewPool(1<<20), nil)
	var kept tailLog
	for i := range ids.Offset(20) {
		c.insert(&kept, i, i+1, 0, make([]byte, 100), nil)
	}
	for range 2000 {
		var log tailLog
		for i := range ids.Offset(10) {
			c.insert(&log, i, i+1, 0, make([]byte, 100), nil)
		}
		c.forget(&log)
	}
	if n := c.order.len(); n > 2*20+keptOrder {
		t.Errorf("%d elements for 20 entries", n)
	}
	if c.live != 20 || kept.entries.len() != 20 {
		t.Errorf("%d entries, the log that stays has %d of its 20", c.live, kept.entries.len())
	}
	// What stays is still found by whoever needs its room.
	var last tailLog
	for i := range ids.Offset(20_000) {
		c.insert(&last, i, i+1, 0, make([]byte, 100), nil)
	}
	if kept.entries.len() != 0 || c.used > 1<<20 || c.live != last.entries.len() {
		t.Errorf("%d old entries, %d bytes, %d entries counted of %d", kept.entries.len(), c.used, c.live, last.entries.len())
	}
}
