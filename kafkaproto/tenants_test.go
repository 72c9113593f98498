package kafkaproto

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
)

// tenantWalk asks one API the same as each of two tenants. Both have a topic "shared", of 2 partitions and with 3 records in
// tenant a, of 1 and empty in tenant b; a alone has "only-a". What comes back is told as a text, and what each tenant must see is
// written beside.
type tenantWalk struct {
	ask  func(w *tenantWorld, c *client) string
	a, b string
	// nothing says why there is nothing of a tenant in the answers; ask is nil then.
	nothing string
}

type tenantWorld struct {
	onlyA, sharedA [16]byte // topic ids
}

const noTenantData = "answers are the same for everyone and tell of no tenant"

// tenantWalks has an entry for every API that is served: a new one must say what keeps tenants apart.
var tenantWalks = map[int16]tenantWalk{
	0: {ask: func(w *tenantWorld, c *client) string {
		byName := produceCode0(c, produceRequestFor("only-a", 0, oneRecord))
		byID := produceRequestFor("", 0, oneRecord)
		byID.Version, byID.Topics[0].TopicID = 13, w.onlyA
		return fmt.Sprint(byName, " ", produceCode0(c, byID))
	}, a: "0@0 0@1", b: "3@-1 100@-1"},
	1: {ask: func(w *tenantWorld, c *client) string {
		byID := fetchRequestFor("", 0)
		byID.Version, byID.Topics[0].TopicID = 13, w.sharedA
		return fmt.Sprint(fetched(c, fetchRequestFor("shared", 0)), " ", fetched(c, fetchRequestFor("only-a", 0)), " ", fetched(c, byID))
	}, a: "0:3 0:2 0:3", b: "0:0 3:-1 100:-1"},
	2: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version = 7
			req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
			p := c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			return fmt.Sprint(p.ErrorCode, ":", p.Offset)
		})
	}, a: "0:3 0:2", b: "0:0 3:-1"},
	3: {ask: func(w *tenantWorld, c *client) string {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		got := []string{}
		for _, m := range c.ask(req).(*kmsg.MetadataResponse).Topics {
			got = append(got, fmt.Sprint(*m.Topic, ":", len(m.Partitions)))
		}
		req.Topics = []kmsg.MetadataRequestTopic{{TopicID: w.onlyA}}
		return fmt.Sprint(got, c.ask(req).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	}, a: "[only-a:1 shared:2] 0", b: "[shared:1] 100"},
	17: {nothing: noTenantData},
	18: {nothing: noTenantData},
	19: {ask: func(_ *tenantWorld, c *client) string {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly = 7, true
		for _, topic := range []string{"shared", "only-a"} {
			req.Topics = append(req.Topics, kmsg.CreateTopicsRequestTopic{Topic: topic, NumPartitions: 1, ReplicationFactor: 1})
		}
		resp := c.ask(req).(*kmsg.CreateTopicsResponse)
		return fmt.Sprint(resp.Topics[0].ErrorCode, " ", resp.Topics[1].ErrorCode)
	}, a: "36 36", b: "36 0"},
	20: {ask: func(w *tenantWorld, c *client) string {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = 6
		id := w.onlyA
		id[15] ^= 1 // a topic of nobody: the answer to one of another tenant must be the same
		for _, id := range [][16]byte{id, w.onlyA} {
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: id})
		}
		if c.tenant == "a" {
			req.Topics = req.Topics[:1]
		}
		missing := "missing"
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &missing})
		got := ""
		for _, m := range c.ask(req).(*kmsg.DeleteTopicsResponse).Topics {
			got += fmt.Sprint(m.ErrorCode, m.Topic == nil, " ")
		}
		return got
	}, a: "100 true 3 false ", b: "100 true 100 true 3 false "},
	21: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0}}}}
			return c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
		})
	}, a: "0 0", b: "0 3"},
	22: {nothing: "producer ids are of one space, and each is given out once"},
	23: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version = 4
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
			p := c.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			return fmt.Sprint(p.ErrorCode, ":", p.EndOffset)
		})
	}, a: "0:3 0:2", b: "0:0 3:-1"},
	29: {nothing: "refused to everyone"},
	30: {nothing: "refused to everyone"},
	31: {nothing: "refused to everyone"},
	32: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}}
			r := c.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
			if r.ErrorCode != 0 {
				return r.ErrorCode
			}
			return *r.Configs[0].Value
		})
	}, a: "1111 604800000", b: "604800000 3"},
	33: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = true
			req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
			return c.ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode
		})
	}, a: "0 0", b: "0 3"},
	34: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrAlterReplicaLogDirsRequest()
			req.Version = 2
			req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/x", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}}}}
			return c.ask(req).(*kmsg.AlterReplicaLogDirsResponse).Topics[0].Partitions[0].ErrorCode
		})
	}, a: "57 57", b: "57 3"},
	35: {ask: func(_ *tenantWorld, c *client) string {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = 4
		got := []string{}
		for _, m := range c.ask(req).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics {
			got = append(got, fmt.Sprint(m.Topic, ":", len(m.Partitions)))
		}
		return fmt.Sprint(got)
	}, a: "[only-a:1 shared:2]", b: "[shared:1]"},
	36: {nothing: noTenantData},
	37: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.ValidateOnly = true
			req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: 2}}
			return c.ask(req).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
		})
	}, a: "37 0", b: "0 3"},
	38: {nothing: "refused to everyone"},
	39: {nothing: "refused to everyone"},
	40: {nothing: "refused to everyone"},
	41: {nothing: "refused to everyone"},
	43: {ask: func(_ *tenantWorld, c *client) string {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version = 2
		all := len(c.ask(req).(*kmsg.ElectLeadersResponse).Topics)
		return fmt.Sprint(all, " ", eachTopic(func(topic string) any {
			req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
			return c.ask(req).(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode
		}))
	}, a: "2 84 84", b: "1 84 3"},
	44: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = true
			req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
			return c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
		})
	}, a: "0 0", b: "0 3"},
	45: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: make([]kmsg.AlterPartitionAssignmentsRequestTopicPartition, 1)}}
			return c.ask(req).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0].ErrorCode
		})
	}, a: "85 85", b: "85 3"},
	46: {nothing: "never lists anything"},
	48: {ask: func(_ *tenantWorld, c *client) string { return describeQuotas(c, false) }, a: "user=u,producer:1e+09", b: ""},
	49: {ask: func(_ *tenantWorld, c *client) string {
		if c.tenant == "b" { // must leave what a has under the same name
			return alterQuotas(c, false, quotaEdit{"user=u", producerRate, 0})
		}
		return describeQuotas(c, false)
	}, a: "user=u,producer:1e+09", b: "0"},
	50: {nothing: noTenantData},
	51: {nothing: "refused to everyone"},
	55: {nothing: noTenantData},
	57: {nothing: "refused to everyone"},
	60: {nothing: noTenantData},
	61: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrDescribeProducersRequest()
			req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
			return c.ask(req).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ErrorCode
		})
	}, a: "0 0", b: "0 3"},
	74: {ask: func(_ *tenantWorld, c *client) string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = 1, []int8{2}
		got := []string{}
		for _, r := range c.ask(req).(*kmsg.ListConfigResourcesResponse).ConfigResources {
			got = append(got, r.Name)
		}
		return fmt.Sprint(got)
	}, a: "[only-a shared]", b: "[shared]"},
	75: {ask: func(_ *tenantWorld, c *client) string {
		return eachTopic(func(topic string) any {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit = 100
			req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
			m := c.ask(req).(*kmsg.DescribeTopicPartitionsResponse).Topics[0]
			return fmt.Sprint(m.ErrorCode, ":", len(m.Partitions))
		})
	}, a: "0:2 0:1", b: "0:1 3:0"},
}

// groupWalks are the APIs of groups, which the coordinator keeps apart by tenant: see groups_test.go.
var groupWalks = []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47}

var oneRecord []byte

func eachTopic(ask func(topic string) any) string {
	return fmt.Sprint(ask("shared"), " ", ask("only-a"))
}

func produceCode0(c *client, req *kmsg.ProduceRequest) string {
	req.Topics[0].Partitions[0].Records = slices.Clone(oneRecord)
	p := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return fmt.Sprint(p.ErrorCode, "@", p.BaseOffset)
}

func fetched(c *client, req *kmsg.FetchRequest) string {
	req.MaxWaitMillis = 0
	resp := c.ask(req).(*kmsg.FetchResponse)
	p := resp.Topics[0].Partitions[0]
	return fmt.Sprint(p.ErrorCode, ":", p.HighWatermark)
}

// TestTenantsNeverSeeEachOther walks every served API as two tenants with topics of the same names.
func TestTenantsNeverSeeEachOther(t *testing.T) {
	h := newRealHarness(t, func(o *Options) { o.Anonymous, o.Verifier, o.AutoCreate = nil, anyLogin{}, false })
	oneRecord = makeBatch(t, 1, []byte("x"))
	for _, tenant := range []string{"a", "b"} {
		if res, err := h.meta.Propose(t.Context(), cluster.CreateTenant{Name: tenant}); err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
	}
	create := func(tenant, stream string, partitions int32, configs map[string]string) [16]byte {
		res := h.b.CreateTopics(t.Context(), &Caller{Tenant: tenant}, []broker.NewTopic{
			{Namespace: "default", Stream: stream, Partitions: partitions, ReplicationFactor: 1, Configs: configs},
		}, false)
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		return res[0].Topic.ID
	}
	w := &tenantWorld{}
	w.sharedA = create("a", "shared", 2, map[string]string{"retention.ms": "1111"})
	w.onlyA = create("a", "only-a", 1, nil)
	create("b", "shared", 1, nil)
	clients := map[string]*client{}
	for _, tenant := range []string{"a", "b"} {
		c := h.dial()
		c.logIn(tenant)
		c.tenant = tenant
		clients[tenant] = c
	}
	clients["a"].ask(produceRequestFor("shared", 0, makeBatch(t, 3, []byte("x"))))
	if got := alterQuotas(clients["a"], false, quotaEdit{"user=u", producerRate, 1e9}); got != "0" {
		t.Fatal(got)
	}
	for _, a := range newAPITable(servedAPIs(true)...).rows {
		walk, known := tenantWalks[a.key]
		switch {
		case slices.Contains(groupWalks, a.key) || known && walk.nothing != "":
			continue
		case !known:
			t.Errorf("%s (%d) has no entry that says what keeps tenants apart", a.name, a.key)
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			for _, tenant := range []string{"a", "b", "a"} { // a once more: what b did must not show
				if a.key == keyProduce && tenant == "a" && clients["a"].walked[a.key] {
					continue // offsets have moved on
				}
				want := walk.a
				if tenant == "b" {
					want = walk.b
				}
				c := clients[tenant]
				c.t = t
				if got := walk.ask(w, c); got != want {
					t.Errorf("tenant %s sees %q, want %q", tenant, got, want)
				}
				if c.walked == nil {
					c.walked = map[int16]bool{}
				}
				c.walked[a.key] = true
			}
		})
	}
}
