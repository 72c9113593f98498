package controller

import (
	"fmt"
	"math/rand/v2"

	"github.com/felixlog/felix/internal/cluster"
)

// resourceSamples has the commands about caches, access rules and placement, with every field used somewhere.
func resourceSamples() []cluster.Command {
	title := "C é"
	policy := cluster.Policy{Tenant: "t", Subject: "role:r é", Object: "stream:t/n/*", Action: "stream.publish"}
	grouping := cluster.Grouping{Tenant: "t", User: "p:u", Role: "role:r é"}
	return []cluster.Command{
		cluster.CreateResources{
			Streams: []cluster.NewStream{{TopicRef: cluster.TopicRef{ID: topicID(60), Tenant: "t", Namespace: "n", Name: "with"}, Shards: 1, ReplicationFactor: 1}},
			Caches: []cluster.NewCache{
				{TopicRef: cluster.TopicRef{ID: topicID(61), Tenant: "t", Namespace: "n", Name: "c"}, Shards: 1, ReplicationFactor: 1},
				{
					TopicRef: cluster.TopicRef{ID: topicID(62), Tenant: "t", Namespace: "n", Name: "full"}, DisplayName: title, Shards: 7, ReplicationFactor: 1,
					Consistency: cluster.ConsistencyQuorum,
				},
			},
		},
		cluster.CreateResources{},
		cluster.UpdateCache{Tenant: "t", Namespace: "n", Name: "c", DisplayName: &title},
		cluster.UpdateCache{Tenant: "t", Namespace: "n", Name: "c"},
		cluster.DeleteCache{Tenant: "t", Namespace: "n", Name: "none", ID: topicID(61)},
		cluster.PutPolicy{Policy: policy},
		cluster.PutPolicy{Policy: cluster.Policy{Tenant: "t", Subject: "p:o", Object: "cluster:*", Action: "node.view"}},
		cluster.DeletePolicy{Policy: cluster.Policy{Tenant: "t", Subject: "none", Object: "tenant:t", Action: "rbac.view"}},
		cluster.PutGrouping{Grouping: grouping},
		cluster.DeleteGrouping{Grouping: cluster.Grouping{Tenant: "t", User: "none", Role: "role:r"}},
		cluster.PausePlacement{Paused: true},
		cluster.InitializeTenant{Name: "t", DisplayName: "T é", Key: cluster.KeyFromSeed(seed(7)), Policies: []cluster.Policy{policy}, Groupings: []cluster.Grouping{grouping}},
		cluster.InitializeTenant{Name: "t9", Key: cluster.KeyFromSeed(seed(8))},
	}
}

func randomResourceCommand(rng *rand.Rand, i int) cluster.Command {
	tenant := []string{"tenant0", "tenant1", "default"}[rng.IntN(3)]
	ns, name := fmt.Sprint("n", rng.IntN(3)), fmt.Sprint("c", rng.IntN(6))
	policy := cluster.Policy{
		Tenant: tenant, Subject: fmt.Sprint("role:", rng.IntN(4)), Object: fmt.Sprintf("stream:%s/n%d/*", tenant, rng.IntN(3)),
		Action: []string{"stream.publish", "stream.subscribe", "no.such"}[rng.IntN(3)],
	}
	grouping := cluster.Grouping{Tenant: tenant, User: fmt.Sprint("p:", rng.IntN(4)), Role: fmt.Sprint("role:", rng.IntN(4))}
	switch rng.IntN(8) {
	case 0, 1:
		return cluster.CreateResources{Caches: []cluster.NewCache{{
			TopicRef: cluster.TopicRef{ID: topicID(30_000 + i), Tenant: tenant, Namespace: ns, Name: name}, DisplayName: fmt.Sprint(rng.IntN(2)),
			Shards: int32(rng.IntN(3)), ReplicationFactor: 1, Consistency: cluster.Consistency(rng.IntN(3)),
		}}}
	case 2:
		title := fmt.Sprint(rng.IntN(3))
		return cluster.UpdateCache{Tenant: tenant, Namespace: ns, Name: name, DisplayName: &title}
	case 3:
		return cluster.DeleteCache{Tenant: tenant, Namespace: ns, Name: name, ID: topicID(30_000 + i - rng.IntN(40))}
	case 4:
		return cluster.DeletePolicy{Policy: policy}
	case 5:
		return cluster.PutPolicy{Policy: policy}
	case 6:
		return cluster.PutGrouping{Grouping: grouping}
	default:
		if rng.IntN(4) == 0 {
			return cluster.PausePlacement{Paused: rng.IntN(2) == 0}
		}
		return cluster.DeleteGrouping{Grouping: grouping}
	}
}
