package raw_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/felixlog/felix/compat/peer"
)

// update rewrites docs/kafka-cases.md.
var update = flag.Bool("update", false, "rewrite docs/kafka-cases.md from the rows")

// elsewhere are numbers, or parts of them, whose tests are in compat/clients: they need clients of other languages.
var elsewhere = map[int]string{
	8:  "kcat -L and both generations of librdkafka",
	15: "default settings of kafka-python, aiokafka, kafkajs, sarama, kafka-go, Java admin",
	17: "codecs by librdkafka 1.9 and later, Java and Go clients",
	18: "snappy framings of Java, sarama, kafka-go, franz-go, librdkafka, each read by all others",
	25: "a Java producer splits a batch that is too large",
	29: "Java producer with defaults, 1 million records (the leader moves belong to several brokers)",
	37: "Java metric produce-throttle-time-avg",
	48: "Java and franz-go consumers run without session errors",
	53: "consumers over restarts (leader moves belong to several brokers)",
	58: "Java consumer: assign, seek, endOffsets, offsetsForTimes, beginningOffsets",
	59: "all clients advance past empty batches and gaps",
	62: "Java, franz-go, sarama, kafka-go, kafkajs, aiokafka, kafka-python: one group each, commit, restart",
	66: "cooperative-sticky in Java and librdkafka",
	71: "kafka-consumer-groups.sh (the requests behind it: 71.*)",
	72: "Connect, three workers",
	96: "kafka-configs.sh, kafkajs alterConfigs",
	98: "kafka-log-dirs.sh",
}

// outOfScope are numbers, or parts of them, that one broker with static credentials cannot show.
var outOfScope = map[int]string{
	13: "a token that expires: static credentials do not; comes with tokens",
	21: "refusal by permission: static logins have every right: TestS92WithoutTheRight of kafkaproto (the refusal itself: 21.partition)",
	22: "leader killed right after the answer: several brokers",
	23: "no majority: several brokers (min.insync.replicas on one: 23.min-isr)",
	34: "leader change between two sends: several brokers (restarts and snapshots: 34.*)",
	36: "foreign namespace: static logins have every right: TestS92WithoutTheRight of kafkaproto",
	38: "produce to a follower: several brokers",
	46: "record appended but not committed: a quorum of several brokers",
	53: "leader moves during consumption: several brokers",
	54: "OffsetForLeaderEpoch on a follower: several brokers",
	55: "unreadable topic: static logins have every right: TestMetadataRights of kafkaproto",
	57: "all brokers asked: several brokers (one view of one broker: 57.same)",
	68: "one of two groups forbidden: static logins have every right: TestOffsetFetchOfSeveralGroups of kafkaproto (two groups: 68.two-groups)",
	70: "another coordinator takes over: several brokers (one that comes back: 70.*)",
	93: "produce through another broker: several brokers",
}

// traps are the traps of section 5 that concern the APIs of one node, with the cases that cover those
// without rows of their own; reasons for the others stand in trapsElsewhere.
var traps = map[int]string{
	1: "", 3: "", 4: "", 5: "", 7: "", 8: "", 9: "", 10: "", 11: "", 13: "", 14: "", 15: "", 16: "", 17: "", 18: "",
	20: "", 21: "", 22: "", 23: "", 24: "", 25: "", 26: "", 29: "", 31: "", 32: "", 33: "", 34: "", 35: "", 36: "", 37: "",
	39: "", 40: "", 41: "", 42: "", 43: "", 45: "", 46: "", 47: "",
	2: "", 6: "", 27: "", 28: "", 38: "", 44: "",
	19: "59.gap, 44.middle: gaps and batches that contain the offset",
}

// trapsElsewhere are the other traps, with the reason.
var trapsElsewhere = map[int]string{
	30: "transactions", 12: "several brokers: the hint of another leader",
}

// wanted are the case numbers that the suite has to account for.
func wanted() []int {
	var out []int
	for n := 1; n <= 74; n++ {
		out = append(out, n)
	}
	return append(out, 92, 93, 94, 95, 96, 97, 98)
}

func hasRow(prefix string) bool {
	for id := range rows {
		if strings.HasPrefix(id, prefix+".") {
			return true
		}
	}
	return false
}

func TestMissingNumbers(t *testing.T) {
	for _, n := range wanted() {
		if !hasRow(strconv.Itoa(n)) && elsewhere[n] == "" && outOfScope[n] == "" {
			t.Errorf("case %d: no row, and no reason", n)
		}
	}
	for n := 1; n <= 47; n++ {
		own, concerns := traps[n]
		other, reason := trapsElsewhere[n]
		row := hasRow(fmt.Sprintf("T%02d", n))
		switch {
		case concerns && reason, !concerns && !reason:
			t.Errorf("trap %d: listed twice or not at all (%s)", n, other)
		case concerns && !row && own == "":
			t.Errorf("trap %d: no row", n)
		}
	}
	for n := 77; n <= 100; n++ {
		if !hasRow(fmt.Sprintf("S%d", n)) && hostile[n] == "" {
			t.Errorf("hostile input %d: no row, and no reason", n)
		}
	}
}

// hostile are the inputs of spec/security.md 13.3 without a row of their own.
var hostile = map[int]string{
	79: "5.limit", 80: "12.idle", 81: "14.surplus; by address: TestConnectionsOfOneAddressAreBounded of kafkaproto", 85: "9.password, 9.tenant; what tokens are refused for: TestS85TokensThatAreRefused of kafkaproto",
	86: "TestS86CertificateOfAnother of kafkaproto",
	88: "4.produce, 4.fetch, 4.metadata: closed, as Kafka (2.v99 for ApiVersions)", 89: "92.transactional", 90: "every topic has a namespace: the default one",
	91: "no request of Kafka makes one: TestS91InMemoryStreams of kafkaproto", 92: "static logins have every right: TestS92WithoutTheRight of kafkaproto",
	93: "36.partition", 94: "27.magic-1",
	95: "26.*, 27.codec", 96: "28.gzip, 28.zstd", 100: "37.produce",
}

// docs is the table as docs/kafka-cases.md has it.
func docs() string {
	var b strings.Builder
	b.WriteString("# Kafka compatibility cases\n\n" +
		"Written by `go test ./raw -run TestDocsTable -update` in `compat/`; do not edit by hand. Each row is observed by a test of\n" +
		"`compat/raw` against Felix (`PEER=felix`) and against Apache Kafka 4.3.1 (`PEER=kafka`). Numbers are those of the\n" +
		"specification's acceptance cases, `T` its traps, `S` the hostile inputs of the security specification. The Kafka column is\n" +
		"filled where Kafka differs, and then the last column says why.\n\n" +
		"| case | what | Felix | Kafka 4.3.1 | why they differ |\n|---|---|---|---|---|\n")
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, c := range sortedRows() {
		kafka, why := c.WantKafka, c.Why
		if c.OnlyFelix != "" {
			kafka, why = "not run", c.OnlyFelix
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.ID, cell(c.What), cell(c.Want), cell(kafka), cell(why))
	}
	list := func(title string, reasons map[int]string, limit int, format string) {
		fmt.Fprintf(&b, "\n## %s\n\n| number | what |\n|---|---|\n", title)
		for n := 1; n <= limit; n++ {
			if reasons[n] != "" {
				fmt.Fprintf(&b, "| "+format+" | %s |\n", n, cell(reasons[n]))
			}
		}
	}
	list("Cases, or parts of them, in `compat/clients`", elsewhere, 104, "%d")
	list("Cases, or parts of them, that one broker cannot show yet", outOfScope, 104, "%d")
	list("Traps covered by rows of other numbers", traps, 47, "T%02d")
	list("Traps of later work", trapsElsewhere, 47, "T%02d")
	list("Hostile inputs covered by rows of other numbers, or of later work", hostile, 100, "S%d")
	return b.String()
}

func TestDocsTable(t *testing.T) {
	path := filepath.Join(peer.ModuleDir(), "..", "docs", "kafka-cases.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(docs()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != docs() {
		t.Error("docs/kafka-cases.md is not what the rows say: go test ./raw -run TestDocsTable -update")
	}
}
