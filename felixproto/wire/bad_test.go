package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/felixlog/felix/internal/errcode"
)

func TestBadHeaders(t *testing.T) {
	good := unhex(t, "464c58310001000900000029")
	patch := func(at int, b ...byte) []byte {
		out := bytes.Clone(good)
		copy(out[at:], b)
		return out
	}
	for _, tc := range []struct {
		name    string
		header  []byte
		max     int
		fault   Fault
		verdict Verdict
	}{
		{"empty", nil, 100, FaultShortHeader, AbortStream},
		{"eleven_bytes", good[:11], 100, FaultShortHeader, AbortStream},
		{"wrong_magic", patch(3, '2'), 100, FaultMagic, AbortStream},
		{"http", []byte("GET / HTTP/1.1\r\n"), 100, FaultMagic, AbortStream},
		{"version_0", patch(5, 0), 100, FaultVersion, AbortStream},
		{"version_2", patch(5, 2), 100, FaultVersion, AbortStream},
		{"version_257", patch(4, 1), 100, FaultVersion, AbortStream},
		{"one_byte_too_large", good, 40, FaultTooLarge, EndStream},
		{"largest_length", patch(8, 255, 255, 255, 255), DefaultMaxFrameBytes, FaultTooLarge, EndStream},
		{"over_the_limit_before_auth", patch(8, 0, 1, 0, 1), PreAuthMaxFrameBytes, FaultTooLarge, EndStream},
		{"unknown_flag", patch(6, 0x80), 100, FaultFlags, EndStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseHeader(tc.header, tc.max)
			if de := faultOf(t, err); de.Fault != tc.fault || de.Verdict != tc.verdict {
				t.Errorf("got %v, verdict %d, want %v, %d", de.Fault, de.Verdict, tc.fault, tc.verdict)
			}
		})
	}
	if h, err := ParseHeader(good, 41); err != nil || h != (Header{Flags: 9, Length: 41}) {
		t.Errorf("good header: %+v, %v", h, err)
	}
	if h, err := ParseHeader(patch(6, 0x80), 41); err == nil || h.Length != 41 {
		t.Errorf("with unknown flags the length must be told: %+v, %v", h, err)
	}
}

// TestFlags goes through all sets of flags and keeps a list of those that are legal.
func TestFlags(t *testing.T) {
	legal := map[Layout]map[Flags]bool{
		LayoutJSON:       {0: true},
		LayoutPublish:    {0x0001: true, 0x0041: true, 0x0009: true, 0x0049: true, 0x0109: true, 0x0149: true},
		LayoutPublishAck: {},
		LayoutEvents:     {},
	}
	for _, owner := range []Flags{0, 0x0080} {
		for _, parts := range []Flags{0, 0x0200, 0x0600, 0x1000} {
			legal[LayoutPublishAck][0x0010|owner|parts] = true
		}
	}
	for _, base := range []Flags{0x0002, 0x0004} {
		for _, offsets := range []Flags{0, 0x0020, 0x0820} {
			for _, more := range []Flags{0, 0x2000, 0x4000, 0x6000} {
				legal[LayoutEvents][base|offsets|more] = true
			}
		}
	}
	for f := range Flags(math.MaxUint16) {
		layout, ok := f.Layout()
		if ok != legal[layout][f] {
			t.Fatalf("%v: layout %d, legal %v", f, layout, ok)
		}
		if ok {
			delete(legal[layout], f)
		}
	}
	for layout, left := range legal {
		if len(left) != 0 {
			t.Errorf("layout %d: refused %v", layout, left)
		}
	}
	if s := Flags(0x0a41).String(); s != "0x0a41" {
		t.Errorf("written as %s", s)
	}
}

func TestReadFrame(t *testing.T) {
	frame := unhex(t, readVectors(t)[0].FrameHex)
	t.Run("two_and_the_end", func(t *testing.T) {
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(append(bytes.Clone(frame), frame...)),
			"bytes": iotest.OneByteReader(bytes.NewReader(append(bytes.Clone(frame), frame...))),
			"eof":   iotest.DataErrReader(bytes.NewReader(append(bytes.Clone(frame), frame...))),
		} {
			var buf []byte
			for range 2 {
				h, payload, err := ReadFrame(r, buf, DefaultMaxFrameBytes)
				if err != nil || h.Flags != 0 || !bytes.Equal(payload, frame[HeaderSize:]) {
					t.Fatalf("%s: %+v, %d bytes, %v", name, h, len(payload), err)
				}
				buf = payload
			}
			if _, _, err := ReadFrame(r, buf, DefaultMaxFrameBytes); !errors.Is(err, io.EOF) {
				t.Errorf("%s: between frames: %v", name, err)
			}
		}
	})
	t.Run("cut_anywhere", func(t *testing.T) {
		for n := 1; n < len(frame); n++ {
			_, _, err := ReadFrame(bytes.NewReader(frame[:n]), nil, DefaultMaxFrameBytes)
			want := FaultTruncated
			if n < HeaderSize {
				want = FaultShortHeader
			}
			if de := faultOf(t, err); de.Fault != want || de.Verdict != AbortStream {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	})
	t.Run("failing_stream", func(t *testing.T) {
		broken := errors.New("reset")
		for _, n := range []int{0, 5, 20} {
			r := io.MultiReader(bytes.NewReader(frame[:n]), iotest.ErrReader(broken))
			if _, _, err := ReadFrame(r, nil, DefaultMaxFrameBytes); !errors.Is(err, broken) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		}
	})
	t.Run("empty_payload", func(t *testing.T) {
		_, payload, err := ReadFrame(bytes.NewReader(AppendHeader(nil, Header{})), nil, 0)
		if err != nil || payload == nil || len(payload) != 0 {
			t.Errorf("%v, %v", payload, err)
		}
	})
	t.Run("grows_with_what_arrives", func(t *testing.T) {
		const claimed, sent = 16 << 20, 10_000
		header := AppendHeader(nil, Header{Flags: FlagPublishBatch, Length: claimed})
		got := allocated(func() {
			_, _, err := ReadFrame(io.MultiReader(bytes.NewReader(header), bytes.NewReader(make([]byte, sent))), nil, claimed)
			if de := faultOf(t, err); de.Fault != FaultTruncated {
				t.Fatal(err)
			}
		})
		if got > 8*sent {
			t.Errorf("%d bytes allocated for %d of %d", got, sent, claimed)
		}
	})
	t.Run("large_frame", func(t *testing.T) {
		big := AppendHeader(nil, Header{Length: 300_000})
		big = append(big, bytes.Repeat([]byte{7}, 300_000)...)
		buf := make([]byte, 0, 100)
		_, payload, err := ReadFrame(iotest.HalfReader(bytes.NewReader(big)), buf, DefaultMaxFrameBytes)
		if err != nil || !bytes.Equal(payload, big[HeaderSize:]) || cap(payload) > 600_000 {
			t.Errorf("%d bytes in %d, %v", len(payload), cap(payload), err)
		}
	})
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBadPublishes(t *testing.T) {
	publish := BinaryPublish{
		RequestID: 7, Ack: AckPerBatch, Key: []byte("k"), TenantID: []byte("t1"), Namespace: []byte("ns"), Stream: []byte("s"),
		Payloads: MakePayloads([]byte("a"), []byte("bc")),
	}
	frame, err := AppendBinaryPublish(nil, &publish)
	if err != nil {
		t.Fatal(err)
	}
	good := frame[HeaderSize:]
	plain := good[correlationSize+3:] // no correlation, no key
	at := func(b []byte, i int, with ...byte) []byte {
		out := bytes.Clone(b)
		copy(out[i:], with)
		return out
	}
	const names = 2 + 2 + 2 + 2 + 2 + 1 // tenant, namespace and stream with their lengths
	for _, tc := range []struct {
		name    string
		flags   Flags
		payload []byte
		fault   Fault
		verdict Verdict
	}{
		{"empty", 0x0001, nil, FaultTruncated, EndStream},
		{"empty_acked", 0x0009, nil, FaultTruncated, EndStream},
		{"correlation_cut", 0x0009, good[:8], FaultTruncated, EndStream},
		{"nothing_but_correlation", 0x0049, good[:9], FaultTruncated, Continue},
		{"ack_mode_0", 0x0049, at(good, 8, 0), FaultValue, Continue},
		{"ack_mode_3", 0x0049, at(good, 8, 3), FaultValue, Continue},
		{"idempotent_per_message", 0x0149, at(good, 8, 1), FaultValue, Continue},
		{"producer_cut", 0x0109, good[:20], FaultTruncated, Continue},
		{"key_cut", 0x0049, good[:11], FaultTruncated, Continue},
		{"tenant_longer_than_all", 0x0001, at(plain, 0, 255, 255), FaultTruncated, EndStream},
		{"tenant_not_utf8", 0x0001, at(plain, 2, 0xff), FaultUTF8, EndStream},
		{"namespace_not_utf8", 0x0001, at(plain, 6, 0xc3), FaultUTF8, EndStream},
		{"stream_not_utf8", 0x0049, at(good, len(good)-16, 0x80), FaultUTF8, Continue},
		{"no_count", 0x0001, plain[:names+2], FaultTruncated, EndStream},
		{"count_of_more_than_fits", 0x0001, at(plain, names, 0, 0, 0, 3), FaultTruncated, EndStream},
		{"largest_count", 0x0001, at(plain, names, 255, 255, 255, 255), FaultTruncated, EndStream},
		{"count_too_small", 0x0001, at(plain, names, 0, 0, 0, 1), FaultTrailing, EndStream},
		{"count_0_with_payloads", 0x0049, at(good, len(good)-15, 0, 0, 0, 0), FaultTrailing, Continue},
		{"largest_length", 0x0001, at(plain, names+4, 255, 255, 255, 255), FaultTruncated, EndStream},
		{"last_length_too_large", 0x0001, at(plain, len(plain)-6, 0, 0, 0, 3), FaultTruncated, EndStream},
		{"one_byte_behind", 0x0001, append(bytes.Clone(plain), 0), FaultTrailing, EndStream},
		{"one_byte_behind_acked", 0x0049, append(bytes.Clone(good), 0), FaultTrailing, Continue},
		{"idempotent_unacked", 0x0101, plain, FaultFlags, EndStream},
		{"unknown_flag", 0x8001, plain, FaultFlags, EndStream},
		{"not_a_publish", 0x0004, plain, FaultFlags, EndStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseBinaryPublish(tc.flags, tc.payload)
			de := faultOf(t, err)
			if de.Fault != tc.fault || de.Verdict != tc.verdict {
				t.Errorf("got %v, verdict %d, want %v, %d", de.Fault, de.Verdict, tc.fault, tc.verdict)
			}
			wantID := Opt[uint64]{}
			if tc.verdict == Continue {
				wantID = Some[uint64](7)
			}
			if de.RequestID != wantID {
				t.Errorf("request id %+v, want %+v", de.RequestID, wantID)
			}
		})
	}
	for n := range len(good) {
		if _, err := ParseBinaryPublish(0x0049, good[:n]); err == nil {
			t.Errorf("the first %d bytes of %d parse", n, len(good))
		}
	}
	long := make([]byte, maxShort+1)
	for name, p := range map[string]BinaryPublish{
		"key": {Key: long}, "tenant": {TenantID: long}, "namespace": {Namespace: long}, "stream": {Stream: long},
	} {
		if out, err := AppendBinaryPublish([]byte("x"), &p); !errors.Is(err, ErrTooLong) || string(out) != "x" {
			t.Errorf("%s of 64 KiB: %d bytes, %v", name, len(out), err)
		}
	}
}

func TestBadPayloads(t *testing.T) {
	over := binary.BigEndian.AppendUint32(nil, MaxPayloads+1)
	over = append(over, make([]byte, payloadPrefix*(MaxPayloads+1))...)
	if _, err := ParsePayloads(over); faultOf(t, err).Fault != FaultTooMany {
		t.Errorf("one payload too many: %v", err)
	}
	if _, err := ParsePayloads(append(binary.BigEndian.AppendUint32(nil, MaxPayloads), over[8:]...)); err != nil {
		t.Errorf("as many payloads as may be: %v", err)
	}
	for count, want := range map[int]Fault{-1: FaultTruncated, 0: FaultTrailing, 2: FaultTruncated, MaxPayloads + 1: FaultTooMany} {
		if _, err := NewPayloads(count, []byte{0, 0, 0, 1, 'a'}); faultOf(t, err).Fault != want {
			t.Errorf("count %d: %v", count, err)
		}
	}
}

func TestBadEventBatches(t *testing.T) {
	good := unhex(t, eventVectors[4].frame)[HeaderSize:] // every part
	plain := unhex(t, eventVectors[0].frame)[HeaderSize:]
	at := func(b []byte, i int, with ...byte) []byte {
		out := bytes.Clone(b)
		copy(out[i:], with)
		return out
	}
	top := bytes.Repeat([]byte{255}, 8)
	for _, tc := range []struct {
		name    string
		flags   Flags
		payload []byte
		fault   Fault
	}{
		{"empty", 0x0004, nil, FaultTruncated},
		{"base_cut", 0x0024, good[:7], FaultTruncated},
		{"skipped_0", 0x6824, at(good, 15, 0), FaultValue},
		{"skipped_more_than_there_are", 0x6824, at(good, 15, 42), FaultValue},
		{"publisher_empty", 0x2004, append([]byte{0}, plain...), FaultValue},
		{"publisher_cut", 0x2004, []byte{9, 'a'}, FaultTruncated},
		{"publisher_not_utf8", 0x2004, append([]byte{1, 0xff}, plain...), FaultUTF8},
		{"largest_count", 0x0004, at(plain, 0, 255, 255, 255, 255), FaultTruncated},
		{"count_of_more_than_fits", 0x0004, at(plain, 0, 0, 0, 0, 3), FaultTruncated},
		{"count_too_small", 0x0004, at(plain, 0, 0, 0, 0, 1), FaultTrailing},
		{"offsets_wrap", 0x0024, append(bytes.Clone(top), plain...), FaultValue},
		{"length_too_large", 0x0004, at(plain, 4, 255, 255, 255, 255), FaultTruncated},
		{"trailing", 0x0004, append(bytes.Clone(plain), 1), FaultTrailing},
		{"no_room_for_times", 0x4004, plain, FaultTruncated},
		{"skipped_without_offsets", 0x0804, plain, FaultFlags},
		{"both_forms", 0x0006, plain, FaultFlags},
		{"unknown_flag", 0x8004, plain, FaultFlags},
		{"a_publish", 0x0001, plain, FaultFlags},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseEventBatch(tc.flags, tc.payload)
			if de := faultOf(t, err); de.Fault != tc.fault || de.Verdict != EndStream {
				t.Errorf("got %v, verdict %d, want %v", de.Fault, de.Verdict, tc.fault)
			}
		})
	}
	for n := range len(good) {
		if _, err := ParseEventBatch(0x6824, good[:n]); err == nil {
			t.Errorf("the first %d bytes of %d parse", n, len(good))
		}
	}
	// What there is nothing to say about is left out together with its bit.
	h := EventHead{Flags: KnownFlags &^ FlagEventBatch, Publisher: bytes.Repeat([]byte{'p'}, 256)}
	if f := h.WireFlags(); f != FlagSharedEventBatch|FlagOffsets|FlagTimestamps {
		t.Errorf("flags %v", f)
	}
	h = EventHead{Flags: FlagSkipped, SkippedBefore: 3}
	if f := h.WireFlags(); f != FlagSharedEventBatch {
		t.Errorf("skipped without offsets: flags %v", f)
	}
}

func TestBadAcks(t *testing.T) {
	ok := unhex(t, "0000000000000000070000")
	failed := unhex(t, "01000000000000000900016d")
	for _, tc := range []struct {
		name    string
		flags   Flags
		payload []byte
		fault   Fault
	}{
		{"empty", 0x0010, nil, FaultTruncated},
		{"ten_bytes", 0x0010, ok[:10], FaultTruncated},
		{"status_2", 0x0010, append([]byte{2}, ok[1:]...), FaultValue},
		{"message_on_success", 0x0010, append([]byte{0}, failed[1:]...), FaultValue},
		{"message_not_utf8", 0x0010, append(bytes.Clone(failed[:11]), 0xff), FaultUTF8},
		{"message_cut", 0x0010, failed[:11], FaultTruncated},
		{"code_on_success", 0x0210, append(bytes.Clone(ok), 0, 4, 5), FaultValue},
		{"code_0", 0x0210, append(bytes.Clone(failed), 0, 0, 5), FaultValue},
		{"code_cut", 0x0210, append(bytes.Clone(failed), 0, 4), FaultTruncated},
		{"detail_cut", 0x0610, append(bytes.Clone(failed), 0, 4, 5, 0, 0, 1), FaultTruncated},
		{"offset_on_failure", 0x1010, append(bytes.Clone(failed), ok[1:9]...), FaultValue},
		{"owner_cut", 0x0090, append(bytes.Clone(ok), 0, 1), FaultTruncated},
		{"trailing", 0x0010, append(bytes.Clone(ok), 0), FaultTrailing},
		{"detail_without_code", 0x0410, ok, FaultFlags},
		{"not_an_ack", 0x0000, ok, FaultFlags},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParsePublishAck(tc.flags, tc.payload)
			if de := faultOf(t, err); de.Fault != tc.fault || de.Verdict != EndStream {
				t.Errorf("got %v, verdict %d, want %v", de.Fault, de.Verdict, tc.fault)
			}
		})
	}
	a, err := ParsePublishAck(0x0210, append(bytes.Clone(failed), 0x7f, 0xff, 77))
	if err != nil || a.Code != 0x7fff || a.Retry != RetryFatal {
		t.Errorf("unknown code and class: %+v, %v", a, err)
	}
	// Text that is too long is cut between characters, text that is no UTF-8 is repaired.
	long := PublishAck{Failed: true, Message: "a" + strings.Repeat("語", 30_000)}
	flags, payload := split(t, AppendPublishAck(nil, &long, 0))
	if got, err := ParsePublishAck(flags, payload); err != nil || got.Message != "a"+strings.Repeat("語", (maxShort-1)/3) {
		t.Errorf("%d bytes of message, %v", len(got.Message), err)
	}
	bad := PublishAck{Failed: true, Message: "a\xffb"}
	flags, payload = split(t, AppendPublishAck(nil, &bad, 0))
	if got, err := ParsePublishAck(flags, payload); err != nil || got.Message != "a\uFFFDb" {
		t.Errorf("message %q, %v", got.Message, err)
	}
}

// Pieces of JSON that several cases share.
const (
	jsonScope = `"tenant_id":"t1","namespace":"n","stream":"s"`
	jsonCache = `"tenant_id":"t1","namespace":"n","cache":"c"`
	jsonGroup = jsonScope + `,"shard":0,"group":"g","request_id":5`
)

func TestBadMessages(t *testing.T) {
	var none Opt[uint64]
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	var wide strings.Builder
	for i := range maxKeys {
		fmt.Fprintf(&wide, `,"x%d":0`, i)
	}
	for _, tc := range []struct {
		name, payload string
		fault         Fault
		verdict       Verdict
		field         string
		id            Opt[uint64]
	}{
		{"empty", ``, FaultJSON, EndStream, "", none},
		{"null", `null`, FaultJSON, EndStream, "", none},
		{"array", `[{"type":"topology"}]`, FaultJSON, EndStream, "", none},
		{"two_objects", `{"type":"topology"}{"type":"topology"}`, FaultJSON, EndStream, "", none},
		{"trailing_nul", "{\"type\":\"topology\"}\x00", FaultJSON, EndStream, "", none},
		{"byte_order_mark", "\ufeff" + `{"type":"topology"}`, FaultJSON, EndStream, "", none},
		{"not_utf8", "{\"type\":\"topology\",\"x\":\"\xff\"}", FaultUTF8, EndStream, "", none},
		{"surrogate_as_utf8", "{\"type\":\"topology\",\"x\":\"\xed\xa0\x80\"}", FaultUTF8, EndStream, "", none},
		{"half_a_surrogate_pair", `{"type":"topology","x":"\ud800"}`, FaultJSON, EndStream, "", none},
		{"halves_the_wrong_way", `{"type":"topology","x":"\udc00\ud800"}`, FaultJSON, EndStream, "", none},
		{"bad_escape", `{"type":"topology","x":"\x41"}`, FaultJSON, EndStream, "", none},
		{"line_break_in_string", "{\"type\":\"topology\",\"x\":\"a\nb\"}", FaultJSON, EndStream, "", none},
		{"unterminated", `{"type":"topology"`, FaultJSON, EndStream, "", none},
		{"unterminated_string", `{"type":"topology`, FaultJSON, EndStream, "", none},
		{"trailing_comma", `{"type":"topology",}`, FaultJSON, EndStream, "", none},
		{"trailing_comma_in_array", `{"type":"topology","x":[1,]}`, FaultJSON, EndStream, "", none},
		{"comment", `{"type":"topology"/**/}`, FaultJSON, EndStream, "", none},
		{"single_quotes", `{'type':'topology'}`, FaultJSON, EndStream, "", none},
		{"leading_zero", `{"type":"topology","x":01}`, FaultJSON, EndStream, "", none},
		{"plus", `{"type":"topology","x":+1}`, FaultJSON, EndStream, "", none},
		{"nan", `{"type":"topology","x":NaN}`, FaultJSON, EndStream, "", none},
		{"too_deep", `{"type":"topology","x":` + deep + `}`, FaultTooDeep, EndStream, "", none},
		{"too_wide", `{"type":"topology"` + wide.String() + `}`, FaultTooDeep, EndStream, "", none},
		{"type_twice", `{"type":"topology","type":"topology"}`, FaultDuplicateKey, EndStream, "", none},
		{"key_twice_in_disguise", `{"type":"topology","a":1,"\u0061":2}`, FaultDuplicateKey, EndStream, "", none},
		{"key_twice_further_in", `{"type":"topology","x":[{"a":1,"b":{},"a":2}]}`, FaultDuplicateKey, EndStream, "", none},
		{"no_type", `{"tenant_id":"t1"}`, FaultType, EndStream, "", none},
		{"type_in_capitals", `{"Type":"topology"}`, FaultType, EndStream, "", none},
		{"type_null", `{"type":null}`, FaultType, EndStream, "", none},
		{"type_number", `{"type":1}`, FaultType, EndStream, "", none},
		{"type_too_long", `{"type":"` + strings.Repeat("x", 256) + `"}`, FaultType, EndStream, "", none},

		{"auth_without_tenant", `{"type":"auth","token":"x"}`, FaultMissing, Continue, "tenant_id", none},
		{"auth_without_token", `{"type":"auth","tenant_id":"t1","token":null}`, FaultMissing, Continue, "token", none},
		{"auth_key_in_capitals", `{"type":"auth","tenant_id":"t1","Token":"x"}`, FaultMissing, Continue, "token", none},
		{
			"auth_flags_too_large",
			`{"type":"auth","tenant_id":"t1","token":"x","client_flags":65536}`,
			FaultField, Continue, "client_flags", none,
		},
		{
			"auth_features_too_large",
			`{"type":"auth","tenant_id":"t1","token":"x","client_features":4294967296}`,
			FaultField, Continue, "client_features", none,
		},
		{"tenant_number", `{"type":"auth","tenant_id":1,"token":"x"}`, FaultField, Continue, "tenant_id", none},

		{"id_missing", `{"type":"stream_shards",` + jsonScope + `}`, FaultMissing, Continue, "request_id", none},
		{"id_fraction", `{"type":"stream_shards",` + jsonScope + `,"request_id":1.0}`, FaultField, Continue, "request_id", none},
		{"id_exponent", `{"type":"stream_shards",` + jsonScope + `,"request_id":1e3}`, FaultField, Continue, "request_id", none},
		{"id_negative", `{"type":"stream_shards",` + jsonScope + `,"request_id":-1}`, FaultField, Continue, "request_id", none},
		{"id_string", `{"type":"stream_shards",` + jsonScope + `,"request_id":"1"}`, FaultField, Continue, "request_id", none},
		{
			"id_past_64_bits",
			`{"type":"stream_shards",` + jsonScope + `,"request_id":18446744073709551616}`,
			FaultField, Continue, "request_id", none,
		},
		{
			"id_far_past_64_bits",
			`{"type":"stream_shards",` + jsonScope + `,"request_id":99999999999999999999}`,
			FaultField, Continue, "request_id", none,
		},
		{
			"kind_unknown",
			`{"type":"shard_owners","tenant_id":"t","namespace":"n","name":"x","kind":"table","request_id":1}`,
			FaultField, Continue, "kind", Some[uint64](1),
		},

		{"payload_missing", `{"type":"publish",` + jsonScope + `,"request_id":9}`, FaultMissing, Continue, "payload", Some[uint64](9)},
		{"payload_unpadded", `{"type":"publish",` + jsonScope + `,"payload":"aGVsbG8"}`, FaultField, Continue, "payload", none},
		{"payload_url_alphabet", `{"type":"publish",` + jsonScope + `,"payload":"-_-_"}`, FaultField, Continue, "payload", none},
		{"payload_line_break", `{"type":"publish",` + jsonScope + `,"payload":"aGVs\nbG8="}`, FaultField, Continue, "payload", none},
		{"payload_carriage_return", `{"type":"publish",` + jsonScope + `,"payload":"aGVsbG8=\r"}`, FaultField, Continue, "payload", none},
		{"payload_stray_bits", `{"type":"publish",` + jsonScope + `,"payload":"aGVsbG9="}`, FaultField, Continue, "payload", none},
		{"payload_array", `{"type":"publish",` + jsonScope + `,"payload":[1,2]}`, FaultField, Continue, "payload", none},
		{
			"ack_unknown",
			`{"type":"publish",` + jsonScope + `,"payload":"","ack":"all","request_id":9}`,
			FaultField, Continue, "ack", Some[uint64](9),
		},
		{
			"ack_without_id",
			`{"type":"publish",` + jsonScope + `,"payload":"","ack":"per_batch"}`,
			FaultMissing, Continue, "request_id", none,
		},
		{
			"shard_negative", `{"type":"publish",` + jsonScope + `,"payload":"","request_id":3,"shard":-1}`,
			FaultField, Continue, "shard", Some[uint64](3),
		},
		{"shard_too_large", `{"type":"publish",` + jsonScope + `,"payload":"","shard":4294967296}`, FaultField, Continue, "shard", none},
		{"shard_fraction", `{"type":"publish_batch",` + jsonScope + `,"payloads":[],"shard":1.0}`, FaultField, Continue, "shard", none},
		{"shard_exponent", `{"type":"publish_batch",` + jsonScope + `,"payloads":[],"shard":1e0}`, FaultField, Continue, "shard", none},
		{
			"shard_string",
			`{"type":"publish_idempotent",` + jsonScope + `,"payloads":[],"request_id":3,"producer_id":1,"sequence":0,"shard":"1"}`,
			FaultField, Continue, "shard", Some[uint64](3),
		},
		{
			"shard_array",
			`{"type":"publish_if",` + jsonScope + `,"payloads":[],"expected_offset":0,"request_id":3,"shard":[1]}`,
			FaultField, Continue, "shard", Some[uint64](3),
		},
		{
			"shard_object", `{"type":"commit",` + jsonScope + `,"entity_key":"","event":"","request_id":3,"shard":{"n":1}}`,
			FaultField, Continue, "shard", Some[uint64](3),
		},
		{
			"shard_boolean", `{"type":"state_get",` + jsonScope + `,"entity_key":"","key":"a","request_id":3,"shard":true}`,
			FaultField, Continue, "shard", Some[uint64](3),
		},
		{"shard_twice", `{"type":"publish",` + jsonScope + `,"payload":"","shard":1,"shard":1}`, FaultDuplicateKey, EndStream, "", none},
		{"payloads_string", `{"type":"publish_batch",` + jsonScope + `,"payloads":"aGVsbG8="}`, FaultField, Continue, "payloads", none},
		{
			"payloads_null_inside",
			`{"type":"publish_batch",` + jsonScope + `,"payloads":["",null]}`,
			FaultField, Continue, "payloads", none,
		},
		{"payloads_bad_inside", `{"type":"publish_batch",` + jsonScope + `,"payloads":["","="]}`, FaultField, Continue, "payloads", none},
		{
			"sequence_missing",
			`{"type":"publish_idempotent",` + jsonScope + `,"payloads":[],"request_id":3,"producer_id":1}`,
			FaultMissing, Continue, "sequence", Some[uint64](3),
		},
		{
			"expected_missing",
			`{"type":"publish_if",` + jsonScope + `,"payloads":[],"request_id":3}`,
			FaultMissing, Continue, "expected_offset", Some[uint64](3),
		},

		{"start_unknown", `{"type":"subscribe",` + jsonScope + `,"start":"middle"}`, FaultField, Continue, "start", none},
		{"start_word_offset", `{"type":"subscribe",` + jsonScope + `,"start":"offset"}`, FaultField, Continue, "start", none},
		{"start_two_keys", `{"type":"subscribe",` + jsonScope + `,"start":{"offset":1,"x":2}}`, FaultField, Continue, "start", none},
		{"start_empty", `{"type":"subscribe",` + jsonScope + `,"start":{}}`, FaultField, Continue, "start", none},
		{"start_negative", `{"type":"subscribe",` + jsonScope + `,"start":{"offset":-1}}`, FaultField, Continue, "start", none},
		{"start_object_latest", `{"type":"subscribe",` + jsonScope + `,"start":{"latest":1}}`, FaultField, Continue, "start", none},
		{"shard_too_large", `{"type":"subscribe",` + jsonScope + `,"shard":4294967296}`, FaultField, Continue, "shard", none},

		{"watch_neither", `{"type":"cache_watch",` + jsonCache + `}`, FaultExclusive, Continue, "key", none},
		{"watch_both", `{"type":"cache_watch",` + jsonCache + `,"key":"a","prefix":""}`, FaultExclusive, Continue, "key", none},
		{
			"watch_retained_from_offset",
			`{"type":"cache_watch",` + jsonCache + `,"key":"a","retained":true,"from_offset":1}`,
			FaultExclusive, Continue, "retained", none,
		},
		{"retained_number", `{"type":"cache_watch",` + jsonCache + `,"key":"a","retained":1}`, FaultField, Continue, "retained", none},
		{"ttl_negative", `{"type":"cache_put",` + jsonCache + `,"key":"a","value":"","ttl_ms":-1}`, FaultField, Continue, "ttl_ms", none},
		{
			"condition_missing",
			`{"type":"cache_put_if",` + jsonCache + `,"key":"a","value":"","request_id":1}`,
			FaultMissing, Continue, "condition", Some[uint64](1),
		},
		{
			"condition_present",
			`{"type":"cache_put_if",` + jsonCache + `,"key":"a","value":"","condition":"present","request_id":1}`,
			FaultField, Continue, "condition", Some[uint64](1),
		},
		{
			"delta_too_large",
			`{"type":"counter_add",` + jsonCache + `,"key":"a","delta":9223372036854775808,"request_id":1}`,
			FaultField, Continue, "delta", Some[uint64](1),
		},
		{
			"delta_too_small",
			`{"type":"counter_add",` + jsonCache + `,"key":"a","delta":-9223372036854775809,"request_id":1}`,
			FaultField, Continue, "delta", Some[uint64](1),
		},
		{
			"delta_minus_zero",
			`{"type":"counter_add",` + jsonCache + `,"key":"a","delta":-0,"request_id":1}`,
			FaultField, Continue, "delta", Some[uint64](1),
		},

		{"poll_without_max", `{"type":"group_poll",` + jsonGroup + `}`, FaultMissing, Continue, "max_records", Some[uint64](5)},
		{"seek_without_start", `{"type":"group_seek",` + jsonGroup + `}`, FaultMissing, Continue, "start", Some[uint64](5)},
		{
			"seek_to_nothing",
			`{"type":"group_seek",` + jsonGroup + `,"start":{"offset":null}}`,
			FaultField, Continue, "start", Some[uint64](5),
		},
		{"ack_without_offset", `{"type":"group_ack",` + jsonGroup + `,"offset":null}`, FaultMissing, Continue, "offset", Some[uint64](5)},

		{
			"change_unknown",
			`{"type":"commit",` + jsonScope + `,"entity_key":"","event":"","changes":[{"op":"merge","key":"a"}],"request_id":1}`,
			FaultField, Continue, "changes.op", Some[uint64](1),
		},
		{
			"change_without_value",
			`{"type":"commit",` + jsonScope + `,"entity_key":"","event":"","changes":[{"op":"put","key":"a"}],"request_id":1}`,
			FaultMissing, Continue, "changes.value", Some[uint64](1),
		},
		{
			"change_string",
			`{"type":"commit",` + jsonScope + `,"entity_key":"","event":"","changes":["put"],"request_id":1}`,
			FaultField, Continue, "changes", Some[uint64](1),
		},
		{"filter_array", `{"type":"subscriptions_list","request_id":1,"filter":[]}`, FaultField, Continue, "filter", Some[uint64](1)},
		{
			"dropping_string",
			`{"type":"subscriptions_list","request_id":1,"filter":{"dropping":"yes"}}`,
			FaultField, Continue, "filter.dropping", Some[uint64](1),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ParseRequest([]byte(tc.payload))
			if err == nil {
				t.Fatalf("parses as %+v", m)
			}
			de := faultOf(t, err)
			if de.Fault != tc.fault || de.Verdict != tc.verdict || de.Field != tc.field || de.RequestID != tc.id {
				t.Errorf("got %v, verdict %d, field %q, id %+v, want %v, %d, %q, %+v",
					de.Fault, de.Verdict, de.Field, de.RequestID, tc.fault, tc.verdict, tc.field, tc.id)
			}
			if errcode.Of(err) != errcode.InvalidRequest {
				t.Errorf("kind %v", errcode.Of(err))
			}
			if (de.Type == "") != (tc.verdict == EndStream) || strings.Contains(err.Error(), "t1") {
				t.Errorf("type %q, text %q", de.Type, err)
			}
		})
	}
}

func TestBadReplies(t *testing.T) {
	for _, tc := range []struct {
		name, payload string
		fault         Fault
		field         string
	}{
		{"flags_too_large", `{"type":"auth_ok","server_flags":65536}`, FaultField, "server_flags"},
		{"port_too_large", `{"type":"auth_ok","server_flags":1,"listener_ports":[1,65536]}`, FaultField, "listener_ports"},
		{"ports_object", `{"type":"auth_ok","server_flags":1,"listener_ports":{}}`, FaultField, "listener_ports"},
		{"message_missing", `{"type":"error"}`, FaultMissing, "message"},
		{"detail_string", `{"type":"error","message":"m","detail":"x"}`, FaultField, "detail"},
		{"value_absent", `{"type":"cache_value",` + jsonCache + `,"key":"a"}`, FaultMissing, "value"},
		{"state_absent", `{"type":"state_value","request_id":1}`, FaultMissing, "value"},
		{"reason_missing", `{"type":"publish_refused","request_id":1,"message":"m"}`, FaultMissing, "reason"},
		{"reason_unknown", `{"type":"publish_refused","request_id":1,"reason":"x","message":"m"}`, FaultField, "reason"},
		{"reason_without_data", `{"type":"publish_refused","request_id":1,"reason":"sequence_gap","message":"m"}`, FaultField, "reason"},
		{"reason_with_data", `{"type":"publish_refused","request_id":1,"reason":{"unknown_producer":{}},"message":"m"}`, FaultField, "reason"},
		{"reason_number", `{"type":"publish_refused","request_id":1,"reason":{"sequence_gap":5},"message":"m"}`, FaultField, "reason"},
		{"reason_half", `{"type":"publish_refused","request_id":1,"reason":{"sequence_gap":{}},"message":"m"}`, FaultMissing, "reason.expected"},
		{"cursor_unknown", `{"type":"subscribe_cursor_error","reason":"gone","requested":1,"available":2}`, FaultField, "reason"},
		{"routing_unknown", `{"type":"stream_shards_view","shards":1,"request_id":1,"routing":"rendezvous"}`, FaultField, "routing"},
		{"owner_null", `{"type":"shard_owners_view","owners":[null],"request_id":1}`, FaultField, "owners"},
		{"owner_without_generation", `{"type":"shard_owners_view","owners":[{"shard":0}],"request_id":1}`, FaultMissing, "owners.generation"},
		{"record_payload", `{"type":"group_records","records":[{"offset":1,"payload":7}],"request_id":1}`, FaultField, "records.payload"},
		{"view_role", `{"type":"shard_inspect_info","request_id":1,"view":{"node_id":"a","shards":1}}`, FaultMissing, "view.role"},
		{"applied_string", `{"type":"cache_condition_result","applied":"true","request_id":1}`, FaultField, "applied"},
		{"offsets_negative", `{"type":"group_dead_letter_list","offsets":[-1],"request_id":1}`, FaultField, "offsets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ParseReply([]byte(tc.payload))
			if err == nil {
				t.Fatalf("parses as %+v", m)
			}
			if de := faultOf(t, err); de.Fault != tc.fault || de.Field != tc.field || de.Verdict != Continue {
				t.Errorf("got %v, field %q, want %v, %q", de.Fault, de.Field, tc.fault, tc.field)
			}
		})
	}
}

// TestLenientMessages keeps what must be read although nobody writes it so.
func TestLenientMessages(t *testing.T) {
	for _, tc := range []struct {
		name, payload string
		want          Message
	}{
		{
			"unknown_fields_and_white_space",
			" {\t\"future\" : {\"a\":[1.5e3,true,null,{}]} ,\r\n\"type\":\"stream_shards\",\"request_id\":0," + jsonScope + "} ",
			&StreamShards{StreamScope: StreamScope{"t1", "n", "s"}},
		},
		{
			"null_is_absent",
			`{"type":"group_poll",` + jsonGroup + `,"max_records":3,"wait_ms":null,"consumer":null,"reclaim":null,"visibility_ms":null}`,
			&GroupPoll{GroupScope: GroupScope{StreamScope{"t1", "n", "s"}, 0, "g", 5}, MaxRecords: 3},
		},
		{
			"ttl_null", `{"type":"cache_put",` + jsonCache + `,"key":"a","value":"","ttl_ms":null}`,
			&CachePut{CacheScope: CacheScope{"t1", "n", "c"}, Key: "a", Value: []byte{}},
		},
		{
			"ttl_absent", `{"type":"cache_put",` + jsonCache + `,"key":"a","value":""}`,
			&CachePut{CacheScope: CacheScope{"t1", "n", "c"}, Key: "a", Value: []byte{}},
		},
		{
			"escapes", `{"type":"cache_get","\u0074enant_id":"t1","namespace":"\ud83d\udF42\/","cache":"\u0000\b","key":"\"\\"}`,
			&CacheGet{CacheScope: CacheScope{"t1", "🝂/", "\x00\b"}, Key: `"\`},
		},
		{
			"slash_escaped_in_base64", `{"type":"publish",` + jsonScope + `,"payload":"\/\/\/\/","key":""}`,
			&Publish{StreamScope: StreamScope{"t1", "n", "s"}, Payload: []byte{255, 255, 255}, Key: []byte{}},
		},
		{
			"ack_none", `{"type":"publish",` + jsonScope + `,"payload":"","ack":"none"}`,
			&Publish{StreamScope: StreamScope{"t1", "n", "s"}, Payload: []byte{}},
		},
		{
			"shard_null", `{"type":"publish",` + jsonScope + `,"payload":"","shard":null}`,
			&Publish{StreamScope: StreamScope{"t1", "n", "s"}, Payload: []byte{}},
		},
		{
			"largest_shard", `{"type":"publish",` + jsonScope + `,"payload":"","shard":4294967295}`,
			&Publish{StreamScope: StreamScope{"t1", "n", "s"}, Payload: []byte{}, Shard: Some[uint32](math.MaxUint32)},
		},
		{
			"largest_numbers", `{"type":"counter_add",` + jsonCache + `,"key":"","delta":-9223372036854775808,"request_id":18446744073709551615}`,
			&CounterAdd{CacheScope: CacheScope{"t1", "n", "c"}, Delta: math.MinInt64, RequestID: math.MaxUint64},
		},
		{"extension_body_null", `{"type":"extension","name":"x","body":null}`, &Extension{Name: "x"}},
		{
			"extension_body_number", `{"type":"extension","name":"x","body":1.00000000000000000001}`,
			&Extension{Name: "x", Body: []byte("1.00000000000000000001")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseRequest([]byte(tc.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffOf(got, tc.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
	m, err := ParseReply([]byte(`{"type":"error","message":"m","code":"newer","retry":"newer","detail":{"x":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := m.(*Error); !ok || e.Code != "newer" || e.Class() != RetryFatal || e.Reason != "" {
		t.Errorf("open words: %+v", m)
	}
}

func TestUnknownTypes(t *testing.T) {
	for _, tc := range []struct {
		name, payload, kind string
		id                  Opt[uint64]
	}{
		{"without_id", `{"type":"warp"}`, "warp", Opt[uint64]{}},
		{"with_id", `{"type":"warp","request_id":7}`, "warp", Some[uint64](7)},
		{"with_signed_id", `{"type":"warp","request_id":-7}`, "warp", Opt[uint64]{}},
		{"with_text_id", `{"type":"warp","request_id":"7"}`, "warp", Opt[uint64]{}},
		{"a_reply", `{"type":"publish_ok","request_id":7}`, "publish_ok", Some[uint64](7)},
		{"capitals", `{"type":"Subscribe"}`, "Subscribe", Opt[uint64]{}},
		{"empty", `{"type":""}`, "", Opt[uint64]{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseRequest([]byte(tc.payload))
			var unknown *UnknownTypeError
			if !errors.As(err, &unknown) {
				t.Fatalf("%v", err)
			}
			if got := RequestID([]byte(tc.payload)); got != tc.id {
				t.Errorf("request id %+v", got)
			}
			if unknown.Type != tc.kind || unknown.RequestID != tc.id || errcode.Of(err) != errcode.UnsupportedVersion {
				t.Errorf("%+v", unknown)
			}
		})
	}
}

// TestMemoryOfMessages holds parsing to a small multiple of what arrived, for the shapes that blow up most.
func TestMemoryOfMessages(t *testing.T) {
	const (
		size   = 1 << 20
		commit = `{"type":"commit",` + jsonScope + `,"entity_key":"","event":"","changes":[`
	)
	repeat := func(head, item, tail string) []byte {
		n := size / (len(item) + 1)
		return []byte(head + strings.Repeat(item+",", n-1) + item + tail)
	}
	for _, tc := range []struct {
		name    string
		payload []byte
		parse   func([]byte) (Message, error)
		times   int
	}{
		{"empty_payloads", repeat(`{"type":"publish_batch",`+jsonScope+`,"payloads":[`, `""`, `]}`), ParseRequest, 5},
		{"empty_objects", repeat(commit, `{}`, `],"request_id":1}`), ParseRequest, 1},
		{"smallest_changes", repeat(commit, `{"op":"delete","key":""}`, `],"request_id":1}`), ParseRequest, 16},
		{"smallest_records", repeat(`{"type":"group_records","records":[`, `{"offset":1,"payload":""}`, `],"request_id":1}`), ParseReply, 32},
		{"numbers", repeat(`{"type":"group_dead_letter_list","offsets":[`, `1`, `],"request_id":1}`), ParseReply, 32},
		{"nothing_known", repeat(`{"type":"topology","x":[`, `{"a":{},"b":[]}`, `]}`), ParseRequest, 1},
		{"long_escapes", repeat(`{"type":"cache_get",`+jsonCache+`,"key":"`, `\u0041`, `"}`), ParseRequest, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := allocated(func() { _, _ = tc.parse(tc.payload) }); got > uint64(tc.times*len(tc.payload)) {
				t.Errorf("%d bytes for %d: %d times", got, len(tc.payload), got/uint64(len(tc.payload)))
			}
		})
	}
}

func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range faultCount {
		if seen[f.String()] || f.String() == "" || faultTexts[f] == "" {
			t.Errorf("fault %d has the name %q", f, f)
		}
		seen[f.String()] = true
	}
	err := &DecodeError{Fault: FaultMissing, Type: "auth", Field: "token"}
	if got := err.Error(); got != "wire: auth: missing field: token" {
		t.Errorf("text %q", got)
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	m := &Auth{TenantID: "t1", Token: "secret"}
	for _, v := range []any{m, *m, struct{ M *Auth }{m}, []Message{m}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "secret") {
				t.Errorf("%T with %s: %s", v, format, got)
			}
		}
	}
	if _, err := ParseRequest([]byte(`{"type":"auth","tenant_id":1,"token":"secret"}`)); strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
