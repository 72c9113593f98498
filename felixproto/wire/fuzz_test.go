package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/felixlog/felix/internal/errcode"
)

// checkError holds every failure to what receivers rely on: a kind, a verdict that is one, and a text.
func checkError(t *testing.T, err error) {
	t.Helper()
	if k := errcode.Of(err); k != errcode.InvalidRequest && k != errcode.UnsupportedVersion {
		t.Fatalf("kind %v: %v", k, err)
	}
	var de *DecodeError
	if errors.As(err, &de) && (de.Fault == FaultNone || de.Fault >= faultCount || de.Verdict > AbortStream || err.Error() == "") {
		t.Fatalf("%+v", de)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(unhex(f, v.FrameHex), 100)
	}
	for _, v := range eventVectors {
		f.Add(unhex(f, v.frame), DefaultMaxFrameBytes)
	}
	f.Fuzz(func(t *testing.T, b []byte, maxBytes int) {
		rest := bytes.NewReader(b)
		var buf []byte
		for {
			start := len(b) - rest.Len()
			h, payload, err := ReadFrame(rest, buf, maxBytes)
			if err != nil {
				if len(b) > start {
					checkError(t, err)
				}
				return
			}
			if len(payload) > maxBytes || cap(payload) > max(2*len(b), cap(buf), firstRead) {
				t.Fatalf("payload of %d bytes in %d, limit %d, input %d", len(payload), cap(payload), maxBytes, len(b))
			}
			end := start + HeaderSize + len(payload)
			if again := append(AppendHeader(nil, h), payload...); !bytes.Equal(again, b[start:end]) || rest.Len() != len(b)-end {
				t.Fatalf("read %x, encodes as %x", b[start:end], again)
			}
			if _, legal := h.Flags.Layout(); !legal {
				t.Fatalf("flags %v", h.Flags)
			}
			buf = payload
		}
	})
}

func FuzzBinaryPublish(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Kind != "" {
			f.Add(uint16(v.Flags), unhex(f, v.PayloadHex))
		}
	}
	for seed := range uint64(6) {
		r := newFiller(seed)
		p := BinaryPublish{Idempotent: seed%2 == 0, Key: r.data(), TenantID: []byte("t1"), Payloads: r.payloads()}
		frame, err := AppendBinaryPublish(nil, &p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(p.Flags()), frame[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, bits uint16, b []byte) {
		flags := Flags(bits)
		p, err := ParseBinaryPublish(flags, b)
		if err != nil {
			checkError(t, err)
			de := faultOf(t, err)
			if (de.Verdict == Continue) != de.RequestID.Set || de.RequestID.Set && !flags.Has(FlagAcked) {
				t.Fatalf("%+v", de)
			}
			return
		}
		frame, err := AppendBinaryPublish(nil, &p)
		if err != nil || p.Flags() != flags || !bytes.Equal(frame[HeaderSize:], b) {
			t.Fatalf("flags %v, parses as %+v, encodes as %x, %v", flags, p, frame, err)
		}
		checkPayloads(t, p.Payloads)
		if _, err := ParseBinaryPublish(flags, append(bytes.Clone(b), 0)); err == nil {
			t.Fatal("parses with a byte more")
		}
	})
}

// checkPayloads walks a list and puts it together again from its parts.
func checkPayloads(t *testing.T, p Payloads) {
	t.Helper()
	var again []byte
	count := 0
	for b := range p.All() {
		again = AppendPayload(again, b)
		count++
	}
	if count != p.Count() || !bytes.Equal(again, p.Encoded()) || len(again) != p.Bytes()+payloadPrefix*count {
		t.Fatalf("%d payloads of %d: %x, want %x", count, p.Count(), again, p.Encoded())
	}
	head, rest := p.Cut(len(again) / 2)
	if head.Count()+rest.Count() != count || !bytes.Equal(append(bytes.Clone(head.Encoded()), rest.Encoded()...), again) {
		t.Fatalf("cut into %x and %x", head.Encoded(), rest.Encoded())
	}
	for _, part := range []Payloads{head, rest} {
		if _, err := NewPayloads(part.Count(), part.Encoded()); err != nil {
			t.Fatalf("part %x: %v", part.Encoded(), err)
		}
	}
}

func FuzzEventBatch(f *testing.F) {
	for _, v := range eventVectors {
		f.Add(uint16(v.head.Flags), unhex(f, v.frame)[HeaderSize:])
	}
	f.Add(uint16(FlagSharedEventBatch), []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, bits uint16, b []byte) {
		flags := Flags(bits)
		e, err := ParseEventBatch(flags, b)
		if err != nil {
			checkError(t, err)
			return
		}
		frame := BeginEventFrame(nil, &e.EventHead)
		if len(frame) != e.Size() || e.WireFlags() != flags {
			t.Fatalf("head of %d bytes, want %d; flags %v, want %v", len(frame), e.Size(), e.WireFlags(), flags)
		}
		count := 0
		for ev := range e.All() {
			if ev.Offset != e.BaseOffset+uint64(count) {
				t.Fatalf("event %d has offset %d, base %d", count, ev.Offset, e.BaseOffset)
			}
			frame = AppendEvent(frame, flags, ev.TimestampMicros, ev.Payload)
			count++
		}
		EndEventFrame(frame, &e.EventHead, count)
		if count != e.Count() || !bytes.Equal(frame[HeaderSize:], b) {
			t.Fatalf("%d events of %d, encodes as %x, want %x", count, e.Count(), frame, b)
		}
		if p, plain := e.Payloads(); plain {
			checkPayloads(t, p)
			if whole := AppendEventBatch(nil, &e.EventHead, 0, p); !bytes.Equal(whole, frame) {
				t.Fatalf("whole batch encodes as %x, want %x", whole, frame)
			}
		}
	})
}

func FuzzPublishAck(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Kind == "binary_publish_ack" {
			f.Add(uint16(v.Flags), unhex(f, v.PayloadHex))
		}
	}
	full := PublishAck{RequestID: 1, Failed: true, Message: "m", Code: CodeOverloaded, Retry: RetryAfter, Reason: ReasonTenantQuota}
	for _, owner := range []Opt[Owner]{{}, Some(Owner{NodeID: "b2", Addr: "10.0.0.5:5000", Generation: 9})} {
		full.Owner = owner
		frame := AppendPublishAck(nil, &full, KnownFlags)
		f.Add(uint16(full.flags(KnownFlags)), frame[HeaderSize:])
		ok := PublishAck{RequestID: 1, Owner: owner, Offset: Some[uint64](5)}
		f.Add(uint16(ok.flags(KnownFlags)), AppendPublishAck(nil, &ok, KnownFlags)[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, bits uint16, b []byte) {
		flags := Flags(bits)
		a, err := ParsePublishAck(flags, b)
		if err != nil {
			checkError(t, err)
			return
		}
		frame := AppendPublishAck(nil, &a, KnownFlags)
		again, err := ParsePublishAck(a.flags(KnownFlags), frame[HeaderSize:])
		if a.Code == CodeRevoked {
			again.Code = CodeRevoked
		}
		if err != nil || again != a {
			t.Fatalf("parses as %+v, then as %+v, %v", a, again, err)
		}
		// A detail that says nothing, an unknown class and a number that is written as another are read, but not written so.
		odd := a.Retry == RetryFatal || a.Code == CodeRevoked || flags.Has(FlagAckDetail) && a.Reason == "" && a.RetryAfterMillis == 0
		if !odd && !bytes.Equal(frame[HeaderSize:], b) {
			t.Fatalf("encodes as %x, want %x", frame[HeaderSize:], b)
		}
	})
}

// addMessages adds the vectors, and random messages of each type.
func addMessages(f *testing.F, kinds []string, fresh func([]byte) Message) {
	for _, v := range readVectors(f) {
		if v.Kind == "" {
			f.Add([]byte(v.PayloadJSON))
		}
	}
	for i, kind := range kinds {
		for seed := range uint64(3) {
			m := fresh([]byte(kind))
			newFiller(seed + 100*uint64(i)).message(m)
			f.Add(AppendMessage(nil, m)[HeaderSize:])
		}
	}
	f.Add([]byte(` {"type" : "topology", "x":[1.5e-3,true,false,null,{"a":"\ud83d\udf42\n"}]} `))
}

// namesShard says that a request names a shard.
func namesShard(m Message) bool {
	switch m := m.(type) {
	case *Publish:
		return m.Shard.Set
	case *PublishBatch:
		return m.Shard.Set
	case *PublishIdempotent:
		return m.Shard.Set
	case *PublishIf:
		return m.Shard.Set
	case *Commit:
		return m.Shard.Set
	case *StateGet:
		return m.Shard.Set
	}
	return false
}

func checkParsed(t *testing.T, b []byte, parse func([]byte) (Message, error)) {
	before := bytes.Clone(b)
	m, err := parse(b)
	if !bytes.Equal(before, b) {
		t.Fatal("the payload was changed")
	}
	if err != nil {
		checkError(t, err)
		return
	}
	payload := AppendMessage(nil, m)[HeaderSize:]
	if !json.Valid(payload) || !utf8.Valid(payload) {
		t.Fatalf("encodes as %s", payload)
	}
	again, err := parse(payload)
	if err != nil {
		t.Fatalf("%s encodes as %s: %v", b, payload, err)
	}
	if diff := diffOf(again, m); diff != "" {
		t.Fatalf("%s encodes as %s:\n%s", b, payload, diff)
	}
}

func FuzzRequest(f *testing.F) {
	addMessages(f, requestTypes, newRequest)
	for _, v := range shardVectors {
		f.Add([]byte(v.payload))
		plain, _, _ := strings.Cut(v.payload, `,"shard":`)
		for _, bad := range []string{"-1", "1.0", "4294967296", `"1"`, "null", "[1]"} {
			f.Add([]byte(plain + `,"shard":` + bad + "}"))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParsed(t, b, ParseRequest)
		checkParsed(t, b, func(b []byte) (Message, error) {
			m, err := ParseRequestWithout(b, FeatureExplicitShard)
			if err == nil && namesShard(m) {
				t.Fatalf("%s names a shard", b)
			}
			return m, err
		})
		// Whatever can be read with the feature can be read without it.
		if _, err := ParseRequest(b); err == nil {
			if _, err := ParseRequestWithout(b, FeatureExplicitShard); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	addMessages(f, replyTypes, newReply)
	f.Fuzz(func(t *testing.T, b []byte) { checkParsed(t, b, ParseReply) })
}

// FuzzScan holds the scanner against encoding/json, which is laxer in three points only.
func FuzzScan(f *testing.F) {
	addMessages(f, requestTypes[:8], newRequest)
	for _, s := range []string{`{"a":"\ud800"}`, `{"a":1,"a":2}`, `{"":[[[]]]}`, `{"a":-0.0E+1}`, `[]`, `{} x`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return
		}
		fields, fault := scanObject(b, nil)
		valid := json.Valid(b) && bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte{'{'})
		if fault == FaultNone {
			if !valid {
				t.Fatalf("%q passes", b)
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal(b, &want); err != nil || len(want) != len(fields) {
				t.Fatalf("%d members, want %d, %v", len(fields), len(want), err)
			}
			for _, m := range fields {
				if v, ok := want[string(m.key)]; !ok || !bytes.Equal(v, m.value) {
					t.Fatalf("member %q is %q, want %q", m.key, m.value, v)
				}
				var text string
				if m.value[0] == '"' && (json.Unmarshal(m.value, &text) != nil || text != string(unquoteBytes(m.value))) {
					t.Fatalf("%s reads as %q, want %q", m.value, unquoteBytes(m.value), text)
				}
			}
			return
		}
		surrogates := bytes.Contains(bytes.ToLower(b), []byte(`\ud`))
		if valid && fault == FaultJSON && !surrogates {
			t.Fatalf("%q is refused", b)
		}
	})
}
