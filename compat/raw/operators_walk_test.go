package raw_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// aclCode is what the ACL requests of the walk are answered with: Felix has no authorizer, the Kafka under test has one.
func aclCode(code int16) bool { return code == 0 || code == 54 }

func walkDescribeACLs(t *testing.T, version int16) string {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version = version
	req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 1, 1, 1, 1
	resp := do[*kmsg.DescribeACLsResponse](dial(t), req)
	return ensure(aclCode(resp.ErrorCode), "%+v", resp)
}

func walkCreateACLs(t *testing.T, version int16) string {
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version = version
	req.Creations = []kmsg.CreateACLsRequestCreation{{
		ResourceType: 2, ResourceName: newName(t), ResourcePatternType: 3, Principal: "User:acme", Host: "*", Operation: 3, PermissionType: 3,
	}}
	resp := do[*kmsg.CreateACLsResponse](dial(t), req)
	return ensure(len(resp.Results) == 1 && aclCode(resp.Results[0].ErrorCode), "%+v", resp)
}

func walkDeleteACLs(t *testing.T, version int16) string {
	missing := newName(t)
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Version = version
	req.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 2, ResourceName: &missing, ResourcePatternType: 3, Operation: 1, PermissionType: 1}}
	resp := do[*kmsg.DeleteACLsResponse](dial(t), req)
	return ensure(len(resp.Results) == 1 && aclCode(resp.Results[0].ErrorCode) && len(resp.Results[0].MatchingACLs) == 0, "%+v", resp)
}

func walkAlterReplicaLogDirs(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = version
	req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{
		Dir: "/no/such/directory", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}},
	}}
	resp := do[*kmsg.AlterReplicaLogDirsResponse](c, req)
	return ensure(len(resp.Topics) == 1 && resp.Topics[0].Topic == topic && len(resp.Topics[0].Partitions) == 1 &&
		resp.Topics[0].Partitions[0].ErrorCode == 57, "%+v", resp)
}

// tokenRefused is the answer to delegation token requests of whoever has not logged in.
const tokenRefused = 64

func walkCreateDelegationToken(t *testing.T, version int16) string {
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.Version = version
	resp := do[*kmsg.CreateDelegationTokenResponse](dial(t), req)
	return ensure(resp.ErrorCode == tokenRefused && len(resp.HMAC) == 0, "%+v", resp)
}

func walkRenewDelegationToken(t *testing.T, version int16) string {
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.Version, req.HMAC = version, []byte("none")
	resp := do[*kmsg.RenewDelegationTokenResponse](dial(t), req)
	return ensure(resp.ErrorCode == tokenRefused, "%+v", resp)
}

func walkExpireDelegationToken(t *testing.T, version int16) string {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.Version, req.HMAC = version, []byte("none")
	resp := do[*kmsg.ExpireDelegationTokenResponse](dial(t), req)
	return ensure(resp.ErrorCode == tokenRefused, "%+v", resp)
}

func walkDescribeDelegationToken(t *testing.T, version int16) string {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Version = version
	resp := do[*kmsg.DescribeDelegationTokenResponse](dial(t), req)
	return ensure(resp.ErrorCode == tokenRefused && len(resp.TokenDetails) == 0, "%+v", resp)
}

func walkElectLeaders(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	resp := do[*kmsg.ElectLeadersResponse](c, electRequest(version, 0, topic, 0))
	return ensure(resp.ErrorCode == 0 && len(resp.Topics) == 1 && resp.Topics[0].Topic == topic && len(resp.Topics[0].Partitions) == 1 &&
		resp.Topics[0].Partitions[0].ErrorCode == 84, "%+v", resp)
}

// electRequest asks for an election in a partition of one topic, or of all topics with an empty name.
func electRequest(version int16, kind int8, topic string, partition int32) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType, req.TimeoutMillis = version, kind, 10000
	if topic != "" {
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	}
	return req
}

func walkReassign(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	resp := do[*kmsg.AlterPartitionAssignmentsResponse](c, reassignRequest(version, topic, []int32{c.metadata(9).Brokers[0].NodeID}))
	return ensure(resp.ErrorCode == 0 && len(resp.Topics) == 1 && resp.Topics[0].Topic == topic && len(resp.Topics[0].Partitions) == 1 &&
		resp.Topics[0].Partitions[0].ErrorCode == 0, "%+v", resp)
}

func reassignRequest(version int16, topic string, replicas []int32) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis, req.AllowReplicationFactorChange = version, 10000, true
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: replicas}},
	}}
	return req
}

func walkListReassignments(t *testing.T, version int16) string {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.Version, req.TimeoutMillis = version, 10000
	resp := do[*kmsg.ListPartitionReassignmentsResponse](dial(t), req)
	return ensure(resp.ErrorCode == 0 && len(resp.Topics) == 0, "%+v", resp)
}

// quotaRequest sets one rate of a user; 0 removes it.
func quotaRequest(version int16, user string, rate float64) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = version
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &user}}
	entry.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: rate, Remove: rate == 0}}
	req.Entries = append(req.Entries, entry)
	return req
}

// quotaOf is the rate that a user's quota is shown with, "none" without one.
func (c *client) quotaOf(version int16, user string) string {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = version, true
	req.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", Match: &user}}
	resp := do[*kmsg.DescribeClientQuotasResponse](c, req)
	if resp.ErrorCode != 0 {
		return name(resp.ErrorCode)
	}
	if len(resp.Entries) == 0 || len(resp.Entries[0].Values) == 0 {
		return "none"
	}
	v := resp.Entries[0].Values[0]
	return fmt.Sprintf("%s %.0f", v.Key, v.Value)
}

func walkAlterQuotas(t *testing.T, version int16) string {
	c := dial(t)
	user := newName(t)
	resp := do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(version, user, 1000))
	await(t, "the quota", func() bool { return c.quotaOf(1, user) == "producer_byte_rate 1000" })
	removed := do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(version, user, 0))
	return ensure(len(resp.Entries) == 1 && resp.Entries[0].ErrorCode == 0 && len(resp.Entries[0].Entity) == 1 &&
		str(resp.Entries[0].Entity[0].Name) == user && removed.Entries[0].ErrorCode == 0, "%+v %+v", resp, removed)
}

func walkDescribeQuotas(t *testing.T, version int16) string {
	c := dial(t)
	user := newName(t)
	do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(1, user, 1000))
	await(t, "the quota", func() bool { return c.quotaOf(version, user) == "producer_byte_rate 1000" })
	do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(1, user, 0))
	await(t, "its end", func() bool { return c.quotaOf(version, user) == "none" })
	return ""
}

func walkDescribeSCRAM(t *testing.T, version int16) string {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	req.Version = version
	req.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "nobody"}}
	resp := do[*kmsg.DescribeUserSCRAMCredentialsResponse](dial(t), req)
	return ensure(resp.ErrorCode == 0 && len(resp.Results) == 1 && resp.Results[0].ErrorCode == 91, "%+v", resp)
}

func walkAlterSCRAM(t *testing.T, version int16) string {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Version = version
	req.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "nobody", Mechanism: 1}}
	resp := do[*kmsg.AlterUserSCRAMCredentialsResponse](dial(t), req)
	return ensure(len(resp.Results) == 1 && resp.Results[0].User == "nobody" && resp.Results[0].ErrorCode == 91, "%+v", resp)
}

func walkDescribeQuorum(t *testing.T, version int16) string {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = version
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: make([]kmsg.DescribeQuorumRequestTopicPartition, 1)}}
	resp := do[*kmsg.DescribeQuorumResponse](dial(t), req)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Sprintf("%+v", resp)
	}
	p := resp.Topics[0].Partitions[0]
	return ensure(p.ErrorCode == 0 && len(p.CurrentVoters) == 1 && p.CurrentVoters[0].ReplicaID == p.LeaderID && (version < 2 || len(resp.Nodes) == 1),
		"%+v", resp)
}

func walkUpdateFeatures(t *testing.T, version int16) string {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis = version, 10000
	req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "no.such", MaxVersionLevel: 1, UpgradeType: 1}}
	resp := do[*kmsg.UpdateFeaturesResponse](dial(t), req)
	code := resp.ErrorCode
	if code == 0 && len(resp.Results) == 1 {
		code = resp.Results[0].ErrorCode
	}
	return ensure(code == 95, "%+v", resp)
}

func walkListConfigResources(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.Version = version
	if version >= 1 {
		req.ResourceTypes = []int8{2}
	}
	resp := do[*kmsg.ListConfigResourcesResponse](c, req)
	found := version == 0 // which lists client metrics alone
	for _, r := range resp.ConfigResources {
		found = found || r.Name == topic && r.Type == 2
	}
	return ensure(resp.ErrorCode == 0 && found, "%+v", resp)
}

var _ = register(
	Case{
		ID: "100.elect-all", What: "ElectLeaders v2 with null topics, preferred and unclean: a topic whose partitions are led",
		Want: "0, listed without partitions; 0, listed without partitions",
	},
	Case{
		ID: "60.operators", What: "two tenants: what one sees of the other's topic, by API of operators",
		Want: "DescribeConfigs 3, AlterConfigs 3, IncrementalAlterConfigs 3, ElectLeaders 3 and not in all, AlterPartitionReassignments 3, " +
			"AlterReplicaLogDirs 3, DescribeLogDirs nothing, DescribeProducers 3, DescribeTopicPartitions 3, ListConfigResources nothing, DeleteRecords 3, CreatePartitions 3, DeleteTopics 3",
		OnlyFelix: "Kafka has no tenants",
	},
	Case{
		ID: "60.quotas", What: "two tenants set and remove the quota of a user of one name", Want: "acme: producer_byte_rate 1000; beta: none, 2000, none; acme still 1000",
		OnlyFelix: "Kafka has no tenants",
	},
	Case{ID: "60.cluster", What: "DescribeCluster by two tenants", Want: "the same cluster, broker and controller", OnlyFelix: "Kafka has no tenants"},
)

func TestCase100ElectAll(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	all := func(kind int8) string {
		resp := do[*kmsg.ElectLeadersResponse](c, electRequest(2, kind, "", 0))
		got := name(resp.ErrorCode) + ", not listed"
		for _, m := range resp.Topics {
			if m.Topic == topic {
				got = fmt.Sprintf("%s, listed with %d partitions", name(resp.ErrorCode), len(m.Partitions))
				if len(m.Partitions) == 0 {
					got = name(resp.ErrorCode) + ", listed without partitions"
				}
			}
		}
		return got
	}
	expect(t, "100.elect-all", all(0)+"; "+all(1))
}

// operatorViews ask for a topic as an operator would; each returns the error code, or what was seen.
var operatorViews = []struct {
	api string
	ask func(c *client, topic string) any
}{
	{"DescribeConfigs", func(c *client, topic string) any {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.Resources = 4, []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
		return do[*kmsg.DescribeConfigsResponse](c, req).Resources[0].ErrorCode
	}},
	{"AlterConfigs", func(c *client, topic string) any {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version, req.Resources = 2, []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
		return do[*kmsg.AlterConfigsResponse](c, req).Resources[0].ErrorCode
	}},
	{"IncrementalAlterConfigs", func(c *client, topic string) any {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
		return do[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0].ErrorCode
	}},
	{"ElectLeaders", func(c *client, topic string) any {
		for _, m := range do[*kmsg.ElectLeadersResponse](c, electRequest(2, 0, "", 0)).Topics {
			if m.Topic == topic {
				return "in all"
			}
		}
		return fmt.Sprintf("%d and not in all", do[*kmsg.ElectLeadersResponse](c, electRequest(2, 0, topic, 0)).Topics[0].Partitions[0].ErrorCode)
	}},
	{"AlterPartitionReassignments", func(c *client, topic string) any {
		return do[*kmsg.AlterPartitionAssignmentsResponse](c, reassignRequest(1, topic, nil)).Topics[0].Partitions[0].ErrorCode
	}},
	{"AlterReplicaLogDirs", func(c *client, topic string) any {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Version = 2
		req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/x", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}}}}
		return do[*kmsg.AlterReplicaLogDirsResponse](c, req).Topics[0].Partitions[0].ErrorCode
	}},
	{"DescribeLogDirs", func(c *client, topic string) any {
		req := kmsg.NewPtrDescribeLogDirsRequest() // all
		req.Version = 4
		for _, d := range do[*kmsg.DescribeLogDirsResponse](c, req).Dirs {
			for _, m := range d.Topics {
				if m.Topic == topic {
					return "the topic"
				}
			}
		}
		return "nothing"
	}},
	{"DescribeProducers", func(c *client, topic string) any {
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		return do[*kmsg.DescribeProducersResponse](c, req).Topics[0].Partitions[0].ErrorCode
	}},
	{"DescribeTopicPartitions", func(c *client, topic string) any {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 100
		req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
		return do[*kmsg.DescribeTopicPartitionsResponse](c, req).Topics[0].ErrorCode
	}},
	{"ListConfigResources", func(c *client, topic string) any {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = 1, []int8{2}
		for _, r := range do[*kmsg.ListConfigResourcesResponse](c, req).ConfigResources {
			if r.Name == topic {
				return "the topic"
			}
		}
		return "nothing"
	}},
	{"DeleteRecords", func(c *client, topic string) any {
		code, _ := c.deleteRecords(topic, 0, 0)
		return code
	}},
	{"CreatePartitions", func(c *client, topic string) any {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis, req.Topics = 3, 10000, []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: 9}}
		return do[*kmsg.CreatePartitionsResponse](c, req).Topics[0].ErrorCode
	}},
	{"DeleteTopics", func(c *client, topic string) any { return c.deleteTopic(topic).ErrorCode }},
}

func TestCase60Operators(t *testing.T) {
	if onlyFelix(t, "60.operators") && onlyFelix(t, "60.quotas") && onlyFelix(t, "60.cluster") {
		return
	}
	a, b := dialSASL(t, "acme", "acme-secret"), dialSASL(t, "beta", "beta-secret")
	topic := newName(t)
	a.createTopic(topic, 1)
	a.mustProduce(topic, 0, values("of acme"))
	got := ""
	for i, view := range operatorViews {
		if i > 0 {
			got += ", "
		}
		got += fmt.Sprint(view.api, " ", view.ask(b, topic))
	}
	expect(t, "60.operators", got)
	if s := a.stored(topic, 0); s != "of acme" {
		t.Errorf("acme's topic holds %q afterwards", s)
	}

	user := newName(t)
	set := func(c *client, rate float64) string {
		if code := do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(1, user, rate)).Entries[0].ErrorCode; code != 0 {
			t.Fatal(name(code))
		}
		return c.quotaOf(1, user)
	}
	got = "acme: " + set(a, 1000) + "; beta: " + b.quotaOf(1, user)
	if set(b, 2000) == "producer_byte_rate 2000" {
		got += ", 2000"
	}
	got += ", " + set(b, 0)
	if a.quotaOf(1, user) == "producer_byte_rate 1000" {
		got += "; acme still 1000"
	}
	set(a, 0)
	expect(t, "60.quotas", got)

	cluster := func(c *client) string {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType = 1, 1
		resp := do[*kmsg.DescribeClusterResponse](c, req)
		return fmt.Sprintf("%s %s %d %+v", name(resp.ErrorCode), resp.ClusterID, resp.ControllerID, resp.Brokers)
	}
	got = "the same cluster, broker and controller"
	if ca, cb := cluster(a), cluster(b); ca != cb {
		got = ca + "; " + cb
	}
	expect(t, "60.cluster", got)
}
