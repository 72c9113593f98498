package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// fake answers everything from memory; a load emits one acknowledgement and then waits for its end.
type fake struct{ Library }

func (fake) Version() string { return "fake 1" }

func (fake) Produce(_ context.Context, req Request) ([]int64, error) {
	if req.Topic == "full" {
		return nil, &CodedError{Code: 56, Err: errors.New("no space")}
	}
	return []int64{7}, nil
}

func (fake) Load(ctx context.Context, req Request, emit func(Event)) ([]int64, error) {
	emit(Event{Acks: []Ack{{Partition: 1, Sequence: req.Load.First[1], Offset: 3}}})
	<-ctx.Done()
	return []int64{0, req.Load.First[1] + 1}, nil
}

// talk serves the fake and returns functions to send a request and to read a line.
func talk(t *testing.T) (send func(Request), read func() map[string]any) {
	t.Helper()
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Serve(requests, answers, fake{})
		answers.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		in.Close()
		out.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	send = func(req Request) {
		t.Helper()
		if err := json.NewEncoder(in).Encode(req); err != nil {
			t.Fatal(err)
		}
	}
	read = func() map[string]any {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no line: ", lines.Err())
		}
		m := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	return send, read
}

func TestServeAnswers(t *testing.T) {
	send, read := talk(t)
	send(Request{Op: OpVersion})
	if got := read(); got["version"] != "fake 1" || got["done"] != true {
		t.Errorf("version: %v", got)
	}
	send(Request{Op: OpProduce, Topic: "full"})
	if got := read(); got["error"] != "no space" || got["code"] != 56.0 {
		t.Errorf("failed produce: %v", got)
	}
	send(Request{Op: "dance"})
	if got := read(); got["error"] != `unknown operation "dance"` {
		t.Errorf("unknown operation: %v", got)
	}
	send(Request{Op: OpStop})
	if got := read(); got["error"] != "stop: nothing is running" {
		t.Errorf("stop without a load: %v", got)
	}
}

func TestServeLoad(t *testing.T) {
	send, read := talk(t)
	send(Request{Op: OpLoad, Load: &Load{First: []int64{0, 41}}})
	if got := read(); got["acks"] == nil || got["done"] != nil {
		t.Errorf("event: %v", got)
	}
	send(Request{Op: OpStop})
	got := read()
	if next, ok := got["next"].([]any); !ok || len(next) != 2 || next[1] != 42.0 || got["done"] != true {
		t.Errorf("end of the load: %v", got)
	}
	send(Request{Op: OpProduce})
	if got := read(); got["error"] != nil {
		t.Errorf("produce after a load: %v", got)
	}
}

func TestNullIsNotEmpty(t *testing.T) {
	b, err := json.Marshal(Record{Key: []byte{}, Headers: []Header{{Key: "h"}, {Key: "h", Value: []byte{}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Key == nil || got.Value != nil || got.Headers[0].Value != nil || got.Headers[1].Value == nil {
		t.Errorf("%s came back as %#v", b, got)
	}
}

func TestLoadValue(t *testing.T) {
	value := LoadValue("java#3", 2, 1234567, 64)
	if len(value) != 64 || !bytes.HasPrefix(value, []byte("java#3/2/1234567/")) {
		t.Fatalf("value %q", value)
	}
	name, partition, sequence, ok := ParseLoadValue(value)
	if !ok || name != "java#3" || partition != 2 || sequence != 1234567 {
		t.Errorf("parsed %q %d %d %v", name, partition, sequence, ok)
	}
	for _, foreign := range []string{"", "a/b", "p/x/1/", "p/1/x/", strings.Repeat("/", 3)} {
		if _, _, _, ok := ParseLoadValue([]byte(foreign)); ok {
			t.Errorf("%q was taken for a load's", foreign)
		}
	}
}
