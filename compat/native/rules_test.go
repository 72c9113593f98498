package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// The numbers here are rows of the streams rules (docs/native-rows.md).

// api calls the REST API of streams as the development profile's owner; path goes behind "streams".
func (s *server) api(t *testing.T, method, path string, body map[string]any) (int, map[string]any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + s.Bound("api") + "/v1/tenants/default/namespaces/default/streams" + path
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.apiToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s %s: %q: %v", method, url, text, err)
		}
	}
	return res.StatusCode, out
}

// TestCreateAgain is S-19, and S-20 as far as there are no queue groups: a stream that is made again in the same form is the one that is
// there, in another form it is refused, and a queue is read by a plain subscriber too.
func TestCreateAgain(t *testing.T) {
	s, a := suite.server, suite.sync
	name := s.name(t)
	form := func(change map[string]any) map[string]any {
		out := map[string]any{"stream": name, "kind": "Queue", "durable": true, "shards": 2}
		for k, v := range change {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		what   string
		change map[string]any
		status int
	}{
		{"new", nil, http.StatusCreated},
		{"same", nil, http.StatusOK},
		{"shards", map[string]any{"shards": 3}, http.StatusConflict},
		{"kind", map[string]any{"kind": "Stream"}, http.StatusConflict},
		{"durable", map[string]any{"durable": false}, http.StatusConflict},
		{"retention", map[string]any{"retention": map[string]any{"max_size_bytes": 1 << 20}}, http.StatusConflict},
		{"same-again", nil, http.StatusOK},
	} {
		status, got := s.api(t, http.MethodPost, "", form(c.change))
		if status != c.status || status < 300 && (got["kind"] != "Queue" || got["shards"] != 2.0 || got["durable"] != true) {
			t.Errorf("%s: status %d, %v, want %d", c.what, status, got, c.status)
		}
	}
	want := payloads("q", 3)
	a.call(t, "subscribe", request{"client": "dev", "subscription": name, "stream": name})
	wantOffsets(t, a.call(t, "publish", request{"client": "dev", "stream": name, "payloads": want}).Offsets, 0, len(want))
	wantEvents(t, a.call(t, "next", request{"subscription": name, "count": len(want), "timeout": 10}).Events, 0, want...)
	a.call(t, "close", request{"subscription": name})
}

// TestRetention is S-86 and S-87: each stream is cut back to its own bound, or to the server's, and to another one that is set while it is in
// use; never within the segment that is being written.
func TestRetention(t *testing.T) {
	const segment, bound, size, count = 1 << 20, 2 << 20, 64 << 10, 120 // of records of 64 KiB: 7.5 MiB
	s := newServer(t, fmt.Sprintf("FELIX_DURABLE_SEGMENT_BYTES=%d", segment), fmt.Sprintf("FELIX_DURABLE_RETENTION_BYTES=%d", 1<<30))
	a := newAgent(t, "sync")
	s.connect(t, a, "c")
	adm := kadm.NewClient(s.kafka(t))
	start := func(stream string) int64 {
		offsets, err := adm.ListStartOffsets(t.Context(), stream)
		if err != nil || offsets.Error() != nil {
			return -1
		}
		o, _ := offsets.Lookup(stream, 0)
		return o.Offset
	}
	// bounded wants as much to be left as the bound asks for, and not much more.
	bounded := func(stream string) {
		t.Helper()
		eventually(t, 20*time.Second, stream+" is cut back", func() bool { return (count-start(stream))*size < bound+2*segment })
		if left := (count - start(stream)) * size; left < bound-segment {
			t.Errorf("%s: %d bytes are left, the bound is %d", stream, left, bound)
		}
	}
	names := map[string]string{"own": s.name(t), "server's": s.name(t)}
	for which, name := range names {
		body := map[string]any{"stream": name, "durable": true}
		if which == "own" {
			body["retention"] = map[string]any{"max_size_bytes": bound}
		}
		if status, got := s.api(t, http.MethodPost, "", body); status != http.StatusCreated {
			t.Fatalf("%d %v", status, got)
		}
		for range count / 20 {
			all := make([][]byte, 20)
			for i := range all {
				all[i] = make([]byte, size)
			}
			a.call(t, "publish", request{"client": "c", "stream": name, "payloads": all})
		}
	}
	own, other := names["own"], names["server's"]
	bounded(own)
	if at := start(other); at != 0 {
		t.Errorf("without a bound of its own a stream begins at %d", at)
	}
	if f := a.refused(t, "subscribe", request{"client": "c", "subscription": "old", "stream": own, "start": 0}); f.Detail["available"] == 0.0 {
		t.Errorf("below the oldest record: %v", f)
	}
	if status, got := s.api(t, http.MethodPatch, "/"+other, map[string]any{"retention": map[string]any{"max_size_bytes": bound}}); status != http.StatusOK {
		t.Fatalf("%d %v", status, got)
	}
	bounded(other)
	// The segment that is being written stays, and so does what follows.
	wantOffsets(t, a.call(t, "publish", request{"client": "c", "stream": other, "payloads": payloads("x", 1)}).Offsets, count, 1)
	a.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": other, "start": count - 1})
	got := a.call(t, "next", request{"subscription": "s", "count": 2, "timeout": 10}).Events
	if len(got) != 2 || *got[1].Offset != count || string(got[1].Payload) != "x-0" {
		t.Errorf("the last two events: %v", got)
	}
}

// TestCheckpoint is S-89: a reader that remembers the offset of the last record it has finished with goes on behind it over a restart, in
// another process.
func TestCheckpoint(t *testing.T) {
	s := newServer(t)
	stream, all := s.durable(t, 1), payloads("e", 12)
	first := newAgent(t, "sync")
	s.connect(t, first, "c")
	first.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": stream, "start": "earliest"})
	first.call(t, "publish", request{"client": "c", "stream": stream, "payloads": all[:10]})
	got := first.call(t, "next", request{"subscription": "s", "count": 5, "timeout": 10}).Events
	wantEvents(t, got, 0, all[:5]...)
	last := *got[4].Offset
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newAgent(t, "async")
	s.connect(t, second, "c")
	second.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": stream, "start": last + 1})
	wantOffsets(t, second.call(t, "publish", request{"client": "c", "stream": stream, "payloads": all[10:]}).Offsets, 10, 2)
	wantEvents(t, second.call(t, "next", request{"subscription": "s", "count": 7, "timeout": 10}).Events, last+1, all[5:]...)
}

// TestCommitsOverKills is S-81 for kills: after each, the state is that of the last event, wherever the kill met the commits.
func TestCommitsOverKills(t *testing.T) {
	s := newServer(t, "FELIX_MAX_IDLE_TIMEOUT_MS=3000", "FELIX_KEEPALIVE_MS=1000")
	stream := s.durable(t, 1)
	names := []string{"a", "b", "c"}
	next, answered := 0, int64(-1)
	for round := range 3 {
		writer := newAgent(t, "sync")
		s.connect(t, writer, "c")
		enough, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for n := 0; ; n++ {
				text := fmt.Append(nil, next)
				next++
				res, err := writer.try(t.Context(), request{
					"op": "commit", "client": "c", "stream": stream, "key": []byte("e"), "event": text,
					"puts": map[string][]byte{"a": text, "b": text, "c": text},
				})
				if err != nil {
					return
				}
				answered = *res.Offsets[0]
				if n == 20 {
					close(enough)
				}
			}
		}()
		select {
		case <-enough:
		case <-ended:
			t.Fatal("the writer has ended before the kill")
		}
		if err := s.Kill9(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		reader := newAgent(t, "async")
		s.connect(t, reader, "c")
		first := reader.call(t, "state_get", request{"client": "c", "stream": stream, "key": []byte("e"), "name": names[0]})
		if first.At == nil || *first.At < answered {
			t.Fatalf("round %d: the state is of %s, commit %d was answered", round, offsetText(first.At), answered)
		}
		for _, name := range names[1:] {
			v := reader.call(t, "state_get", request{"client": "c", "stream": stream, "key": []byte("e"), "name": name})
			if v.At == nil || *v.At != *first.At || !bytes.Equal(v.Value, first.Value) {
				t.Errorf("round %d: %s is %q of %s, and %s %q of %d", round, name, v.Value, offsetText(v.At), names[0], first.Value, *first.At)
			}
		}
		reader.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": stream, "start": "earliest"})
		got := reader.call(t, "next", request{"subscription": "s", "count": int(*first.At) + 1, "timeout": 20}).Events
		if len(got) != int(*first.At)+1 || !bytes.Equal(got[len(got)-1].Payload, first.Value) {
			t.Fatalf("round %d: %d events, the state is %q of %d", round, len(got), first.Value, *first.At)
		}
		if more := reader.call(t, "next", request{"subscription": "s", "count": 1, "timeout": 0.3}).Events; len(more) != 0 {
			t.Errorf("round %d: an event %q at %s without its state", round, more[0].Payload, offsetText(more[0].Offset))
		}
	}
}
