package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the import path that all packages of the tree share.
const Module = "github.com/felixlog/felix"

// leaves import nothing of ours, and every package of the server may import them.
var leaves = []string{"internal/ids", "internal/errcode", "internal/invariant", "internal/buf"}

// everything marks the one package in which parts are wired.
const everything = "*"

// arrows says, for each package of the tree (by its path below the module), which other packages of the tree its non-test files may
// import besides the leaves. A package that has no row fails the test.
var arrows = map[string][]string{
	// Binaries: flags, signals and exit codes only.
	"cmd/felix":    {"internal/node"},
	"cmd/felixctl": {"internal/ctl"},

	// Wiring.
	"internal/node": {everything},
	"internal/ctl":  {"client", "auth"},

	// Front ends: strangers to each other.
	"kafkaproto":      {"broker", "groups", "log/recordbatch", "auth", "internal/cluster"},
	"felixproto":      {"broker", "groups", "cache", "log/recordbatch", "auth", "felixproto/wire", "internal/cluster", "internal/udp"},
	"felixproto/wire": {},
	"client":          {"felixproto/wire", "internal/udp"},

	// Projections over the log.
	"groups": {"log/recordbatch", "internal/cluster"},
	"cache":  {"log/recordbatch", "internal/cluster"},

	// The data path, each layer knowing only the one below.
	"broker":          {"replica", "log", "log/ring", "log/recordbatch", "auth", "internal/peer", "internal/cluster"},
	"replica":         {"log", "log/recordbatch", "internal/vfs", "internal/cluster"},
	"log":             {"log/recordbatch", "log/journal", "internal/vfs"},
	"log/journal":     {"internal/vfs"},
	"log/ring":        {"log", "log/recordbatch"},
	"log/recordbatch": {},

	// The control plane, which sees no record.
	"controller":           {"auth", "internal/cluster"},
	"controller/api":       {"auth", "internal/cluster"}, // HTTP; talks to the controller through an interface
	"controller/raftstore": {"controller", "internal/peer", "internal/cluster"},
	"controller/pgstore":   {"controller", "internal/cluster"},
	"controller/storetest": {"controller", "internal/cluster"}, // the suite that every store passes, used by their tests
	"controller/remote":    {"controller", "internal/peer", "internal/cluster"},

	// Shared below.
	"auth":             {},
	"internal/cluster": {},
	"internal/peer":    {"internal/cluster"},
	"internal/udp":     {},
	"internal/vfs":     {},

	// The leaves.
	"internal/ids":       {},
	"internal/errcode":   {},
	"internal/invariant": {},
	"internal/buf":       {},

	// Development.
	"internal/archtest": {},
}

// onlyIn names modules of others that are confined to some packages: their types must not become the internal API.
var onlyIn = map[string][]string{
	"github.com/twmb/franz-go/pkg/kmsg": {"kafkaproto"},
	"github.com/twmb/franz-go/pkg/kgo":  {"internal/ctl"},
	"github.com/twmb/franz-go/pkg/kadm": {"internal/ctl"},
	"github.com/quic-go/quic-go":        {"felixproto", "client", "internal/peer"},
	"github.com/hashicorp/raft":         {"controller/raftstore"},
	"github.com/jackc/pgx":              {"controller/pgstore"},
	"github.com/golang-jwt/jwt":         {"auth"},
	"github.com/spf13/cobra":            {"internal/ctl", "internal/node", "cmd/felix", "cmd/felixctl"},
}

// checkArrow returns why the package from may not import path, or "" when it may. Both the leaf rule and the table are applied;
// imports of the standard library and of modules that onlyIn does not name are free.
func checkArrow(from, path string) string {
	if path == Module || strings.HasPrefix(path, Module+"/") {
		return checkOwnArrow(from, strings.TrimPrefix(strings.TrimPrefix(path, Module), "/"))
	}
	for module, owners := range onlyIn {
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		if !slices.ContainsFunc(owners, func(o string) bool { return from == o || strings.HasPrefix(from, o+"/") }) {
			return fmt.Sprintf("%s belongs to %s alone", module, strings.Join(owners, ", "))
		}
	}
	return ""
}

func checkOwnArrow(from, to string) string {
	allowed, known := arrows[from]
	switch {
	case !known:
		return "the package has no row in arrows.go"
	case slices.Contains(allowed, everything), slices.Contains(allowed, to):
		return ""
	case slices.Contains(leaves, to) && !slices.Contains(leaves, from) && !isOutside(from):
		return ""
	default:
		return fmt.Sprintf("no arrow from %s to %s", from, to)
	}
}

// isOutside says that a package is not part of the server and gets no leaf for free: what it needs, its row must say.
func isOutside(from string) bool {
	return from == "internal/archtest" || strings.HasPrefix(from, "cmd/") || from == "client"
}
