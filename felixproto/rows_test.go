package felixproto

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// update rewrites docs/native-rows.md.
var update = flag.Bool("update", false, "rewrite docs/native-rows.md")

// row is a row of the streams rules, section 19.
type row struct {
	what string
	// part is what of the row no test shows, and why; whole is why none shows any of it. At most one of them is set.
	part, whole string
}

const (
	severalBrokers = "needs several brokers"
	owedAtDefault  = "not with the default window: at 256 answers owed a stream is read no further, and without a window at 1024 publishes under way; shown with a window of 2048 (`FELIX_BROKER_PUBLISH_WINDOW`)"
	struck         = "no such policy: a server that is told to block does not start"
)

// rulesRows are all rows in their order; the first is S-01.
var rulesRows = []row{
	{"a publish without an acknowledgement on an ephemeral stream is delivered and never answered", "", ""},
	{"an acknowledged publish on an ephemeral stream is answered without an offset once queued", "", ""},
	{"on a durable stream the answer carries the offset, and the record can be read by then", "", ""},
	{"a server that answers when a publish is queued gives no offset", "through another broker it does: " + severalBrokers, ""},
	{"on that server a client that asks for answers after the write gets them, and others still do not", "", ""},
	{"sync on commit: a record outlives a kill right after its answer", "", ""},
	{"periodic syncs: a record outlives a kill of the process after its answer", "", ""},
	{"quorum with one frozen follower: everything is acknowledged as usual", "", severalBrokers},
	{"quorum with both followers frozen: quorum_timeout after 5 s, never an acknowledgement", "frozen followers: " + severalBrokers, ""},
	{"afterwards the record may be there or not; an acknowledged one must be", "", severalBrokers},
	{"quorum: the promoted leader serves an acknowledged record at its offset", "", severalBrokers},
	{"quorum: records that only the dead leader held are absent", "", severalBrokers},
	{"leader consistency: an unshipped acknowledged record keeps the shard unavailable until its leader returns", "", severalBrokers},
	{"a durable stream is rejected by a broker without storage", "", "no server is without storage"},
	{"100 records with one key lie on one of 8 shards, in order", "", ""},
	{"records without a key lie on shard 0", "", ""},
	{"an empty key is hashed, alike in both forms of a publish", "", ""},
	{"client and broker compute the same shards under both mappings", "", ""},
	{"a stream made again: 200 in the same form, 409 in another", "", ""},
	{"a queue is read by a plain subscriber and by a group", "groups of queues are not served yet", ""},
	{"a publish through another broker is stored once and answered with its owner", "", severalBrokers},
	{"a publish that the owner does not allow is refused there, with nothing written", "", severalBrokers},
	{"unknown names: not_found; another tenant's: forbidden", "", ""},
	{"a shard moves under continuous publishing: none refused, lost, or stored twice", "", severalBrokers},
	{"a held cut-over refuses publishes as moving, with a wait", "", severalBrokers},
	{"too many publishes held for moving shards: the next is refused at once", "", severalBrokers},
	{"a lapsed lease: publishes of every kind are refused as fenced", "", severalBrokers},
	{"a majority after the lapse of a lease: leadership_lost", "", severalBrokers},
	{"cut off from the control plane alone, quorum publishes are still acknowledged", "", severalBrokers},
	{"a flooding tenant is refused at once, another one is admitted", "", ""},
	{"no room, and then room within the wait: written and acknowledged", "", ""},
	{"no room within the wait: refused, and a retry lands once", "", ""},
	{"a publish that waits for its shard holds up no other shard's on its transport stream", "", ""},
	{"two publishes to one shard keep their order while waiting", "", ""},
	{"1024 publishes waiting: the transport stream is read no further, others are", "", ""},
	{"more than 1024 answers owed: overloaded, not queued", owedAtDefault, ""},
	{"a burst without acknowledgements is shed and counted, or slowed, as configured", "", ""},
	{"a tenant over its rate is refused with a wait, and published to after it", "", ""},
	{"a batch larger than the quota passes and is paid off; debt ends at 5 s", "", ""},
	{"tenants with small and large publishes are served equal bytes", "", ""},
	{"a window of 256: the rest waits in flow control, none is refused", "", ""},
	{"pipelined answers come in the order of the publishes", "", ""},
	{"10,000 publishes of one client are seen in their order, at contiguous offsets", "", ""},
	{"a batch of 64: one answer, contiguous offsets, in order for everybody", "", ""},
	{"racing publishers: one order for subscribers, replays and readers", "groups are not served yet", ""},
	{"a failed sync: an error, the record is never seen, later writes fail", "", ""},
	{"a failed segment write: refused, and the next takes its offset", "", ""},
	{"a subscription in the past joins the present without gap or repeat", "", ""},
	{"latest: start and live offset are the tail", "", ""},
	{"offsets below and beyond the log: too_old and in_future, with what there is", "", ""},
	{"a log that ends with a generation-start record: the reader is caught up", "", severalBrokers + ": no others write such records"},
	{"a leader change shows as one jump that skipped_before covers", "", severalBrokers},
	{"a slow reader of a long history gets all of it, within bounded memory", "", ""},
	{"earliest on an ephemeral stream: what is in memory, without offsets", "", ""},
	{"subscribing at another broker than the owner: not_leader", "", severalBrokers},
	{"subscribing just after the shard was given up: moving", "", severalBrokers},
	{"a stalled subscriber ends with the first offset that it missed, behind what was queued; nobody else notices", "", ""},
	{"and is told although nothing more is published", "", ""},
	{"resuming after its last event it gets everything, nothing twice", "", ""},
	{"a stalled subscriber of an ephemeral stream goes on with later records; the counter grew", "", ""},
	{"a queue of large batches is bounded by bytes", "", ""},
	{"a blocked subscription drops for itself; its neighbour loses nothing", "", ""},
	{"1000 subscriptions on one connection all receive", "", ""},
	{"without the notice, a jump in offsets equals the drops", "", ""},
	{"a policy of blocking", "", struck},
	{"a queue capacity is granted between 1 and 4096, and echoed", "", ""},
	{"a planned move of a durable stream: nothing repeated or skipped", "", severalBrokers},
	{"a planned move of an ephemeral stream: the new owner's tail", "", severalBrokers},
	{"nobody reads beyond the committed mark", "", severalBrokers},
	{"records that were replaced after a restart are never delivered", "", severalBrokers},
	{"a batch sent again under its number: one copy, the first one's offset", "", ""},
	{"the same after a restart", "after a failover or a move: " + severalBrokers, ""},
	{"an ephemeral stream with another leader: unknown_producer", "", ""},
	{"a number is left out: sequence_gap, nothing written", "", ""},
	{"a number with another payload: sequence_reused, or ok without a write", "", ""},
	{"a promoted leader holds the beginning of a batch: the rest is appended", "", severalBrokers},
	{"the same batch twice at once is appended once", "", ""},
	{"two conditional publishes at one offset: one is written", "", ""},
	{"a conditional publish after a failover: refused with a higher tail", "", severalBrokers},
	{"a conditional publish on an ephemeral stream, or of nothing: invalid_request", "", ""},
	{"no reader sees an event without its state, or state without its event", "under partitions: " + severalBrokers, ""},
	{"a commit's offset is its state's version; readers see the event alone", "", ""},
	{"a conditional commit that comes too late leaves neither event nor state", "", ""},
	{"a commit to an ephemeral stream is refused", "before a cluster has enabled commits: " + severalBrokers, ""},
	{"pages of a bounded read end with an empty one, and never wait", "", ""},
	{"a stream is cut back to its own bound, never within its active segment; another one to the server's", "", ""},
	{"a bound that is patched applies without a restart", "", ""},
	{"without a majority nothing beyond the mark is deleted", "", severalBrokers},
	{"a checkpoint resumes behind it over a restart of the server", "", ""},
	{"4097 subscriptions of one identity: the last is refused, for good", "", ""},
	{"order within each of two streams, none between them", "", ""},
	{"times of an event are the same live and replayed, and go to who asked", "the publisher of an event is not stored", ""},
}

// rowNumber finds a row, or a range of rows.
var rowNumber = regexp.MustCompile(`S-(\d\d)(?: to S-(\d\d))?`)

// testedRows are the tests of this repository that name a row in their comment or text, by row.
func testedRows(t *testing.T) map[int][]string {
	t.Helper()
	root := ".."
	found := map[int]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !rowNumber.Match(text) {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			from := f.Pos()
			if f.Doc != nil {
				from = f.Doc.Pos()
			}
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, m := range rowNumber.FindAllSubmatch(text[files.Position(from).Offset:files.Position(f.End()).Offset], -1) {
				first, _ := strconv.Atoi(string(m[1])) // two digits
				last := first
				if len(m[2]) > 0 {
					last, _ = strconv.Atoi(string(m[2]))
				}
				for n := first; n <= last; n++ {
					if found[n] == nil {
						found[n] = map[string]bool{}
					}
					found[n][filepath.ToSlash(rel)+"."+f.Name.Name] = true
				}
			}
		}
		return nil
	})
	must(t, err)
	out := map[int][]string{}
	for n, tests := range found {
		out[n] = slices.Sorted(maps.Keys(tests))
	}
	return out
}

// TestRows: every row has a test, or a reason why not, or both because a part of it has; docs/native-rows.md says which.
func TestRows(t *testing.T) {
	tested := testedRows(t)
	for _, n := range slices.Sorted(maps.Keys(tested)) {
		if n < 1 || n > len(rulesRows) {
			t.Errorf("%v name a row S-%02d, which there is not", tested[n], n)
		}
	}
	var b strings.Builder
	b.WriteString("# Rules of streams and their tests\n\n" +
		"Written by `go test ./felixproto -run TestRows -update`; do not edit by hand. These are the acceptance rows of the specification of\n" +
		"streams as the native protocol shows them, with the tests that name them. The last column says what no test shows, and why.\n\n" +
		"| row | what | tests | not shown |\n|---|---|---|---|\n")
	for i, r := range rulesRows {
		n := i + 1
		switch {
		case len(tested[n]) == 0 && r.part+r.whole == "":
			t.Errorf("S-%02d (%s): no test names it, and there is no reason", n, r.what)
		case len(tested[n]) > 0 && r.whole != "":
			t.Errorf("S-%02d (%s) has tests now, %v: its reason is out of date", n, r.what, tested[n])
		}
		fmt.Fprintf(&b, "| S-%02d | %s | %s | %s |\n", n, r.what, strings.Join(tested[n], ", "), r.part+r.whole)
	}
	path := filepath.Join("..", "docs", "native-rows.md")
	if *update {
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return
	}
	page, err := os.ReadFile(path)
	must(t, err)
	if string(page) != b.String() {
		t.Error("docs/native-rows.md is not what the tests say: go test ./felixproto -run TestRows -update")
	}
}
