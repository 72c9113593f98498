package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// TestMessageTypes holds each direction to its own messages.
func TestMessageTypes(t *testing.T) {
	for _, kind := range requestTypes {
		if m := newRequest([]byte(kind)); m == nil || TypeOf(m) != kind {
			t.Errorf("request %s makes %T", kind, m)
		}
		if m := newReply([]byte(kind)); m != nil {
			t.Errorf("request %s is a reply too: %T", kind, m)
		}
	}
	for _, kind := range replyTypes {
		if m := newReply([]byte(kind)); m == nil || TypeOf(m) != kind {
			t.Errorf("reply %s makes %T", kind, m)
		}
		if m := newRequest([]byte(kind)); m != nil {
			t.Errorf("reply %s is a request too: %T", kind, m)
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	check := func(t *testing.T, kind string, fresh func([]byte) Message, parse func([]byte) (Message, error)) {
		for seed := range uint64(200) {
			want := fresh([]byte(kind))
			newFiller(seed).message(want)
			frame := AppendMessage(nil, want)
			flags, payload := split(t, frame)
			if flags != 0 {
				t.Fatalf("flags %v", flags)
			}
			got, err := parse(payload)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, payload, err)
			}
			if diff := cmp.Diff(got, want, exact); diff != "" {
				t.Fatalf("seed %d: %s (-got +want):\n%s", seed, payload, diff)
			}
			if again := AppendMessage(nil, got); !bytes.Equal(again, frame) {
				t.Fatalf("seed %d: encodes as\n%s, then as\n%s", seed, payload, again)
			}
		}
	}
	for _, kind := range requestTypes {
		t.Run(kind, func(t *testing.T) { check(t, kind, newRequest, ParseRequest) })
	}
	for _, kind := range replyTypes {
		t.Run(kind, func(t *testing.T) { check(t, kind, newReply, ParseReply) })
	}
}

func TestBinaryPublishRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		r := newFiller(seed)
		want := BinaryPublish{
			TenantID: []byte(r.text()), Namespace: []byte(r.text()), Stream: []byte(r.text()), Payloads: r.payloads(),
		}
		if r.IntN(2) == 0 {
			want.Key = r.data()
		}
		switch r.IntN(3) {
		case 0:
			want.RequestID, want.Ack = r.number(64), AckMode(1+r.IntN(2))
		case 1:
			want.RequestID, want.Ack, want.Idempotent = r.number(64), AckPerBatch, true
			want.ProducerID, want.Sequence = r.number(64), r.number(64)
		}
		frame, err := AppendBinaryPublish(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		checkPublish(t, frame, want)
	}
}

func TestPublishAckRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		r := newFiller(seed)
		want := PublishAck{RequestID: r.number(64)}
		if r.IntN(2) == 0 {
			want.Owner = Some(Owner{NodeID: r.text(), Addr: r.text(), Generation: r.number(64)})
		}
		if want.Failed = r.IntN(2) == 0; !want.Failed {
			if r.IntN(2) == 0 {
				want.Offset = Some(r.number(64))
			}
		} else if want.Message = r.text(); r.IntN(2) == 0 {
			want.Code, want.Retry = Code(1+r.IntN(15)), Retry(1+r.IntN(5))
			want.Reason, want.RetryAfterMillis = r.text(), r.number(64)
		}
		checkAck(t, AppendPublishAck(nil, &want, KnownFlags), want)
	}
}

func TestEventBatchRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		r := newFiller(seed)
		v := eventVector{head: EventHead{Flags: FlagSharedEventBatch}}
		if r.IntN(4) == 0 {
			v.head.Flags, v.head.SubscriptionID = FlagEventBatch, r.number(64)
		}
		if r.IntN(2) == 0 {
			v.head.Flags |= FlagOffsets
			v.head.BaseOffset = r.number(62) + 2
			if r.IntN(2) == 0 {
				v.head.Flags |= FlagSkipped
				v.head.SkippedBefore = 1 + r.Uint64N(v.head.BaseOffset)
			}
		}
		if r.IntN(2) == 0 {
			v.head.Flags |= FlagPublisher
			v.head.Publisher = []byte("p" + r.text())
		}
		if r.IntN(2) == 0 {
			v.head.Flags |= FlagTimestamps
		}
		frame := BeginEventFrame(nil, &v.head)
		for i := range 1 + r.IntN(4) {
			e := Event{Offset: v.head.BaseOffset + uint64(i), Payload: r.data()}
			if v.head.Flags.Has(FlagTimestamps) {
				e.TimestampMicros = r.number(64)
			}
			v.events = append(v.events, e)
			frame = AppendEvent(frame, v.head.Flags, e.TimestampMicros, e.Payload)
		}
		EndEventFrame(frame, &v.head, len(v.events))
		v.frame = hexOf(frame)
		v.check(t)
	}
}

func TestPayloads(t *testing.T) {
	empty := MakePayloads()
	if empty.Count() != 0 || empty.Bytes() != 0 {
		t.Errorf("empty list: %+v", empty)
	}
	p := MakePayloads([]byte("a"), nil, []byte("bcd"))
	if p.Count() != 3 || p.Bytes() != 4 || len(p.Encoded()) != 16 {
		t.Errorf("count %d, bytes %d, encoded %x", p.Count(), p.Bytes(), p.Encoded())
	}
	for _, tc := range []struct {
		name       string
		maxBytes   int
		head, rest int
	}{
		{"nothing_fits", 0, 1, 2}, {"one", 5, 1, 2}, {"one_and_a_bit", 8, 1, 2}, {"two", 9, 2, 1}, {"almost_all", 15, 2, 1}, {"all", 16, 3, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			head, rest := p.Cut(tc.maxBytes)
			if head.Count() != tc.head || rest.Count() != tc.rest {
				t.Fatalf("%d and %d payloads, want %d and %d", head.Count(), rest.Count(), tc.head, tc.rest)
			}
			var all []string
			for _, part := range []Payloads{head, rest} {
				whole, err := NewPayloads(part.Count(), part.Encoded())
				if err != nil {
					t.Fatal(err)
				}
				for b := range whole.All() {
					all = append(all, string(b))
				}
			}
			if diff := cmp.Diff(all, []string{"a", "", "bcd"}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if head, rest := empty.Cut(10); head.Count() != 0 || rest.Count() != 0 {
		t.Error("an empty list has parts")
	}
	for range p.All() {
		break // stopping early must be fine
	}
}

func TestFeatures(t *testing.T) {
	for _, tc := range []struct {
		name      string
		f         Features
		low, high uint32
	}{
		{"none", 0, 0, 0},
		{"first_word", FeatureTopology | FeatureSubscribeQueue, 0x4000_0001, 0},
		{"marker_alone_is_not_sent", FeatureExtended | FeatureTopology, 1, 0},
		{"second_word", FeatureTopology | FeatureInspect, 0x8000_0001, 1},
		{"explicit_shard", FeatureInspect | FeatureExplicitShard, 0x8000_0000, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if low, high := tc.f.Words(); low != tc.low || high != tc.high {
				t.Errorf("words %x %x, want %x %x", low, high, tc.low, tc.high)
			}
		})
	}
	if f := JoinFeatures(1, 1); f != FeatureTopology {
		t.Errorf("a second word without the marker counts: %x", f)
	}
	if f := JoinFeatures(0x8000_0001, 1); f != FeatureTopology|FeatureExtended|FeatureInspect {
		t.Errorf("features %x", f)
	}
	var offer Auth
	offer.SetFeatures(FeatureInspect | FeatureRedirect)
	if got := offer.Features(); !got.Has(FeatureInspect | FeatureRedirect | FeatureExtended) {
		t.Errorf("offered %x", got)
	}
	var answer AuthOK
	if answer.SetFeatures(FeatureInspect|FeatureRedirect, offer.Features()); !answer.Features().Has(FeatureInspect | FeatureRedirect) {
		t.Errorf("advertised %x", answer.Features())
	}
	answer.SetFeatures(FeatureInspect|FeatureExtended|FeatureRedirect, FeatureRedirect)
	if diff := cmp.Diff(answer, AuthOK{ServerFeatures: Some(uint32(FeatureRedirect))}); diff != "" {
		t.Errorf("to a client that reads one word:\n%s", diff)
	}
}

func TestCodes(t *testing.T) {
	for c := CodeUnauthenticated; c <= CodeRevoked; c++ {
		if back, known := ParseCode(c.String()); !known || back != c {
			t.Errorf("code %d is %q, which is %d", c, c, back)
		}
		if r := c.Retry(); r == 0 || ParseRetry(r.String()) != r {
			t.Errorf("code %v has class %d", c, r)
		}
	}
	if c, known := ParseCode(""); known {
		t.Errorf("the empty name is code %d", c)
	}
	if _, known := ParseCode("newer"); known || Code(99).String() != "" || Code(99).Retry() != RetryFatal {
		t.Error("an unknown code is known")
	}
	for _, k := range errcode.Kinds() {
		f := NewFailure(k, "m")
		if c, known := ParseCode(f.Code); !known || f.Class() == 0 || f.Message != "m" {
			t.Errorf("kind %v says %+v (%v)", k, f, c)
		}
	}
	if ParseRetry("newer") != RetryFatal || ParseRetry("") != 0 || Retry(9).String() != "fatal" {
		t.Error("an unknown class is not fatal")
	}
}

// TestAckParts writes only what the client named.
func TestAckParts(t *testing.T) {
	failed := PublishAck{
		RequestID: 1, Failed: true, Message: "m", Code: CodeRevoked, Retry: 9, Reason: "r", RetryAfterMillis: 2,
		Owner: Some(Owner{NodeID: "n"}), Offset: Some[uint64](3),
	}
	ok := failed
	ok.Failed = false
	for _, tc := range []struct {
		name    string
		ack     PublishAck
		offered Flags
		flags   Flags
	}{
		{"failed_all", failed, KnownFlags, 0x0690},
		{"failed_none", failed, LegacyFlags, 0x0010},
		{"failed_code", failed, FlagAckCode, 0x0210},
		{"failed_detail_alone", failed, FlagAckDetail, 0x0010},
		{"ok_all", ok, KnownFlags, 0x1090},
		{"ok_none", ok, LegacyFlags, 0x0010},
	} {
		t.Run(tc.name, func(t *testing.T) {
			flags, payload := split(t, AppendPublishAck(nil, &tc.ack, tc.offered))
			got, err := ParsePublishAck(flags, payload)
			if err != nil || flags != tc.flags {
				t.Fatalf("flags %v, %v", flags, err)
			}
			if flags.Has(FlagAckCode) && (got.Code != CodeForbidden || got.Retry != RetryFatal) {
				t.Errorf("code %v, class %v", got.Code, got.Retry)
			}
		})
	}
}
