package cluster

import "github.com/felixlog/felix/internal/ids"

// The names that topics of the server's own live under. ValidateName refuses both, so no tenant and no client can have or name them.
const (
	SystemTenant    = "$system"
	SystemNamespace = "$system"
)

// The topic that Kafka groups are kept in. Which of its shards a group lives in is never looked up but computed from these numbers, so
// they never change.
const (
	GroupsTopicName  = "groups"
	GroupsPartitions = 16
)

// GroupsTopicID is the id of the groups' topic: a UUID of version 8, which ids that are drawn at random never are.
var GroupsTopicID = ids.TopicID{0x66, 0x65, 0x6c, 0x69, 0x78, 0x00, 0x80, 0x00, 0x80, 0x00, 'g', 'r', 'o', 'u', 'p', 's'}

// GroupsTopic is what is proposed to make the groups' topic, with one replica of each shard.
func GroupsTopic() NewTopic {
	return NewTopic{
		ID: GroupsTopicID, Tenant: SystemTenant, Namespace: SystemNamespace, Name: GroupsTopicName,
		Partitions: GroupsPartitions, ReplicationFactor: 1, Durable: true, Internal: true,
		Overrides: map[string]string{
			"cleanup.policy": "compact",
			// Only full segments are compacted, and a start reads all that is left: small ones keep that short.
			"segment.bytes": "33554432",
			"preallocate":   "false",
		},
	}
}
