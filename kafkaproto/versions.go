package kafkaproto

import "github.com/felixlog/felix/internal/errcode"

// Keys of the APIs that code outside the table has to tell apart.
const (
	keyProduce          int16 = 0
	keyFetch            int16 = 1
	keyMetadata         int16 = 3
	keyOffsetCommit     int16 = 8
	keySASLHandshake    int16 = 17
	keyAPIVersions      int16 = 18
	keySASLAuthenticate int16 = 36
	keyOffsetDelete     int16 = 47
)

// wireCode is the code of kind k in an answer of an API at a version: the table's, except where that API's clients do not know
// it or do the wrong thing on it.
func wireCode(k errcode.Kind, key, version int16) int16 {
	switch key {
	case keyFetch:
		return fetchCode(k, version)
	case keyProduce:
		return produceCode(k)
	case keyMetadata:
		return metadataCode(k, version)
	case 2: // ListOffsets
		if k == errcode.OffsetNotAvailable && version < 5 {
			return errcode.NoLeader.Kafka()
		}
	case keyOffsetCommit, 9, 11, 12, 13, 14, 15, 16, 42, keyOffsetDelete: // those of groups
		return groupCode(k, key, version)
	case 22: // InitProducerId
		if k == errcode.ProducerFenced && version < 4 {
			return errcode.InvalidProducerEpoch.Kafka()
		}
	case 19: // CreateTopics
		return quotaCode(k, version >= 6)
	case 20: // DeleteTopics
		return quotaCode(k, version >= 5)
	case 37: // CreatePartitions
		return quotaCode(k, version >= 3)
	}
	return k.Kafka()
}

// quotaCode hides the code for a mutation quota from versions that do not know it behind one they retry on.
func quotaCode(k errcode.Kind, known bool) int16 {
	if k == errcode.ThrottlingQuotaExceeded && !known {
		return errcode.QuorumTimeout.Kafka()
	}
	return k.Kafka()
}

// fetchCode keeps to what Java's consumer tolerates; on any other code it throws IllegalStateException into the application.
func fetchCode(k errcode.Kind, version int16) int16 {
	switch k {
	case errcode.OK, errcode.OffsetOutOfRange, errcode.CorruptBatch, errcode.UnknownShard, errcode.NotLeader,
		errcode.LeadershipLost, errcode.Draining, errcode.UnauthorizedTopic, errcode.StorageFailed, errcode.FencedEpoch,
		errcode.UnknownEpoch, errcode.OffsetNotAvailable:
		return k.Kafka()
	case errcode.UnknownTopicID, errcode.InconsistentTopicID:
		if version >= 13 {
			return k.Kafka()
		}
		return errcode.UnknownShard.Kafka()
	case errcode.FetchSessionIDNotFound, errcode.InvalidFetchSessionEpoch, errcode.FetchSessionTopicIDError,
		errcode.UnsupportedVersion:
		return k.Kafka() // top level only
	case errcode.NoLeader, errcode.NotController:
		return errcode.NotLeader.Kafka()
	case errcode.InvalidTopic:
		return errcode.UnknownShard.Kafka()
	case errcode.Overloaded, errcode.QuorumTimeout:
		return errcode.StorageFailed.Kafka() // retriable, and asks nothing of the client but to come again
	default:
		return errcode.Internal.Kafka()
	}
}

// produceCode: an overloaded broker is 56 when nothing was written, which is the table's row; never 89, which producers take for
// final.
func produceCode(k errcode.Kind) int16 {
	if k == errcode.ThrottlingQuotaExceeded {
		return errcode.Overloaded.Kafka()
	}
	return k.Kafka()
}

func metadataCode(k errcode.Kind, version int16) int16 {
	switch {
	case k == errcode.ListenerNotFound && version < 6:
		return errcode.NoLeader.Kafka()
	case k == errcode.UnknownTopicID && version < 10:
		return errcode.UnknownShard.Kafka()
	default:
		return k.Kafka()
	}
}

// groupCode keeps what may go wrong with the shard behind a group from the clients of these APIs: they are told to come again, or to look
// for the coordinator, which is all that they know to do.
func groupCode(k errcode.Kind, key, version int16) int16 {
	switch k {
	case errcode.NotLeader, errcode.LeadershipLost, errcode.Draining, errcode.StorageFailed, errcode.FencedEpoch:
		return errcode.NotCoordinator.Kafka()
	case errcode.NoLeader, errcode.QuorumTimeout, errcode.NotEnoughReplicas, errcode.NotEnoughReplicasAfterAppend, errcode.Overloaded:
		return errcode.CoordinatorNotAvailable.Kafka()
	case errcode.BatchTooLarge, errcode.RecordListTooLarge, errcode.GroupMaxSizeReached:
		switch {
		case key == keyOffsetCommit:
			return errcode.InvalidCommitOffsetSize.Kafka()
		case k != errcode.GroupMaxSizeReached:
			return errcode.Internal.Kafka()
		}
	case errcode.GroupIDNotFound:
		switch {
		case key == keyOffsetCommit && version < 9:
			return errcode.IllegalGeneration.Kafka()
		case key >= 11 && key <= 14: // JoinGroup, Heartbeat, LeaveGroup, SyncGroup: who is in no group is no member
			return errcode.UnknownMember.Kafka()
		}
	default:
	}
	return k.Kafka()
}
