package native

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// wantFailure wants an error's class, code and retry class; "" for an attribute that is None.
func wantFailure(t *testing.T, f *failure, class, code, retry string) {
	t.Helper()
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	if f.Type != class || text(f.Code) != code || text(f.Retry) != retry || !f.Felix {
		t.Errorf("%v, want %s (%s, %s)", f, class, code, retry)
	}
}

// TestErrors holds the class, code and retry class of each error that a client can come to against what the client's users rely on.
func TestErrors(t *testing.T) {
	s := suite.server
	stream := s.durable(t, 1)
	s.produce(t, stream, 0, payloads("e", 5)...)
	trimmed := s.durable(t, 1)
	s.produce(t, trimmed, 0, payloads("e", 5)...)
	adm := kadm.NewClient(s.kafka(t))
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: trimmed, Partition: 0, At: 3})
	if _, err := adm.DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	reader := s.mint(t, "stream.subscribe:stream:default/default/*")
	writer := s.mint(t, "stream.publish:stream:default/default/"+stream)
	one := payloads("x", 1)
	publish := request{"payloads": one}
	for _, c := range []struct {
		name               string
		token              string // "": the development token
		op                 string
		request            request
		stream             string
		class, code, retry string
	}{
		{"publish-without-right", reader, "publish", publish, stream, "AuthError", "forbidden", "fatal"},
		{"publish-to-other-stream", writer, "publish", publish, trimmed, "AuthError", "forbidden", "fatal"},
		{"subscribe-without-right", writer, "subscribe", nil, stream, "AuthError", "forbidden", "fatal"},
		{"commit-without-right", reader, "commit", request{"key": []byte("k"), "event": []byte("e")}, stream, "AuthError", "forbidden", "fatal"},
		{"publish-to-other-tenant", "", "publish", request{"payloads": one, "tenant": "other"}, stream, "AuthError", "forbidden", "fatal"},
		{"subscribe-in-other-tenant", "", "subscribe", request{"tenant": "other"}, stream, "FelixError", "", ""}, // the client's own refusal
		{"publish-unknown-stream", "", "publish", publish, "nowhere", "NotFoundError", "not_found", "retry_after"},
		{
			"publish-unknown-namespace", "", "publish",
			request{"payloads": one, "namespace": "nowhere"},
			stream,
			"NotFoundError", "not_found", "retry_after",
		},
		{"subscribe-unknown-stream", "", "subscribe", nil, "nowhere", "NotFoundError", "not_found", "retry_after"},
		{"subscribe-past-the-end", "", "subscribe", request{"start": 6}, stream, "CursorError", "", ""},
		{"subscribe-before-the-start", "", "subscribe", request{"start": 2}, trimmed, "CursorError", "", ""},
		// No feature stands for putting and getting, so the client asks for those. Whatever fails of a cache without a code, also by the
		// client's own refusal, it takes for a reason to connect anew.
		{"caches-are-not-served", "", "unserved", request{"name": "cache_put"}, stream, "ConnectionError", "", ""},
		{"deletion-is-not-served", "", "unserved", request{"name": "cache_delete"}, stream, "ConnectionError", "", ""},
		{"groups-are-not-served", "", "unserved", request{"name": "group_poll"}, stream, "FelixError", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, a *agent) {
				req := request{"client": "dev", "subscription": "refused", "stream": c.stream}
				if c.token != "" {
					connect := s.connection("limited")
					connect["token"] = c.token
					a.call(t, "connect", connect)
					req["client"] = "limited"
				}
				for k, v := range c.request {
					req[k] = v
				}
				wantFailure(t, a.refused(t, c.op, req), c.class, c.code, c.retry)
			})
		})
	}
	t.Run("start-is-held", func(t *testing.T) {
		suite.sync.call(t, "subscribe", request{"client": "dev", "subscription": "t", "stream": trimmed, "start": "earliest"})
		got := suite.sync.call(t, "next", request{"subscription": "t", "count": 2, "timeout": 10}).Events
		wantEvents(t, got, 3, payloads("e", 5)[3:]...)
	})
}

// TestBadConnections connects with what is not to be let in, and where nothing can be verified.
func TestBadConnections(t *testing.T) {
	for _, c := range []struct {
		name        string
		request     request
		class, code string
	}{
		{"no-token-at-all", request{"token": "not-a-token"}, "AuthError", "unauthenticated"},
		{"unknown-tenant", request{"tenant": "other"}, "AuthError", "unauthenticated"},
		{"unknown-authority", request{"ca_file": ""}, "ConnectionError", ""},
		{"other-name", request{"server_name": "example.org"}, "ConnectionError", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, a *agent) {
				req := suite.server.connection("bad")
				for k, v := range c.request {
					req[k] = v
					if v == "" {
						delete(req, k)
					}
				}
				f := a.refused(t, "connect", req)
				if f.Type != c.class || c.code != "" && (f.Code == nil || *f.Code != c.code) {
					t.Errorf("%v, want %s (%s)", f, c.class, c.code)
				}
			})
		})
	}
}

// TestOverload publishes faster than the tenant may: the client raises what says so, and when to come again.
func TestOverload(t *testing.T) {
	s := newServer(t, "FELIX_TENANT_PUBLISH_MSGS_PER_SEC=5", "FELIX_TENANT_PUBLISH_BURST_MS=1000")
	stream := s.durable(t, 1)
	for _, surface := range []string{"sync", "async"} {
		t.Run(surface, func(t *testing.T) {
			a := newAgent(t, surface)
			s.connect(t, a, "c")
			f := a.refused(t, "publish", request{"client": "c", "stream": stream, "payloads": payloads("x", 50)})
			wantFailure(t, f, "OverloadedError", "overloaded", "retry_after")
			if f.Detail["reason"] != "tenant_quota" {
				t.Errorf("detail %v, want the reason tenant_quota", f.Detail)
			}
			if ms, ok := f.Detail["retry_after_ms"].(float64); !ok || ms <= 0 {
				t.Errorf("detail %v, want a time after which to come again", f.Detail)
			}
			// At least once waits as it was told, and gets through.
			a.call(t, "publish", request{"client": "c", "stream": stream, "payloads": payloads("y", 1), "at_least_once": true})
		})
	}
}
