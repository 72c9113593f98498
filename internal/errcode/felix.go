package errcode

// Felix is what a kind says on the native wire: code, retry class and reason, as numbers and a word so that this package stays a leaf.
// felixproto/wire names them. Source: spec/felix-wire.md section 5.
type Felix struct {
	// Code is the number of binary acks.
	Code uint16
	// Retry is the class: 1 retry, 2 retry_after, 3 redirect, 4 outcome_unknown, 5 fatal.
	Retry uint8
	// Reason is the detail's reason, empty for none.
	Reason string
}

const (
	felixUnauthenticated  = 1
	felixForbidden        = 2
	felixNotFound         = 3
	felixInvalidRequest   = 4
	felixShardUnavailable = 5
	felixNotLeader        = 6
	felixQuorumTimeout    = 7
	felixLeadershipLost   = 8
	felixUnacknowledged   = 9
	felixOverloaded       = 10
	felixLimitExceeded    = 11
	felixDraining         = 12
	felixInternal         = 13
	felixStorage          = 14
	felixStaleClaim       = 15
	felixRevoked          = 16

	retryNow            = 1
	retryAfter          = 2
	retryRedirect       = 3
	retryOutcomeUnknown = 4
	retryFatal          = 5
)

// felixTable has the kinds that a native request can end in. The others are Kafka's alone and read as internal.
var felixTable = [kindCount]Felix{
	Internal:                     {felixInternal, retryOutcomeUnknown, ""},
	OffsetOutOfRange:             {felixInvalidRequest, retryFatal, ""},
	CorruptBatch:                 {felixInvalidRequest, retryFatal, ""},
	UnknownShard:                 {felixNotFound, retryAfter, ""},
	NoLeader:                     {felixShardUnavailable, retryNow, "owner_unavailable"},
	NotLeader:                    {felixNotLeader, retryRedirect, ""},
	LeadershipLost:               {felixLeadershipLost, retryOutcomeUnknown, ""},
	QuorumTimeout:                {felixQuorumTimeout, retryOutcomeUnknown, ""},
	Overloaded:                   {felixOverloaded, retryAfter, "publish_queue_full"},
	StorageFailed:                {felixStorage, retryOutcomeUnknown, ""},
	BatchTooLarge:                {felixInvalidRequest, retryFatal, ""},
	RecordListTooLarge:           {felixInvalidRequest, retryFatal, ""},
	InvalidTopic:                 {felixInvalidRequest, retryFatal, ""},
	NotEnoughReplicas:            {felixShardUnavailable, retryNow, "not_ready"},
	NotEnoughReplicasAfterAppend: {felixQuorumTimeout, retryOutcomeUnknown, ""},
	UnauthorizedTopic:            {felixForbidden, retryFatal, ""},
	UnauthorizedGroup:            {felixForbidden, retryFatal, ""},
	UnauthorizedCluster:          {felixForbidden, retryFatal, ""},
	InvalidTimestamp:             {felixInvalidRequest, retryFatal, ""},
	AuthenticationFailed:         {felixUnauthenticated, retryFatal, ""},
	UnsupportedVersion:           {felixInvalidRequest, retryFatal, ""},
	InvalidRequest:               {felixInvalidRequest, retryFatal, ""},
	PolicyViolation:              {felixInvalidRequest, retryFatal, ""},
	FencedEpoch:                  {felixShardUnavailable, retryNow, "fenced"},
	UnknownEpoch:                 {felixShardUnavailable, retryNow, "stale"},
	UnsupportedCodec:             {felixInvalidRequest, retryFatal, ""},
	OffsetNotAvailable:           {felixShardUnavailable, retryNow, "not_ready"},
	InvalidRecord:                {felixInvalidRequest, retryFatal, ""},
	UnknownTopicID:               {felixNotFound, retryAfter, ""},
	InconsistentTopicID:          {felixShardUnavailable, retryNow, "stale"},
	NotCoordinator:               {felixNotLeader, retryRedirect, ""},
	CoordinatorLoading:           {felixShardUnavailable, retryNow, "not_ready"},
	CoordinatorNotAvailable:      {felixShardUnavailable, retryNow, "not_ready"},
	InvalidGroupID:               {felixInvalidRequest, retryFatal, ""},
	GroupIDNotFound:              {felixNotFound, retryAfter, ""},
	ThrottlingQuotaExceeded:      {felixOverloaded, retryAfter, "tenant_quota"},
	Draining:                     {felixDraining, retryNow, ""},
	LimitExceeded:                {felixLimitExceeded, retryFatal, ""},
	StaleClaim:                   {felixStaleClaim, retryNow, ""},
	Unacknowledged:               {felixUnacknowledged, retryOutcomeUnknown, ""},
	OffsetMismatch:               {felixInvalidRequest, retryFatal, ""},
	Revoked:                      {felixRevoked, retryFatal, ""},
}

// Felix returns what k says on the native wire: the row of Internal for a kind that no native request ends in, and for OK.
func (k Kind) Felix() Felix {
	if k < kindCount && felixTable[k].Code != 0 {
		return felixTable[k]
	}
	return felixTable[Internal]
}
