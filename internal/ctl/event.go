package ctl

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// eventJSON is one event as a line of JSON. Bytes that are no UTF-8 come as base64 under another name, so that nothing is lost. Offset and
// time are null on streams in memory.
type eventJSON struct {
	Stream        string  `json:"stream"`
	Shard         int32   `json:"shard"`
	Offset        *int64  `json:"offset"`
	Timestamp     *string `json:"timestamp"`
	TimestampMs   *int64  `json:"timestamp_ms"`
	Payload       *string `json:"payload,omitempty"`
	PayloadBase64 *string `json:"payload_base64,omitempty"`
}

func appendEvent(dst []byte, r *kgo.Record) []byte {
	out := eventJSON{Stream: r.Topic, Shard: r.Partition}
	if r.Offset >= 0 {
		out.Offset = &r.Offset
	}
	if !r.Timestamp.IsZero() {
		text, ms := r.Timestamp.UTC().Format(time.RFC3339Nano), r.Timestamp.UnixMilli()
		out.Timestamp, out.TimestampMs = &text, &ms
	}
	text, encoded := textOrBase64(r.Value)
	if out.Payload = text; text == nil {
		out.PayloadBase64 = &encoded
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return append(dst, "{}\n"...) // strings and numbers always encode
	}
	return append(dst, line.Bytes()...)
}
