package raw_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

// span is a version range.
type span struct{ min, max int16 }

// kafkaRanges are the ranges that Kafka 4.3 advertises (spec/kafka.md 2.1) for the APIs of one node with classic groups.
var kafkaRanges = map[kmsg.Key]span{
	kmsg.Produce: {0, 13}, kmsg.Fetch: {4, 18}, kmsg.ListOffsets: {1, 11}, kmsg.Metadata: {0, 13},
	kmsg.SASLHandshake: {0, 1}, kmsg.ApiVersions: {0, 4}, kmsg.CreateTopics: {2, 7}, kmsg.DeleteTopics: {1, 6},
	kmsg.DeleteRecords: {0, 2}, kmsg.InitProducerID: {0, 5}, kmsg.OffsetForLeaderEpoch: {2, 4},
	kmsg.DescribeConfigs: {1, 4}, kmsg.AlterConfigs: {0, 2}, kmsg.DescribeLogDirs: {1, 5}, kmsg.SASLAuthenticate: {0, 2},
	kmsg.CreatePartitions: {0, 3}, kmsg.IncrementalAlterConfigs: {0, 1}, kmsg.DescribeCluster: {0, 2},
	kmsg.DescribeProducers: {0, 0}, kmsg.DescribeTopicPartitions: {0, 0},
	kmsg.OffsetCommit: {2, 10}, kmsg.OffsetFetch: {1, 10}, kmsg.FindCoordinator: {0, 6}, kmsg.JoinGroup: {0, 9},
	kmsg.Heartbeat: {0, 4}, kmsg.LeaveGroup: {0, 5}, kmsg.SyncGroup: {0, 5}, kmsg.DescribeGroups: {0, 6},
	kmsg.ListGroups: {0, 5}, kmsg.DeleteGroups: {0, 2}, kmsg.OffsetDelete: {0, 0},
	kmsg.DescribeACLs: {1, 3}, kmsg.CreateACLs: {1, 3}, kmsg.DeleteACLs: {1, 3}, kmsg.AlterReplicaLogDirs: {1, 2},
	kmsg.CreateDelegationToken: {1, 3}, kmsg.RenewDelegationToken: {1, 2}, kmsg.ExpireDelegationToken: {1, 2},
	kmsg.DescribeDelegationToken: {1, 3}, kmsg.ElectLeaders: {0, 2}, kmsg.AlterPartitionAssignments: {0, 1},
	kmsg.ListPartitionReassignments: {0, 0}, kmsg.DescribeClientQuotas: {0, 1}, kmsg.AlterClientQuotas: {0, 1},
	kmsg.DescribeUserSCRAMCredentials: {0, 0}, kmsg.AlterUserSCRAMCredentials: {0, 0}, kmsg.DescribeQuorum: {0, 2},
	kmsg.UpdateFeatures: {0, 2}, kmsg.ListConfigResources: {0, 1},
}

// oldClientRanges are the versions below Kafka 4's minimum that kafka-go and other fixed-version clients send (2.2).
var oldClientRanges = map[kmsg.Key]int16{kmsg.CreateTopics: 0, kmsg.DeleteTopics: 0, kmsg.DescribeConfigs: 0}

var _ = register(
	Case{ID: "1.v0", What: "raw ApiVersions v0", Want: "0, layout of v0"},
	Case{ID: "1.v1", What: "raw ApiVersions v1", Want: "0, layout of v1"},
	Case{ID: "1.v2", What: "raw ApiVersions v2", Want: "0, layout of v2"},
	Case{ID: "1.v3", What: "raw ApiVersions v3", Want: "0, layout of v3"},
	Case{ID: "1.v4", What: "raw ApiVersions v4", Want: "0, layout of v4"},
	Case{ID: "1.ranges", What: "ApiVersions v4: the ranges of the APIs of one node, against those of Kafka 4.3", Want: "as Kafka 4.3"},
	Case{ID: "1.same", What: "the table of v0 and of v4, with and without TLS, before and after SASL", Want: "the same"},
	Case{ID: "2.v99", What: "raw ApiVersions v99 with a random body", Want: "UNSUPPORTED_VERSION (35), v0 layout, only key 18, range 0-4; a v4 on the same connection: 0"},
	Case{ID: "3.empty-name", What: "raw ApiVersions v3 with an empty client software name", Want: "INVALID_REQUEST (42)"},
	Case{ID: "3.bad-name", What: "raw ApiVersions v3 with a space in the client software version", Want: "INVALID_REQUEST (42)"},
	Case{ID: "T01.produce-0", What: "ApiVersions: Produce range (old librdkafka stops compressing when it starts above 0)", Want: "0-13"},
	Case{ID: "T04.layout", What: "ApiVersions v99: every byte of the answer", Want: "correlation id, error 35, one key, nothing else"},
	Case{ID: "T05.handshake-0", What: "ApiVersions: SaslHandshake range", Want: "0-1"},
	Case{ID: "T23.fetch-12", What: "ApiVersions: Fetch range includes 12", Want: "4-18"},
	Case{ID: "T26.features", What: "ApiVersions v3: features whose minimum is 0, finalized features at level 0", Want: "none"},
	Case{ID: "T37.quick", What: "ApiVersions v0 and v4 as first requests, plaintext and SASL listener", Want: "each answered at once"},
	Case{ID: "T39.authenticate-2", What: "ApiVersions: SaslAuthenticate range", Want: "0-2"},
	Case{
		ID: "T41.group-protocol", What: "ApiVersions: ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69)", Want: "absent",
		WantKafka: "0-1, 0-1", Why: "this release serves classic groups only, and nothing is advertised that is not honoured",
	},
)

// apiVersions sends ApiVersions in a version.
func (c *client) apiVersions(version int16) *kmsg.ApiVersionsResponse {
	c.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "raw-suite", "1.0"
	return do[*kmsg.ApiVersionsResponse](c, req)
}

// table is the advertised ranges by key.
func table(resp *kmsg.ApiVersionsResponse) map[kmsg.Key]span {
	out := map[kmsg.Key]span{}
	for _, k := range resp.ApiKeys {
		out[kmsg.Key(k.ApiKey)] = span{k.MinVersion, k.MaxVersion}
	}
	return out
}

func (s span) String() string { return fmt.Sprintf("%d-%d", s.min, s.max) }

func TestCase01ApiVersions(t *testing.T) {
	for version := range int16(5) {
		resp := dial(t).apiVersions(version)
		expect(t, fmt.Sprintf("1.v%d", version), fmt.Sprintf("%s, layout of v%d", name(resp.ErrorCode), version))
	}
	served := table(dial(t).apiVersions(4))
	var wrong []string
	for key, want := range kafkaRanges {
		got, ok := served[key]
		if lower, allowed := oldClientRanges[key]; allowed && got.min >= lower && got.min <= want.min {
			got.min = want.min
		}
		if !ok || got != want {
			wrong = append(wrong, fmt.Sprintf("%s %v, want %v", key.Name(), got, want))
		}
	}
	slices.Sort(wrong)
	if len(wrong) == 0 {
		wrong = []string{"as Kafka 4.3"}
	}
	expect(t, "1.ranges", strings.Join(wrong, "; "))
	expect(t, "T01.produce-0", served[kmsg.Produce].String())
	expect(t, "T05.handshake-0", served[kmsg.SASLHandshake].String())
	expect(t, "T23.fetch-12", served[kmsg.Fetch].String())
	expect(t, "T39.authenticate-2", served[kmsg.SASLAuthenticate].String())
	groups := "absent"
	heartbeat, ok1 := served[kmsg.ConsumerGroupHeartbeat]
	describe, ok2 := served[kmsg.ConsumerGroupDescribe]
	if ok1 || ok2 {
		groups = fmt.Sprintf("%v, %v", heartbeat, describe)
	}
	expect(t, "T41.group-protocol", groups)
}

func TestCase01SameTableEverywhere(t *testing.T) {
	want := fmt.Sprint(table(dial(t).apiVersions(4)))
	got := "the same"
	compare := func(where string, c *client) {
		if s := fmt.Sprint(table(c.apiVersions(4))); s != want {
			got = where + ": " + s + ", plaintext: " + want
		}
	}
	if s := fmt.Sprint(table(dial(t).apiVersions(0))); s != want {
		got = "v0: " + s + ", v4: " + want
	}
	c := dialAddr(t, saslAddr(t))
	compare("before SASL", c)
	c.authenticate("acme", "acme-secret")
	compare("after SASL", c)
	compare("TLS", dialTLS(t, tlsAddr(t)))
	expect(t, "1.same", got)
}

func TestCase02UnknownApiVersionsVersion(t *testing.T) {
	c := dial(t)
	id := "raw"
	body := []byte{0x9c, 0x21, 0xff, 0x07, 0x55, 0x00, 0xfe, 0x80, 0x91, 0x3c, 0xff}
	payload := append(raw.AppendHeader(nil, 18, 99, 77, &id, true), body...)
	if err := c.SendBytes(raw.Frame(payload)); err != nil {
		t.Fatal(err)
	}
	b, err := c.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrApiVersionsRequest() // version 0, whose layout the answer must have
	decoded, err := raw.Decode(req, 77, b)
	if err != nil {
		t.Fatal(err)
	}
	resp := decoded.(*kmsg.ApiVersionsResponse)
	keys := "other keys"
	if len(resp.ApiKeys) == 1 && resp.ApiKeys[0].ApiKey == 18 {
		keys = fmt.Sprintf("only key 18, range %d-%d", resp.ApiKeys[0].MinVersion, resp.ApiKeys[0].MaxVersion)
	}
	again := c.apiVersions(4)
	expect(t, "2.v99", fmt.Sprintf("%s, v0 layout, %s; a v4 on the same connection: %s",
		name(resp.ErrorCode), keys, name(again.ErrorCode)))
	layout := fmt.Sprintf("% x", b)
	if len(b) == 4+2+4+6 && binary.BigEndian.Uint16(b[4:]) == 35 && binary.BigEndian.Uint32(b[6:]) == 1 {
		layout = "correlation id, error 35, one key, nothing else"
	}
	expect(t, "T04.layout", layout)
}

func TestCase03ClientSoftwareName(t *testing.T) {
	for id, nameAndVersion := range map[string][2]string{"3.empty-name": {"", "1.0"}, "3.bad-name": {"raw", "1 0"}} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, nameAndVersion[0], nameAndVersion[1]
		expect(t, id, name(do[*kmsg.ApiVersionsResponse](dial(t), req).ErrorCode))
	}
}

func TestTrap26Features(t *testing.T) {
	resp := dial(t).apiVersions(3)
	var bad []string
	for _, f := range resp.SupportedFeatures {
		if f.MinVersion == 0 {
			bad = append(bad, "supported "+f.Name)
		}
	}
	for _, f := range resp.FinalizedFeatures {
		if f.MaxVersionLevel == 0 {
			bad = append(bad, "finalized "+f.Name)
		}
	}
	if len(resp.FinalizedFeatures) > 0 && resp.FinalizedFeaturesEpoch < 0 {
		bad = append(bad, "finalized features without an epoch")
	}
	if len(bad) == 0 {
		bad = []string{"none"}
	}
	expect(t, "T26.features", strings.Join(bad, ", "))
}

func TestTrap37ApiVersionsFirst(t *testing.T) {
	got := "each answered at once"
	for _, addr := range []string{server.Addr(), saslAddr(t)} {
		for _, version := range []int16{0, 4} {
			begin := time.Now()
			resp := dialAddr(t, addr).apiVersions(version)
			if d := time.Since(begin); resp.ErrorCode != 0 || d > time.Second {
				got = fmt.Sprintf("v%d: %s after %v", version, name(resp.ErrorCode), d)
			}
		}
	}
	expect(t, "T37.quick", got)
}
