package ctl

import (
	"testing"
	"time"
)

func TestParsePosition(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, in string
		want     position
	}{
		{"earliest", "earliest", position{kind: fromEarliest}},
		{"latest", "latest", position{kind: fromLatest}},
		{"kcat_words", "beginning", position{kind: fromEarliest}},
		{"offset", "42", position{kind: fromOffset, value: 42}},
		{"zero", "0", position{kind: fromOffset}},
		{"last_ten", "-10", position{kind: fromLast, value: 10}},
		{"milliseconds", "@1767225600000", position{kind: fromTime, value: 1767225600000}},
		{"rfc3339", "@2026-03-04T11:00:00Z", position{kind: fromTime, value: now.Add(-time.Hour).UnixMilli()}},
		{"rfc3339_zone", "@2026-03-04T13:00:00+02:00", position{kind: fromTime, value: now.Add(-time.Hour).UnixMilli()}},
		{"date", "@2026-03-04", position{kind: fromTime, value: now.Add(-12 * time.Hour).UnixMilli()}},
		{"ago", "@15m", position{kind: fromTime, value: now.Add(-15 * time.Minute).UnixMilli()}},
		{"ago_signed", "@-15m", position{kind: fromTime, value: now.Add(-15 * time.Minute).UnixMilli()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parsePosition(tt.in, now)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "yesterday", "1.5", "@", "@noon", "--1", "1 "} {
		if got, err := parsePosition(bad, now); err == nil || statusOf(err) != exitUsage {
			t.Errorf("%q: got %+v, %v, want a refusal with status %d", bad, got, err, exitUsage)
		}
	}
}

func FuzzPosition(f *testing.F) {
	for _, s := range []string{"earliest", "-10", "@15m", "@2026-03-04", "9223372036854775807", "-9223372036854775808"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePosition(s, now)
		if err == nil && p.kind != fromTime && p.value < 0 && s != "-9223372036854775808" {
			t.Errorf("%q gives a negative value: %+v", s, p)
		}
	})
}
