package auth

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// TestActionTable holds the table against the spec's words: a name that is not there refuses every token that carries it.
func TestActionTable(t *testing.T) {
	want := []string{
		"stream.publish", "stream.subscribe", "stream.manage", "cache.read", "cache.write", "cache.manage", "group.consume", "group.manage",
		"ns.manage", "tenant.manage", "rbac.view", "rbac.policy.manage", "rbac.assignment.manage", "node.view", "node.manage", "token.delegate",
	}
	var got []string
	for a := StreamPublish; a < actionEnd; a++ {
		got = append(got, a.String())
		back, err := ParseAction(a.String())
		if err != nil || back != a {
			t.Errorf("%s: got %v, %v", a, back, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseAction(""); err == nil {
		t.Error("an empty action parses")
	}
	if actionEnd.String() != "" || Action(0).String() != "" {
		t.Error("what is no action has a name")
	}
}

func TestParseObject(t *testing.T) {
	tests := []struct {
		name, in string
		want     Object
	}{
		{"tenant", "tenant:t1", Object{Kind: TenantObject, Tenant: "t1"}},
		{"namespace", "namespace:t1/payments", Object{Kind: NamespaceObject, Tenant: "t1", Namespace: "payments"}},
		{"all_namespaces", "namespace:t1/*", Object{Kind: NamespaceObject, Tenant: "t1", Namespace: Any}},
		{"stream", "stream:t1/payments/orders.v1", Object{Kind: StreamObject, Tenant: "t1", Namespace: "payments", Name: "orders.v1"}},
		{"stream_leading_underscore", "stream:t1/payments/_orders", Object{Kind: StreamObject, Tenant: "t1", Namespace: "payments", Name: "_orders"}},
		{"streams", "stream:t1/payments/*", Object{Kind: StreamObject, Tenant: "t1", Namespace: "payments", Name: Any}},
		{"all_streams", "stream:t1/*/*", Object{Kind: StreamObject, Tenant: "t1", Namespace: Any, Name: Any}},
		{"cache", "cache:t1/ns/c", Object{Kind: CacheObject, Tenant: "t1", Namespace: "ns", Name: "c"}},
		{"caches", "cache:t1/ns/*", Object{Kind: CacheObject, Tenant: "t1", Namespace: "ns", Name: Any}},
		{"all_caches", "cache:t1/*/*", Object{Kind: CacheObject, Tenant: "t1", Namespace: Any, Name: Any}},
		{"key", "cache:t1/ns/c/user:1", Object{Kind: KeyObject, Tenant: "t1", Namespace: "ns", Name: "c", Leaf: "user:1"}},
		{"key_with_slashes", "cache:t1/ns/c/a/b//c", Object{Kind: KeyObject, Tenant: "t1", Namespace: "ns", Name: "c", Leaf: "a/b//c"}},
		{"key_of_a_slash", "cache:t1/ns/c//", Object{Kind: KeyObject, Tenant: "t1", Namespace: "ns", Name: "c", Leaf: "/"}},
		{"key_prefix", "cache:t1/ns/c/room1/*", Object{Kind: KeyObject, Tenant: "t1", Namespace: "ns", Name: "c", Leaf: "room1/", Prefix: true}},
		{"group", "group:t1/ns/orders/billing", Object{Kind: GroupObject, Tenant: "t1", Namespace: "ns", Name: "orders", Leaf: "billing"}},
		{"group_with_a_space", "group:t1/ns/orders/über uns", Object{Kind: GroupObject, Tenant: "t1", Namespace: "ns", Name: "orders", Leaf: "über uns"}},
		{"groups", "group:t1/ns/orders/*", Object{Kind: GroupObject, Tenant: "t1", Namespace: "ns", Name: "orders", Leaf: Any}},
		{"groups_of_all_streams", "group:t1/ns/*/*", Object{Kind: GroupObject, Tenant: "t1", Namespace: "ns", Name: Any, Leaf: Any}},
		{"cluster", "cluster:*", Object{Kind: ClusterObject}},
		{"node", "node:broker-1", Object{Kind: NodeObject, Name: "broker-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseObject(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if got.String() != tt.in {
				t.Errorf("got %q back, want %q", got, tt.in)
			}
		})
	}
}

func TestParseObjectRefuses(t *testing.T) {
	for _, in := range []string{
		"", "*", "tenant", "tenant:", "tenant:*", "tenant:t1/x", "tenant:t 1", "tenant:t*", "tenant:.", "tenant:..", "Tenant:t1", " tenant:t1", "tenant:t1 ",
		"namespace:", "namespace:t1", "namespace:t1/", "namespace:/ns", "namespace:*/ns", "namespace:*/*", "namespace:t1/ns/x", "namespace:t1/n*", "namespace:t1/**",
		"stream:t1/ns", "stream:t1/ns/", "stream:t1//s", "stream:*/*/*", "stream:t1/*/orders", "stream:t1/n*/*", "stream:t1/ns/a*", "stream:t1/ns/a/b", "stream:t1/ns/a:b",
		"stream::t1/ns/a", "stream:t1/ns/%2e", "stream:t1/ns/..", "stream:t1/../a", "stream:t1/ns/a\x00", "stream:t1/ns/" + strings.Repeat("a", maxStreamName+1),
		"cache:t1/*/c", "cache:t1/ns/c/", "cache:t1/ns/c/*", "cache:t1/ns/c/a*b", "cache:t1/ns/c/a**", "cache:t1/*/c/k", "cache:t1/ns/*/k", "cache:t1/*/*/*", "cache:t1/ns/c/\xff",
		"group:t1/ns/s", "group:t1/ns/s/", "group:t1/ns/*/g", "group:t1/*/*/*", "group:t1/*/s/*", "group:t1/ns/s/g*", "group:t1/ns/s/a:b", "group:t1/ns/s/a/b", "group:t1/ns/s/a\n",
		"group:t1/ns/s/\xff", "group:t1/ns/s/" + strings.Repeat("g", maxGroupName+1), "group:t1/ns/s*/*", "group:*/ns/s/g",
		"cluster:", "cluster:nodes", "cluster:**", "cluster", "node:*", "node:", "node:a/b", "topic:t1/ns/s",
		"cache:t1/ns/c/" + strings.Repeat("k", MaxPermissionLength),
	} {
		if o, err := ParseObject(in); errcode.Of(err) != errcode.InvalidRequest {
			t.Errorf("%q: got %+v, %v, want a refusal of kind InvalidRequest", in, o, err)
		}
	}
}

// TestActionsOnObjects holds what each action can be granted on.
func TestActionsOnObjects(t *testing.T) {
	objects := map[ObjectKind]string{
		TenantObject: "tenant:t1", NamespaceObject: "namespace:t1/ns", StreamObject: "stream:t1/ns/s", CacheObject: "cache:t1/ns/c",
		KeyObject: "cache:t1/ns/c/k", GroupObject: "group:t1/ns/s/g", ClusterObject: "cluster:*", NodeObject: "node:n1",
	}
	rbac := []ObjectKind{TenantObject, NamespaceObject, StreamObject, CacheObject, GroupObject}
	want := map[Action][]ObjectKind{
		StreamPublish: {StreamObject}, StreamSubscribe: {StreamObject}, StreamManage: {StreamObject},
		CacheRead: {CacheObject, KeyObject}, CacheWrite: {CacheObject, KeyObject}, CacheManage: {CacheObject},
		GroupConsume: {StreamObject, GroupObject}, GroupManage: {StreamObject, GroupObject},
		NamespaceManage: {NamespaceObject}, TenantManage: {TenantObject, ClusterObject},
		RBACView: rbac, RBACPolicyManage: rbac, RBACAssignmentManage: rbac,
		NodeView: {ClusterObject}, NodeManage: {ClusterObject, NodeObject}, TokenDelegate: {TenantObject},
	}
	for a := StreamPublish; a < actionEnd; a++ {
		for kind, text := range objects {
			in := a.String() + ":" + text
			p, err := ParsePermission(in)
			if ok := slices.Contains(want[a], kind); ok != (err == nil) {
				t.Errorf("%s: got %v, want it to parse: %v", in, err, ok)
			}
			if err == nil && p.String() != in {
				t.Errorf("got %q back, want %q", p, in)
			}
		}
	}
	for _, in := range []string{"", "stream.publish", "stream.publish:", ":stream:t1/ns/s", "stream.publish :stream:t1/ns/s", "node.view:*", "*:cluster:*"} {
		if _, err := ParsePermission(in); err == nil {
			t.Errorf("%q parses", in)
		}
	}
}

func TestParsePermissions(t *testing.T) {
	if _, err := ParsePermissions(make([]string, MaxPermissions+1)); err == nil {
		t.Error("too many permissions parse")
	}
	_, err := ParsePermissions([]string{"node.view:cluster:*", "node.view:cluster"})
	if err == nil || !strings.Contains(err.Error(), "permission 1") {
		t.Errorf("got %v, want an error that names the place", err)
	}
}

func TestExpand(t *testing.T) {
	tests := []struct {
		name     string
		in, more []string
	}{
		{"nothing", nil, nil},
		{"plain", []string{"stream.subscribe:stream:t1/ns/s", "node.view:cluster:*"}, nil},
		{"twice", []string{"node.view:cluster:*", "node.view:cluster:*"}, nil},
		{"cluster", []string{"tenant.manage:cluster:*"}, nil},
		{"namespace", []string{"ns.manage:namespace:t1/ns"}, []string{
			"stream.manage:stream:t1/ns/*", "stream.publish:stream:t1/ns/*", "stream.subscribe:stream:t1/ns/*",
			"cache.manage:cache:t1/ns/*", "cache.read:cache:t1/ns/*", "cache.write:cache:t1/ns/*",
		}},
		{"tenant", []string{"cache.read:cache:t1/*/*", "tenant.manage:tenant:t1"}, []string{
			"ns.manage:namespace:t1/*",
			"stream.manage:stream:t1/*/*", "stream.publish:stream:t1/*/*", "stream.subscribe:stream:t1/*/*",
			"cache.manage:cache:t1/*/*", "cache.write:cache:t1/*/*",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			expanded := Expand(permissions(t, tt.in...))
			for _, p := range expanded {
				got = append(got, p.String())
			}
			want := append(slices.Compact(slices.Clone(tt.in)), tt.more...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(expanded, Expand(expanded)); diff != "" {
				t.Errorf("expanding again changes it: %s", diff)
			}
		})
	}
}
