package kafkaproto

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// DescribeConfigs, versions 0 to 4.
//
//	1  source of each value, synonyms on demand
//	3  type of each value, documentation on demand
//	4  flexible
//
// Rules: Kafka request rules 4.15. Topics (2) show every configuration with its source. Brokers (4): this one, by its number, read-only;
// the empty name stands for cluster-wide dynamic defaults, of which there are none. Null or empty names of configurations mean all.
//
// Different from Kafka: no loggers (8), client metrics (16) or group configurations (32): INVALID_REQUEST with a sentence. Nothing shown is secret.

var errResourceTwice = errcode.New(errcode.InvalidRequest, "each resource must appear at most once")

func handleDescribeConfigs(c *call) {
	req := c.req.(*kmsg.DescribeConfigsRequest)
	resp := c.response().(*kmsg.DescribeConfigsResponse)
	view := c.view()
	d := configDescription{c: c, view: view, synonyms: req.IncludeSynonyms, docs: req.IncludeDocumentation}
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, 0, len(req.Resources))
	for i := range req.Resources {
		asked := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		err := d.resource(asked, &out)
		out.ErrorCode, out.ErrorMessage = c.describe(err)
		resp.Resources = append(resp.Resources, out)
	}
	c.reply(resp)
}

type configDescription struct {
	c              *call
	view           *cluster.Image
	synonyms, docs bool
}

func (d *configDescription) resource(asked *kmsg.DescribeConfigsRequestResource, out *kmsg.DescribeConfigsResponseResource) error {
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return d.topic(asked, out)
	case kmsg.ConfigResourceTypeBroker:
		return d.broker(asked, out)
	default:
		return unservedResource(asked.ResourceType)
	}
}

// unservedResource says what is missing. The numbers are Kafka's.
func unservedResource(t kmsg.ConfigResourceType) error {
	switch t {
	case kmsg.ConfigResourceTypeBrokerLogger:
		return errcode.Newf(errcode.InvalidRequest, "log levels cannot be read or set over the Kafka protocol here")
	case kmsg.ConfigResourceTypeClientMetrics:
		return errcode.Newf(errcode.InvalidRequest, "client metrics are not collected here")
	case kmsg.ConfigResourceTypeGroupConfig:
		return errcode.Newf(errcode.InvalidRequest, "consumer groups are not served here yet")
	default:
		return errcode.Newf(errcode.InvalidRequest, "unknown resource type %d", int8(t))
	}
}

func wants(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

func (d *configDescription) topic(asked *kmsg.DescribeConfigsRequestResource, out *kmsg.DescribeConfigsResponseResource) error {
	if _, _, err := d.c.srv.names.split(asked.ResourceName); err != nil {
		return err
	}
	t, err := d.c.topic(d.view, asked.ResourceName, broker.StreamManage, broker.StreamSubscribe)
	if err != nil {
		return err
	}
	defaults := d.view.Defaults()
	list := cluster.TopicConfigs()
	for i := range list {
		def := &list[i]
		if !wants(asked.ConfigNames, def.Name) {
			continue
		}
		cfg := kmsg.NewDescribeConfigsResponseResourceConfig()
		value, source := topicConfigValue(def, t, defaults)
		cfg.Name, cfg.Value, cfg.Source = def.Name, &value, source
		cfg.IsDefault = source == kmsg.ConfigSourceDefaultConfig
		cfg.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
		if d.synonyms {
			cfg.ConfigSynonyms = topicConfigSynonyms(def, t, defaults)
		}
		d.describe(&cfg, def.Type, def.Doc)
		out.Configs = append(out.Configs, cfg)
	}
	return nil
}

func (d *configDescription) describe(cfg *kmsg.DescribeConfigsResponseResourceConfig, typ cluster.ConfigType, doc string) {
	cfg.ConfigType = kmsg.ConfigType(typ)
	if d.docs {
		cfg.Documentation = &doc
	}
}

func (d *configDescription) broker(asked *kmsg.DescribeConfigsRequestResource, out *kmsg.DescribeConfigsResponseResource) error {
	self := strconv.Itoa(int(d.c.admin().Self()))
	switch {
	case !d.c.caller().Known():
		return errNoTenant
	case asked.ResourceName == "":
		return nil
	case asked.ResourceName != self:
		return errcode.Newf(errcode.InvalidRequest, "unexpected broker id, expected %s or an empty name, but received %.32q", self, asked.ResourceName)
	}
	for _, b := range cluster.BrokerConfigs(d.c.brokerConfigValues(d.view), d.view.Defaults()) {
		if !wants(asked.ConfigNames, b.Name) {
			continue
		}
		cfg := kmsg.NewDescribeConfigsResponseResourceConfig()
		cfg.Name, cfg.Value, cfg.ReadOnly, cfg.IsDefault = b.Name, &b.Value, true, b.Default
		cfg.Source = kmsg.ConfigSourceStaticBrokerConfig
		if b.Default {
			cfg.Source = kmsg.ConfigSourceDefaultConfig
		}
		cfg.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
		if d.synonyms {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = b.Name, cfg.Value, cfg.Source
			cfg.ConfigSynonyms = append(cfg.ConfigSynonyms, s)
		}
		d.describe(&cfg, b.Type, b.Doc)
		out.Configs = append(out.Configs, cfg)
	}
	return nil
}
