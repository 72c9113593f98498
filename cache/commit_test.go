package cache

import (
	"bytes"
	"errors"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
)

func changes() []Change {
	return []Change{
		{Key: "a", Value: []byte("1")}, {Key: "", Value: []byte{}}, {Key: "gone", Delete: true}, {Key: "a", Value: bytes.Repeat([]byte("x"), 300)},
	}
}

func TestCommitRoundTrip(t *testing.T) {
	for _, want := range [][]Change{nil, changes()[:1], changes()} {
		got, err := ParseCommit(AppendCommit(nil, want))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d changes became %d: %v", len(want), len(got), err)
		}
		for i := range want {
			if got[i].Key != want[i].Key || got[i].Delete != want[i].Delete || !bytes.Equal(got[i].Value, want[i].Value) {
				t.Errorf("change %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	}
}

func TestParseCommitRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": {}, "version": {2}, "operation": {1, 3, 0}, "no key": {1, 1}, "key too long": {1, 2, 5, 'a'},
		"no value": {1, 1, 1, 'a'}, "value too long": {1, 1, 1, 'a', 9, 'b'}, "length of 2^63": {1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		if got, err := ParseCommit(b); !errors.Is(err, errCommit) || errcode.Of(err) != errcode.InvalidRecord {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// FuzzParseCommit: whatever a record's header holds is read or refused, and what is read is written back to something equal.
func FuzzParseCommit(f *testing.F) {
	f.Add(AppendCommit(nil, nil))
	f.Add(AppendCommit(nil, changes()))
	f.Add([]byte{1, 1, 1, 'a', 9, 'b'})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseCommit(b)
		if err != nil {
			return
		}
		again, err := ParseCommit(AppendCommit(nil, got))
		if err != nil || len(again) != len(got) {
			t.Fatalf("%d changes became %d: %v", len(got), len(again), err)
		}
	})
}
