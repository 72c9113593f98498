package controller

import (
	"iter"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// share is something of which the whole cluster may have so much: how much there is, and how much of it a tenant has.
type share struct {
	what  string
	most  int
	total func(*cluster.Image) int
	held  func(m *cluster.Image, tenant string) int
}

var shares = [...]share{
	{"namespaces", cluster.MaxNamespaces, (*cluster.Image).NamespaceCount, func(m *cluster.Image, tenant string) int {
		return len(m.Namespaces(tenant))
	}},
	{"streams", cluster.MaxTopics, (*cluster.Image).TopicCount, func(m *cluster.Image, tenant string) (n int) {
		m.TopicsOf(tenant, func(*cluster.Topic) bool { n++; return true })
		return n
	}},
	{"caches", cluster.MaxCaches, (*cluster.Image).CacheCount, func(m *cluster.Image, tenant string) (n int) {
		for _, ns := range m.Namespaces(tenant) {
			n += count(m.CachesAfter(tenant, ns.Name, ""))
		}
		return n
	}},
	{"bytes of access rules", cluster.MaxRuleBytes, (*cluster.Image).RuleBytes, func(m *cluster.Image, tenant string) int {
		return bytesOf(m.PoliciesAfter(cluster.Policy{Tenant: tenant})) + bytesOf(m.GroupingsAfter(cluster.Grouping{Tenant: tenant}))
	}},
}

func bytesOf[T interface{ Bytes() int }](from iter.Seq[T]) (n int) {
	for t := range from {
		n += t.Bytes()
	}
	return n
}

// checkShare refuses what a tenant added between two images, if it would have more of anything then than is left for all others: each takes
// half of what is free at most, so none can leave nothing. A tenant that is alone may have everything. Only guarded commands are looked at, since
// what was logged before there were shares must come to what it came to.
func checkShare(before, after *cluster.Image, tenant string) error {
	if len(after.Tenants()) < 2 {
		return nil
	}
	for i := range shares {
		s := &shares[i]
		total := s.total(after)
		// Half of the whole cannot be too much for a tenant, so most often nothing is counted.
		if total <= s.total(before) || total <= s.most/2 {
			continue
		}
		if held, free := s.held(after, tenant), s.most-total; held > free && held > s.held(before, tenant) {
			return errcode.Newf(errcode.PolicyViolation,
				"tenant %s would have %d %s, which is more than the %d that would be left for all others", tenant, held, s.what, max(free, 0))
		}
	}
	return nil
}
