package errcode_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/felixlog/felix/internal/errcode"
)

// Rows of ours that share a Kafka code with another row and therefore have no name of their own at Kafka.
var ownNames = map[errcode.Kind]bool{
	errcode.LeadershipLost: true, errcode.Overloaded: true, errcode.Draining: true,
}

func TestEveryRowIsFilledAndKnownToKafka(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range errcode.Kinds() {
		row := k.Row()
		if row.Name == "" {
			t.Fatalf("kind %d has no row", k)
		}
		if seen[row.Name] {
			t.Errorf("name %q stands twice", row.Name)
		}
		seen[row.Name] = true
		if k == errcode.OK {
			continue
		}
		kafka := kerr.TypedErrorForCode(row.Kafka)
		if kafka == nil {
			t.Errorf("%s: code %d is unknown to Kafka", row.Name, row.Kafka)
			continue
		}
		if !ownNames[k] && kafka.Code == -1 && k != errcode.Internal {
			t.Errorf("%s: code %d reads as %s", row.Name, row.Kafka, kafka.Message)
		}
	}
}

func TestOf(t *testing.T) {
	sentinel := errcode.New(errcode.StorageFailed, "log: failed")
	tests := []struct {
		name string
		err  error
		want errcode.Kind
	}{
		{"nil", nil, errcode.OK},
		{"plain", errors.New("x"), errcode.Internal},
		{"sentinel", sentinel, errcode.StorageFailed},
		{"wrapped", fmt.Errorf("open: %w", sentinel), errcode.StorageFailed},
		{"outermost_wins", errcode.Newf(errcode.Overloaded, "append: %w", sentinel), errcode.Overloaded},
		{"range", &errcode.RangeError{Requested: 1, Start: 2, End: 3}, errcode.OffsetOutOfRange},
		{"record", &errcode.RecordError{Code: errcode.InvalidRecord}, errcode.InvalidRecord},
		{"not_leader", &errcode.NotLeaderError{Leader: -1, Epoch: -1}, errcode.NotLeader},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := errcode.Of(tc.err); got != tc.want {
				t.Errorf("Of(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
	if !errors.Is(errcode.Newf(errcode.Overloaded, "append: %w", sentinel), sentinel) {
		t.Error("Newf does not wrap its cause")
	}
}

// TestFelixRows holds every kind to what may be sent: a code that is not 0, a class, and a reason only where clients look for one.
func TestFelixRows(t *testing.T) {
	const shardUnavailable, overloaded, internal = 5, 10, 13
	for _, k := range errcode.Kinds() {
		f := k.Felix()
		if f.Code < 1 || f.Code > 16 || f.Retry < 1 || f.Retry > 5 {
			t.Errorf("%v: code %d, class %d", k, f.Code, f.Retry)
		}
		if (f.Reason != "") != (f.Code == shardUnavailable || f.Code == overloaded) {
			t.Errorf("%v: code %d with reason %q", k, f.Code, f.Reason)
		}
	}
	for k, code := range map[errcode.Kind]uint16{
		errcode.AuthenticationFailed: 1, errcode.UnauthorizedTopic: 2, errcode.UnknownShard: 3, errcode.InvalidRequest: 4, errcode.NoLeader: 5,
		errcode.NotLeader: 6, errcode.QuorumTimeout: 7, errcode.LeadershipLost: 8, errcode.Unacknowledged: 9, errcode.Overloaded: 10,
		errcode.LimitExceeded: 11, errcode.Draining: 12, errcode.Internal: 13, errcode.StorageFailed: 14, errcode.StaleClaim: 15,
		errcode.Revoked: 16,
	} {
		if got := k.Felix().Code; got != code {
			t.Errorf("%v: code %d, want %d", k, got, code)
		}
	}
	if f := errcode.ElectionNotNeeded.Felix(); f.Code != internal {
		t.Errorf("a kind of Kafka's alone has code %d", f.Code)
	}
}
