package cluster

import "github.com/felixlog/felix/internal/ids"

// Command is a request to change the metadata. The concrete types are in this file. A command holds everything that the state does
// not determine, in particular random ids, so that applying it is a pure function. A command is not written after it was proposed.
type Command interface{ command() }

// Result answers a command.
type Result struct {
	Version uint64       // the image version that contains the effect; the proposer's own image has reached it
	Items   []ItemResult // one for each item of a command that has items, in the same order
	First   int64        // AllocateProducerIDs: the first id of the block
	Node    Node         // RegisterNode: the node as registered
	Err     error        // the command as a whole was refused; an errcode kind
	// Unchanged, with CreateTenant, CreateNamespace, PutSigningKey, PutPolicy, PutGrouping and PausePlacement: what was asked for was there
	// already.
	Unchanged bool
}

// ItemResult answers one item of a command.
type ItemResult struct {
	Err   error  // an errcode kind; nil when done
	Topic *Topic // the topic after the command; before it, for DeleteTopics; as it would be, for ValidateOnly; nil on error
	// Unchanged, with CreateStreams, CreateResources, UpdateStream and UpdateCache: the stream or cache was like that already.
	Unchanged bool
	Cache     *Cache // CreateResources and UpdateCache: the cache after the command; nil on error
}

// Bootstrap names the cluster and makes its first tenant and namespace. On a cluster that has a name it changes nothing.
type Bootstrap struct {
	ClusterID string
	Tenant    string
	Namespace string
}

// RegisterNode announces a node that can serve. A new ID gets the next broker number; a known one keeps its number and its
// incarnation rises. Clean says that the node's previous stop wrote everything it had promised; if not, every shard that it leads
// gets a new leader epoch in the same command.
type RegisterNode struct {
	ID        ids.NodeID
	KafkaHost string
	KafkaPort int32
	Rack      string
	Clean     bool
}

// CreateTenant makes a tenant. An existing one of the same display name is success, and keeps its keys.
type CreateTenant struct {
	Name        string
	DisplayName string
	Key         NewSigningKey // signs for the new tenant from the start; zero: the tenant has no key yet
}

// CreateNamespace makes a namespace in a tenant that must exist. An existing one is success, whatever it is displayed as.
type CreateNamespace struct {
	Tenant      string
	Name        string
	DisplayName string
}

// NewTopic is one topic to make. Exactly one of Partitions and Assignment is used.
type NewTopic struct {
	ID              ids.TopicID // drawn by the proposer; must be unused
	Tenant          string
	Namespace       string
	Name            string
	CreateNamespace bool // make the namespace if it is missing; otherwise a missing one is UnknownShard

	Partitions        int32            // > 0
	ReplicationFactor int16            // > 0
	Assignment        [][]ids.BrokerID // by partition; the first of each is the leader; nil: the state machine places

	Durable     bool
	MadeByKafka bool
	Internal    bool
	Overrides   map[string]string // as the user wrote them; canonical in the result
}

// CreateTopics makes topics, each on its own terms: one that fails does not stop the others. A name that appears twice in
// the command is made once; the second is TopicExists.
type CreateTopics struct {
	Topics       []NewTopic
	ValidateOnly bool // check and answer as if made, change nothing; costs no entry in the command log
}

// TopicRef names an existing topic: by ID when it is not zero (the names are ignored), else by names.
type TopicRef struct {
	ID        ids.TopicID
	Tenant    string // with an ID: when not empty, the topic must belong to this tenant
	Namespace string
	Name      string
}

// DeleteTopics removes topics.
type DeleteTopics struct {
	Topics []TopicRef
}

// MorePartitions asks for a topic to have Count partitions in all.
type MorePartitions struct {
	Topic      TopicRef
	Count      int32
	Assignment [][]ids.BrokerID // of the added partitions only; nil: the state machine places
}

// CreatePartitions grows topics that were made through Kafka.
type CreatePartitions struct {
	Topics       []MorePartitions
	ValidateOnly bool
}

// ConfigOp is what to do with one configuration. The numbers are those of IncrementalAlterConfigs.
type ConfigOp uint8

// The operations.
const (
	ConfigSet      ConfigOp = 0
	ConfigDelete   ConfigOp = 1 // back to the default
	ConfigAppend   ConfigOp = 2 // add the elements of Value to a list
	ConfigSubtract ConfigOp = 3 // remove the elements of Value from a list
)

// ConfigChange changes one configuration of a topic.
type ConfigChange struct {
	Name  string
	Op    ConfigOp
	Value string // unused by ConfigDelete
}

// TopicConfigChange changes the configurations of one topic, all or none.
type TopicConfigChange struct {
	Topic   TopicRef
	Replace bool // start from no overrides (AlterConfigs) instead of the present ones
	Changes []ConfigChange
}

// SetTopicConfigs changes topic configurations.
type SetTopicConfigs struct {
	Topics       []TopicConfigChange
	ValidateOnly bool
}

// AllocateProducerIDs takes a block of Count producer ids. They are never handed out again, used or not.
type AllocateProducerIDs struct {
	Count int32
}

// Guarded carries out a command on behalf of a caller of a tenant, if the tenant is still the one that the caller belongs to; otherwise the
// whole is refused as ResourceNotFound and nothing happens. What checks a caller before it proposes checks too early: the tenant may be
// deleted, and another one have its name, before the command is applied.
type Guarded struct {
	Tenant      string
	Incarnation uint64
	Command     Command // not another Guarded
}

func (Guarded) command()             {}
func (Bootstrap) command()           {}
func (RegisterNode) command()        {}
func (CreateTenant) command()        {}
func (CreateNamespace) command()     {}
func (CreateTopics) command()        {}
func (DeleteTopics) command()        {}
func (CreatePartitions) command()    {}
func (SetTopicConfigs) command()     {}
func (AllocateProducerIDs) command() {}
