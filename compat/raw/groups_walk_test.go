package raw_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "T02.join-0", What: "ApiVersions: JoinGroup range includes 0 and 1 (old librdkafka turns groups off without them)", Want: "0-9"},
	Case{ID: "T44.static", What: "ApiVersions: what static membership needs: JoinGroup 5, SyncGroup 3, Heartbeat 3, LeaveGroup 3, OffsetCommit 7", Want: "all served"},
)

func TestTrap02And44GroupVersions(t *testing.T) {
	served := table(dial(t).apiVersions(4))
	expect(t, "T02.join-0", served[kmsg.JoinGroup].String())
	got := "all served"
	for key, version := range map[kmsg.Key]int16{kmsg.JoinGroup: 5, kmsg.SyncGroup: 3, kmsg.Heartbeat: 3, kmsg.LeaveGroup: 3, kmsg.OffsetCommit: 7} {
		if s, ok := served[key]; !ok || s.min > version || s.max < version {
			got = fmt.Sprintf("%s %v", key.Name(), s)
		}
	}
	expect(t, "T44.static", got)
}

func walkFindCoordinator(t *testing.T, version int16) string {
	group := newGroup(t)
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, group, []string{group}
	resp := do[*kmsg.FindCoordinatorResponse](dial(t), req)
	if version < 4 {
		return ensure(resp.ErrorCode == 0 && resp.Port > 0 && resp.NodeID >= 0 && len(resp.Coordinators) == 0, "%+v", resp)
	}
	return ensure(len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0 && resp.Coordinators[0].Key == group &&
		resp.Coordinators[0].Port > 0, "%+v", resp)
}

func walkJoinGroup(t *testing.T, version int16) string {
	m := newMember(t, newGroup(t))
	m.version = version
	resp := m.join()
	kind := version < 7 && resp.ProtocolType == nil || str(resp.ProtocolType) == "consumer"
	return ensure(resp.ErrorCode == 0 && resp.Generation == 1 && str(resp.Protocol) == "range" && kind && resp.MemberID != "" &&
		resp.LeaderID == resp.MemberID && len(resp.Members) == 1 && !resp.SkipAssignment && resp.ThrottleMillis == 0, "%+v", resp)
}

func walkSyncGroup(t *testing.T, version int16) string {
	m := newMember(t, newGroup(t))
	m.mustJoin()
	req := m.syncRequest(map[string]string{m.id: "part"})
	req.Version = version
	resp := do[*kmsg.SyncGroupResponse](m.client, req)
	kind := version < 5 && resp.Protocol == nil || str(resp.ProtocolType)+" "+str(resp.Protocol) == "consumer range"
	return ensure(resp.ErrorCode == 0 && string(resp.MemberAssignment) == "part" && kind, "%+v", resp)
}

func walkHeartbeat(t *testing.T, version int16) string {
	m := form(t, 1, nil)[0]
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = version, m.group, m.id, m.generation
	resp := do[*kmsg.HeartbeatResponse](m.client, req)
	return ensure(resp.ErrorCode == 0 && resp.ThrottleMillis == 0, "%+v", resp)
}

func walkLeaveGroup(t *testing.T, version int16) string {
	m := form(t, 1, nil)[0]
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = version, m.group, m.id
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID = m.id
	req.Members = append(req.Members, rm)
	resp := do[*kmsg.LeaveGroupResponse](m.client, req)
	listed := version < 3 && len(resp.Members) == 0 ||
		len(resp.Members) == 1 && resp.Members[0].ErrorCode == 0 && resp.Members[0].MemberID == m.id && resp.Members[0].InstanceID == nil
	return ensure(resp.ErrorCode == 0 && listed && m.describe(m.group).State == "Empty", "%+v", resp)
}

func walkOffsetCommit(t *testing.T, version int16) string {
	c := dial(t)
	group, topic := newGroup(t), c.topic(1)
	codes := c.commit(commitRequest(version, group, topic, map[int32]int64{0: 7}))
	return ensure(len(codes) == 1 && codes[0] == 0 && c.fetched(group, topic, 0) == 7, "%v", codes)
}

func walkOffsetFetch(t *testing.T, version int16) string {
	c := dial(t)
	group, topic := newGroup(t), c.topic(1)
	c.mustCommit(group, topic, map[int32]int64{0: 7})
	code, all := c.offsetFetch(c.offsetFetchRequest(version, group, topic, 0))
	return ensure(code == 0 && len(all) == 1 && all[0].code == 0 && all[0].offset == 7 && all[0].metadata == "", "%s", offsetsText(code, all))
}

func walkListGroups(t *testing.T, version int16) string {
	m := form(t, 1, nil)[0]
	g, ok := m.listGroups(version, nil, nil)[m.group]
	return ensure(ok && g.ProtocolType == "consumer" && (version < 4 || g.GroupState == "Stable") && (version < 5 || g.GroupType == "classic"), "%+v", g)
}

func walkDescribeGroups(t *testing.T, version int16) string {
	m := form(t, 1, nil)[0]
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = version, []string{m.group}
	g := do[*kmsg.DescribeGroupsResponse](m.client, req).Groups[0]
	return ensure(g.ErrorCode == 0 && g.State == "Stable" && g.Protocol == "range" && len(g.Members) == 1 && g.Members[0].MemberID == m.id &&
		string(g.Members[0].MemberAssignment) == "part 0" && g.ErrorMessage == nil, "%+v", g)
}

func walkDeleteGroups(t *testing.T, version int16) string {
	c := dial(t)
	group := newGroup(t)
	c.mustCommit(group, c.topic(1), map[int32]int64{0: 7})
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = version, []string{group}
	resp := do[*kmsg.DeleteGroupsResponse](c, req)
	return ensure(len(resp.Groups) == 1 && resp.Groups[0].ErrorCode == 0 && resp.Groups[0].Group == group, "%+v", resp)
}

func walkOffsetDelete(t *testing.T, _ int16) string {
	c := dial(t)
	group, topic := newGroup(t), c.topic(1)
	c.mustCommit(group, topic, map[int32]int64{0: 7})
	code, codes := c.offsetDelete(group, topic)
	return ensure(code == 0 && len(codes) == 1 && codes[0] == 0 && c.fetched(group, topic, 0) == -1, "%s, %v", name(code), codes)
}
