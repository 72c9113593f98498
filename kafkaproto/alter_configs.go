package kafkaproto

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// AlterConfigs, versions 0 to 2.
//
//	1  throttling by the client
//	2  flexible
//
// IncrementalAlterConfigs, versions 0 and 1.
//
//	1  flexible
//
// Rules: Kafka request rules 4.15. AlterConfigs replaces all of a topic's configurations: what is not named returns to its default.
// IncrementalAlterConfigs sets, deletes, appends to and subtracts from lists. Both do all or nothing for each resource, answer each resource,
// and with validate_only change nothing. A resource that is named twice is answered once, a key that is named twice refuses its
// resource, both with INVALID_REQUEST.
//
// Different from Kafka: only topics can be altered. A broker's settings are those of its own command line, environment and file; quotas, log
// levels, client metrics and groups are not configured here.

// resourceChange is one resource of either request.
type resourceChange struct {
	kind    kmsg.ConfigResourceType
	name    string
	changes []cluster.ConfigChange
	null    []string // keys that need a value and have none
}

type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

// outcome is the answer for one resource.
type resourceOutcome struct {
	kind kmsg.ConfigResourceType
	name string
	err  error
}

func handleAlterConfigs(c *call) {
	req := c.req.(*kmsg.AlterConfigsRequest)
	resp := c.response().(*kmsg.AlterConfigsResponse)
	list := make([]resourceChange, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		list[i] = resourceChange{kind: r.ResourceType, name: r.ResourceName}
		for j := range r.Configs {
			list[i].add(r.Configs[j].Name, cluster.ConfigSet, r.Configs[j].Value)
		}
	}
	resp.Resources = make([]kmsg.AlterConfigsResponseResource, 0, len(list))
	for _, o := range c.alterConfigs(list, true, req.ValidateOnly) {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = o.kind, o.name
		out.ErrorCode, out.ErrorMessage = c.describe(o.err)
		resp.Resources = append(resp.Resources, out)
	}
	c.reply(resp)
}

func handleIncrementalAlterConfigs(c *call) {
	req := c.req.(*kmsg.IncrementalAlterConfigsRequest)
	resp := c.response().(*kmsg.IncrementalAlterConfigsResponse)
	list := make([]resourceChange, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		list[i] = resourceChange{kind: r.ResourceType, name: r.ResourceName}
		for j := range r.Configs {
			list[i].add(r.Configs[j].Name, cluster.ConfigOp(r.Configs[j].Op), r.Configs[j].Value)
		}
	}
	resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, 0, len(list))
	for _, o := range c.alterConfigs(list, false, req.ValidateOnly) {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = o.kind, o.name
		out.ErrorCode, out.ErrorMessage = c.describe(o.err)
		resp.Resources = append(resp.Resources, out)
	}
	c.reply(resp)
}

func (r *resourceChange) add(name string, op cluster.ConfigOp, value *string) {
	ch := cluster.ConfigChange{Name: name, Op: op}
	switch {
	case value != nil:
		ch.Value = *value
	case op != cluster.ConfigDelete:
		r.null = append(r.null, name)
	}
	r.changes = append(r.changes, ch)
}

// check finds what is wrong with the form of the request, before its content is judged.
func (r *resourceChange) check() error {
	keys := make([]string, len(r.changes))
	for i := range r.changes {
		keys[i] = r.changes[i].Name
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return errcode.Newf(errcode.InvalidRequest, "error due to duplicate config keys: %.128s", keys[i])
		}
	}
	if len(r.null) > 0 {
		return errcode.Newf(errcode.InvalidRequest, "null value not supported for: %.512s", strings.Join(r.null, ", "))
	}
	return nil
}

// alterConfigs does the work of both requests and answers each distinct resource once, in the order in which they are named first.
func (c *call) alterConfigs(list []resourceChange, replace, validateOnly bool) []resourceOutcome {
	seen := duplicates[resourceKey]{}
	for i := range list {
		seen.add(resourceKey{list[i].kind, list[i].name})
	}
	view := c.view()
	out := make([]resourceOutcome, 0, len(list))
	var wanted []broker.ConfigChanges
	var at []int
	for i := range list {
		r := &list[i]
		key := resourceKey{r.kind, r.name}
		twice := seen.repeated(key)
		if seen.answered(key) {
			continue
		}
		o := resourceOutcome{kind: r.kind, name: r.name}
		var t *cluster.Topic
		if t, o.err = c.alterable(view, r, twice); o.err == nil {
			wanted = append(wanted, broker.ConfigChanges{
				Topic: broker.TopicName{Namespace: t.Namespace, Stream: t.Name}, Replace: replace, Changes: r.changes,
			})
			at = append(at, len(out))
		}
		out = append(out, o)
	}
	ctx, cancel := c.within(0)
	defer cancel()
	for k, res := range c.admin().AlterTopicConfigs(ctx, c.caller(), wanted, validateOnly) {
		out[at[k]].err = res.Err
	}
	return out
}

// alterable returns the topic that a resource names, if it may be altered.
func (c *call) alterable(view *cluster.Image, r *resourceChange, twice bool) (*cluster.Topic, error) {
	switch {
	case twice:
		return nil, errResourceTwice
	case r.kind == kmsg.ConfigResourceTypeBroker:
		return nil, errcode.Newf(errcode.InvalidRequest, "brokers are configured by their own flags, environment and file: nothing can be changed here")
	case r.kind != kmsg.ConfigResourceTypeTopic:
		return nil, unservedResource(r.kind)
	}
	if _, _, err := c.srv.names.split(r.name); err != nil {
		return nil, err
	}
	t, err := c.topic(view, r.name, broker.StreamManage)
	if err != nil {
		return nil, err
	}
	return t, r.check()
}
