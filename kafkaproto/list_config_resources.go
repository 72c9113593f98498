package kafkaproto

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// ListConfigResources, versions 0 and 1, flexible. Version 0 was ListClientMetricsResources.
//
//	1  resource types (KIP-1142); none given means all
//
// Rules: Kafka request rules 4.15. Topics are those of the caller's tenant that it may describe, brokers the live ones. There are no
// client metrics and no group configurations; log levels cannot be read, so no loggers are listed. An unknown type is UNSUPPORTED_VERSION.

// Types of resources that have configurations, by Kafka's numbers.
var configResourceTypes = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func handleListConfigResources(c *call) {
	req := c.req.(*kmsg.ListConfigResourcesRequest)
	resp := c.response().(*kmsg.ListConfigResourcesResponse)
	resp.ConfigResources = []kmsg.ListConfigResourcesResponseConfigResource{}
	if err := c.mayListConfigResources(req); err != nil {
		resp.ErrorCode = c.code(err)
		c.reply(resp)
		return
	}
	wanted := func(t kmsg.ConfigResourceType) bool {
		return c.version >= 1 && (len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(t)))
	}
	add := func(t kmsg.ConfigResourceType, name string) {
		r := kmsg.NewListConfigResourcesResponseConfigResource()
		r.Type, r.Name = int8(t), name
		resp.ConfigResources = append(resp.ConfigResources, r)
	}
	view := c.view()
	if wanted(kmsg.ConfigResourceTypeTopic) {
		view.TopicsOf(c.caller().Tenant, func(t *cluster.Topic) bool {
			if name := c.srv.names.join(t.Namespace, t.Name); name != "" && visible(t) && mayDescribe(c.caller(), t.Namespace, t.Name) {
				add(kmsg.ConfigResourceTypeTopic, name)
			}
			return true
		})
	}
	if wanted(kmsg.ConfigResourceTypeBroker) {
		for i := range view.Nodes() {
			if n := &view.Nodes()[i]; n.Live {
				add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n.Broker)))
			}
		}
	}
	c.reply(resp)
}

func (c *call) mayListConfigResources(req *kmsg.ListConfigResourcesRequest) error {
	if !c.caller().Known() {
		return errNoTenant
	}
	for _, t := range req.ResourceTypes {
		if !slices.Contains(configResourceTypes, kmsg.ConfigResourceType(t)) {
			return errcode.Newf(errcode.UnsupportedVersion, "unknown resource type %d", t)
		}
	}
	return nil
}
