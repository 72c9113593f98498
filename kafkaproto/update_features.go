package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// UpdateFeatures, versions 0 to 2, flexible.
//
//	1  kinds of downgrade, validate_only (KIP-778)
//	2  no results by feature: the first failure is the answer
//
// Rules: Kafka request rules 4.15. No features are announced (see ApiVersions), so none has a version that could be set: each is
// INVALID_UPDATE_VERSION (95), as a feature is that a Kafka does not know.

func handleUpdateFeatures(c *call) {
	req := c.req.(*kmsg.UpdateFeaturesRequest)
	resp := c.response().(*kmsg.UpdateFeaturesResponse)
	resp.Results = []kmsg.UpdateFeaturesResponseResult{}
	if !c.caller().Known() {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errNoTenant)
		c.reply(resp)
		return
	}
	for i := range req.FeatureUpdates {
		err := errcode.Newf(errcode.InvalidUpdateVersion, "there is no feature %.64q here", req.FeatureUpdates[i].Feature)
		if c.version >= 2 {
			resp.ErrorCode, resp.ErrorMessage = c.describe(err)
			break
		}
		r := kmsg.NewUpdateFeaturesResponseResult()
		r.Feature = req.FeatureUpdates[i].Feature
		r.ErrorCode, r.ErrorMessage = c.describe(err)
		resp.Results = append(resp.Results, r)
	}
	c.reply(resp)
}
