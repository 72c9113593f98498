package auth

import "testing"

// grants compiles permissions of tenant t1.
func grants(t testing.TB, list ...string) *Grants { return NewGrants("t1", permissions(t, list...)) }

func TestAllowedStreams(t *testing.T) {
	tests := []struct {
		name                      string
		granted                   string
		action                    Action
		tenant, namespace, stream string
		want                      bool
	}{
		{"exact", "stream.publish:stream:t1/ns/orders", StreamPublish, "t1", "ns", "orders", true},
		{"row_52_other_action", "stream.publish:stream:t1/ns/orders", StreamSubscribe, "t1", "ns", "orders", false},
		{"other_stream", "stream.publish:stream:t1/ns/orders", StreamPublish, "t1", "ns", "orders2", false},
		{"other_namespace", "stream.publish:stream:t1/ns/orders", StreamPublish, "t1", "other", "orders", false},
		{"row_51_other_tenant", "stream.publish:stream:t1/ns/orders", StreamPublish, "t2", "ns", "orders", false},
		{"row_51_all_of_a_tenant", "stream.publish:stream:t1/*/*", StreamPublish, "t2", "ns", "orders", false},
		{"namespace", "stream.publish:stream:t1/ns/*", StreamPublish, "t1", "ns", "anything", true},
		{"namespace_not_another", "stream.publish:stream:t1/ns/*", StreamPublish, "t1", "ns2", "anything", false},
		{"tenant", "stream.publish:stream:t1/*/*", StreamPublish, "t1", "any", "thing", true},
		{"star_does_not_cross_a_slash", "stream.publish:stream:t1/ns/*", StreamPublish, "t1", "ns/a", "b", false},
		{"name_with_a_slash", "stream.publish:stream:t1/ns/a", StreamPublish, "t1", "ns", "a/b", false},
		{"segments_shifted", "stream.publish:stream:t1/ns/a", StreamPublish, "t1/ns", "a", "", false},
		{"request_with_a_star", "stream.publish:stream:t1/ns/orders", StreamPublish, "t1", "ns", "*", false},
		{"request_with_stars", "stream.publish:stream:t1/ns/orders", StreamPublish, "t1", "*", "*", false},
		{"empty_tenant", "stream.publish:stream:t1/*/*", StreamPublish, "", "ns", "a", false},
		{"empty_stream_is_the_namespace", "stream.publish:stream:t1/*/*", StreamPublish, "t1", "ns", "", false},
		{"empty_both_is_the_tenant", "stream.publish:stream:t1/*/*", StreamPublish, "t1", "", "", false},
		{"no_action", "stream.publish:stream:t1/*/*", 0, "t1", "ns", "a", false},
		{"no_such_action", "stream.publish:stream:t1/*/*", actionEnd, "t1", "ns", "a", false},
		{"not_expanded", "ns.manage:namespace:t1/ns", StreamPublish, "t1", "ns", "a", false},
		{"namespace_itself", "ns.manage:namespace:t1/ns", NamespaceManage, "t1", "ns", "", true},
		{"all_namespaces", "ns.manage:namespace:t1/*", NamespaceManage, "t1", "ns", "", true},
		{"other_namespace_itself", "ns.manage:namespace:t1/ns", NamespaceManage, "t1", "ns2", "", false},
		{"tenant_itself", "tenant.manage:tenant:t1", TenantManage, "t1", "", "", true},
		{"other_tenant_itself", "tenant.manage:tenant:t1", TenantManage, "t2", "", "", false},
		{"cluster_is_no_tenant", "tenant.manage:cluster:*", TenantManage, "t1", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := grants(t, tt.granted).Allowed(tt.action, tt.tenant, tt.namespace, tt.stream); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPathMatcherTrap: a matcher of paths would read ":t1" as "any segment" and let a star cross a slash. Here the pattern
// stream:t1/ns/a is about t1 alone, whoever's token holds it.
func TestPathMatcherTrap(t *testing.T) {
	list := permissions(t, "stream.subscribe:stream:t1/ns/a", "stream.subscribe:stream:t1/ns/*", "cache.read:cache:t1/*/*", "tenant.manage:tenant:t1")
	for _, tenant := range []string{"t1", "t2"} {
		g := NewGrants(tenant, list)
		if g.Allowed(StreamSubscribe, "t2", "ns", "a") || g.AllowedCache(CacheRead, "t2", "ns", "c") || g.AllowedTenant(TenantManage, "t2") {
			t.Errorf("a token of %s reaches tenant t2 with grants on t1", tenant)
		}
	}
	if NewGrants("t2", list).Allowed(StreamSubscribe, "t1", "ns", "a") {
		t.Error("a token of t2 reaches t1")
	}
}

// TestAllowedGroup is section 4.4 of the security rules, with row 68.
func TestAllowedGroup(t *testing.T) {
	const sub, manage = "stream.subscribe:stream:t1/ns/orders", "stream.manage:stream:t1/ns/orders"
	tests := []struct {
		name          string
		granted       []string
		action        Action
		stream, group string
		want          bool
	}{
		{"nothing", nil, GroupConsume, "orders", "billing", false},
		{"implied_by_subscribe", []string{sub}, GroupConsume, "orders", "billing", true},
		{"implied_by_manage", []string{manage}, GroupManage, "orders", "billing", true},
		{"subscribe_does_not_manage", []string{sub}, GroupManage, "orders", "billing", false},
		{"manage_does_not_consume", []string{manage}, GroupConsume, "orders", "billing", false},
		{"consume_on_the_stream", []string{"group.consume:stream:t1/ns/orders"}, GroupConsume, "orders", "billing", true},
		{"group_grant", []string{"group.consume:group:t1/ns/orders/workers"}, GroupConsume, "orders", "workers", true},
		{"row_68_other_group", []string{"group.consume:group:t1/ns/orders/workers", sub}, GroupConsume, "orders", "billing", false},
		{"row_68_own_group", []string{"group.consume:group:t1/ns/orders/workers", sub}, GroupConsume, "orders", "workers", true},
		{"narrowed_whatever_the_stream_grant", []string{"group.consume:group:t1/ns/orders/workers", "stream.subscribe:stream:t1/*/*"}, GroupConsume, "orders", "billing", false},
		{"narrowed_own_action_on_the_stream", []string{"group.consume:group:t1/ns/orders/workers", "group.consume:stream:t1/ns/*"}, GroupConsume, "orders", "billing", false},
		{"other_stream_not_narrowed", []string{"group.consume:group:t1/ns/orders/workers", "stream.subscribe:stream:t1/ns/*"}, GroupConsume, "bills", "billing", true},
		{"other_action_not_narrowed", []string{"group.consume:group:t1/ns/orders/workers", manage}, GroupManage, "orders", "billing", true},
		{"all_groups_of_the_stream", []string{"group.consume:group:t1/ns/orders/*"}, GroupConsume, "orders", "a:b/c*", true},
		{"all_groups_of_the_namespace", []string{"group.consume:group:t1/ns/*/*"}, GroupConsume, "orders", "billing", true},
		{"not_of_another_namespace", []string{"group.consume:group:t1/other/*/*"}, GroupConsume, "orders", "billing", false},
		{"wildcard_does_not_lock_out", []string{"group.consume:group:t1/ns/*/*", "group.consume:group:t1/ns/orders/workers"}, GroupConsume, "orders", "billing", true},
		{"group_grant_of_another_namespace_does_not_narrow", []string{"group.consume:group:t1/other/orders/workers", sub}, GroupConsume, "orders", "billing", true},
		{"no_stream", []string{"group.consume:group:t1/ns/*/*"}, GroupConsume, "", "billing", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := grants(t, tt.granted...)
			if got := g.AllowedGroup(tt.action, "t1", "ns", tt.stream, tt.group); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if g.AllowedGroup(tt.action, "t2", "ns", tt.stream, tt.group) {
				t.Error("allowed in another tenant")
			}
		})
	}
}

func TestAllowedKafkaGroup(t *testing.T) {
	tests := []struct {
		name    string
		granted []string
		action  Action
		want    bool
	}{
		{"nothing", nil, GroupConsume, false},
		{"subscribe_on_any_stream", []string{"stream.subscribe:stream:t1/ns/orders"}, GroupConsume, true},
		{"manage_on_one_stream", []string{"stream.manage:stream:t1/ns/scratch"}, GroupManage, false},
		{"manage_on_a_namespace", []string{"stream.manage:stream:t1/ns/*"}, GroupManage, false},
		{"manage_on_all_streams", []string{"stream.manage:stream:t1/*/*"}, GroupManage, true},
		{"publish_is_not_enough", []string{"stream.publish:stream:t1/*/*"}, GroupConsume, false},
		{"subscribe_does_not_manage", []string{"stream.subscribe:stream:t1/*/*"}, GroupManage, false},
		{"group_of_that_name", []string{"group.consume:group:t1/ns/orders/billing"}, GroupConsume, true},
		{"row_68_group_of_another_name", []string{"group.consume:group:t1/ns/orders/workers", "stream.subscribe:stream:t1/*/*"}, GroupConsume, false},
		{"all_groups_of_a_stream", []string{"group.manage:group:t1/ns/orders/*"}, GroupManage, false},
		{"all_groups_of_a_namespace", []string{"group.manage:group:t1/ns/*/*"}, GroupManage, true},
		{"manage_by_name", []string{"group.manage:group:t1/ns/orders/billing"}, GroupManage, true},
		{"other_tenant", []string{"stream.subscribe:stream:t2/*/*", "group.consume:group:t2/ns/orders/billing"}, GroupConsume, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := grants(t, tt.granted...)
			if got := g.AllowedKafkaGroup(tt.action, "t1", "billing"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if g.AllowedKafkaGroup(tt.action, "t2", "billing") {
				t.Error("allowed in another tenant")
			}
		})
	}
}

// TestAllowedCache is section 4.5 of the security rules, with row 64.
func TestAllowedCache(t *testing.T) {
	tests := []struct {
		name, granted            string
		whole, key, keyB, prefix bool // the cache; key room1/a; key room10; watch of prefix room1/
	}{
		{"cache", "cache.read:cache:t1/ns/c", true, true, true, true},
		{"caches", "cache.read:cache:t1/ns/*", true, true, true, true},
		{"all_caches", "cache.read:cache:t1/*/*", true, true, true, true},
		{"other_cache", "cache.read:cache:t1/ns/d", false, false, false, false},
		{"other_namespace", "cache.read:cache:t1/other/c", false, false, false, false},
		{"row_64_exact_key", "cache.read:cache:t1/ns/c/room1/a", false, true, false, false},
		{"exact_key_equal_to_the_prefix", "cache.read:cache:t1/ns/c/room1/", false, false, false, false},
		{"prefix", "cache.read:cache:t1/ns/c/room1/*", false, true, false, true},
		{"wider_prefix", "cache.read:cache:t1/ns/c/room1*", false, true, true, true},
		{"narrower_prefix", "cache.read:cache:t1/ns/c/room1/a*", false, true, false, false},
		{"key_of_another_cache", "cache.read:cache:t1/ns/d/room1/*", false, false, false, false},
		{"other_action", "cache.write:cache:t1/ns/c", false, false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := grants(t, tt.granted)
			got := [4]bool{
				g.AllowedCache(CacheRead, "t1", "ns", "c"), g.AllowedCacheKey(CacheRead, "t1", "ns", "c", "room1/a"),
				g.AllowedCacheKey(CacheRead, "t1", "ns", "c", "room10"), g.AllowedCachePrefix(CacheRead, "t1", "ns", "c", "room1/"),
			}
			if want := [4]bool{tt.whole, tt.key, tt.keyB, tt.prefix}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if g.AllowedCacheKey(CacheRead, "t2", "ns", "c", "room1/a") || g.AllowedCachePrefix(CacheRead, "t2", "ns", "c", "room1/") {
				t.Error("allowed in another tenant")
			}
			if g.AllowedCachePrefix(CacheRead, "t1", "ns", "c", "") != tt.whole {
				t.Error("a watch of everything must ask for the whole cache")
			}
		})
	}
}

func TestAllowedCluster(t *testing.T) {
	g := grants(t, "node.view:cluster:*", "node.manage:node:b1", "tenant.manage:tenant:t1")
	if !g.AllowedCluster(NodeView) || g.AllowedCluster(NodeManage) || g.AllowedCluster(TenantManage) {
		t.Error("the cluster's rights are not those that were granted")
	}
	if !g.AllowedNode(NodeManage, "b1") || g.AllowedNode(NodeManage, "b2") || g.AllowedNode(NodeManage, "*") {
		t.Error("the node's rights are not those that were granted")
	}
	if !grants(t, "node.manage:cluster:*").AllowedNode(NodeManage, "b2") {
		t.Error("managing the cluster does not reach a node")
	}
}

func TestNoGrants(t *testing.T) {
	for name, g := range map[string]*Grants{"nil": nil, "empty": NewGrants("t1", nil)} {
		if g.Allowed(StreamPublish, "t1", "ns", "s") || g.Allowed(TenantManage, "t1", "", "") || g.AllowedCache(CacheRead, "t1", "ns", "c") ||
			g.AllowedCacheKey(CacheRead, "t1", "ns", "c", "k") || g.AllowedCachePrefix(CacheRead, "t1", "ns", "c", "k") ||
			g.AllowedGroup(GroupConsume, "t1", "ns", "s", "g") || g.AllowedKafkaGroup(GroupConsume, "t1", "g") ||
			g.AllowedCluster(NodeView) || g.AllowedNode(NodeManage, "n") || len(g.Permissions()) != 0 {
			t.Errorf("%s: something is allowed", name)
		}
	}
}

func TestAllowedDoesNotAllocate(t *testing.T) {
	g := grants(t, "stream.publish:stream:t1/ns/orders", "cache.read:cache:t1/ns/c/room1/*")
	got := testing.AllocsPerRun(100, func() {
		_ = g.Allowed(StreamPublish, "t1", "ns", "orders")
		_ = g.AllowedCacheKey(CacheRead, "t1", "ns", "c", "room1/a")
	})
	if got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
