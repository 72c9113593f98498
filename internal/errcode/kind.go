package errcode

// Kind is one row of the table. The zero Kind is OK: no failure.
type Kind uint8

// The rows. Order is of no meaning; names follow the Kafka code they map to unless we have a word of our own.
const (
	OK Kind = iota
	Internal
	OffsetOutOfRange
	CorruptBatch
	UnknownShard
	NoLeader
	NotLeader
	LeadershipLost
	QuorumTimeout
	Overloaded
	StorageFailed
	BatchTooLarge
	RecordListTooLarge
	InvalidTopic
	NotEnoughReplicas
	NotEnoughReplicasAfterAppend
	InvalidRequiredAcks
	UnauthorizedTopic
	UnauthorizedGroup
	UnauthorizedCluster
	UnauthorizedTransactionalID
	InvalidTimestamp
	UnsupportedSASLMechanism
	IllegalSASLState
	AuthenticationFailed
	UnsupportedVersion
	TopicExists
	InvalidPartitions
	InvalidReplicationFactor
	InvalidReplicaAssignment
	InvalidConfig
	NotController
	InvalidRequest
	UnsupportedFormat
	PolicyViolation
	OutOfOrderSequence
	DuplicateSequence
	InvalidProducerEpoch
	ProducerFenced
	InvalidTxnState
	TransactionalIDNotFound
	OperationNotAttempted
	UnknownProducerID
	FetchSessionIDNotFound
	InvalidFetchSessionEpoch
	FetchSessionTopicIDError
	ListenerNotFound
	TopicDeletionDisabled
	FencedEpoch
	UnknownEpoch
	UnsupportedCodec
	OffsetNotAvailable
	InvalidRecord
	UnknownTopicID
	InconsistentTopicID
	MismatchedEndpointType
	NotCoordinator
	CoordinatorLoading
	CoordinatorNotAvailable
	OffsetMetadataTooLarge
	IllegalGeneration
	InconsistentGroupProtocol
	InvalidGroupID
	UnknownMember
	InvalidSessionTimeout
	RebalanceInProgress
	InvalidCommitOffsetSize
	NonEmptyGroup
	GroupIDNotFound
	MemberIDRequired
	GroupMaxSizeReached
	FencedInstanceID
	GroupSubscribedToTopic
	ResourceNotFound
	SecurityDisabled
	LogDirNotFound
	ReassignmentInProgress
	DelegationTokensDisabled
	DelegationTokenNotAllowed
	PreferredLeaderNotAvailable
	EligibleLeadersNotAvailable
	ElectionNotNeeded
	NoReassignmentInProgress
	DuplicateResource
	InvalidUpdateVersion
	ThrottlingQuotaExceeded
	Draining
	LimitExceeded
	StaleClaim     // the claim on a record is unknown or gone
	Revoked        // the principal was revoked while its stream was open
	Unacknowledged // written, perhaps; nobody waits for the outcome any more
	OffsetMismatch // the shard's next offset is not the one that the write was made for
	kindCount
)

// Row is what the table says of one kind.
type Row struct {
	Name      string // lower-case words with underscores: metric labels and logs
	Kafka     int16  // the code on the Kafka wire
	Retriable bool   // as Java's client treats the code
}

var table = [kindCount]Row{
	OK:                           {"ok", 0, false},
	Internal:                     {"internal", -1, false},
	OffsetOutOfRange:             {"offset_out_of_range", 1, false},
	CorruptBatch:                 {"corrupt_batch", 2, true},
	UnknownShard:                 {"unknown_shard", 3, true},
	NoLeader:                     {"no_leader", 5, true},
	NotLeader:                    {"not_leader", 6, true},
	LeadershipLost:               {"leadership_lost", 6, true},
	QuorumTimeout:                {"quorum_timeout", 7, true},
	Overloaded:                   {"overloaded", 56, true},
	StorageFailed:                {"storage_failed", 56, true},
	BatchTooLarge:                {"batch_too_large", 10, false},
	RecordListTooLarge:           {"record_list_too_large", 18, false},
	InvalidTopic:                 {"invalid_topic", 17, false},
	NotEnoughReplicas:            {"not_enough_replicas", 19, true},
	NotEnoughReplicasAfterAppend: {"not_enough_replicas_after_append", 20, true},
	InvalidRequiredAcks:          {"invalid_required_acks", 21, false},
	UnauthorizedTopic:            {"unauthorized_topic", 29, false},
	UnauthorizedGroup:            {"unauthorized_group", 30, false},
	UnauthorizedCluster:          {"unauthorized_cluster", 31, false},
	UnauthorizedTransactionalID:  {"unauthorized_transactional_id", 53, false},
	InvalidTimestamp:             {"invalid_timestamp", 32, false},
	UnsupportedSASLMechanism:     {"unsupported_sasl_mechanism", 33, false},
	IllegalSASLState:             {"illegal_sasl_state", 34, false},
	AuthenticationFailed:         {"authentication_failed", 58, false},
	UnsupportedVersion:           {"unsupported_version", 35, false},
	TopicExists:                  {"topic_exists", 36, false},
	InvalidPartitions:            {"invalid_partitions", 37, false},
	InvalidReplicationFactor:     {"invalid_replication_factor", 38, false},
	InvalidReplicaAssignment:     {"invalid_replica_assignment", 39, false},
	InvalidConfig:                {"invalid_config", 40, false},
	NotController:                {"not_controller", 41, true},
	InvalidRequest:               {"invalid_request", 42, false},
	UnsupportedFormat:            {"unsupported_format", 43, false},
	PolicyViolation:              {"policy_violation", 44, false},
	OutOfOrderSequence:           {"out_of_order_sequence", 45, false},
	DuplicateSequence:            {"duplicate_sequence", 46, false},
	InvalidProducerEpoch:         {"invalid_producer_epoch", 47, false},
	ProducerFenced:               {"producer_fenced", 90, false},
	InvalidTxnState:              {"invalid_txn_state", 48, false},
	TransactionalIDNotFound:      {"transactional_id_not_found", 105, false},
	OperationNotAttempted:        {"operation_not_attempted", 55, false},
	UnknownProducerID:            {"unknown_producer_id", 59, false},
	FetchSessionIDNotFound:       {"fetch_session_id_not_found", 70, true},
	InvalidFetchSessionEpoch:     {"invalid_fetch_session_epoch", 71, true},
	FetchSessionTopicIDError:     {"fetch_session_topic_id_error", 106, true},
	ListenerNotFound:             {"listener_not_found", 72, true},
	TopicDeletionDisabled:        {"topic_deletion_disabled", 73, false},
	FencedEpoch:                  {"fenced_epoch", 74, true},
	UnknownEpoch:                 {"unknown_epoch", 75, true},
	UnsupportedCodec:             {"unsupported_codec", 76, false},
	OffsetNotAvailable:           {"offset_not_available", 78, true},
	InvalidRecord:                {"invalid_record", 87, false},
	UnknownTopicID:               {"unknown_topic_id", 100, true},
	InconsistentTopicID:          {"inconsistent_topic_id", 103, true},
	MismatchedEndpointType:       {"mismatched_endpoint_type", 114, false},
	NotCoordinator:               {"not_coordinator", 16, true},
	CoordinatorLoading:           {"coordinator_loading", 14, true},
	CoordinatorNotAvailable:      {"coordinator_not_available", 15, true},
	OffsetMetadataTooLarge:       {"offset_metadata_too_large", 12, false},
	IllegalGeneration:            {"illegal_generation", 22, false},
	InconsistentGroupProtocol:    {"inconsistent_group_protocol", 23, false},
	InvalidGroupID:               {"invalid_group_id", 24, false},
	UnknownMember:                {"unknown_member", 25, false},
	InvalidSessionTimeout:        {"invalid_session_timeout", 26, false},
	RebalanceInProgress:          {"rebalance_in_progress", 27, false},
	InvalidCommitOffsetSize:      {"invalid_commit_offset_size", 28, false},
	NonEmptyGroup:                {"non_empty_group", 68, false},
	GroupIDNotFound:              {"group_id_not_found", 69, false},
	MemberIDRequired:             {"member_id_required", 79, false},
	GroupMaxSizeReached:          {"group_max_size_reached", 81, false},
	FencedInstanceID:             {"fenced_instance_id", 82, false},
	GroupSubscribedToTopic:       {"group_subscribed_to_topic", 86, false},
	ResourceNotFound:             {"resource_not_found", 91, false},
	SecurityDisabled:             {"security_disabled", 54, false},
	LogDirNotFound:               {"log_dir_not_found", 57, false},
	ReassignmentInProgress:       {"reassignment_in_progress", 60, false},
	DelegationTokensDisabled:     {"delegation_tokens_disabled", 61, false},
	DelegationTokenNotAllowed:    {"delegation_token_not_allowed", 64, false},
	PreferredLeaderNotAvailable:  {"preferred_leader_not_available", 80, true},
	EligibleLeadersNotAvailable:  {"eligible_leaders_not_available", 83, true},
	ElectionNotNeeded:            {"election_not_needed", 84, true},
	NoReassignmentInProgress:     {"no_reassignment_in_progress", 85, false},
	DuplicateResource:            {"duplicate_resource", 92, false},
	InvalidUpdateVersion:         {"invalid_update_version", 95, false},
	ThrottlingQuotaExceeded:      {"throttling_quota_exceeded", 89, true},
	Draining:                     {"draining", 6, true},
	LimitExceeded:                {"limit_exceeded", 44, false},
	StaleClaim:                   {"stale_claim", 42, false},
	Revoked:                      {"revoked", 58, false},
	Unacknowledged:               {"unacknowledged", 7, true},
	OffsetMismatch:               {"offset_mismatch", 42, false},
}

// Row returns the table row of k. An unknown k gives the row of Internal.
func (k Kind) Row() Row {
	if k >= kindCount {
		return table[Internal]
	}
	return table[k]
}

// String is the row's name.
func (k Kind) String() string { return k.Row().Name }

// Kafka is the row's code on the Kafka wire.
func (k Kind) Kafka() int16 { return k.Row().Kafka }

// Kinds returns every kind, for tests and for metric label sets.
func Kinds() []Kind {
	out := make([]Kind, kindCount)
	for i := range out {
		out[i] = Kind(i)
	}
	return out
}
