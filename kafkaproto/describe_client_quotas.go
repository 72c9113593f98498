package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// DescribeClientQuotas, versions 0 and 1.
//
//	1  flexible
//
// Rules: Kafka request rules 4.15. A filter has a component for each type of entity that it asks about: with exactly this name, the
// default, or any. Without strict an entity may have types beside those asked about. No components at all mean every entity.
//
// Different from Kafka: quotas are of a tenant, whose entities alone are seen; it takes tenant.manage. No quotas by address are kept, so a
// filter with "ip" finds nothing.

// Entity types, as the wire spells them.
const (
	entityUser     = "user"
	entityClientID = "client-id"
	entityIP       = "ip"
)

// How a component of a filter matches, by Kafka's numbers.
const (
	matchExact   kmsg.QuotasMatchType = 0
	matchDefault kmsg.QuotasMatchType = 1
	matchAny     kmsg.QuotasMatchType = 2
)

func handleDescribeClientQuotas(c *call) {
	req := c.req.(*kmsg.DescribeClientQuotasRequest)
	resp := c.response().(*kmsg.DescribeClientQuotasResponse)
	list, err := c.admin().ClientQuotas(c.caller())
	var filter quotaFilter
	if err == nil {
		filter, err = newQuotaFilter(req)
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.describe(err)
		c.reply(resp)
		return
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for _, q := range list {
		if filter.matches(&q.Entity) {
			resp.Entries = append(resp.Entries, quotaEntry(q))
		}
	}
	c.reply(resp)
}

// quotaEntry is a quota on the wire. A null name is the default.
func quotaEntry(q *cluster.ClientQuota) kmsg.DescribeClientQuotasResponseEntry {
	out := kmsg.NewDescribeClientQuotasResponseEntry()
	part := func(kind string, n cluster.QuotaName) {
		if n.Kind == cluster.QuotaAny {
			return
		}
		e := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		e.Type = kind
		if n.Kind == cluster.QuotaNamed {
			e.Name = &n.Name
		}
		out.Entity = append(out.Entity, e)
	}
	part(entityUser, q.Entity.User)
	part(entityClientID, q.Entity.Client)
	for _, rate := range [...]cluster.QuotaRate{cluster.ProducerByteRate, cluster.ConsumerByteRate} {
		if q.Rate(rate) > 0 {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = rate.String(), float64(q.Rate(rate))
			out.Values = append(out.Values, v)
		}
	}
	return out
}

// quotaFilter is what a request asks for.
type quotaFilter struct {
	user, client partFilter
	byIP         bool // which no entity here matches
	strict       bool
}

// partFilter is what a half of an entity has to be.
type partFilter struct {
	asked bool
	any   bool // named or the default
	name  cluster.QuotaName
}

func newQuotaFilter(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, error) {
	f := quotaFilter{strict: req.Strict}
	for i := range req.Components {
		part, err := newPartFilter(&req.Components[i])
		if err != nil {
			return f, err
		}
		var twice bool
		switch kind := req.Components[i].EntityType; kind {
		case entityUser:
			f.user, twice = part, f.user.asked
		case entityClientID:
			f.client, twice = part, f.client.asked
		case entityIP:
			f.byIP, twice = true, f.byIP
		case "":
			return f, errcode.Newf(errcode.InvalidRequest, "the type of an entity is empty")
		default:
			return f, errcode.Newf(errcode.UnsupportedVersion, "unsupported entity type %.64q", kind)
		}
		if twice {
			return f, errcode.Newf(errcode.InvalidRequest, "entity type %s appears more than once in the filter", req.Components[i].EntityType)
		}
	}
	if f.byIP && (f.user.asked || f.client.asked) {
		return f, errcode.Newf(errcode.InvalidRequest, "ip cannot be combined with user or client-id")
	}
	return f, nil
}

func newPartFilter(asked *kmsg.DescribeClientQuotasRequestComponent) (partFilter, error) {
	f := partFilter{asked: true}
	switch {
	case asked.MatchType == matchExact && asked.Match != nil:
		f.name = cluster.QuotaName{Kind: cluster.QuotaNamed, Name: *asked.Match}
	case asked.MatchType == matchExact:
		return f, errcode.Newf(errcode.InvalidRequest, "an exact match takes a name")
	case asked.Match != nil:
		return f, errcode.Newf(errcode.InvalidRequest, "only an exact match takes a name")
	case asked.MatchType == matchDefault:
		f.name = cluster.QuotaName{Kind: cluster.QuotaDefault}
	case asked.MatchType == matchAny:
		f.any = true
	default:
		return f, errcode.Newf(errcode.InvalidRequest, "unknown match type %d", int8(asked.MatchType))
	}
	return f, nil
}

func (f *quotaFilter) matches(e *cluster.QuotaEntity) bool {
	return !f.byIP && f.user.matches(e.User, f.strict) && f.client.matches(e.Client, f.strict)
}

func (f *partFilter) matches(n cluster.QuotaName, strict bool) bool {
	switch {
	case !f.asked:
		return !strict || n.Kind == cluster.QuotaAny
	case f.any:
		return n.Kind != cluster.QuotaAny
	default:
		return n == f.name
	}
}
