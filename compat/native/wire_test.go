package native

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFirstDatagrams looks at how large the client's datagrams are on loopback: without a setting its first flight fills one that is
// larger than any server expects, and with FELIX_INITIAL_MTU it does not. Later ones keep to what the server takes.
func TestFirstDatagrams(t *testing.T) {
	const usual, pinned = 1200, 1452
	pins := true // the client raises its datagrams only with socket buffers that are large enough
	for _, name := range []string{"rmem_max", "wmem_max"} {
		text, err := os.ReadFile("/proc/sys/net/core/" + name)
		if err != nil {
			t.Skip("not on Linux: ", err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		pins = pins && err == nil && n >= 1_045_504/2
	}
	for _, c := range []struct {
		name, env string
		large     bool
	}{{"default", "FELIX_INITIAL_MTU=", pins}, {"set", initialMTU, false}} {
		t.Run(c.name, func(t *testing.T) {
			f := newForwarder(t, suite.server.Bound("native"))
			a := newAgent(t, "sync", c.env)
			connect := suite.server.connection("c")
			connect["addrs"] = f.addr
			a.call(t, "connect", connect)
			stream := suite.server.durable(t, 1)
			a.call(t, "publish", request{"client": "c", "stream": stream, "payloads": [][]byte{make([]byte, 100_000)}})
			sizes := f.sent()
			if first := sizes[0]; c.large != (first > pinned) || !c.large && first != usual {
				t.Errorf("first datagram of %d bytes", first)
			}
			if later := slices.Max(sizes[1:]); later > pinned {
				t.Errorf("a later datagram of %d bytes", later)
			}
			t.Logf("first datagrams: %v", sizes[:6])
		})
	}
}

// Numbers of the protocol that the client is held to (docs/native-protocol.md).
const (
	clientFlags        = "8191"       // 0x1FFF
	clientFeatures     = "4218945535" // 0xFB77FFFF
	clientFeaturesHigh = "15"
	sessions           = 8 + 32 + 1 // publish streams, cache streams, and one for what follows

	allFeatures = 0x7FFF_FFFF // the first word, without the marker of a second one
)

// TestSession looks at what the client says when it connects: names and numbers of its first messages.
func TestSession(t *testing.T) {
	r, s := newRelay(t)
	a := newAgent(t, "sync", initialMTU)
	for name, alpn := range map[string]bool{"plain": false, "alpn": true} {
		t.Run(name, func(t *testing.T) {
			_, place := r.since(0)
			c := r.connection(s, name)
			c["offer_alpn"] = alpn
			a.call(t, "connect", c)
			seen, _ := r.since(place)
			auths := 0
			for _, x := range seen {
				if x.from != fromClient || x.kind != "auth" {
					continue
				}
				auths++
				got := fmt.Sprint(x.fields["client_flags"], " ", x.fields["client_features"], " ", x.fields["client_features_hi"])
				if want := clientFlags + " " + clientFeatures + " " + clientFeaturesHigh; got != want {
					t.Errorf("an auth with flags and features %s, want %s", got, want)
				}
			}
			if auths != sessions {
				t.Errorf("%d streams authenticated, want %d", auths, sessions)
			}
			if got := requests(seen); !slices.Equal(got, []string{"topology"}) {
				t.Errorf("asked %q after that, want the topology alone", got)
			}
			h := r.hello()
			if h.name != "localhost" || slices.Contains(h.protocols, protocolID) != alpn || len(h.protocols) > 1 {
				t.Errorf("greets %q with the protocols %q", h.name, h.protocols)
			}
			t.Logf("handshake: %+v", h)
			t.Logf("parameters: %+v", r.clientParameters())
		})
	}
}

// requests are the client's requests in seen, without what every stream begins and ends with.
func requests(seen []sighting) []string {
	out := []string{}
	for _, s := range seen {
		if s.from != fromClient || s.kind == "auth" || s.kind == "fin" || strings.HasPrefix(s.kind, "stop ") {
			continue
		}
		kind := s.kind
		if s.flags != 0 {
			kind += fmt.Sprintf(" 0x%04x", s.flags)
		}
		out = append(out, kind)
	}
	return out
}

// TestRequests holds what the client sends for each call against what the server was made for, and the keys of some messages in order.
func TestRequests(t *testing.T) {
	r, s := newRelay(t)
	a := newAgent(t, "sync", initialMTU)
	a.call(t, "connect", r.connection(s, "c"))
	_, place := r.since(0)
	stream, one := s.durable(t, 4), payloads("x", 1)
	for _, step := range []struct {
		name, op string
		request  request
		want     []string
		keys     []string // of the last request
	}{
		{"first-publish", "publish", request{"payloads": one}, []string{"shard_owners", "stream_shards", "publish 0x0009"}, nil},
		{"second-publish", "publish", request{"payloads": one}, []string{"publish 0x0009"}, nil},
		{"batch", "publish", request{"payloads": one, "ack": "per_batch"}, []string{"publish 0x0009"}, nil},
		{"at-least-once", "publish", request{"payloads": one, "at_least_once": true}, []string{"publish 0x0009"}, nil},
		{"without-ack", "publish", request{"payloads": one, "ack": "none"}, []string{"publish 0x0001"}, nil},
		{"first-key", "publish", request{"payloads": one, "key": []byte("k0")}, []string{"stream_shards", "publish 0x0049"}, nil},
		{"second-key", "publish", request{"payloads": one, "key": []byte("k1")}, []string{"publish 0x0049"}, nil},
		{"key-without-ack", "publish", request{"payloads": one, "key": []byte("k1"), "ack": "none"}, []string{"publish 0x0041"}, nil},
		{
			"subscribe", "subscribe",
			request{"subscription": "s", "start": "earliest"},
			[]string{"subscribe"},
			[]string{"type", "tenant_id", "namespace", "stream", "start"},
		},
		{
			"sharded", "subscribe_sharded",
			request{"subscription": "w"},
			[]string{"stream_shards", "subscribe", "subscribe", "subscribe", "subscribe"},
			nil,
		},
		{
			"commit", "commit",
			request{"key": []byte("k"), "event": []byte("e"), "puts": map[string][]byte{"n": []byte("v")}},
			[]string{"commit"},
			[]string{"type", "tenant_id", "namespace", "stream", "entity_key", "event", "changes", "request_id"},
		},
		{
			"state", "state_get",
			request{"key": []byte("k"), "name": "n"},
			[]string{"state_get"},
			[]string{"type", "tenant_id", "namespace", "stream", "entity_key", "key", "request_id"},
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.request["client"], step.request["stream"] = "c", stream
			a.call(t, step.op, step.request)
			var seen []sighting
			eventually(t, callLimit, "the last request passes", func() bool {
				seen, _ = r.since(place)
				return len(requests(seen)) >= len(step.want)
			})
			_, place = r.since(0)
			if got := requests(seen); !slices.Equal(got, step.want) {
				t.Errorf("sent %q, want %q", got, step.want)
			}
			last := seen[slices.IndexFunc(seen, func(x sighting) bool {
				return x.from == fromClient && x.kind == strings.Fields(step.want[len(step.want)-1])[0]
			})]
			if step.keys != nil && !slices.Equal(last.keys, step.keys) {
				t.Errorf("keys %q, want %q", last.keys, step.keys)
			}
			if opened := step.op == "subscribe"; opened {
				after := seen[slices.IndexFunc(seen, func(x sighting) bool { return x.kind == "subscribe" })+1]
				if after.kind != "fin" || after.stream != last.stream {
					t.Errorf("a subscribe is followed by %v, want the end of its stream's sending side", after)
				}
			}
		})
	}
	// Putting into a cache is asked for without any feature. Times to live are whole milliseconds, cut off: below one they are zero.
	for _, c := range []struct {
		ttl  any
		want string
	}{{nil, "<nil>"}, {0.0, "0"}, {0.0009, "0"}, {0.0019, "1"}, {0.5, "500"}} {
		_, place := r.since(0)
		a.refused(t, "unserved", request{"client": "c", "stream": stream, "name": "cache_put", "ttl": c.ttl})
		seen, _ := r.since(place)
		i := slices.IndexFunc(seen, func(x sighting) bool { return x.kind == "cache_put" })
		if i < 0 || fmt.Sprint(seen[i].fields["ttl_ms"]) != c.want {
			t.Errorf("ttl %v: %v, want a cache_put with ttl_ms %s", c.ttl, seen, c.want)
		}
	}
}

// TestGroupKeys looks at the requests of queue groups, which the client sends to servers that advertise them.
func TestGroupKeys(t *testing.T) {
	p := newStub(t, allFeatures, 0)
	a := newAgent(t, "sync", initialMTU)
	a.call(t, "connect", p.connection("c"))
	a.call(t, "nack", request{"client": "c", "stream": "s"})
	seen, _ := p.since(0)
	for kind, want := range map[string][]string{
		"group_poll": {
			"type", "tenant_id", "namespace", "stream", "shard", "group", "max_records", "wait_ms", "request_id", "consumer", "reclaim",
		},
		"group_nack": {"type", "tenant_id", "namespace", "stream", "shard", "group", "offset", "request_id", "attempts"},
	} {
		i := slices.IndexFunc(seen, func(x sighting) bool { return x.kind == kind })
		if i < 0 || !slices.Equal(seen[i].keys, want) {
			t.Errorf("%s: %v with the keys %q, want %q", kind, seen[i], seen[i].keys, want)
		}
	}
}

// TestEndAfterUnacknowledged answers a publish that asks for no answer with an error and the end of the stream: the client's next publish
// goes through.
func TestEndAfterUnacknowledged(t *testing.T) {
	p := newStub(t, allFeatures, 0)
	a := newAgent(t, "sync", initialMTU)
	a.call(t, "connect", p.connection("c"))
	p.endStreams()
	a.call(t, "publish", request{"client": "c", "stream": "s", "payloads": payloads("x", 1), "ack": "none"})
	eventually(t, callLimit, "a publish goes through", func() bool {
		_, err := a.try(t.Context(), request{"op": "publish", "client": "c", "stream": "s", "payloads": payloads("y", 1)})
		if err != nil {
			t.Logf("after the end of its stream: %v", err)
		}
		return err == nil
	})
}

// TestErrorNumbers has publishes fail with each number that an answer can carry, one more than the client knows: the code that the client
// gives to its caller, and its class.
func TestErrorNumbers(t *testing.T) {
	p := newStub(t, allFeatures, 0)
	a := newAgent(t, "sync", initialMTU)
	a.call(t, "connect", p.connection("c"))
	for i, want := range []string{
		"unauthenticated AuthError", "forbidden AuthError", "not_found NotFoundError", "invalid_request FelixError",
		"shard_unavailable ShardUnavailableError", "not_leader ShardUnavailableError", "quorum_timeout FelixError", "leadership_lost FelixError",
		"unacknowledged FelixError", "overloaded OverloadedError", "limit_exceeded FelixError", "draining ConnectionError", "internal FelixError",
		"storage FelixError", "stale_claim FelixError", "revoked AuthError", "stale_width FelixError", "code_18 FelixError",
	} {
		p.fail(uint16(i + 1))
		f := a.refused(t, "publish", request{"client": "c", "stream": "s", "payloads": payloads("x", 1)})
		if f.Code == nil || *f.Code+" "+f.Type != want {
			t.Errorf("number %d: %v, want %s", i+1, f, want)
		}
	}
}

// TestSecondWord advertises each bit of the second word of features alone, to see what the client does for it.
func TestSecondWord(t *testing.T) {
	const extended = 0x8000_0000
	a := newAgent(t, "sync", initialMTU)
	for _, bit := range []uint32{0x1, 0x2, 0x4, 0x8, 0x10} {
		t.Run(fmt.Sprintf("%#x", bit), func(t *testing.T) {
			p := newStub(t, allFeatures|extended, bit)
			name := t.Name()
			a.call(t, "connect", p.connection(name))
			a.call(t, "publish", request{"client": name, "stream": "s", "payloads": payloads("x", 1)})
			_, place := p.since(0)
			_, err := a.try(t.Context(), request{"op": "publish", "client": name, "stream": "s", "payloads": payloads("x", 1), "key": []byte("k")})
			seen, _ := p.since(place)
			got := requests(seen)
			want := []string{"stream_shards", "publish 0x0049"} // what it sends without the bit
			if bit == 0x4 {
				// It says how many shards it takes the stream to have, and goes on without an answer.
				want = []string{"publish_width", "publish 0x0049"}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("sent %q (%v), want %q", got, err, want)
			}
		})
	}
}

// TestStreamDeleted ends event streams with the message that the client takes for the deletion of the stream, whatever was advertised.
func TestStreamDeleted(t *testing.T) {
	p := newStub(t, allFeatures, 0)
	p.end(map[string]any{"type": "stream_deleted", "subscription_id": 1})
	a := newAgent(t, "sync", initialMTU)
	a.call(t, "connect", p.connection("c"))
	a.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": "s"})
	if got := a.call(t, "drain", request{"subscription": "s"}); len(got.Events) != 0 {
		t.Errorf("%d events of a deleted stream", len(got.Events))
	}
	a.call(t, "subscribe_sharded", request{"client": "c", "subscription": "w", "stream": "s"})
	got := a.call(t, "next_sharded", request{"subscription": "w", "count": 1, "timeout": 5})
	if !slices.Equal(got.Notices, []string{"StreamDeleted"}) {
		t.Errorf("notices %q, want StreamDeleted", got.Notices)
	}
}
