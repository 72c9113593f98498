package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// relayBench is a harness with the relay alone.
func relayBench(t *testing.T) *bench {
	t.Helper()
	b := testBench(t)
	b.servers, b.trials = []server.Kind{server.Relay}, 1
	var err error
	if b.in.TLS, err = server.NewTLSDir(filepath.Join(b.work, "tls")); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNativeRowsAgainstTheRelay(t *testing.T) {
	tests := []struct {
		row     func(*bench, context.Context) error
		name    string
		only    string
		subs    int
		columns []string
	}{
		{(*bench).p9, "P9", "fanout-10", 2, []string{"p50 ms", "p99 ms", "max ms"}},
		{(*bench).p10, "P10", "acked", 1, []string{"MB/s"}},
		{(*bench).p11, "P11", "256B/fanout-10", 2, []string{"kdeliveries/s", "MB/s"}},
		{(*bench).p12, "P12", "", 1, []string{"krec/s"}},
		{(*bench).p13, "P13", "", 1, []string{"KiB/connection", "KiB/stream", "KiB/subscription", "RSS MiB"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := relayBench(t)
			b.only = tt.only
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := tt.row(b, ctx); err != nil {
				t.Fatal(err)
			}
			if len(b.run.Subs) != tt.subs {
				t.Fatalf("%d sub-rows, want %d", len(b.run.Subs), tt.subs)
			}
			for _, s := range b.run.Subs {
				for _, column := range tt.columns {
					if s.Median("relay", column) <= 0 {
						t.Errorf("%s: %s is %v", s.Name, column, s.Trials["relay"])
					}
				}
				if len(s.Checks) != 0 {
					t.Errorf("%s is judged without Felix: %v", s.Name, s.Checks)
				}
			}
		})
	}
}

func TestHeldFiguresAreTheStepsOverWhatTheyOpened(t *testing.T) {
	r := &load.Result{Seconds: 10, ServerCPU: 0.05, Held: []load.Held{
		{RSS: 1 << 20, Live: 1 << 20},
		{RSS: 3 << 20, Live: 2 << 20}, // 16 connections
		{RSS: 3 << 20, Live: 3 << 20}, // 64 streams
		{RSS: 5 << 20, Live: 4 << 20}, // 32 subscriptions
	}}
	got := heldFigures(r, &load.BusSpec{Connections: 16, Streams: 4, Subscriptions: 2})
	want := report.Figures{
		"KiB/connection": 64, "KiB/stream": 16, "KiB/subscription": 32, "RSS KiB/connection": 128, "RSS KiB/stream": 0, "RSS KiB/subscription": 64,
		"RSS MiB": 5, "idle %": 0.5,
	}
	for name, want := range want {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func TestClassesOfStacks(t *testing.T) {
	tests := []struct {
		want  string
		stack []string // innermost first
	}{
		{"UDP", []string{"internal/runtime/syscall.Syscall6", "syscall.RawSyscall6", "golang.org/x/net/internal/socket.recvmmsg", "github.com/quic-go/quic-go.x"}},
		{"UDP", []string{"runtime.memmove", "github.com/felixlog/felix/internal/udp.(*packetConn).next", "github.com/quic-go/quic-go.x"}},
		{"crypto", []string{"crypto/internal/fips140/aes/gcm.gcmAesDec", "crypto/cipher.x", "github.com/quic-go/quic-go/internal/handshake.x"}},
		{"quic-go", []string{"runtime.mallocgc", "sync.(*Pool).Get", "github.com/quic-go/quic-go.getPacketBuffer"}},
		{"ours", []string{"runtime.memmove", "github.com/felixlog/felix/felixproto.(*inbox).room"}},
		{"ours", []string{"internal/runtime/syscall.Syscall6", "syscall.pwrite", "internal/poll.(*FD).Pwrite", "os.(*File).WriteAt", "github.com/felixlog/felix/log.x"}},
		{"runtime", []string{"runtime.futex", "runtime.mcall"}},
		{"other", []string{"net/http.x", "runtime.goexit"}},
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}
	want := map[string]float64{}
	for i, tt := range tests {
		s := &profile.Sample{Value: []int64{1}}
		for _, name := range tt.stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location, l), append(s.Location, l)
		}
		if got := classOf(s); got != tt.want {
			t.Errorf("stack %d is %s, want %s", i, got, tt.want)
		}
		p.Sample = append(p.Sample, s)
		want[tt.want] += 1 / float64(len(tests))
	}
	path := filepath.Join(t.TempDir(), "profile")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
	got, err := profileShares(path)
	if err != nil {
		t.Fatal(err)
	}
	for class, share := range want {
		if got[class] != share {
			t.Errorf("%s is %v of the profile, want %v", class, got[class], share)
		}
	}
}

func TestWantedKnowsWhichPeersAListNeeds(t *testing.T) {
	isNative := func(row string) bool { return slices.Contains(nativeRows, row) }
	tests := map[string]bool{"": true, "P1,P9": true, "P1,P2": false, "P13": true}
	for list, want := range tests {
		if wanted(list, isNative) != want {
			t.Errorf("%q: %v", list, !want)
		}
	}
}
