package kafkaproto

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// ListGroups, versions 0 to 5.
//
//	1  throttle_time_ms
//	3  flexible
//	4  state, and a filter by states
//	5  type, and a filter by types
//
// Rules: Kafka request rules 4.12. The groups of the shards that this node leads: tools ask every broker. Filters do not look at the case
// of letters; an empty one lets everything through. Groups that the caller has no right to are left out. While a shard is being loaded
// the answer has what there is beside COORDINATOR_LOAD_IN_PROGRESS.

func handleListGroups(c *call) {
	req := c.req.(*kmsg.ListGroupsRequest)
	resp := c.response().(*kmsg.ListGroupsResponse)
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	states, types := filterOf(req.StatesFilter), filterOf(req.TypesFilter)
	caller := c.caller()
	var err error
	if caller.Known() {
		err = c.srv.opts.Groups.List(caller.Tenant, caller.Incarnation, func(o groups.Overview) bool {
			if states.passes(o.State) && types.passes(o.Type) && caller.AllowedGroup(broker.GroupConsume, o.Group) {
				g := kmsg.NewListGroupsResponseGroup()
				g.Group, g.ProtocolType, g.GroupState, g.GroupType = o.Group, o.ProtocolType, o.State, o.Type
				resp.Groups = append(resp.Groups, g)
			}
			return true
		})
	}
	resp.ErrorCode = c.code(err)
	c.replyCharged(resp)
}

// filter is the names that pass, in lower case; an empty one passes all.
type filter map[string]struct{}

func filterOf(names []string) filter {
	f := make(filter, len(names))
	for _, n := range names {
		f[strings.ToLower(strings.TrimSpace(n))] = struct{}{}
	}
	return f
}

func (f filter) passes(name string) bool {
	if len(f) == 0 {
		return true
	}
	_, ok := f[strings.ToLower(name)]
	return ok
}
