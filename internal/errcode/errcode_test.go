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
