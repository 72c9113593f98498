package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// results are the outcomes of one run against one peer; results/<peer>.json keeps them between runs against the two peers.
type results struct {
	mu       sync.Mutex
	Peer     peer.Kind                  `json:"peer"`
	Date     string                     `json:"date"`
	Versions map[string]string          `json:"versions"`
	Cases    map[string]map[string]bool `json:"cases"`  // number, then client: passed
	Matrix   map[string]map[string]int  `json:"matrix"` // writer, then reader: codecs that came through whole
}

func newResults(kind peer.Kind) *results {
	return &results{
		Peer: kind, Date: time.Now().UTC().Format(time.DateOnly), Versions: map[string]string{},
		Cases: map[string]map[string]bool{}, Matrix: map[string]map[string]int{},
	}
}

// note records an outcome; a case that runs in several tests passes if all of them do.
func (r *results) note(number, client string, passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Cases[number] == nil {
		r.Cases[number] = map[string]bool{}
	}
	before, seen := r.Cases[number][client]
	r.Cases[number][client] = passed && (before || !seen)
}

// read counts a codec that a reader got whole from a writer.
func (r *results) read(writer, reader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Matrix[writer] == nil {
		r.Matrix[writer] = map[string]int{}
	}
	r.Matrix[writer][reader]++
}

// caseTitles describe the cases of the page, which has a row for each: one that brought no result shows that.
var caseTitles = map[string]string{
	"8":     "metadata: brokers as advertised, topics, leaders, ISR",
	"15":    "connect and list topics with default settings",
	"16":    "three lines with acks=all, read back from the beginning",
	"17":    "each codec written, stored with that codec's bits",
	"18":    "snappy, raw and xerial",
	"19":    "keys, headers in order with repeats, null and empty, timestamps",
	"20":    "acks=0, 1000 records",
	"25":    "a batch over max.message.bytes is split and succeeds",
	"29":    "a million records with the producer's defaults, exactly once and in order",
	"35":    "LogAppendTime: consumers see the server's time",
	"39":    "a record reaches a waiting consumer at once",
	"48":    "fetch sessions over three partitions, none refused",
	"50":    "offsets of times: beginning, end, between, future",
	"53":    "a restart during consumption: no loss, no repeat (leader moves need more brokers)",
	"58":    "assign, seek, beginningOffsets, endOffsets, offsetsForTimes",
	"59":    "empty batches and gaps of offsets are passed, the end is reached",
	"61":    "one member of every client in one group: each record to one member, all partitions owned",
	"62":    "a group of its own: consume, commit, restart of client and server, resume",
	"65":    "static members: a restart within the session timeout without a rebalance",
	"66":    "cooperative-sticky, 1 to 3 to 2 members: kept partitions never given up, no two owners",
	"67":    "three members: a crash and a leave, every record comes, no two owners",
	"69":    "offsets of an empty group set by the client, read back, started from",
	"admin": "configs, end of a topic, groups, as far as the client has them; Java: partitions, records, log directories, producers too",
	"tools": "kafka-topics, -configs, -get-offsets, -console-producer, -console-consumer, -producer-perf-test, -verifiable-producer, -log-dirs",
}

// save writes this peer's results and the page from the results of all peers.
func (r *results) save() error {
	dir := filepath.Join(peer.ModuleDir(), "clients", "results")
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, string(r.Peer)+".json"), append(b, '\n'), 0o644)); err != nil {
		return err
	}
	var all []*results
	for _, kind := range []peer.Kind{peer.Felix, peer.Kafka} {
		b, err := os.ReadFile(filepath.Join(dir, string(kind)+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		one := newResults(kind)
		if err := json.Unmarshal(b, one); err != nil {
			return err
		}
		all = append(all, one)
	}
	return os.WriteFile(filepath.Join(peer.ModuleDir(), "..", "docs", "kafka-clients.md"), []byte(page(all)), 0o644)
}

// peerTitle is how the page calls a peer.
func peerTitle(kind peer.Kind) string {
	if kind == peer.Kafka {
		return "Apache Kafka 4.3.1"
	}
	return "Felix"
}

// page is docs/kafka-clients.md.
func page(all []*results) string {
	var b strings.Builder
	b.WriteString("# Kafka clients\n\nReal clients against Felix and, as the measure of what is expected, against Apache Kafka. Written by\n" +
		"`CLIENTS_DOCS=1 make compat PEER=felix RUN=.` (and `PEER=kafka`); do not edit.\n\n## Clients\n\n| client | version |\n|---|---|\n")
	last := all[len(all)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Versions)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, last.Versions[name])
	}
	b.WriteString("| java tools | kafka-tools 4.3.1 |\n\n## Cases\n\nNumbers are those of the acceptance cases. A dash: the case does not concern that client.\n")
	for _, r := range all {
		r.cases(&b)
	}
	b.WriteString("\n## Who reads whom\n\nCodecs (of none, gzip, snappy, lz4, zstd) in which the reader got every record of the writer whole: offset, timestamp, key,\n" +
		"value and headers, null and empty apart.\n")
	for _, r := range all {
		r.matrix(&b)
	}
	return b.String()
}

// cases writes the table of one peer.
func (r *results) cases(b *strings.Builder) {
	clients := append(slices.Sorted(maps.Keys(r.Versions)), "java tools")
	fmt.Fprintf(b, "\n### %s, %s\n\n| case | what | %s |\n|---|---|%s\n", peerTitle(r.Peer), r.Date, strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	numbers := slices.Collect(maps.Keys(caseTitles))
	sort.Slice(numbers, func(i, j int) bool {
		a, errA := strconv.Atoi(numbers[i])
		c, errC := strconv.Atoi(numbers[j])
		if errA != nil || errC != nil {
			return errA == nil || (errC != nil && numbers[i] < numbers[j])
		}
		return a < c
	})
	for _, n := range numbers {
		fmt.Fprintf(b, "| %s | %s |", n, caseTitles[n])
		for _, c := range clients {
			passed, ran := r.Cases[n][c]
			switch {
			case r.Cases[n] == nil:
				b.WriteString(" **no result** |")
			case !ran:
				b.WriteString(" - |")
			case passed:
				b.WriteString(" ok |")
			default:
				b.WriteString(" **fails** |")
			}
		}
		b.WriteByte('\n')
	}
}

// matrix writes who read whom at one peer.
func (r *results) matrix(b *strings.Builder) {
	clients := slices.Sorted(maps.Keys(r.Versions))
	fmt.Fprintf(b, "\n### %s\n\n| written by | %s |\n|---|%s\n", peerTitle(r.Peer), strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	for _, w := range clients {
		fmt.Fprintf(b, "| %s |", w)
		for _, reader := range clients {
			fmt.Fprintf(b, " %d of 5 |", r.Matrix[w][reader])
		}
		b.WriteByte('\n')
	}
}
