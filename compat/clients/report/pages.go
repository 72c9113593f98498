package report

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/felixlog/felix/compat/peer"
)

// titles describe the cases of the page, which has a row for each.
var titles = map[string]string{
	"8":          "metadata: brokers as advertised, topics, leaders, ISR",
	"15":         "connect and list topics with default settings; create one",
	"16":         "three lines with acks=all, read back from the beginning",
	"17":         "each codec written, stored with that codec's bits",
	"18":         "snappy, raw and xerial",
	"19":         "keys, headers in order with repeats, null and empty, timestamps",
	"20":         "acks=0, 1000 records",
	"25":         "a batch over max.message.bytes is split and succeeds",
	"29":         "a million records with the producer's defaults, exactly once and in order",
	"35":         "LogAppendTime: consumers see the server's time",
	"39":         "a record reaches a waiting consumer at once",
	"48":         "fetch sessions over three partitions, none refused",
	"50":         "offsets of times: beginning, end, between, future",
	"53":         "a restart during consumption: no loss, no repeat (leader moves need more brokers)",
	"58":         "assign, seek, beginningOffsets, endOffsets, offsetsForTimes",
	"59":         "empty batches and gaps of offsets are passed, the end is reached",
	"61":         "one member of every client in one group: each record to one member, all partitions owned",
	"62":         "a group of its own: consume, commit, restart of client and server, resume",
	"65":         "static members: a restart within the session timeout without a rebalance",
	"66":         "cooperative-sticky, 1 to 3 to 2 members: kept partitions never given up, no two owners",
	"67":         "three members: a crash and a leave, every record comes, no two owners",
	"69":         "offsets of an empty group set by the client, read back, started from",
	"71":         "kafka-consumer-groups: list, describe, refusals, reset and delete offsets, delete",
	"admin":      "configs, end of a topic, groups, as far as the client has them; Java: partitions, records, log directories, producers too",
	"idempotent": "the idempotent producer: numbered batches, each record once and in order",
	"quotas":     "kafka-configs for client quotas: set, shown, enforced, there after a restart, removed",
	"tools":      "kafka-topics, -configs, -get-offsets, -console-producer, -console-consumer, -producer-perf-test, -verifiable-producer, -log-dirs",
}

// numbers are the cases in the order of the page: those of the acceptance table first.
func numbers() []string {
	all := slices.Collect(maps.Keys(titles))
	sort.Slice(all, func(i, j int) bool {
		a, errA := strconv.Atoi(all[i])
		b, errB := strconv.Atoi(all[j])
		if errA != nil || errB != nil {
			return errA == nil || (errB != nil && all[i] < all[j])
		}
		return a < b
	})
	return all
}

// title is how the page calls a peer.
func title(kind peer.Kind) string {
	if kind == peer.Kafka {
		return "Apache Kafka 4.3.1"
	}
	return "Felix"
}

// clients are the names of those that ran, in the order of the tables; the tools come last.
func (r *Results) clients() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.Versions)), func(name string) bool { return name == Tools })
	return append(names, Tools)
}

// Page is docs/kafka-clients.md.
func Page(all []*Results) string {
	var b strings.Builder
	b.WriteString("# Kafka clients\n\nReal clients against Felix and, as the measure of what is expected, against Apache Kafka. Written by `make generate` from the results of\n" +
		"`CLIENTS_DOCS=1 make compat PEER=felix` (and `PEER=kafka`); do not edit.\n\n## Clients\n\n| client | version |\n|---|---|\n")
	last := all[len(all)-1]
	for _, name := range last.clients() {
		fmt.Fprintf(&b, "| %s | %s |\n", name, last.Versions[name])
	}
	b.WriteString("\n## Cases\n\nNumbers are those of the acceptance cases. A dash: the case does not concern that client. A number in brackets: the library lacks what the\n" +
		"case, or a part of it, asks for; it is told below the table.\n")
	for _, r := range all {
		r.cases(&b)
	}
	b.WriteString("\n## Who reads whom\n\nCodecs (of none, gzip, snappy, lz4, zstd) in which the reader got every record of the writer whole: offset, timestamp, key, value and\n" +
		"headers, null and empty apart.\n")
	for _, r := range all {
		r.matrix(&b)
	}
	b.WriteString(learned)
	return b.String()
}

// learned is what users of these libraries may want to know; none of it is the server's doing, and all of it is so at either peer.
const learned = `
## Learned of the libraries

- kafka-go 0.4.51 asks for lz4 v4.1.15, which refuses valid frames with block checksums, such as aiokafka's: a partition with them is
  never read. A program that requires a newer one (here v4.1.33) reads them.
- kafka-go takes a reader's MaxWait as the deadline of the whole answer and lets the broker wait for that less a second. With less than a
  second a busy machine may never get an answer.
- Members of kafka-go send subscriptions of version 1 without the owned partitions of that version; Java and librdkafka cannot lead a group
  with them, franz-go can. kafka-go itself leads only its like, and DescribeGroups decodes subscriptions up to version 1.
- kafka-go takes no notice of LogAppendTime, and gives out the control records of transactions. It has neither an idempotent producer nor
  static members.
- kafka-python 3.0.12: a leader that learns of its topic's partitions after its first join must join again, and does not look at the answer
  when poll ends before it comes: the member stays without partitions and is evicted. Ask for partitions_for_topic before the first poll.
- kafkajs 2.2.4 brings gzip only: snappy, lz4 and zstd are codecs that the program adds. It has no range assignor; the program has one.
- kcat 1.7.1 gives its partitions up and takes them as a whole, so it cannot use cooperative-sticky. It ends when its only broker is away.
`

// cases writes the table of one peer and what its bracketed numbers mean.
func (r *Results) cases(b *strings.Builder) {
	clients := r.clients()
	fmt.Fprintf(b, "\n### %s, %s\n\n| case | what | %s |\n|---|---|%s\n", title(r.Peer), r.Date, strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	var notes []string
	for _, n := range numbers() {
		fmt.Fprintf(b, "| %s | %s |", n, titles[n])
		for _, c := range clients {
			cell := r.cell(n, c)
			if why := r.Lacking[n][c]; why != "" {
				notes = append(notes, fmt.Sprintf("%d. Case %s, %s: %s.", len(notes)+1, n, c, why))
				cell = strings.TrimPrefix(fmt.Sprintf("%s (%d)", cell, len(notes)), "- ")
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(notes, "\n"))
	}
}

// cell is one outcome.
func (r *Results) cell(number, client string) string {
	passed, ran := r.Cases[number][client]
	switch {
	case r.Cases[number] == nil:
		return "**no result**"
	case !ran:
		return "-"
	case passed:
		return "ok"
	}
	return "**fails**"
}

// matrix writes who read whom at one peer.
func (r *Results) matrix(b *strings.Builder) {
	clients := slices.DeleteFunc(r.clients(), func(name string) bool { return name == Tools })
	fmt.Fprintf(b, "\n### %s\n\n| written by | %s |\n|---|%s\n", title(r.Peer), strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	for _, w := range clients {
		fmt.Fprintf(b, "| %s |", w)
		for _, reader := range clients {
			fmt.Fprintf(b, " %d of 5 |", r.Matrix[w][reader])
		}
		b.WriteByte('\n')
	}
}

// Table is one row a client: its version, the cases that it ran and how they ended at each peer, and what its library lacks.
func Table(all []*Results) string {
	var b strings.Builder
	b.WriteString("| client | version | cases |")
	for _, r := range all {
		fmt.Fprintf(&b, " %s |", title(r.Peer))
	}
	fmt.Fprintf(&b, " not in the library |\n|---|---|---|%s---|\n", strings.Repeat("---|", len(all)))
	first := all[0]
	for _, c := range first.clients() {
		ran, lacking := []string{}, []string{}
		for _, n := range numbers() {
			if _, ok := first.Cases[n][c]; ok {
				ran = append(ran, n)
			}
			// What only one server asks of a client (Kafka has transactions) is lacking all the same.
			for _, r := range all {
				if why := r.Lacking[n][c]; why != "" {
					lacking = append(lacking, fmt.Sprintf("%s: %s", n, why))
					break
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", c, first.Versions[c], strings.Join(ran, ", "))
		for _, r := range all {
			fmt.Fprintf(&b, " %s |", r.summary(c))
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(lacking, "; "))
	}
	return b.String()
}

// summary is how a client's cases ended: all passed, or which failed.
func (r *Results) summary(client string) string {
	passed, failed := 0, []string{}
	for _, n := range numbers() {
		switch ok, ran := r.Cases[n][client]; {
		case ok:
			passed++
		case ran:
			failed = append(failed, n)
		}
	}
	if len(failed) > 0 {
		return fmt.Sprintf("%d pass, **fail: %s**", passed, strings.Join(failed, ", "))
	}
	return fmt.Sprintf("%d of %d pass", passed, passed)
}
