package load

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/bench/null"
)

// run starts a throw-away server and runs spec against it.
func run(t *testing.T, spec Spec) (*Result, error) {
	t.Helper()
	s, err := null.New(null.Options{Partitions: 4, RecordBytes: 100, BatchBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	spec.Broker, spec.ServerPID, spec.Topic = ln.Addr().String(), os.Getpid(), "t"
	in, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Run(ctx, bytes.NewReader(in), &out); err != nil {
		return nil, err
	}
	begin, rest, ok := strings.Cut(out.String(), "\n")
	res := &Result{}
	if err := json.Unmarshal([]byte(rest), res); err != nil || !ok || begin != "begin" {
		t.Fatalf("output %q, error %v", out.String(), err)
	}
	return res, nil
}

func TestLoadsCountWhatTheyDo(t *testing.T) {
	const size = 100
	for name, spec := range map[string]Spec{
		"produce":           {Kind: Produce, Client: "franz", Acks: 1, LingerMS: 1, Bytes: 2_000_000, WarmBytes: 200_000},
		"produce by turns":  {Kind: Produce, Client: "franz", Acks: 1, LingerMS: 1, Bytes: 2_000_000, Spread: "turn", BatchBytes: 4096},
		"confluent produce": {Kind: Produce, Client: "confluent", Acks: 1, LingerMS: 1, Bytes: 2_000_000, WarmBytes: 200_000, Codec: "lz4"},
		"consume":           {Kind: Consume, Client: "franz", Bytes: 2_000_000, PassBytes: 700_000, WarmBytes: 100_000},
		"two consumers":     {Kind: Consume, Client: "franz", Bytes: 1_000_000, Consumers: 2},
		"confluent consume": {Kind: Consume, Client: "confluent", Bytes: 2_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Partitions, spec.RecordBytes = 4, size
			res, err := run(t, spec)
			if err != nil {
				t.Fatal(err)
			}
			if res.Bytes < 2_000_000 || res.Bytes != res.Records*size || res.Seconds <= 0 {
				t.Errorf("result %+v", res)
			}
			if spec.Kind == Produce && res.AllRecords < res.Records+spec.WarmBytes/size {
				t.Errorf("%d records in all, %d measured", res.AllRecords, res.Records)
			}
		})
	}
}

func TestSyncWorkersStopAtTheirShare(t *testing.T) {
	res, err := run(t, Spec{
		Kind: Sync, Client: "franz", Acks: -1, Idempotent: true, Partitions: 4, RecordBytes: 100, Producers: 2, InFlight: 2, Spread: "own",
		Seconds: 30, Bytes: 40_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Records != 400 || res.Ack == nil || res.Ack.Count != 400 || res.Ack.P50 <= 0 {
		t.Errorf("result %+v, latencies %+v", res, res.Ack)
	}
}

func TestUnknownLoadIsRefused(t *testing.T) {
	if _, err := run(t, Spec{Kind: "juggle", Client: "franz"}); err == nil {
		t.Error("no error")
	}
}

func TestPaceKeepsIntendedTimes(t *testing.T) {
	for _, exact := range []bool{false, true} {
		var last time.Time
		start := time.Now()
		n := pace(t.Context(), exact, 1000, 50*time.Millisecond, func(i int64, intended time.Time) {
			if i > 0 && intended.Sub(last).Round(10*time.Microsecond) != time.Millisecond {
				t.Errorf("record %d: %v after the one before", i, intended.Sub(last))
			}
			if time.Now().Before(intended) {
				t.Errorf("record %d was sent early", i)
			}
			last = intended
		})
		if took := time.Since(start); n != 50 || took < 49*time.Millisecond {
			t.Errorf("exact %v: %d records in %v", exact, n, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := pace(ctx, false, 1e6, time.Hour, func(int64, time.Time) {}); n != 0 {
		t.Errorf("%d records after the end", n)
	}
}
