package ctl

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// positionKind says how a position names a place in a partition.
type positionKind int

const (
	fromEarliest positionKind = iota
	fromLatest
	fromOffset // value is the offset
	fromLast   // value is how many records before the end
	fromTime   // value is milliseconds since the epoch
)

// position is a parsed --from.
type position struct {
	kind  positionKind
	value int64
}

// parsePosition reads earliest, latest, an offset, -N (the last N of each partition) or @TIME. A time is RFC 3339, a date, milliseconds
// since the epoch, or a duration before now.
func parsePosition(s string, now time.Time) (position, error) {
	switch s {
	case "earliest", "beginning", "start":
		return position{kind: fromEarliest}, nil
	case "latest", "end":
		return position{kind: fromLatest}, nil
	}
	if text, ok := strings.CutPrefix(s, "@"); ok {
		ms, err := parseTime(text, now)
		return position{kind: fromTime, value: ms}, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return position{}, usageErrorf("%q is no position: say earliest, latest, an offset, -N or @TIME", s)
	}
	if n < 0 {
		return position{kind: fromLast, value: -n}, nil
	}
	return position{kind: fromOffset, value: n}, nil
}

func parseTime(s string, now time.Time) (int64, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(s, "-")); err == nil {
		return now.Add(-d).UnixMilli(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, usageErrorf("@%s is no time: say @2026-01-31T12:00:00Z, @2026-01-31, @1767225600000 (milliseconds) or @15m (before now)", s)
}

// resolve turns a position into an offset of each partition, within what the partition holds.
func (p position) resolve(ctx context.Context, c *kafkaClient, topic string, spans map[partitionKey]span) (map[int32]int64, error) {
	out := map[int32]int64{}
	var at kadm.ListedOffsets
	if p.kind == fromTime {
		var err error
		if at, err = c.admin.ListOffsetsAfterMilli(ctx, p.value, topic); err != nil && len(at) == 0 {
			return nil, refusal("find the time", err, "")
		}
	}
	for key, s := range spans {
		if s.err != nil {
			return nil, refusal("list offsets of "+topic, s.err, "")
		}
		var offset int64
		switch p.kind {
		case fromEarliest:
			offset = s.start
		case fromLatest:
			offset = s.end
		case fromOffset:
			offset = p.value
		case fromLast:
			offset = s.end - p.value
		case fromTime:
			found, ok := at.Lookup(topic, key.partition)
			if ok && found.Err != nil {
				return nil, refusal("find the time in "+topic, found.Err, "")
			}
			if offset = s.end; ok && found.Offset >= 0 {
				offset = found.Offset
			}
		}
		out[key.partition] = min(max(offset, s.start), s.end)
	}
	return out, nil
}
