package kafkaproto

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// TestOperatorAPIsAnswerEveryVersion sends an empty request of each API in each served version: the answer must decode and no
// connection drop.
func TestOperatorAPIsAnswerEveryVersion(t *testing.T) {
	h := newRealHarness(t, nil)
	for _, a := range operatorAPIs() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			if resp := h.ask(req); resp.GetVersion() != v {
				t.Errorf("%s %d is answered in version %d", a.name, v, resp.GetVersion())
			}
		}
	}
}

func TestACLsAreOff(t *testing.T) {
	h := newRealHarness(t, nil)
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version = 3
	if resp := h.ask(describe).(*kmsg.DescribeACLsResponse); resp.ErrorCode != 54 || resp.ErrorMessage == nil {
		t.Errorf("describe: %+v", resp)
	}
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version, create.Creations = 3, make([]kmsg.CreateACLsRequestCreation, 2)
	if resp := h.ask(create).(*kmsg.CreateACLsResponse); len(resp.Results) != 2 || resp.Results[1].ErrorCode != 54 {
		t.Errorf("create: %+v", resp)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version, remove.Filters = 3, make([]kmsg.DeleteACLsRequestFilter, 2)
	if resp := h.ask(remove).(*kmsg.DeleteACLsResponse); len(resp.Results) != 2 || resp.Results[1].ErrorCode != 54 {
		t.Errorf("delete: %+v", resp)
	}
}

type anyLogin struct{}

func (anyLogin) VerifyPlain(_ context.Context, user, _ string) (Identity, error) {
	return Identity{Caller: Caller{Tenant: user, Principal: user}}, nil
}

// logIn sends a handshake and credentials that anyLogin takes.
func (c *client) logIn(user string) {
	c.t.Helper()
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Version, hand.Mechanism = 1, "PLAIN"
	auth := kmsg.NewPtrSASLAuthenticateRequest()
	auth.Version, auth.SASLAuthBytes = 2, []byte("\x00"+user+"\x00secret")
	if code := c.ask(hand).(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		c.t.Fatal(code)
	}
	if resp := c.ask(auth).(*kmsg.SASLAuthenticateResponse); resp.ErrorCode != 0 {
		c.t.Fatalf("%+v", resp)
	}
}

func TestDelegationTokensAreOff(t *testing.T) {
	codes := func(c *client) string {
		create, renew := kmsg.NewPtrCreateDelegationTokenRequest(), kmsg.NewPtrRenewDelegationTokenRequest()
		expire, describe := kmsg.NewPtrExpireDelegationTokenRequest(), kmsg.NewPtrDescribeDelegationTokenRequest()
		create.Version, renew.Version, expire.Version, describe.Version = 3, 2, 2, 3
		return fmt.Sprint(c.ask(create).(*kmsg.CreateDelegationTokenResponse).ErrorCode, c.ask(renew).(*kmsg.RenewDelegationTokenResponse).ErrorCode,
			c.ask(expire).(*kmsg.ExpireDelegationTokenResponse).ErrorCode, c.ask(describe).(*kmsg.DescribeDelegationTokenResponse).ErrorCode)
	}
	if got := codes(newHarness(t, nil).dial()); got != "64 64 64 64" {
		t.Errorf("without logins: %s", got)
	}
	c := newHarness(t, func(o *Options) { o.Verifier = anyLogin{} }).dial()
	c.logIn(testTenant)
	if got := codes(c); got != "61 61 61 61" {
		t.Errorf("with logins: %s", got)
	}
}

func TestSCRAMIsOff(t *testing.T) {
	h := newRealHarness(t, nil)
	describe := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if resp := h.ask(describe).(*kmsg.DescribeUserSCRAMCredentialsResponse); resp.ErrorCode != 0 || len(resp.Results) != 0 {
		t.Errorf("all: %+v", resp)
	}
	for _, name := range []string{"a", "b", "a"} {
		describe.Users = append(describe.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
	}
	got := ""
	for _, r := range h.ask(describe).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
		got += fmt.Sprint(r.User, ":", r.ErrorCode, " ")
	}
	if got != "a:92 b:91 " {
		t.Errorf("by name: %s", got)
	}
	alter := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	alter.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "a", Mechanism: 1}, {Name: "c", Mechanism: 1}}
	alter.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "b", Mechanism: 1}, {Name: "c", Mechanism: 2}}
	got = ""
	for _, r := range h.ask(alter).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		got += fmt.Sprint(r.User, ":", r.ErrorCode, " ")
	}
	if got != "a:91 c:92 b:33 " {
		t.Errorf("alter: %s", got)
	}
}

func TestElectLeaders(t *testing.T) {
	elect := func(c *client, kind int8, topics ...string) string {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = 2, kind
		for _, topic := range topics {
			req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: []int32{0, 9}})
		}
		resp := c.ask(req).(*kmsg.ElectLeadersResponse)
		got := fmt.Sprint(resp.ErrorCode)
		for _, m := range resp.Topics {
			got += " " + m.Topic
			for _, p := range m.Partitions {
				got += fmt.Sprintf(" %d:%d", p.Partition, p.ErrorCode)
			}
		}
		return got
	}
	h := newHarness(t, nil)
	h.node.add("default", "a", 2)
	moved := h.node.addMoved("moved") // led as it should be
	lost := *moved
	lost.Name, lost.Partitions = "lost", []cluster.Partition{{Leader: ids.NoBroker, Epoch: 3, Replicas: []ids.BrokerID{1}}}
	h.node.put(&lost, 0)
	c := h.dial()
	for _, tc := range []struct{ got, want string }{
		{elect(c, 0, "a", "none"), "0 a 0:84 9:3 none 0:3 9:3"},
		{elect(c, 1, "a"), "0 a 0:84 9:3"},
		{elect(c, 0), "0 a lost 0:80 moved"},
		{elect(c, 1), "0 a lost 0:83 moved"},
		{elect(c, 7, "a"), "42"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
	forbidden := newRealHarness(t, only("stream.publish default/a"))
	forbidden.make(1, "a")
	if got := elect(forbidden.client, 0, "a"); got != "0 a 0:29 9:29" {
		t.Errorf("without the right: %s", got)
	}
}

func TestReassignments(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "a")
	alter := func(topic string, partition int32, replicas []int32) string {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version = 1
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic, rt.Partitions = topic, []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}
		req.Topics = append(req.Topics, rt)
		resp := h.ask(req).(*kmsg.AlterPartitionAssignmentsResponse)
		p := resp.Topics[0].Partitions[0]
		return fmt.Sprint(resp.ErrorCode, p.Partition, p.ErrorCode, p.ErrorMessage != nil)
	}
	for _, tc := range []struct {
		name, topic string
		partition   int32
		replicas    []int32
		want        string
	}{
		{"as_it_is", "a", 0, []int32{h.self}, "0 0 0 false"},
		{"cancel", "a", 0, nil, "0 0 85 true"},
		{"none", "a", 0, []int32{}, "0 0 39 true"},
		{"unknown_broker", "a", 0, []int32{h.self + 1}, "0 0 39 true"},
		{"negative_broker", "a", 0, []int32{-1}, "0 0 39 true"},
		{"twice", "a", 0, []int32{h.self, h.self}, "0 0 39 true"},
		{"no_partition", "a", 1, []int32{h.self}, "0 1 3 true"},
		{"no_topic", "none", 0, []int32{h.self}, "0 0 3 true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := alter(tc.topic, tc.partition, tc.replicas); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	for _, topics := range [][]string{nil, {"a", "none"}} {
		for _, topic := range topics {
			list.Topics = append(list.Topics, kmsg.ListPartitionReassignmentsRequestTopic{Topic: topic, Partitions: []int32{0}})
		}
		if resp := h.ask(list).(*kmsg.ListPartitionReassignmentsResponse); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
			t.Errorf("list %v: %+v", topics, resp)
		}
	}
}

func TestAlterReplicaLogDirs(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "a")
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = 2
	for _, dir := range []string{h.b.LogDir(), "/elsewhere"} {
		req.Dirs = append(req.Dirs, kmsg.AlterReplicaLogDirsRequestDir{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{
			{Topic: "a", Partitions: []int32{0, 1}}, {Topic: "none", Partitions: []int32{0}},
		}})
	}
	got := ""
	for _, m := range h.ask(req).(*kmsg.AlterReplicaLogDirsResponse).Topics {
		got += m.Topic
		for _, p := range m.Partitions {
			got += fmt.Sprintf(" %d:%d", p.Partition, p.ErrorCode)
		}
		got += ";"
	}
	if got != "a 0:0 1:3 0:57 1:3;none 0:3 0:3;" {
		t.Errorf("got %s", got)
	}
}

func TestDescribeQuorum(t *testing.T) {
	h := newRealHarness(t, nil)
	ask := func(topics ...string) *kmsg.DescribeQuorumResponse {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 2
		for _, topic := range topics {
			req.Topics = append(req.Topics, kmsg.DescribeQuorumRequestTopic{Topic: topic, Partitions: make([]kmsg.DescribeQuorumRequestTopicPartition, 1)})
		}
		return h.ask(req).(*kmsg.DescribeQuorumResponse)
	}
	resp := ask("__cluster_metadata")
	p := resp.Topics[0].Partitions[0]
	if resp.ErrorCode != 0 || p.ErrorCode != 0 || p.LeaderID != h.self || p.LeaderEpoch < 0 || p.HighWatermark <= 0 ||
		len(p.CurrentVoters) != 1 || p.CurrentVoters[0].LogEndOffset != p.HighWatermark || len(p.Observers) != 0 || len(resp.Nodes) != 1 {
		t.Errorf("got %+v", resp)
	}
	for _, topics := range [][]string{{"a"}, {"__cluster_metadata", "a"}} {
		for _, m := range ask(topics...).Topics {
			if m.Partitions[0].ErrorCode != 3 {
				t.Errorf("%v: %+v", topics, m)
			}
		}
	}
}

func TestUpdateFeatures(t *testing.T) {
	h := newRealHarness(t, nil)
	for version := range int16(3) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = version
		if resp := h.ask(req).(*kmsg.UpdateFeaturesResponse); resp.ErrorCode != 0 {
			t.Errorf("v%d, none: %+v", version, resp)
		}
		req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "metadata.version", MaxVersionLevel: 1, UpgradeType: 1}, {Feature: "x"}}
		resp := h.ask(req).(*kmsg.UpdateFeaturesResponse)
		got := fmt.Sprint(resp.ErrorCode)
		for _, r := range resp.Results {
			got += fmt.Sprintf(" %s:%d", r.Feature, r.ErrorCode)
		}
		want := "0 metadata.version:95 x:95"
		if version >= 2 {
			want = "95"
		}
		if got != want {
			t.Errorf("v%d: got %s, want %s", version, got, want)
		}
	}
}

func TestListConfigResources(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "a", "ns.b")
	list := func(version int16, types ...int8) string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = version, types
		resp := h.ask(req).(*kmsg.ListConfigResourcesResponse)
		got := fmt.Sprint(resp.ErrorCode)
		for _, r := range resp.ConfigResources {
			got += fmt.Sprintf(" %d:%s", r.Type, r.Name)
		}
		return got
	}
	for _, tc := range []struct{ got, want string }{
		{list(0), "0"},
		{list(1), fmt.Sprintf("0 2:a 2:ns.b 4:%d", h.self)},
		{list(1, 2), "0 2:a 2:ns.b"},
		{list(1, 4, 16, 32, 8), fmt.Sprintf("0 4:%d", h.self)},
		{list(1, 2, 3), "35"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
	other := newRealHarness(t, only("stream.subscribe ns/b"))
	other.b.CreateTopics(t.Context(), &Caller{Tenant: "default"}, nil, false)
	h.client = other.client
	if got := list(1, 2); got != "0" || strings.Contains(got, "2:a") {
		t.Errorf("got %s", got)
	}
}

// farConn is a connection that came from an address which is not loopback; nothing is sent to it.
type farConn struct {
	net.Conn
	from string
}

func (c farConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1234))
}

// TestConnectionsOfOneAddressAreBounded covers row 81 for addresses: what is over the bound is closed on arrival and counted, others
// are not touched, and a connection that ends makes room. IPv4 in IPv6 form is the same address.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxConnectionsPerAddress = 2 })
	connect := func(from string) net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close() })
		h.srv.admit(farConn{far, from})
		return near
	}
	open := func() int {
		h.srv.mu.Lock()
		defer h.srv.mu.Unlock()
		return h.srv.conns.n
	}
	first := connect("192.0.2.1")
	connect("::ffff:192.0.2.1")
	refused := connect("192.0.2.1")
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("the third connection is not closed")
	}
	connect("192.0.2.2")
	if n := open(); n != 3 {
		t.Errorf("%d connections are open, want 3", n)
	}
	var m dto.Metric
	if err := h.srv.metrics.refused[refusedPerAddress].Write(&m); err != nil || m.GetCounter().GetValue() != 1 {
		t.Errorf("counted %v refusals, want 1", m.GetCounter().GetValue())
	}
	first.Close()
	eventually(t, "it is forgotten", func() bool { return open() == 2 })
	connect("192.0.2.1")
	if n := open(); n != 3 {
		t.Errorf("%d connections are open after one made room, want 3", n)
	}
}
