package raw_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// walk is one API of the walk over all served versions: it sends a well-formed request of a version and says what is wrong
// with the answer, or nothing. That the answer decodes and encodes to the same bytes is checked by Conn.Receive.
type walk struct {
	key  kmsg.Key
	send func(t *testing.T, version int16) string
}

// walks are in the order in which the table shows them.
var walks = []walk{
	{kmsg.Produce, walkProduce},
	{kmsg.Fetch, walkFetch},
	{kmsg.ListOffsets, walkListOffsets},
	{kmsg.Metadata, walkMetadata},
	{kmsg.OffsetCommit, walkOffsetCommit},
	{kmsg.OffsetFetch, walkOffsetFetch},
	{kmsg.FindCoordinator, walkFindCoordinator},
	{kmsg.JoinGroup, walkJoinGroup},
	{kmsg.Heartbeat, walkHeartbeat},
	{kmsg.LeaveGroup, walkLeaveGroup},
	{kmsg.SyncGroup, walkSyncGroup},
	{kmsg.DescribeGroups, walkDescribeGroups},
	{kmsg.ListGroups, walkListGroups},
	{kmsg.SASLHandshake, walkHandshake},
	{kmsg.ApiVersions, walkApiVersions},
	{kmsg.CreateTopics, walkCreateTopics},
	{kmsg.DeleteTopics, walkDeleteTopics},
	{kmsg.DeleteRecords, walkDeleteRecords},
	{kmsg.InitProducerID, walkInitProducerID},
	{kmsg.OffsetForLeaderEpoch, walkEpochs},
	{kmsg.DescribeConfigs, walkDescribeConfigs},
	{kmsg.AlterConfigs, walkAlterConfigs},
	{kmsg.DescribeLogDirs, walkLogDirs},
	{kmsg.SASLAuthenticate, walkAuthenticate},
	{kmsg.CreatePartitions, walkCreatePartitions},
	{kmsg.DeleteGroups, walkDeleteGroups},
	{kmsg.IncrementalAlterConfigs, walkIncrementalAlterConfigs},
	{kmsg.OffsetDelete, walkOffsetDelete},
	{kmsg.DescribeCluster, walkDescribeCluster},
	{kmsg.DescribeProducers, walkDescribeProducers},
	{kmsg.DescribeTopicPartitions, walkDescribeTopicPartitions},
	{kmsg.DescribeACLs, walkDescribeACLs},
	{kmsg.CreateACLs, walkCreateACLs},
	{kmsg.DeleteACLs, walkDeleteACLs},
	{kmsg.AlterReplicaLogDirs, walkAlterReplicaLogDirs},
	{kmsg.CreateDelegationToken, walkCreateDelegationToken},
	{kmsg.RenewDelegationToken, walkRenewDelegationToken},
	{kmsg.ExpireDelegationToken, walkExpireDelegationToken},
	{kmsg.DescribeDelegationToken, walkDescribeDelegationToken},
	{kmsg.ElectLeaders, walkElectLeaders},
	{kmsg.AlterPartitionAssignments, walkReassign},
	{kmsg.ListPartitionReassignments, walkListReassignments},
	{kmsg.DescribeClientQuotas, walkDescribeQuotas},
	{kmsg.AlterClientQuotas, walkAlterQuotas},
	{kmsg.DescribeUserSCRAMCredentials, walkDescribeSCRAM},
	{kmsg.AlterUserSCRAMCredentials, walkAlterSCRAM},
	{kmsg.DescribeQuorum, walkDescribeQuorum},
	{kmsg.UpdateFeatures, walkUpdateFeatures},
	{kmsg.ListConfigResources, walkListConfigResources},
}

var _ = func() struct{} {
	for _, w := range walks {
		r := kafkaRanges[w.key]
		if w.key == kmsg.Produce {
			r.min = 3 // 0 to 2 are advertised, and not served (trap 1)
		}
		register(Case{
			ID:   "1.walk-" + w.key.Name(),
			What: fmt.Sprintf("a well-formed %s in every served version up to %d", w.key.Name(), r.max),
			Want: "each answered as its version says",
		})
	}
	return register(Case{
		ID: "T03.old-versions", What: "lowest served versions of the APIs that kafka-go and others send with fixed old versions",
		Want:      "CreateTopics 0, DeleteTopics 0, DescribeConfigs 0",
		WantKafka: "CreateTopics 2, DeleteTopics 1, DescribeConfigs 1", Why: "spec/kafka.md 2.3: they cost little and keep old clients working; Kafka 4.0 dropped them",
	})
}()

func TestEveryServedVersion(t *testing.T) {
	served := table(dial(t).apiVersions(4))
	expect(t, "T03.old-versions", fmt.Sprintf("CreateTopics %d, DeleteTopics %d, DescribeConfigs %d",
		served[kmsg.CreateTopics].min, served[kmsg.DeleteTopics].min, served[kmsg.DescribeConfigs].min))
	for _, w := range walks {
		t.Run(w.key.Name(), func(t *testing.T) {
			r, ok := served[w.key]
			if !ok {
				expect(t, "1.walk-"+w.key.Name(), "not served")
				return
			}
			if w.key == kmsg.Produce {
				r.min = 3
			}
			var wrong []string
			for version := r.min; version <= r.max; version++ {
				if s := w.send(t, version); s != "" {
					wrong = append(wrong, fmt.Sprintf("v%d: %s", version, s))
				}
			}
			if len(wrong) == 0 {
				wrong = []string{"each answered as its version says"}
			}
			expect(t, "1.walk-"+w.key.Name(), strings.Join(wrong, "; "))
		})
	}
}

// ensure returns the text unless the condition holds.
func ensure(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func walkProduce(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := produceRequest(version, -1, topic, part{0, values("a", "b")})
	if version >= 13 {
		req.Topics[0].Topic, req.Topics[0].TopicID = "", c.topicID(topic)
	}
	resp := do[*kmsg.ProduceResponse](c, req)
	got := resp.Topics[0]
	p := got.Partitions[0]
	start := int64(0)
	if version < 5 {
		start = p.LogStartOffset // not in the answer
	}
	return ensure(p.ErrorCode == 0 && p.BaseOffset == 0 && p.LogAppendTime == -1 && p.LogStartOffset == start &&
		got.Topic == req.Topics[0].Topic && got.TopicID == req.Topics[0].TopicID && resp.ThrottleMillis == 0 &&
		len(p.ErrorRecords) == 0 && p.ErrorMessage == nil, "%+v", resp)
}

func walkFetch(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	req := fetchRequest(topic, 0, 0)
	req.Version = version
	if version >= 13 {
		req.Topics[0].Topic, req.Topics[0].TopicID = "", c.topicID(topic)
	}
	resp := do[*kmsg.FetchResponse](c, req)
	got := resp.Topics[0]
	p := got.Partitions[0]
	return ensure(resp.ErrorCode == 0 && resp.SessionID == 0 && p.ErrorCode == 0 && len(p.RecordBatches) > 61 &&
		p.HighWatermark == 1 && p.LastStableOffset == 1 && (version < 5 || p.LogStartOffset == 0) &&
		(version < 11 || p.PreferredReadReplica == -1) && got.Topic == req.Topics[0].Topic &&
		got.TopicID == req.Topics[0].TopicID, "%+v", resp)
}

func walkListOffsets(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	end, start := c.listOffsets(version, topic, 0, -1), c.listOffsets(version, topic, 0, -2)
	if version == 0 {
		return ensure(end.ErrorCode == 0 && len(end.OldStyleOffsets) > 0 && end.OldStyleOffsets[0] == 1, "%+v", end)
	}
	return ensure(end.ErrorCode == 0 && end.Offset == 1 && end.Timestamp == -1 && start.Offset == 0 && start.ErrorCode == 0 &&
		(version < 4 || end.LeaderEpoch >= 0), "%+v %+v", end, start)
}

func walkMetadata(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(2)
	resp := c.metadata(version, topic)
	m := resp.Topics[0]
	return ensure(resp.ErrorCode == 0 && len(resp.Brokers) == 1 && (version < 1 || resp.ControllerID >= 0) &&
		(version < 2 || resp.ClusterID != nil) && m.ErrorCode == 0 && *m.Topic == topic && len(m.Partitions) == 2 &&
		(version < 10 || m.TopicID != [16]byte{}) && !m.IsInternal && len(m.Partitions[0].Replicas) == 1 &&
		len(m.Partitions[0].ISR) == 1 && (version < 7 || m.Partitions[0].LeaderEpoch >= 0), "%+v", resp)
}

func walkHandshake(t *testing.T, version int16) string {
	resp := dialAddr(t, saslAddr(t)).handshake(version, "PLAIN")
	// Version 0 may be refused (case 11).
	ok := resp.ErrorCode == 0 || version == 0 && resp.ErrorCode == 33
	return ensure(ok && fmt.Sprint(resp.SupportedMechanisms) == "[PLAIN]", "%+v", resp)
}

func walkAuthenticate(t *testing.T, version int16) string {
	c := dialAddr(t, saslAddr(t))
	c.handshake(1, "PLAIN")
	req := tokenRequest("\x00acme\x00acme-secret")
	req.Version = version
	resp := do[*kmsg.SASLAuthenticateResponse](c, req)
	return ensure(resp.ErrorCode == 0 && resp.SessionLifetimeMillis == 0, "%+v", resp)
}

func walkApiVersions(t *testing.T, version int16) string {
	resp := dial(t).apiVersions(version)
	return ensure(resp.ErrorCode == 0 && len(resp.ApiKeys) >= len(kafkaRanges), "%+v", resp)
}

func walkCreateTopics(t *testing.T, version int16) string {
	c := dial(t)
	topic := newName(t)
	made := c.create(topic, 2, 1, func(req *kmsg.CreateTopicsRequest) { req.Version = version })
	await(t, "the created topic", func() bool { return c.exists(topic) })
	return ensure(made.ErrorCode == 0 && made.Topic == topic && made.ErrorMessage == nil &&
		(version < 5 || made.NumPartitions == 2 && made.ReplicationFactor == 1 && len(made.Configs) > 0) &&
		(version < 7 || made.TopicID == c.topicID(topic)), "%+v", made)
}

func walkDeleteTopics(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = version, 10000, []string{topic}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	a := do[*kmsg.DeleteTopicsResponse](c, req).Topics[0]
	await(t, "the topic to be gone", func() bool { return !c.exists(topic) })
	return ensure(a.ErrorCode == 0 && str(a.Topic) == topic, "%+v", a)
}

func walkDeleteRecords(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = version, 10000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = 1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := do[*kmsg.DeleteRecordsResponse](c, req).Topics[0].Partitions[0]
	return ensure(p.ErrorCode == 0 && p.LowWatermark == 1, "%+v", p)
}

func walkInitProducerID(t *testing.T, version int16) string {
	c := dial(t)
	c.producerID() // waits until ids are given out
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis = version, 60000
	resp := do[*kmsg.InitProducerIDResponse](c, req)
	return ensure(resp.ErrorCode == 0 && resp.ProducerID >= 0 && resp.ProducerEpoch == 0, "%+v", resp)
}

func walkEpochs(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	epoch := c.metadata(9, topic).Topics[0].Partitions[0].LeaderEpoch
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = version, -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.CurrentLeaderEpoch, rp.LeaderEpoch = epoch, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := do[*kmsg.OffsetForLeaderEpochResponse](c, req).Topics[0].Partitions[0]
	return ensure(p.ErrorCode == 0 && p.LeaderEpoch == epoch && p.EndOffset == 1, "%+v", p)
}

func walkDescribeConfigs(t *testing.T, version int16) string {
	c := dial(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, c.topic(1, "retention.ms=60000")
	req.Resources = append(req.Resources, rr)
	r := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	var found kmsg.DescribeConfigsResponseResourceConfig
	for _, config := range r.Configs {
		if config.Name == "retention.ms" {
			found = config
		}
	}
	return ensure(r.ErrorCode == 0 && len(r.Configs) > 20 && found.Value != nil && *found.Value == "60000" &&
		(version < 1 || found.Source == kmsg.ConfigSourceDynamicTopicConfig && len(found.ConfigSynonyms) > 0) &&
		(version < 3 || found.ConfigType == kmsg.ConfigTypeLong && found.Documentation != nil), "%s, %+v", name(r.ErrorCode), found)
}

func walkAlterConfigs(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = version
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	rc := kmsg.NewAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = "retention.ms", kmsg.StringPtr("60000")
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	r := do[*kmsg.AlterConfigsResponse](c, req).Resources[0]
	return ensure(r.ErrorCode == 0 && r.ResourceName == topic && c.shown(topic, "retention.ms") == "60000 from the topic", "%+v", r)
}

func walkIncrementalAlterConfigs(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = version
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = "retention.ms", kmsg.StringPtr("60000")
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	r := do[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0]
	return ensure(r.ErrorCode == 0 && r.ResourceName == topic && c.shown(topic, "retention.ms") == "60000 from the topic", "%+v", r)
}

func walkLogDirs(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	req := kmsg.NewPtrDescribeLogDirsRequest() // no topics: all
	req.Version = version
	resp := do[*kmsg.DescribeLogDirsResponse](c, req)
	found := false
	for _, d := range resp.Dirs {
		for _, m := range d.Topics {
			found = found || m.Topic == topic && len(m.Partitions) == 1 && m.Partitions[0].Size > 0
		}
		if version >= 4 && d.TotalBytes <= 0 {
			return "no total bytes"
		}
	}
	return ensure(resp.ErrorCode == 0 && found, "%s, %d directories, topic found: %v", name(resp.ErrorCode), len(resp.Dirs), found)
}

func walkCreatePartitions(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = version, 10000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 2
	req.Topics = append(req.Topics, rt)
	a := do[*kmsg.CreatePartitionsResponse](c, req).Topics[0]
	return ensure(a.ErrorCode == 0 && a.Topic == topic, "%+v", a)
}

func walkDescribeCluster(t *testing.T, version int16) string {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.EndpointType = version, 1
	resp := do[*kmsg.DescribeClusterResponse](dial(t), req)
	return ensure(resp.ErrorCode == 0 && resp.ClusterID != "" && len(resp.Brokers) == 1 &&
		resp.ControllerID == resp.Brokers[0].NodeID && (version < 1 || resp.EndpointType == 1), "%+v", resp)
}

func walkDescribeProducers(t *testing.T, version int16) string {
	c := dial(t)
	topic := c.topic(1)
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Version = version
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0, 9}
	req.Topics = append(req.Topics, rt)
	codes := map[int32]int16{}
	for _, p := range do[*kmsg.DescribeProducersResponse](c, req).Topics[0].Partitions {
		codes[p.Partition] = p.ErrorCode
	}
	return ensure(len(codes) == 2 && codes[0] == 0 && codes[9] == 3, "%v", codes)
}

func walkDescribeTopicPartitions(t *testing.T, version int16) string {
	c := dial(t)
	topic, missing := c.topic(2), newName(t)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Version, req.ResponsePartitionLimit = version, 100
	for _, n := range []string{topic, missing} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = n
		req.Topics = append(req.Topics, rt)
	}
	codes := map[string]int16{}
	resp := do[*kmsg.DescribeTopicPartitionsResponse](c, req)
	for _, m := range resp.Topics {
		codes[str(m.Topic)] = m.ErrorCode
	}
	return ensure(codes[topic] == 0 && codes[missing] == 3 && len(codes) == 2 && resp.NextCursor == nil, "%+v", resp)
}
