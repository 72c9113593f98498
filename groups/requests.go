package groups

import (
	"time"

	"github.com/felixlog/felix/internal/ids"
)

// Key names a group. Group ids live inside a tenant: two tenants' groups of one name have nothing in common, be it that one of the tenants
// was deleted and the other made under its name.
type Key struct {
	Tenant      string
	Incarnation uint64 // of the tenant
	Group       string
}

// Protocol is one way of assigning work that a member can speak, with what the member says in it (opaque).
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks for a place in the next generation of a group. Byte slices are valid during the call only.
type JoinRequest struct {
	Key
	MemberID             string // "" for a new member
	InstanceID           string // "" for a dynamic member
	ClientID, ClientHost string // for people
	SessionTimeout       time.Duration
	RebalanceTimeout     time.Duration // how long a rebalance waits for this member; the front end puts the session timeout for v0
	ProtocolType         string
	Protocols            []Protocol // in the order of preference, each name once
	RequireMemberID      bool       // v4+: a dynamic member without an id is told one and comes again with it
	CanSkipAssignment    bool       // v9+: a static leader that came back need not assign again
	Reason               string     // for people
}

// JoinedMember is a member as the leader of a generation is told of it: the metadata is that of the protocol chosen.
type JoinedMember struct {
	MemberID, InstanceID string
	Metadata             []byte
}

// JoinResult answers a join. With Err only MemberID is of meaning: the id to come again with (member id required), or the one asked with.
type JoinResult struct {
	Err                    error
	Generation             int32 // -1 with an error
	ProtocolType, Protocol string
	Leader, MemberID       string
	SkipAssignment         bool
	Members                []JoinedMember // for the leader alone, in the order of member ids
}

// Assignment is the part of one member (opaque).
type Assignment struct {
	MemberID string
	Bytes    []byte
}

// SyncRequest asks for the assignment of a generation; the leader's brings the assignments of all. Byte slices are valid during the
// call only.
type SyncRequest struct {
	Key
	MemberID, InstanceID   string
	Generation             int32
	ProtocolType, Protocol string // "" where the version does not say; checked otherwise
	Assignments            []Assignment
}

// SyncResult answers a sync.
type SyncResult struct {
	Err                    error
	ProtocolType, Protocol string
	Assignment             []byte
}

// Leaving names a member that leaves: by its member id, or by its instance id with or without the member id.
type Leaving struct{ MemberID, InstanceID, Reason string }

// OffsetCommit is one offset to commit.
type OffsetCommit struct {
	Topic       ids.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1 unknown
	Metadata    string
}

// CommitRequest commits offsets for a member of a generation, or from outside any (member id "" and generation -1).
type CommitRequest struct {
	Key
	MemberID, InstanceID string
	Generation           int32
	Offsets              []OffsetCommit
	RetentionMs          int64 // -1: the coordinator's
}

// CommittedOffset is an offset as it was committed.
type CommittedOffset struct {
	Topic       ids.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1 unknown
	Metadata    string
	CommittedAt int64 // ms since 1970
}

// TopicPartition names a partition of one incarnation of a topic.
type TopicPartition struct {
	Topic     ids.TopicID
	Partition int32
}

// Overview is a group as a list shows it.
type Overview struct {
	Group, ProtocolType, State string
	Type                       string // "classic"
}

// Description is a group in full. Protocol, and the metadata and assignments of its members, are there in the state Stable only.
type Description struct {
	State, ProtocolType, Protocol string
	Members                       []MemberDescription // in the order of member ids
}

// MemberDescription is one member of a Description.
type MemberDescription struct {
	MemberID, InstanceID, ClientID, ClientHost string
	Metadata, Assignment                       []byte
}
