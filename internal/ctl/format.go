package ctl

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// formatter appends the printed form of a record.
type formatter func(dst []byte, r *kgo.Record) []byte

// newFormatter reads --format: raw, offsets, json, or a template. terminal says that a person reads the output: unprintable bytes of
// raw and offsets are then escaped.
func newFormatter(format string, terminal bool) (formatter, error) {
	value := func(dst []byte, r *kgo.Record) []byte {
		if terminal {
			return append(dst, visible(string(r.Value))...)
		}
		return append(dst, r.Value...)
	}
	switch format {
	case "raw":
		return func(dst []byte, r *kgo.Record) []byte { return append(value(dst, r), '\n') }, nil
	case "offsets":
		return func(dst []byte, r *kgo.Record) []byte {
			dst = strconv.AppendInt(dst, int64(r.Partition), 10)
			dst = append(dst, ':')
			dst = append(dst, orDash(r.Offset)...)
			return append(value(append(dst, '\t'), r), '\n')
		}, nil
	case "json":
		return appendJSON, nil
	}
	if !strings.Contains(format, "%") {
		return nil, usageErrorf("--format %q is none of raw, offsets, json, and no template with %%o, %%s and the like", format)
	}
	return parseTemplate(format)
}

// parseTemplate reads a template in the letters that kcat made customary:
//
//	%t topic, %p partition, %o offset, %k key, %s value, %S bytes of the value, %K bytes of the key, %T time in milliseconds,
//	%d time as RFC 3339, %h headers as name=value,..., %% a percent sign; \n, \t, \\ as usual
//
// A null key or value prints as nothing, with a size of -1. The template says where lines end.
func parseTemplate(format string) (formatter, error) {
	var parts []formatter
	literal := func(s string) formatter {
		return func(dst []byte, _ *kgo.Record) []byte { return append(dst, s...) }
	}
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' && c != '\\' || i+1 == len(format) {
			parts = append(parts, literal(format[i:i+1]))
			continue
		}
		i++
		if c == '\\' {
			escape, ok := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '0': "\x00", '\\': `\`}[format[i]]
			if !ok {
				return nil, usageErrorf("--format: \\%c is no escape", format[i])
			}
			parts = append(parts, literal(escape))
			continue
		}
		verb, ok := verbs[format[i]]
		if !ok {
			return nil, usageErrorf("--format: %%%c is unknown: use %%t %%p %%o %%k %%s %%K %%S %%T %%d %%h", format[i])
		}
		parts = append(parts, verb)
	}
	return func(dst []byte, r *kgo.Record) []byte {
		for _, p := range parts {
			dst = p(dst, r)
		}
		return dst
	}, nil
}

var verbs = map[byte]formatter{
	't': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) },
	'p': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) },
	'o': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) },
	'k': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Key...) },
	's': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Value...) },
	'K': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, lengthOf(r.Key), 10) },
	'S': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, lengthOf(r.Value), 10) },
	'T': func(dst []byte, r *kgo.Record) []byte {
		if r.Timestamp.IsZero() { // of a stream in memory
			return append(dst, "-1"...)
		}
		return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10)
	},
	'd': func(dst []byte, r *kgo.Record) []byte {
		if r.Timestamp.IsZero() {
			return append(dst, '-')
		}
		return r.Timestamp.UTC().AppendFormat(dst, time.RFC3339Nano)
	},
	'h': func(dst []byte, r *kgo.Record) []byte {
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, h.Key...), '='), h.Value...)
		}
		return dst
	},
	'%': func(dst []byte, _ *kgo.Record) []byte { return append(dst, '%') },
}

// lengthOf is the length of a key or value, -1 for null.
func lengthOf(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

// recordJSON is one record as a line of JSON. Bytes that are no UTF-8 come as base64 under another name, so that nothing is lost.
type recordJSON struct {
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   string       `json:"timestamp"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         *string      `json:"key"`
	KeyBase64   string       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 string       `json:"value_base64,omitempty"`
	Headers     []headerJSON `json:"headers"`
}

type headerJSON struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

func appendJSON(dst []byte, r *kgo.Record) []byte {
	out := recordJSON{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(),
		Timestamp: r.Timestamp.UTC().Format(time.RFC3339Nano), Headers: make([]headerJSON, len(r.Headers)),
	}
	out.Key, out.KeyBase64 = textOrBase64(r.Key)
	out.Value, out.ValueBase64 = textOrBase64(r.Value)
	for i, h := range r.Headers {
		out.Headers[i].Name = h.Key
		out.Headers[i].Value, out.Headers[i].ValueBase64 = textOrBase64(h.Value)
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return append(dst, "{}\n"...) // strings and numbers always encode
	}
	return append(dst, line.Bytes()...)
}

// textOrBase64 gives text for UTF-8, base64 for other bytes, and neither for null.
func textOrBase64(b []byte) (text *string, encoded string) {
	switch {
	case b == nil:
		return nil, ""
	case utf8.Valid(b):
		s := string(b)
		return &s, ""
	default:
		return nil, base64.StdEncoding.EncodeToString(b)
	}
}
