package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/pprof/profile"
)

// profileClasses are the classes of profileShares, by what the innermost function of a stack that is not the runtime's belongs to. The
// first that fits counts. What a package has the runtime do (copying, allocating, system calls) counts as its own.
var profileClasses = []struct {
	class  string
	prefix []string
}{
	// The sockets: system calls, and cutting what the kernel has joined.
	{"UDP", []string{
		"golang.org/x/net/", "net.(*UDPConn)", "net.(*netFD)", "net.(*conn)", "internal/poll.(*FD).ReadMsg", "internal/poll.(*FD).WriteMsg",
		"internal/poll.(*FD).RawRead", "internal/poll.(*FD).RawWrite", "internal/poll.(*FD).ReadFrom", "internal/poll.(*FD).WriteTo",
		"github.com/felixlog/felix/internal/udp.",
	}},
	{"crypto", []string{"crypto/", "golang.org/x/crypto/", "math/big", "vendor/golang.org/x/crypto/"}},
	{"quic-go", []string{"github.com/quic-go/"}},
	{"ours", []string{"github.com/felixlog/felix/", "os.(*File)", "internal/poll.(*FD)", "hash/crc32", "github.com/prometheus/", "main."}},
}

// generic are functions that belong to whoever calls them.
var generic = []string{
	"runtime.", "runtime/", "internal/runtime/", "sync.", "sync/", "internal/sync.", "syscall.", "internal/bytealg", "time.", "context.", "sort.", "slices.", "bytes.",
	"internal/race", "golang.org/x/sys/", "encoding/binary", "errors.", "io.", "container/", "internal/syscall", "aeshash", "memeq", "cmpbody",
	"gogo", "indexbyte", "reflect.", "maps.", "iter.", "atomic.", "strconv.", "unicode/", "net/netip.", "math/", "cmp.", "hash/maphash", "internal/reflectlite",
}

// profileShares reads a CPU profile and returns the part of each class; what has no caller but the runtime is "runtime": collecting
// garbage, and the scheduler.
func profileShares(path string) (map[string]float64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(p.SampleType) == 0 {
		return nil, fmt.Errorf("%s has no samples", path)
	}
	shares, total := map[string]float64{}, 0.0
	for _, s := range p.Sample {
		v := float64(s.Value[len(s.Value)-1])
		total += v
		shares[classOf(s)] += v
	}
	for class := range shares {
		shares[class] /= max(total, 1)
	}
	return shares, nil
}

// classOf is the class of a stack.
func classOf(s *profile.Sample) string {
	for _, loc := range s.Location { // from the innermost
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			for _, c := range profileClasses {
				if hasPrefix(name, c.prefix) {
					return c.class
				}
			}
			if !hasPrefix(name, generic) {
				return "other"
			}
		}
	}
	return "runtime"
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
