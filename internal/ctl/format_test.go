package ctl

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFormats(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	full := &kgo.Record{
		Topic: "t", Partition: 3, Offset: 42, Key: []byte("k"), Value: []byte("v\x1b<"), Timestamp: at,
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}},
	}
	null := &kgo.Record{Topic: "t", Timestamp: at, Value: nil, Key: []byte{0xff}}
	tests := []struct {
		name, format string
		terminal     bool
		record       *kgo.Record
		want         string
	}{
		{"raw_piped", "raw", false, full, "v\x1b<\n"},
		{"raw_terminal", "raw", true, full, `v\x1b<` + "\n"},
		{"offsets", "offsets", true, full, "3:42\t" + `v\x1b<` + "\n"},
		{"template", `%t %p %o %k %s %K %S %T %h\n`, false, full, "t 3 42 k v\x1b< 1 3 1772600767008 a=1,b=\n"},
		{"template_time", `%d\t%%\\`, false, full, "2026-03-04T05:06:07.008Z\t%\\"},
		{"template_null", `%k|%s|%S`, false, null, "\xff||-1"},
		{"lone_percent", `100%`, false, full, "100%"},
		{
			"json", "json", true, full,
			`{"topic":"t","partition":3,"offset":42,"timestamp":"2026-03-04T05:06:07.008Z","timestamp_ms":1772600767008,` +
				`"key":"k","value":"v\u001b<","headers":[{"name":"a","value":"1"},{"name":"b","value":null}]}` + "\n",
		},
		{
			"json_bytes_and_null", "json", false, null,
			`{"topic":"t","partition":0,"offset":0,"timestamp":"2026-03-04T05:06:07.008Z","timestamp_ms":1772600767008,` +
				`"key":null,"key_base64":"/w==","value":null,"headers":[]}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := newFormatter(tt.format, tt.terminal)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(f(nil, tt.record))); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"csv", "%x", `%p\q`} {
		if _, err := newFormatter(bad, false); err == nil || statusOf(err) != exitUsage {
			t.Errorf("%q: got %v, want a refusal with status %d", bad, err, exitUsage)
		}
	}
}

func TestVisible(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "häm & sons", "häm & sons"},
		{"escape", "\x1b[31mred", `\x1b[31mred`},
		{"tab", "a\tb", `a\tb`},
		{"bad_utf8", "\xff", `\xff`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := visible(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
