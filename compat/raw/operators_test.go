package raw_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
)

var _ = register(
	Case{ID: "99.off", What: "DescribeAcls, CreateAcls of two, DeleteAcls of one, without an authorizer", Want: "SECURITY_DISABLED (54); SECURITY_DISABLED (54), SECURITY_DISABLED (54); SECURITY_DISABLED (54)"},
	Case{ID: "100.reassign-tool", What: "kafka-reassign-partitions.sh: --execute to where the partition is, --list; --execute to a broker that is not there", Want: "started and complete, nothing to list; refused"},
	Case{ID: "100.elect-tool", What: "kafka-leader-election.sh for all partitions; for one that has its preferred leader; for a missing topic", Want: "done; valid replica already elected; fails with unknown topic or partition"},
	Case{ID: "100.elect", What: "ElectLeaders v2: preferred, unclean, missing topic, missing partition", Want: "ELECTION_NOT_NEEDED (84); ELECTION_NOT_NEEDED (84); UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "100.reassign", What: "AlterPartitionReassignments v1: same, cancel, unknown broker, twice, none, missing topic", Want: "0; NO_REASSIGNMENT_IN_PROGRESS (85); INVALID_REPLICA_ASSIGNMENT (39); INVALID_REPLICA_ASSIGNMENT (39); INVALID_REPLICA_ASSIGNMENT (39); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "100.quotas", What: "AlterClientQuotas: set two rates of a user, describe strictly, remove; entities and values that cannot be", Want: "0, consumer_byte_rate 2000 producer_byte_rate 1000; 0, none; INVALID_REQUEST (42), INVALID_REQUEST (42), INVALID_REQUEST (42)"},
	Case{
		ID: "100.unenforced", What: "AlterClientQuotas: request_percentage", Want: "INVALID_CONFIG (40)",
		WantKafka: "0", Why: "only what is enforced is stored",
	},
	Case{ID: "100.tokens", What: "CreateDelegationToken, DescribeDelegationToken without a login", Want: "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (64); DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (64)"},
	Case{ID: "100.scram", What: "DescribeUserScramCredentials: all, an unknown user", Want: "0, 0 users; RESOURCE_NOT_FOUND (91)"},
	Case{ID: "100.quorum", What: "DescribeQuorum v2: __cluster_metadata, another topic", Want: "0, leader is the one voter; UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "100.features", What: "UpdateFeatures v1 of an unknown feature", Want: "INVALID_UPDATE_VERSION (95)"},
	Case{ID: "100.resources", What: "ListConfigResources v1 of topics; of an unknown type", Want: "0, the topic; UNSUPPORTED_VERSION (35)"},
	Case{ID: "100.log-dir", What: "AlterReplicaLogDirs: to where it is; to a directory that is not there", Want: "0; LOG_DIR_NOT_FOUND (57)"},
)

// withoutAuthorizer is a client of a server that has none.
func withoutAuthorizer(t *testing.T) *client {
	t.Helper()
	if server.Kind() == peer.Felix {
		return dial(t)
	}
	p, err := peer.NewKafka(peer.Options{KafkaProperties: map[string]string{"authorizer.class.name": "", "super.users": ""}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return dialAddr(t, p.Addr())
}

func TestCase99ACLs(t *testing.T) {
	c := withoutAuthorizer(t)
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version = 3
	describe.ResourceType, describe.ResourcePatternType, describe.Operation, describe.PermissionType = 1, 1, 1, 1
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version = 3
	for _, topic := range []string{"a", "b"} {
		create.Creations = append(create.Creations, kmsg.CreateACLsRequestCreation{
			ResourceType: 2, ResourceName: topic, ResourcePatternType: 3, Principal: "User:acme", Host: "*", Operation: 3, PermissionType: 3,
		})
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version = 3
	remove.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	got := name(do[*kmsg.DescribeACLsResponse](c, describe).ErrorCode)
	var created, deleted []string
	for _, r := range do[*kmsg.CreateACLsResponse](c, create).Results {
		created = append(created, name(r.ErrorCode))
	}
	for _, r := range do[*kmsg.DeleteACLsResponse](c, remove).Results {
		deleted = append(deleted, name(r.ErrorCode))
	}
	expect(t, "99.off", got+"; "+strings.Join(created, ", ")+"; "+strings.Join(deleted, ", "))
}

// javaTool runs one of Kafka's command line tools against the peer and returns what it prints.
func javaTool(t *testing.T, class string, args ...string) (text string, ok bool) {
	t.Helper()
	if found, _ := filepath.Glob(filepath.Join(peer.KafkaJars(), "kafka-tools-*.jar")); len(found) == 0 {
		t.Fatal("no Kafka jars: run compat/install.sh")
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	argv := append([]string{"-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", peer.KafkaJars() + "/*", class, "--bootstrap-server", server.Addr()}, args...)
	out, err := exec.CommandContext(ctx, "java", argv...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

func TestCase100ReassignTool(t *testing.T) {
	const tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	c := dial(t)
	topic := c.topic(1)
	self := c.metadata(9).Brokers[0].NodeID
	plan := func(broker int32) string {
		path := filepath.Join(t.TempDir(), "plan.json")
		text := fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[%d]}]}`, topic, broker)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	same := plan(self)
	started, ok1 := javaTool(t, tool, "--execute", "--reassignment-json-file", same)
	listed, ok2 := javaTool(t, tool, "--list")
	refused, _ := javaTool(t, tool, "--execute", "--reassignment-json-file", plan(self+77))
	got := started + listed
	if ok1 && ok2 && strings.Contains(started, "Successfully started partition reassignment") && strings.Contains(listed, "No partition reassignments found") {
		got = "started and complete, nothing to list"
	}
	if strings.Contains(refused, "Unknown broker") {
		refused = "refused"
	}
	expect(t, "100.reassign-tool", got+"; "+refused)
}

func TestCase100ElectTool(t *testing.T) {
	const tool = "org.apache.kafka.tools.LeaderElectionCommand"
	topic := dial(t).topic(1)
	all, ok := javaTool(t, tool, "--election-type", "preferred", "--all-topic-partitions")
	one, _ := javaTool(t, tool, "--election-type", "preferred", "--topic", topic, "--partition", "0")
	missing, failed := javaTool(t, tool, "--election-type", "preferred", "--topic", newName(t), "--partition", "0")
	if ok {
		all = "done"
	}
	if strings.Contains(one, "Valid replica already elected for partitions") {
		one = "valid replica already elected"
	}
	if !failed && strings.Contains(missing, "UnknownTopicOrPartitionException") {
		missing = "fails with unknown topic or partition"
	}
	expect(t, "100.elect-tool", strings.Join([]string{all, one, missing}, "; "))
}

func TestCase100Raw(t *testing.T) {
	c := dial(t)
	topic, missing := c.topic(1), newName(t)
	self := c.metadata(9).Brokers[0].NodeID
	elect := func(kind int8, topic string, partition int32) string {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType, req.TimeoutMillis = 2, kind, 10000
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return name(do[*kmsg.ElectLeadersResponse](c, req).Topics[0].Partitions[0].ErrorCode)
	}
	expect(t, "100.elect", strings.Join([]string{elect(0, topic, 0), elect(1, topic, 0), elect(0, missing, 0), elect(0, topic, 9)}, "; "))

	assign := func(topic string, replicas []int32) string {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version, req.AllowReplicationFactorChange = 1, true
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: replicas}}}}
		return name(do[*kmsg.AlterPartitionAssignmentsResponse](c, req).Topics[0].Partitions[0].ErrorCode)
	}
	expect(t, "100.reassign", strings.Join([]string{
		assign(topic, []int32{self}), assign(topic, nil), assign(topic, []int32{self + 77}), assign(topic, []int32{self, self}),
		assign(topic, []int32{}), assign(missing, []int32{self}),
	}, "; "))

	create, describe := kmsg.NewPtrCreateDelegationTokenRequest(), kmsg.NewPtrDescribeDelegationTokenRequest()
	create.Version, describe.Version = 3, 3
	expect(t, "100.tokens", name(do[*kmsg.CreateDelegationTokenResponse](c, create).ErrorCode)+"; "+name(do[*kmsg.DescribeDelegationTokenResponse](c, describe).ErrorCode))

	scram := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	users := do[*kmsg.DescribeUserSCRAMCredentialsResponse](c, scram)
	scram.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "nobody"}}
	expect(t, "100.scram", fmt.Sprintf("%s, %d users; %s", name(users.ErrorCode), len(users.Results), name(do[*kmsg.DescribeUserSCRAMCredentialsResponse](c, scram).Results[0].ErrorCode)))

	quorum := func(topic string) kmsg.DescribeQuorumResponseTopicPartition {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 2
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: make([]kmsg.DescribeQuorumRequestTopicPartition, 1)}}
		return do[*kmsg.DescribeQuorumResponse](c, req).Topics[0].Partitions[0]
	}
	q := quorum("__cluster_metadata")
	got := fmt.Sprintf("%s, %+v", name(q.ErrorCode), q)
	if q.LeaderID == self && len(q.CurrentVoters) == 1 && q.CurrentVoters[0].ReplicaID == self && q.LeaderEpoch >= 0 && q.HighWatermark > 0 {
		got = name(q.ErrorCode) + ", leader is the one voter"
	}
	expect(t, "100.quorum", got+"; "+name(quorum(topic).ErrorCode))

	features := kmsg.NewPtrUpdateFeaturesRequest()
	features.Version, features.TimeoutMillis = 1, 10000
	features.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "no.such", MaxVersionLevel: 1, UpgradeType: 1}}
	answer := do[*kmsg.UpdateFeaturesResponse](c, features)
	code := answer.ErrorCode
	if len(answer.Results) > 0 {
		code = answer.Results[0].ErrorCode
	}
	expect(t, "100.features", name(code))

	list := kmsg.NewPtrListConfigResourcesRequest()
	list.Version, list.ResourceTypes = 1, []int8{2}
	resources := do[*kmsg.ListConfigResourcesResponse](c, list)
	got = name(resources.ErrorCode)
	if slices.ContainsFunc(resources.ConfigResources, func(r kmsg.ListConfigResourcesResponseConfigResource) bool { return r.Type == 2 && r.Name == topic }) {
		got += ", the topic"
	}
	list.ResourceTypes = []int8{3}
	expect(t, "100.resources", got+"; "+name(do[*kmsg.ListConfigResourcesResponse](c, list).ErrorCode))

	c.mustProduce(topic, 0, values("a"))
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 4
	here := do[*kmsg.DescribeLogDirsResponse](c, dirs).Dirs[0].Dir
	move := func(dir string) string {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Version = 2
		req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}}}}
		return name(do[*kmsg.AlterReplicaLogDirsResponse](c, req).Topics[0].Partitions[0].ErrorCode)
	}
	expect(t, "100.log-dir", move(here)+"; "+move("/no/such/directory"))
}

func TestCase100Quotas(t *testing.T) {
	c := dial(t)
	user := newName(t)
	type op struct {
		key   string
		value float64 // 0 removes
	}
	alter := func(kind, entity string, ops ...op) int16 {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Version = 1
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		entry.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: kind, Name: &entity}}
		for _, o := range ops {
			entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: o.key, Value: o.value, Remove: o.value == 0})
		}
		req.Entries = append(req.Entries, entry)
		return do[*kmsg.AlterClientQuotasResponse](c, req).Entries[0].ErrorCode
	}
	shown := func() string {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Version, req.Strict = 1, true
		req.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", Match: &user}}
		var out []string
		for _, e := range do[*kmsg.DescribeClientQuotasResponse](c, req).Entries {
			for _, v := range e.Values {
				out = append(out, fmt.Sprintf("%s %.0f", v.Key, v.Value))
			}
		}
		slices.Sort(out)
		if len(out) == 0 {
			return "none"
		}
		return strings.Join(out, " ")
	}
	set := alter("user", user, op{"producer_byte_rate", 1000}, op{"consumer_byte_rate", 2000})
	await(t, "the quotas", func() bool { return shown() != "none" })
	got := name(set) + ", " + shown()
	removed := alter("user", user, op{"producer_byte_rate", 0}, op{"consumer_byte_rate", 0})
	await(t, "their end", func() bool { return shown() == "none" })
	got += "; " + name(removed) + ", " + shown()
	bad := []string{
		name(alter("planet", "earth", op{"producer_byte_rate", 1})), name(alter("user", user, op{"no.such.rate", 1})),
		name(alter("user", user, op{"producer_byte_rate", -1})),
	}
	expect(t, "100.quotas", got+"; "+strings.Join(bad, ", "))
	expect(t, "100.unenforced", name(alter("user", user, op{"request_percentage", 50})))
}
