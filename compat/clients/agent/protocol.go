package agent

// Operations of a Request.
const (
	OpVersion    = "version"    // what the library calls itself
	OpMetadata   = "metadata"   // brokers and topics, of Topic alone if it is set
	OpCreate     = "create"     // create Topic with Partitions partitions and Configs, replication factor 1
	OpProduce    = "produce"    // write Records, each to its own partition, and wait for all answers
	OpConsume    = "consume"    // read Assign from From to the end that the client itself detects
	OpOffsets    = "offsets"    // the offset of each time in Times, in partition Partition
	OpWatermarks = "watermarks" // first and next offset of Partition
	OpTail       = "tail"       // wait at the end of Assign and send an Event for every record that arrives, until OpStop
	OpLoad       = "load"       // produce until OpStop, and send an Event with every acknowledged record
	OpMember     = "member"     // be a member of Group until OpStop, which leaves it: Events for records and changes of ownership
	OpStop       = "stop"       // end the running tail, load or member; its Response follows
)

// Operations of a client's admin side. A library that lacks one answers with Unsupported.
const (
	OpDelete      = "delete"       // delete Topic
	OpAlter       = "alter"        // set Topic's Config
	OpConfigs     = "configs"      // Topic's configs, in Values
	OpGroups      = "groups"       // all groups, in Groups
	OpDescribe    = "describe"     // Group.ID alone, in Groups, with its members
	OpDeleteGroup = "delete-group" // delete Group.ID
	OpReset       = "reset"        // set the committed offset of the empty Group.ID to From in each partition of Assign
	OpCommitted   = "committed"    // the committed offset of Group.ID in each partition of Assign, -1 for none, in Offsets
)

// Assignors by the names that all clients share.
const (
	Range             = "range"
	CooperativeSticky = "cooperative-sticky"
)

// FromBeginning is a Request.From that means the first offset a partition holds.
const FromBeginning = -2

// Header is one record header. Value nil is Kafka's null, different from empty.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Record is one record, to be written or as it was read. Key and Value nil are Kafka's null, different from empty.
type Record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // milliseconds since 1970; when written, 0 lets the client choose
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers,omitempty"`
}

// Request is one command. Which fields count depends on Op; Config is for the client the operation makes, in the names of the
// library (librdkafka's or Java's), over what the operation sets itself; in a create it is the topic's.
type Request struct {
	Op         string            `json:"op"`
	Bootstrap  string            `json:"bootstrap,omitempty"`
	Topic      string            `json:"topic,omitempty"`
	Partition  int32             `json:"partition,omitempty"`
	Partitions int32             `json:"partitions,omitempty"`
	Assign     []int32           `json:"assign,omitempty"`
	From       int64             `json:"from,omitempty"`
	Times      []int64           `json:"times,omitempty"`
	Codec      string            `json:"codec,omitempty"`
	Records    []Record          `json:"records,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
	Load       *Load             `json:"load,omitempty"`
	Group      *Group            `json:"group,omitempty"`
	TimeoutMS  int64             `json:"timeout_ms,omitempty"` // of the whole operation; 0 is 60 s
}

// Load describes a stream of records whose values name their producer, partition and sequence ("name/partition/sequence/" and
// padding), so that a reader can tell loss, repeat and disorder.
type Load struct {
	Name        string  `json:"name"`
	Rate        int     `json:"rate"`         // records a second over all partitions; 0 is as fast as answers come
	Size        int     `json:"size"`         // bytes a value
	MaxInFlight int     `json:"max_inflight"` // records that may wait for their answer
	First       []int64 `json:"first"`        // next sequence of each partition; its length is the number of partitions
}

// Group says which group an operation is about, and how a member behaves in it. A member starts at the committed offset, or at the
// beginning of a partition that has none.
type Group struct {
	ID       string `json:"id"`
	Instance string `json:"instance,omitempty"` // makes a static member
	Assignor string `json:"assignor,omitempty"` // empty leaves the library its default
	// Commit makes the member commit what it has sent as Events, after each poll and before it gives partitions up. Without it the
	// library's own settings hold: most commit every few seconds and when they leave.
	Commit bool `json:"commit,omitempty"`
	// SessionMS is the session timeout; a heartbeat is sent ten times in it. 0 leaves the library its defaults.
	SessionMS int `json:"session_ms,omitempty"`
}

// GroupInfo is a group as a client's admin side shows it.
type GroupInfo struct {
	ID      string   `json:"id"`
	State   string   `json:"state,omitempty"`   // as the library spells it
	Members []string `json:"members,omitempty"` // client ids
}

// Metadata is what a client learned about the cluster.
type Metadata struct {
	Brokers []Broker `json:"brokers"`
	Topics  []Topic  `json:"topics"`
}

// Broker is one broker as advertised.
type Broker struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Topic is one topic with its partitions. Error is empty when the topic is usable.
type Topic struct {
	Name       string      `json:"name"`
	Error      string      `json:"error,omitempty"`
	Partitions []Partition `json:"partitions"`
}

// Partition is one partition's placement.
type Partition struct {
	ID       int32   `json:"id"`
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
}

// Response ends an operation. Error is empty on success; Code is Kafka's error number where the library gave one.
type Response struct {
	Done     bool               `json:"done"` // always true: tells a Response from an Event
	Error    string             `json:"error,omitempty"`
	Code     int                `json:"code,omitempty"`
	Version  string             `json:"version,omitempty"`
	Metadata *Metadata          `json:"metadata,omitempty"`
	Records  []Record           `json:"records,omitempty"`
	Offsets  []int64            `json:"offsets,omitempty"`
	Next     []int64            `json:"next,omitempty"`    // load: the next sequence of each partition
	Metrics  map[string]float64 `json:"metrics,omitempty"` // Java: client metrics that a case asks for
	Values   map[string]string  `json:"values,omitempty"`  // configs, or, of Java, named results of an admin case
	Groups   []GroupInfo        `json:"groups,omitempty"`
	// Unsupported says that the library cannot do what was asked; Error is set too.
	Unsupported bool `json:"unsupported,omitempty"`
}

// Event is what a running tail, load or member tells meanwhile. Exactly one field is set, besides At.
type Event struct {
	At     int64   `json:"at,omitempty"`     // member: when it happened, microseconds since 1970: events of several members in one order
	Owned  *Owned  `json:"owned,omitempty"`  // member: what it owns has changed
	Ready  bool    `json:"ready,omitempty"`  // tail: positioned at the end
	Record *Record `json:"record,omitempty"` // tail, member: a record arrived
	Acks   []Ack   `json:"acks,omitempty"`   // load: records that were acknowledged, in the order of their answers
	Failed string  `json:"failed,omitempty"` // load: a record was given up by the client, with the error; or a client error
	Code   int     `json:"code,omitempty"`   // with Failed: Kafka's error number where the library gave one
}

// Owned is a change of what a group member owns: partitions that it got, or gave up. Both are empty when an assignment left it as it
// was, or without any.
type Owned struct {
	Assigned []int32 `json:"assigned,omitempty"`
	Revoked  []int32 `json:"revoked,omitempty"`
}

// Ack says that a record was acknowledged, and where the broker put it. Offset is -1 when the answer had none.
type Ack struct {
	Partition int32 `json:"p"`
	Sequence  int64 `json:"s"`
	Offset    int64 `json:"o"`
}
