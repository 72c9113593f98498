package kafkaproto

import (
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/errcode"
)

// groupAPIs are the rows of groups and their offsets, served when there is a coordinator. Static members need version 3 of SyncGroup,
// Heartbeat and LeaveGroup, 5 of JoinGroup and 7 of OffsetCommit together.
func groupAPIs() []api {
	return []api{
		{key: 8, name: "OffsetCommit", min: 2, max: 10, advertised: 2, flexible: 8, throttle: 4, handle: handleOffsetCommit},
		{key: 9, name: "OffsetFetch", min: 1, max: 10, advertised: 1, flexible: 6, throttle: 4, handle: handleOffsetFetch},
		{key: 11, name: "JoinGroup", min: 0, max: 9, advertised: 0, flexible: 6, throttle: 3, handle: handleJoinGroup},
		{key: 12, name: "Heartbeat", min: 0, max: 4, advertised: 0, flexible: 4, throttle: 2, handle: handleHeartbeat},
		{key: 13, name: "LeaveGroup", min: 0, max: 5, advertised: 0, flexible: 4, throttle: 2, handle: handleLeaveGroup},
		{key: 14, name: "SyncGroup", min: 0, max: 5, advertised: 0, flexible: 4, throttle: 2, handle: handleSyncGroup},
		{key: 15, name: "DescribeGroups", min: 0, max: 6, advertised: 0, flexible: 5, throttle: 2, handle: handleDescribeGroups},
		{key: 16, name: "ListGroups", min: 0, max: 5, advertised: 0, flexible: 3, throttle: 2, handle: handleListGroups},
		{key: 42, name: "DeleteGroups", min: 0, max: 2, advertised: 0, flexible: 2, throttle: 1, handle: handleDeleteGroups},
		{key: 47, name: "OffsetDelete", min: 0, max: 0, advertised: 0, flexible: none, throttle: 0, handle: handleOffsetDelete},
	}
}

// errForbiddenGroup is for a group that the caller has no right to, whether it exists or not (30).
var errForbiddenGroup = errcode.New(errcode.UnauthorizedGroup, "the principal has no right to this group")

// group is the key of a group that the caller names, if the caller has one of the rights to it. Error: errForbiddenGroup.
func (c *call) group(name string, rights ...broker.Action) (groups.Key, error) {
	for _, a := range rights {
		if c.caller().AllowedGroup(a, name) {
			return groups.Key{Tenant: c.caller().Tenant, Incarnation: c.caller().Incarnation, Group: name}, nil
		}
	}
	return groups.Key{}, errForbiddenGroup
}

// outcome is how something done to several things ended: err for all, else one for each.
type outcome struct {
	err  error
	each []error
}

// of is how it ended for the i-th.
func (o *outcome) of(i int) error {
	switch {
	case o.err != nil:
		return o.err
	case i < len(o.each):
		return o.each[i]
	default:
		return nil
	}
}

// nullable is a string of which the wire says null where we say nothing.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// orEmpty is the reverse.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
