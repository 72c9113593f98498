package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vector is a .json file of testdata/vectors; see testdata/NOTICE.
type vector struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Flags       Flags    `json:"flags"`
	PayloadJSON string   `json:"payload_json"`
	PayloadHex  string   `json:"payload_hex"`
	FrameHex    string   `json:"frame_hex"`
	RequestID   uint64   `json:"request_id"`
	AckMode     string   `json:"ack_mode"`
	Status      string   `json:"status"`
	Message     string   `json:"message"`
	Key         *string  `json:"key_utf8"`
	TenantID    string   `json:"tenant_id"`
	Namespace   string   `json:"namespace"`
	Stream      string   `json:"stream"`
	Payloads    []string `json:"payloads_utf8"`
}

// readVectors reads the cases, and holds each against its .hex file if it has one.
func readVectors(tb testing.TB) []vector {
	tb.Helper()
	paths, err := filepath.Glob("testdata/vectors/*.json")
	if err != nil || len(paths) != 17 {
		tb.Fatalf("%d vectors, %v", len(paths), err)
	}
	var out []vector
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(text, &v); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		if frame, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".hex"); err == nil {
			if got := strings.TrimSpace(string(frame)); got != v.FrameHex {
				tb.Fatalf("%s: its .hex file has another frame: %s", path, got)
			}
		}
		out = append(out, v)
	}
	return out
}

var (
	scope      = StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	cacheScope = CacheScope{TenantID: "t1", Namespace: "default", Cache: "primary"}
)

// vectorMessages says what the JSON vectors mean.
var vectorMessages = map[string]Message{
	"auth_with_capabilities": &Auth{TenantID: "t1", Token: "demo-token", ClientFlags: Some[Flags](25)},
	"auth_extended_features": &Auth{
		TenantID: "t1", Token: "demo-token", ClientFlags: Some[Flags](25),
		ClientFeatures: Some[uint32](0x8000_0001), ClientFeaturesHigh: Some[uint32](1),
	},
	"auth_ok": &AuthOK{ServerFlags: 25},
	"auth_ok_extended_features": &AuthOK{
		ServerFlags: 25, ServerFeatures: Some[uint32](0x8000_0001), ServerFeaturesHigh: Some[uint32](1),
	},
	"ok":          &OK{},
	"error":       &Error{Failure{Message: "oops"}},
	"publish":     &Publish{StreamScope: scope, Payload: []byte("hello")},
	"subscribe":   &Subscribe{StreamScope: scope},
	"event":       &EventMessage{StreamScope: scope, Payload: []byte("world")},
	"cache_put":   &CachePut{CacheScope: cacheScope, Key: "demo-key", Value: []byte("cached"), TTLMillis: Some[uint64](1000)},
	"cache_get":   &CacheGet{CacheScope: cacheScope, Key: "demo-key"},
	"cache_value": &CacheValue{CacheScope: cacheScope, Key: "demo-key", Value: []byte("cached")},
}

func TestVectors(t *testing.T) {
	seen := 0
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			frame := unhex(t, v.FrameHex)
			flags, payload := split(t, frame)
			if flags != v.Flags || !bytes.Equal(payload, unhex(t, v.PayloadHex)) {
				t.Fatalf("flags %v, payload %x", flags, payload)
			}
			switch v.Kind {
			case "":
				seen++
				if string(payload) != v.PayloadJSON {
					t.Fatalf("payload %s", payload)
				}
				want := vectorMessages[v.Name]
				checkMessage(t, frame, want)
			case "binary_publish_batch", "binary_acked_publish_batch":
				want := BinaryPublish{
					RequestID: v.RequestID, TenantID: []byte(v.TenantID), Namespace: []byte(v.Namespace), Stream: []byte(v.Stream),
				}
				for _, p := range v.Payloads {
					want.Payloads = MakePayloads([]byte(p))
				}
				if v.Key != nil {
					want.Key = []byte(*v.Key)
				}
				if v.AckMode != "" {
					want.Ack = AckPerBatch
				}
				checkPublish(t, frame, want)
			case "binary_publish_ack":
				checkAck(t, frame, PublishAck{RequestID: v.RequestID, Failed: v.Status == "error", Message: v.Message})
			default:
				t.Fatalf("kind %q", v.Kind)
			}
		})
	}
	if seen != len(vectorMessages) {
		t.Errorf("%d JSON vectors, meanings for %d", seen, len(vectorMessages))
	}
}

// checkMessage holds a JSON frame against what it means, both ways.
func checkMessage(t *testing.T, frame []byte, want Message) {
	t.Helper()
	_, payload := split(t, frame)
	got, err := ParseRequest(payload)
	if newRequest([]byte(want.kind())) == nil {
		got, err = ParseReply(payload)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want, exact); diff != "" {
		t.Errorf("parsed (-got +want):\n%s", diff)
	}
	if again := AppendMessage([]byte{1}, want); !bytes.Equal(again[1:], frame) {
		t.Errorf("encodes as %s", again[1:])
	}
}

func checkPublish(t *testing.T, frame []byte, want BinaryPublish) {
	t.Helper()
	flags, payload := split(t, frame)
	got, err := ParseBinaryPublish(flags, payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want, exact); diff != "" {
		t.Errorf("parsed (-got +want):\n%s", diff)
	}
	if again, err := AppendBinaryPublish([]byte{1}, &want); err != nil || !bytes.Equal(again[1:], frame) {
		t.Errorf("encodes as %x, %v", again[1:], err)
	}
}

func checkAck(t *testing.T, frame []byte, want PublishAck) {
	t.Helper()
	flags, payload := split(t, frame)
	got, err := ParsePublishAck(flags, payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want, exact); diff != "" {
		t.Errorf("parsed (-got +want):\n%s", diff)
	}
	if again := AppendPublishAck([]byte{1}, &want, KnownFlags); !bytes.Equal(again[1:], frame) {
		t.Errorf("encodes as %x", again[1:])
	}
}

// TestWorkedFrameVectors holds the frames that spec/felix-wire.md works out for what the other vectors leave out.
func TestWorkedFrameVectors(t *testing.T) {
	publish := BinaryPublish{
		TenantID: []byte("t1"), Namespace: []byte("default"), Stream: []byte("demo"), Payloads: MakePayloads([]byte("hello")),
	}
	idempotent := publish
	idempotent.RequestID, idempotent.Ack, idempotent.Idempotent = 7, AckPerBatch, true
	idempotent.ProducerID, idempotent.Sequence = 0x1122334455667788, 3
	keyed := idempotent
	keyed.Key = []byte("k7")
	for _, tc := range []struct {
		name, frame string
		want        BinaryPublish
	}{
		{"plain", "464c5831000100010000002000027431000764656661756c74000464656d6f000000010000000568656c6c6f", publish},
		{
			"idempotent", "464c583100010109000000390000000000000007021122334455667788000000000000000300027431000764656661756c74" +
				"000464656d6f000000010000000568656c6c6f", idempotent,
		},
		{
			"idempotent_keyed", "464c5831000101490000003d0000000000000007021122334455667788000000000000000300026b3700027431" +
				"000764656661756c74000464656d6f000000010000000568656c6c6f", keyed,
		},
	} {
		t.Run("publish_"+tc.name, func(t *testing.T) { checkPublish(t, unhex(t, tc.frame), tc.want) })
	}
	owner := Some(Owner{NodeID: "b2", Addr: "10.0.0.5:5000", Generation: 9})
	for _, tc := range []struct {
		name, frame string
		want        PublishAck
	}{
		{"ok", "464c5831000100100000000b0000000000000000070000", PublishAck{RequestID: 7}},
		{"offset", "464c583100011010000000130000000000000000070000000000000000002a", PublishAck{RequestID: 7, Offset: Some[uint64](42)}},
		{
			"owner", "464c5831000110900000002e000000000000000007000000026232000d31302e302e302e353a353030300000000000000009000000000000002a",
			PublishAck{RequestID: 7, Owner: owner, Offset: Some[uint64](42)},
		},
		{
			"detail", "464c5831000106100000002a010000000000000009000c7368617264206d6f76696e6700050100066d6f76696e670000000000000032",
			PublishAck{
				RequestID: 9, Failed: true, Message: "shard moving", Code: CodeShardUnavailable, Retry: RetryNow,
				Reason: ReasonMoving, RetryAfterMillis: 50,
			},
		},
	} {
		t.Run("ack_"+tc.name, func(t *testing.T) { checkAck(t, unhex(t, tc.frame), tc.want) })
	}
	for _, tc := range eventVectors {
		t.Run("events_"+tc.name, func(t *testing.T) { tc.check(t) })
	}
}

// shardVectors are the requests that may name a shard, as they are written.
var shardVectors = []struct {
	payload string
	want    Message
}{
	{
		`{"type":"publish","tenant_id":"t1","namespace":"default","stream":"demo","payload":"aGVsbG8=","key":"azc=","request_id":7,` +
			`"ack":"per_message","shard":3}`,
		&Publish{
			StreamScope: scope, Payload: []byte("hello"), Key: []byte("k7"), RequestID: Some[uint64](7), Ack: AckPerMessage, Shard: Some[uint32](3),
		},
	},
	{
		`{"type":"publish_batch","tenant_id":"t1","namespace":"default","stream":"demo","payloads":["aGVsbG8=",""],"request_id":7,` +
			`"ack":"per_batch","shard":0}`,
		&PublishBatch{
			StreamScope: scope, Payloads: MakePayloads([]byte("hello"), nil), RequestID: Some[uint64](7), Ack: AckPerBatch, Shard: Some[uint32](0),
		},
	},
	{
		`{"type":"publish_idempotent","tenant_id":"t1","namespace":"default","stream":"demo","payloads":["aGVsbG8="],"key":"",` +
			`"request_id":7,"producer_id":1234605616436508552,"sequence":3,"shard":5}`,
		&PublishIdempotent{
			StreamScope: scope, Payloads: MakePayloads([]byte("hello")), Key: []byte{}, RequestID: 7, ProducerID: 0x1122334455667788, Sequence: 3,
			Shard: Some[uint32](5),
		},
	},
	{
		`{"type":"publish_if","tenant_id":"t1","namespace":"default","stream":"demo","payloads":["aGVsbG8="],"expected_offset":42,` +
			`"request_id":7,"shard":4294967295}`,
		&PublishIf{
			StreamScope: scope, Payloads: MakePayloads([]byte("hello")), ExpectedOffset: 42, RequestID: 7, Shard: Some[uint32](0xFFFF_FFFF),
		},
	},
	{
		`{"type":"commit","tenant_id":"t1","namespace":"default","stream":"demo","entity_key":"azc=","event":"aGVsbG8=",` +
			`"changes":[{"op":"delete","key":"a"}],"request_id":7,"expected_offset":42,"shard":2}`,
		&Commit{
			StreamScope: scope, EntityKey: []byte("k7"), Event: []byte("hello"), Changes: []Change{{Op: ChangeDelete, Key: "a"}}, RequestID: 7,
			ExpectedOffset: Some[uint64](42), Shard: Some[uint32](2),
		},
	},
	{
		`{"type":"state_get","tenant_id":"t1","namespace":"default","stream":"demo","entity_key":"azc=","key":"a","request_id":7,"shard":2}`,
		&StateGet{StreamScope: scope, EntityKey: []byte("k7"), Key: "a", RequestID: 7, Shard: Some[uint32](2)},
	},
}

// TestShardVectors reads and writes requests that name a shard. Where that was not agreed on the field is nothing, whatever it holds.
func TestShardVectors(t *testing.T) {
	for _, v := range shardVectors {
		t.Run(v.want.kind(), func(t *testing.T) {
			frame := BeginFrame(nil, 0)
			frame = append(frame, v.payload...)
			EndFrame(frame)
			checkMessage(t, frame, v.want)
			plain, _, _ := strings.Cut(v.payload, `,"shard":`)
			for _, value := range []string{"1", "null", "-1", "4294967296", `"1"`, `[{"shard":1}]`} {
				m, err := ParseRequestWithout([]byte(plain+`,"shard":`+value+"}"), FeatureExplicitShard)
				if err != nil {
					t.Fatalf("%s: %v", value, err)
				}
				if got := AppendMessage(nil, m)[HeaderSize:]; string(got) != plain+"}" {
					t.Errorf("%s: read as %s", value, got)
				}
			}
		})
	}
}

// eventVector is a frame of events, and what it says.
type eventVector struct {
	name, frame string
	head        EventHead
	events      []Event
}

var eventVectors = []eventVector{
	{
		"plain", "464c5831000100040000000f000000020000000161000000026263",
		EventHead{Flags: FlagSharedEventBatch},
		events(0, 0),
	},
	{
		"offsets", "464c583100010024000000170000000000000029000000020000000161000000026263",
		EventHead{Flags: 0x24, BaseOffset: 41},
		events(41, 0),
	},
	{
		"skipped", "464c5831000108240000001f00000000000000290000000000000001000000020000000161000000026263",
		EventHead{Flags: 0x824, BaseOffset: 41, SkippedBefore: 1},
		events(41, 0),
	},
	{
		"publisher", "464c5831000120240000001d000000000000002905616c696365000000020000000161000000026263",
		EventHead{Flags: 0x2024, BaseOffset: 41, Publisher: []byte("alice")},
		events(41, 0),
	},
	{
		"timestamps", "464c583100016824000000350000000000000029000000000000000105616c6963650000000200060a24181e4001000000016100060a24181e" +
			"4002000000026263",
		EventHead{Flags: 0x6824, BaseOffset: 41, SkippedBefore: 1, Publisher: []byte("alice")},
		events(41, 1700000000000001),
	},
	{
		"named", "464c5831000100220000001a0000000000000003000000000000000500000001000000026869",
		EventHead{Flags: 0x22, SubscriptionID: 3, BaseOffset: 5},
		[]Event{{Offset: 5, Payload: []byte("hi")}},
	},
}

// events are "a" and "bc" from an offset on, with times from micros on.
func events(base, micros uint64) []Event {
	out := []Event{{Offset: base, Payload: []byte("a")}, {Offset: base + 1, Payload: []byte("bc")}}
	if micros != 0 {
		out[0].TimestampMicros, out[1].TimestampMicros = micros, micros+1
	}
	return out
}

func (v *eventVector) check(t *testing.T) {
	frame := unhex(t, v.frame)
	flags, payload := split(t, frame)
	got, err := ParseEventBatch(flags, payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.EventHead, v.head, exact); diff != "" {
		t.Errorf("head (-got +want):\n%s", diff)
	}
	var all []Event
	for e := range got.All() {
		all = append(all, e)
	}
	if diff := cmp.Diff(all, v.events, exact); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
	again := BeginEventFrame([]byte{1}, &v.head)
	for _, e := range v.events {
		again = AppendEvent(again, v.head.Flags, e.TimestampMicros, e.Payload)
	}
	EndEventFrame(again[1:], &v.head, len(v.events))
	if !bytes.Equal(again[1:], frame) {
		t.Errorf("encodes as %x", again[1:])
	}
	payloads, plain := got.Payloads()
	if plain == flags.Has(FlagTimestamps) {
		t.Errorf("payloads without times: %v", plain)
	}
	if !plain {
		return
	}
	if whole := AppendEventBatch([]byte{1}, &v.head, 0, payloads); !bytes.Equal(whole[1:], frame) {
		t.Errorf("whole batch encodes as %x", whole[1:])
	}
	head := AppendEventHead(nil, &v.head, payloads)
	if len(head) != v.head.Size() || !bytes.Equal(append(head, payloads.Encoded()...), frame) {
		t.Errorf("head of %d bytes, want %d", len(head), v.head.Size())
	}
}

func TestRoutingVectors(t *testing.T) {
	for _, tc := range []struct {
		key              string
		fnv, hash        uint64
		mod2, mod3, mod4 uint32
		mod8, mod12      uint32
		mod16            uint32
		jump4, jump8     uint32
		jump12, jump16   uint32
	}{
		{"", 0xcbf29ce484222325, 0xf52a15e9a9b5e89b, 1, 0, 3, 3, 3, 11, 0, 5, 11, 11},
		{"a", 0xaf63dc4c8601ec8c, 0x02c0bdbf481420f8, 0, 1, 0, 0, 4, 8, 1, 1, 9, 9},
		{"k0", 0x08be0e07b562230e, 0x43db55d3ac266e8e, 0, 0, 2, 6, 6, 14, 3, 3, 3, 3},
		{"k1", 0x08be0f07b56224c1, 0x1f015d6af2b2eec6, 0, 1, 2, 6, 10, 6, 2, 4, 4, 4},
		{"k7", 0x08be1107b5622827, 0x83a57e6fcb6b0c94, 0, 1, 0, 4, 4, 4, 2, 4, 11, 11},
		{"customer-0", 0x660309ab83c6ffa4, 0xe0ef692b167733d8, 0, 2, 0, 0, 8, 8, 3, 3, 3, 3},
		{"customer-1", 0x66030aab83c70157, 0x2cb00644b7ae349b, 1, 0, 3, 3, 3, 11, 0, 0, 10, 10},
		{"customer-2", 0x66030bab83c7030a, 0xff5f031331ea7506, 0, 1, 2, 6, 10, 6, 3, 5, 5, 5},
		{"customer-42", 0x1e1b8c70eb18f59e, 0xe02a92178bccfd76, 0, 0, 2, 6, 6, 6, 0, 4, 4, 4},
		{"user:42", 0x6c151ea4dcd221c2, 0xd68cb863fc5e0c34, 0, 0, 0, 4, 0, 4, 2, 6, 6, 6},
		{"demo-key", 0xe2ed41de1f4541a8, 0x757d465428f93c7d, 1, 0, 1, 5, 9, 13, 3, 7, 7, 7},
		{"order-42", 0x7d1deb86a05662d4, 0x586d07f28908894f, 1, 0, 3, 7, 3, 15, 1, 1, 8, 8},
		{"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87", 0x296130de6f5b7a81, 0x95f04555fa3bf374, 0, 2, 0, 4, 8, 4, 2, 7, 9, 9},
		{"\x00\xff", 0x0831c907b4ea2b60, 0xa70bee94c6c8447b, 1, 1, 3, 3, 7, 11, 0, 0, 10, 14},
	} {
		key := []byte(tc.key)
		if got := fnv1a(key); got != tc.fnv {
			t.Errorf("%q: FNV-1a %x, want %x", tc.key, got, tc.fnv)
		}
		if got := KeyHash(key); got != tc.hash {
			t.Errorf("%q: hash %x, want %x", tc.key, got, tc.hash)
		}
		for n, want := range map[uint32]uint32{2: tc.mod2, 3: tc.mod3, 4: tc.mod4, 8: tc.mod8, 12: tc.mod12, 16: tc.mod16} {
			if got := ShardOf(key, n, MappingModulo); got != want {
				t.Errorf("%q: shard %d of %d, want %d", tc.key, got, n, want)
			}
		}
		for n, want := range map[uint32]uint32{4: tc.jump4, 8: tc.jump8, 12: tc.jump12, 16: tc.jump16} {
			if got := ShardOf(key, n, MappingJumpHash); got != want {
				t.Errorf("%q: jump shard %d of %d, want %d", tc.key, got, n, want)
			}
		}
	}
	for key, want := range map[string]uint32{"customer-0": 0, "customer-4": 2, "customer-1": 3, "customer-6": 4, "customer-2": 6} {
		if got := ShardOf([]byte(key), 8, MappingModulo); got != want {
			t.Errorf("%s: shard %d of 8, want %d", key, got, want)
		}
	}
	for key, want := range map[string]uint32{"customer-0": 3, "customer-1": 0, "customer-2": 5, "customer-4": 2, "customer-6": 7} {
		if got := ShardOf([]byte(key), 8, MappingJumpHash); got != want {
			t.Errorf("%s: jump shard %d of 8, want %d", key, got, want)
		}
	}
	for _, m := range []Mapping{MappingModulo, MappingJumpHash} {
		for _, n := range []uint32{0, 1, 7} {
			if got := ShardOf(nil, n, m); got != 0 {
				t.Errorf("no key: shard %d of %d", got, n)
			}
			if got := ShardOf([]byte("k7"), n, m); got != 0 && got >= n {
				t.Errorf("shard %d of %d", got, n)
			}
		}
		if got := ShardOf([]byte("k7"), 1<<32-1, m); got == 1<<32-1 {
			t.Errorf("shard %d of as many", got)
		}
	}
}
