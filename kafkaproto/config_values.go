package kafkaproto

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
)

// topicConfigValue is what a topic has for one configuration, and where that comes from: the topic itself, the node's settings, or
// the built-in default.
func topicConfigValue(d *cluster.ConfigDef, t *cluster.Topic, defaults *cluster.TopicConfig) (string, kmsg.ConfigSource) {
	if v, set := t.Overrides[d.Name]; set {
		return v, kmsg.ConfigSourceDynamicTopicConfig
	}
	v := d.Value(defaults)
	if v == d.Default {
		return v, kmsg.ConfigSourceDefaultConfig
	}
	return v, kmsg.ConfigSourceStaticBrokerConfig
}

// topicConfigSynonyms are the values that stand behind a configuration of a topic, the one in force first: its own, the node's setting under the
// broker's name for it, the built-in default under the name that carries it in Kafka (hours before minutes before milliseconds).
func topicConfigSynonyms(d *cluster.ConfigDef, t *cluster.Topic, defaults *cluster.TopicConfig) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	out := []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	add := func(name, value string, source kmsg.ConfigSource) {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = name, &value, source
		out = append(out, s)
	}
	if v, set := t.Overrides[d.Name]; set {
		add(d.Name, v, kmsg.ConfigSourceDynamicTopicConfig)
	}
	if len(d.Synonyms) == 0 {
		return out
	}
	if v := d.Value(defaults); v != d.Default {
		add(d.Synonyms[0].Name, v, kmsg.ConfigSourceStaticBrokerConfig)
	}
	last := d.Synonyms[len(d.Synonyms)-1]
	add(last.Name, inUnit(d.Default, last.UnitMs), kmsg.ConfigSourceDefaultConfig)
	return out
}

// inUnit turns a number of milliseconds into another unit; 0 leaves it as it is.
func inUnit(value string, unitMs int64) string {
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || unitMs == 0 {
		return value
	}
	return strconv.FormatInt(ms/unitMs, 10)
}

// brokerConfigValues are the settings of this listener and node that tools look for, under Kafka's names.
func (c *call) brokerConfigValues(view *cluster.Image) map[string]string {
	o := &c.srv.opts
	self := strconv.Itoa(int(c.admin().Self()))
	values := map[string]string{
		"auto.create.topics.enable": strconv.FormatBool(o.AutoCreate),
		"broker.id":                 self,
		"node.id":                   self,
		"num.partitions":            strconv.Itoa(int(c.admin().DefaultPartitions())),
		"connections.max.idle.ms":   strconv.FormatInt(o.IdleTimeout.Milliseconds(), 10),
		"fetch.max.bytes":           strconv.Itoa(o.FetchMaxBytes),
		"log.dirs":                  c.admin().LogDir(),
		"max.connections":           strconv.Itoa(o.MaxConnections),
		"max.connections.per.ip":    strconv.Itoa(o.MaxConnectionsPerAddress),
		"max.incremental.fetch.session.cache.slots": strconv.Itoa(o.MaxFetchSessions),
		"socket.request.max.bytes":                  strconv.Itoa(o.MaxRequestBytes),
	}
	if n, ok := view.Node(c.admin().Self()); ok {
		values["advertised.listeners"] = c.listenerName() + "://" + hostPort(n.KafkaHost, n.KafkaPort)
		values["broker.rack"] = n.Rack
	}
	return values
}

// listenerName is what Kafka calls a listener with this one's security.
func (c *call) listenerName() string {
	name := "PLAINTEXT"
	if c.srv.opts.TLSConfig != nil {
		name = "SSL"
	}
	if c.srv.opts.Verifier != nil {
		name = "SASL_" + name
	}
	return name
}

func hostPort(host string, port int32) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}
