package groups

import "github.com/felixlog/felix/internal/errcode"

// What a call about a group can be refused with. The names follow the kinds; see the calls for when each is given.
var (
	ErrInvalidGroupID         = errcode.New(errcode.InvalidGroupID, "groups: group id is empty")
	ErrInvalidSessionTimeout  = errcode.New(errcode.InvalidSessionTimeout, "groups: session timeout outside the permitted range")
	ErrInconsistentProtocol   = errcode.New(errcode.InconsistentGroupProtocol, "groups: no protocol in common with the group")
	ErrGroupFull              = errcode.New(errcode.GroupMaxSizeReached, "groups: group is full")
	ErrMemberIDRequired       = errcode.New(errcode.MemberIDRequired, "groups: join again with the member id given")
	ErrFencedInstance         = errcode.New(errcode.FencedInstanceID, "groups: another member has this instance id")
	ErrUnknownMember          = errcode.New(errcode.UnknownMember, "groups: not a member of the group")
	ErrIllegalGeneration      = errcode.New(errcode.IllegalGeneration, "groups: not the generation of the group")
	ErrRebalanceInProgress    = errcode.New(errcode.RebalanceInProgress, "groups: the group is rebalancing")
	ErrOffsetMetadataTooLarge = errcode.New(errcode.OffsetMetadataTooLarge, "groups: metadata of a committed offset is too large")
	ErrNonEmptyGroup          = errcode.New(errcode.NonEmptyGroup, "groups: group has members")
	ErrGroupNotFound          = errcode.New(errcode.GroupIDNotFound, "groups: no such group")
	ErrSubscribedToTopic      = errcode.New(errcode.GroupSubscribedToTopic, "groups: a member is subscribed to the topic")
	ErrLoading                = errcode.New(errcode.CoordinatorLoading, "groups: the shard of the group is being loaded")
	ErrNotCoordinator         = errcode.New(errcode.NotCoordinator, "groups: this node does not coordinate the group")
	ErrNotAvailable           = errcode.New(errcode.CoordinatorNotAvailable, "groups: the group cannot be written now")
)
