package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// exact tells nil from empty everywhere but in the bytes of a list of payloads, whose count says how many there are.
var exact = cmp.Options{
	cmp.Comparer(func(a, b Payloads) bool { return a.count == b.count && bytes.Equal(a.encoded, b.encoded) }),
	cmp.Comparer(func(a, b Auth) bool { return reflect.DeepEqual(a, b) }), // its String hides what differs
	cmpopts.EquateErrors(),
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.TrimSpace(s))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// split takes a frame apart, as ReadFrame would.
func split(tb testing.TB, frame []byte) (Flags, []byte) {
	tb.Helper()
	h, payload, err := ReadFrame(bytes.NewReader(frame), nil, DefaultMaxFrameBytes)
	if err != nil {
		tb.Fatal(err)
	}
	if len(frame) != HeaderSize+len(payload) {
		tb.Fatalf("frame of %d bytes has a payload of %d", len(frame), len(payload))
	}
	return h.Flags, payload
}

// faultOf is the DecodeError in err, which must be one.
func faultOf(tb testing.TB, err error) *DecodeError {
	tb.Helper()
	var de *DecodeError
	if !errors.As(err, &de) {
		tb.Fatalf("got %T (%v), want a DecodeError", err, err)
	}
	return de
}

// The types of all messages, by direction.
var requestTypes = []string{
	"auth", "extension", "topology", "stream_shards", "cache_shards", "shard_owners", "publish", "publish_batch", "publish_idempotent",
	"publish_if", "producer_init", "subscribe", "cache_put", "cache_get", "cache_delete", "cache_put_if", "cache_delete_if",
	"cache_watch", "counter_add", "counter_get", "commit", "state_get", "stream_read", "offset_for_time", "shard_inspect",
	"subscriptions_list", "group_poll", "group_ack", "group_nack", "group_extend", "group_dead_letter", "group_dead_letters",
	"group_discard", "group_redrive", "group_seek", "group_describe", "group_delete",
}

var replyTypes = []string{
	"auth_ok", "ok", "error", "unsupported", "topology_view", "stream_shards_view", "cache_shards_view", "shard_owners_view",
	"not_leader", "publish_ok", "publish_error", "publish_refused", "producer_init_ok", "subscribed", "subscribe_cursor_error",
	"commit_ok", "state_value", "stream_records", "offset_value", "shard_inspect_info", "subscriptions_list_info", "group_records",
	"group_extended", "group_dead_letter_list", "group_position", "group_info", "group_deleted", "event_stream_hello", "event",
	"event_batch", "shard_moved", "subscription_lagged", "cache_ok", "cache_value", "cache_condition_result", "cache_watch_started",
	"cache_event", "cache_watch_lagged", "counter_value",
}

// filler fills messages with random values that they can carry.
type filler struct{ *rand.Rand }

func newFiller(seed uint64) filler { return filler{rand.New(rand.NewPCG(seed, 1))} }

func (r filler) text() string {
	pieces := []string{"t1", "default", "a/b", `"`, `\`, "\n\r\t\b\f", "\x00\x1f\x7f", "grün", "語", "🜂", "<&>", "\u2028", ""}
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func (r filler) data() []byte {
	b := make([]byte, r.IntN(8))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r filler) payloads() Payloads {
	var all [][]byte
	for range r.IntN(4) {
		all = append(all, r.data())
	}
	return MakePayloads(all...)
}

// number favours the ends of the range.
func (r filler) number(bits int) uint64 {
	n := r.Uint64() >> (64 - bits)
	switch r.IntN(4) {
	case 0:
		return n % 3
	case 1:
		return (1<<64 - 1) >> (64 - bits)
	}
	return n
}

func (r filler) fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *Payloads:
		*p = r.payloads()
		return
	case *[]byte:
		*p = r.data()
		return
	case *ObjectKind:
		*p = []ObjectKind{KindStream, KindCache}[r.IntN(2)]
		return
	case *CursorReason:
		*p = []CursorReason{CursorTooOld, CursorInFuture}[r.IntN(2)]
		return
	case *Start:
		*p = Start{Kind: StartKind(1 + r.IntN(3))}
		if p.Kind == StartOffset {
			p.Offset = r.number(64)
		}
		return
	case *AckMode:
		*p = AckMode(r.IntN(3))
		return
	case *Mapping:
		*p = Mapping(r.IntN(2))
		return
	case *Condition:
		if *p = (Condition{Absent: r.IntN(2) == 0}); !p.Absent {
			p.Version = r.number(64)
		}
		return
	case *Change:
		if *p = (Change{Op: ChangeDelete, Key: r.text()}); r.IntN(2) == 0 {
			p.Op, p.Value = ChangePut, r.data()
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if set := v.FieldByName("Set"); set.IsValid() && v.NumField() == 2 {
			if set.SetBool(r.IntN(2) == 0); set.Bool() {
				r.fill(v.FieldByName("Value"))
			}
			return
		}
		for i := range v.NumField() {
			r.fill(v.Field(i))
		}
	case reflect.Slice:
		for range r.IntN(3) {
			item := reflect.New(v.Type().Elem()).Elem()
			r.fill(item)
			v.Set(reflect.Append(v, item))
		}
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.number(v.Type().Bits()))
	case reflect.Int64:
		v.SetInt(int64(r.number(64)))
	default:
		panic("no filler for " + v.Type().String())
	}
}

// message fills m and then makes what stands in several fields agree.
func (r filler) message(m Message) {
	r.fill(reflect.ValueOf(m).Elem())
	drop := func(p *[]byte) {
		if r.IntN(2) == 0 {
			*p = nil
		}
	}
	ack := func(id *Opt[uint64], mode AckMode) {
		if mode != AckNone {
			*id = Some(r.number(64))
		}
	}
	switch m := m.(type) {
	case *Extension:
		m.Body = [][]byte{nil, []byte(`{"a":[1,2.50,"x"]}`), []byte(`12345678901234567890123`), []byte(`"s"`)}[r.IntN(4)]
	case *Publish:
		drop(&m.Key)
		ack(&m.RequestID, m.Ack)
	case *PublishBatch:
		drop(&m.Key)
		ack(&m.RequestID, m.Ack)
	case *PublishIdempotent:
		drop(&m.Key)
	case *PublishIf:
		drop(&m.Key)
	case *CacheValue:
		drop(&m.Value)
	case *CacheEvent:
		drop(&m.Value)
	case *StateValue:
		drop(&m.Value)
	case *CacheWatch:
		if m.Key.Set = r.IntN(2) == 0; m.Key.Set {
			m.Prefix = Opt[string]{}
		} else {
			m.Key, m.Prefix.Set = Opt[string]{}, true
		}
		m.Retained = m.Retained && !m.FromOffset.Set
	case *PublishRefused:
		whole := *m
		*m = PublishRefused{RequestID: m.RequestID, Message: m.Message}
		switch r.IntN(6) {
		case 0:
			m.Reason, m.Expected = RefusedSequenceGap, whole.Expected
		case 1:
			m.Reason, m.Tail = RefusedOffsetMismatch, whole.Tail
		case 2:
			m.Reason, m.NodeID, m.Addr = RefusedNotLeader, whole.NodeID, whole.Addr
		case 3:
			m.Reason = RefusedUnknownProducer
		case 4:
			m.Reason = RefusedSequenceExpired
		default:
			m.Reason = RefusedSequenceReused
		}
	}
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func diffOf(got, want any) string { return cmp.Diff(got, want, exact) }
