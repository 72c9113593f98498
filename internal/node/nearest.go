package node

import (
	"fmt"
	"slices"
	"strings"
)

// unknownVariables warns of FELIX_ variables that no setting reads, with the closest names that one does.
func unknownVariables(env map[string]string, table []setting) []string {
	known := []string{configEnv}
	for _, s := range table {
		if s.Env != "" {
			known = append(known, s.Env)
		}
	}
	var out []string
	for name := range env {
		if slices.Contains(known, name) || clientOnly(name) {
			continue
		}
		w := fmt.Sprintf("%s is not a setting of this release and has no effect", name)
		if near := nearest(name, known, "_"); len(near) > 0 {
			w += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
		}
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

// clientOnly names variables that tools and clients read and that often stand in the same environment.
func clientOnly(name string) bool {
	return slices.Contains([]string{
		"FELIX_BROKERS", "FELIX_CONTEXT", "FELIX_CLI_CONFIG", "FELIX_AUTH_TENANT", "FELIX_AUTH_TOKEN", "FELIX_AUTH_TOKEN_FILE",
		"FELIX_NAMESPACE", "FELIX_TOKEN", "FELIX_CA_FILE", "FELIX_SERVER_NAME", "FELIX_CLIENT_CERT_FILE", "FELIX_CLIENT_KEY_FILE", "FELIX_BIN",
		"FELIX_CONTROLPLANE_URL", "FELIX_CONTROLPLANE_TOKEN", "FELIX_CONTROLPLANE_TOKEN_FILE", "FELIX_CONTROLPLANE_CA",
		"FELIX_CACHE_CONN_POOL", "FELIX_CACHE_STREAMS_PER_CONN", "FELIX_CACHE_CONN_RECV_WINDOW", "FELIX_CACHE_STREAM_RECV_WINDOW",
		"FELIX_CLUSTER_CONN_POOL", "FELIX_CLUSTER_STREAMS_PER_CONN", "FELIX_PUB_CONN_POOL", "FELIX_PUB_STREAMS_PER_CONN",
		"FELIX_PUB_SHARD_STREAMS", "FELIX_PUBLISH_CHUNK_BYTES", "FELIX_PUBLISH_QUEUE_DEPTH", "FELIX_PUBLISH_INFLIGHT_BYTES",
		"FELIX_EVENT_CONN_POOL", "FELIX_EVENT_ROUTER_MAX_PENDING", "FELIX_CLIENT_SUB_QUEUE_CAPACITY", "FELIX_CLIENT_SUB_QUEUE_POLICY",
		"FELIX_CLIENT_CONFIG",
	}, name)
}

// maxNear bounds a list of suggestions.
const maxNear = 3

// nearest returns the known names closest to name, at most three. A name that lacks or has too many whole segments (FELIX_FSYNC_MODE
// for FELIX_DURABLE_FSYNC_MODE) is looked for first, since that is the commoner slip; then a misspelling of at most a quarter of
// its letters.
func nearest(name string, known []string, separators string) []string {
	cut := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) })
	}
	segments := cut(name)
	var out []string
	for _, k := range known {
		ks := cut(k)
		if len(ks) != len(segments) && (isSubsequence(segments, ks) || isSubsequence(ks, segments)) {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		out = misspelled(name, known)
	}
	slices.SortFunc(out, func(a, b string) int {
		return distance(name, a) - distance(name, b)
	})
	return out[:min(len(out), maxNear)]
}

// minShared is how many segments two names must share before one counts as the other with segments missing: FELIX_X is not a short
// form of everything.
const minShared = 3

// isSubsequence says that all of short appears in long, in order.
func isSubsequence(short, long []string) bool {
	if len(short) < minShared && len(long) > len(short)+1 || len(short) < 2 {
		return false
	}
	i := 0
	for _, s := range long {
		if i < len(short) && short[i] == s {
			i++
		}
	}
	return i == len(short)
}

func misspelled(name string, known []string) []string {
	best := max(len(name)/4, 1)
	var out []string
	for _, k := range known {
		switch d := distance(name, k); {
		case d < best:
			best, out = d, []string{k}
		case d == best:
			out = append(out, k)
		}
	}
	return out
}

// distance is the number of single-character edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := diagonal
			if a[i-1] != b[j-1] {
				substitution++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, substitution)
		}
	}
	return row[len(b)]
}
