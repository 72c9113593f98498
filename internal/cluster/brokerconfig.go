package cluster

import (
	"slices"
	"strings"
)

// BrokerConfig is a configuration of a node as DescribeConfigs shows it to Kafka's tools. All are read-only there: a node is
// configured by its own flags, environment and file.
type BrokerConfig struct {
	Name    string
	Type    ConfigType
	Value   string
	Default bool // Value is the built-in default
	Doc     string
}

type brokerDef struct {
	name string
	typ  ConfigType
	def  string
	doc  string
}

// brokerConfigs are the node-wide configurations that mean something here, beside the defaults of topic configurations, which
// come from the topic table. Sorted by name. The defaults are Felix's, which are Kafka's where nothing is said.
var brokerConfigs = []brokerDef{
	{"advertised.listeners", TypeList, "", "Addresses that clients are told to connect to."},
	{"auto.create.topics.enable", TypeBoolean, "true", "Whether a topic that a client asks for is made if it is missing."},
	{"broker.id", TypeInt, "", "Number of this broker, assigned by the controller when the node registered first."},
	{"broker.rack", TypeString, "", "Where the node stands, for clients that prefer near replicas."},
	{"connections.max.idle.ms", TypeLong, "600000", "Time after which a connection without requests is closed."},
	{"default.replication.factor", TypeInt, "1", "Replicas of a topic that does not ask for a number."},
	{"delete.topic.enable", TypeBoolean, "true", "Whether topics can be deleted."},
	{"fetch.max.bytes", TypeInt, "57671680", "Most bytes of records in one answer to a fetch."},
	{"listeners", TypeList, "", "Addresses that the Kafka listener is bound to."},
	{"log.dirs", TypeList, "", "Where records are stored."},
	{"max.connections", TypeInt, "10000", "Most connections to the Kafka listener at one time."},
	{"max.connections.per.ip", TypeInt, "1024", "Most connections from one address; the loopback is exempt."},
	{"max.incremental.fetch.session.cache.slots", TypeInt, "1000", "Most fetch sessions kept at one time."},
	{"node.id", TypeInt, "", "Number of this broker, as broker.id."},
	{"num.partitions", TypeInt, "1", "Partitions of a topic that does not ask for a number."},
	{"process.roles", TypeList, "broker,controller", "What this process does."},
	{"producer.id.expiration.ms", TypeInt, "86400000", "Time after which an idle producer's sequence numbers are forgotten."},
	{"replica.lag.time.max.ms", TypeLong, "30000", "How long a replica may lag and still be shown as in sync."},
	{"socket.request.max.bytes", TypeInt, "104857600", "Largest request that the Kafka listener takes."},
}

// BrokerConfigs returns what this node shows of itself, sorted by name: the table's rows with the values the node passes by name,
// and one row for each broker configuration behind a topic configuration, with its value in defaults. Values of names that are in
// neither are ignored.
func BrokerConfigs(values map[string]string, defaults *TopicConfig) []BrokerConfig {
	if defaults == nil {
		defaults = DefaultTopicConfig()
	}
	out := make([]BrokerConfig, 0, len(brokerConfigs)+len(topicConfigs))
	for _, d := range brokerConfigs {
		c := BrokerConfig{Name: d.name, Type: d.typ, Value: d.def, Default: true, Doc: d.doc}
		if v, ok := values[d.name]; ok {
			c.Value, c.Default = v, v == d.def
		}
		out = append(out, c)
	}
	for i := range topicConfigs {
		d := &topicConfigs[i]
		if len(d.Synonyms) == 0 {
			continue
		}
		// The strongest synonym carries the value in the topic's own unit; the weaker ones would repeat it.
		v := d.Value(defaults)
		out = append(out, BrokerConfig{Name: d.Synonyms[0].Name, Type: d.Type, Value: v, Default: v == d.Default, Doc: d.Doc})
	}
	slices.SortFunc(out, func(a, b BrokerConfig) int { return strings.Compare(a.Name, b.Name) })
	return out
}
