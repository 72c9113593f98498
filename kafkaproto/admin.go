package kafkaproto

import (
	"context"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// administration is what the APIs of offsets, producer ids, topics and configurations ask of the broker, beside node.
type administration interface {
	node
	Self() ids.BrokerID
	LogDir() string
	DiskSpace() (total, usable int64)
	DefaultPartitions() int32
	CreateTopics(ctx context.Context, caller *Caller, topics []broker.NewTopic, validateOnly bool) []broker.TopicResult
	DeleteTopics(ctx context.Context, caller *Caller, topics []broker.TopicName) []broker.TopicResult
	CreatePartitions(ctx context.Context, caller *Caller, topics []broker.MorePartitions, validateOnly bool) []broker.TopicResult
	AlterTopicConfigs(ctx context.Context, caller *Caller, topics []broker.ConfigChanges, validateOnly bool) []broker.TopicResult
	ClientQuotas(caller *Caller) ([]*cluster.ClientQuota, error)
	AlterClientQuotas(ctx context.Context, caller *Caller, changes []cluster.QuotaChange, validateOnly bool) []error
	AllocateProducerID(ctx context.Context) (int64, error)
	// lookup returns the open shard of a partition that this node leads, opening it if need be.
	lookup(t *cluster.Topic, partition int32) (lookupShard, error)
	// shardSize is the bytes of a shard on this node's disk, 0 for one that was never written.
	shardSize(t *cluster.Topic, partition int32) int64
}

// lookupShard is what these APIs ask of one shard.
type lookupShard interface {
	CheckEpoch(known ids.LeaderEpoch) error
	Bounds() broker.Bounds
	OffsetForTime(ctx context.Context, ts int64) (broker.TimeOffset, bool, error)
	MaxTimestamp(ctx context.Context) (broker.TimeOffset, bool, error)
	EpochAt(off ids.Offset) ids.LeaderEpoch
	EndOfEpoch(e ids.LeaderEpoch) (ids.LeaderEpoch, ids.Offset)
	DeleteRecords(ctx context.Context, to ids.Offset) (ids.Offset, error)
	Producers(yield func(broker.ProducerState) bool)
}

var _ administration = onBroker{}

func (b onBroker) lookup(t *cluster.Topic, partition int32) (lookupShard, error) {
	s, err := b.Broker.Shard(t, partition)
	if err != nil {
		return nil, err // not s: a nil *Shard in an interface is not nil
	}
	return s, nil
}

func (b onBroker) shardSize(t *cluster.Topic, partition int32) int64 {
	if s := b.OpenShard(t, partition); s != nil {
		return s.SizeBytes()
	}
	return 0
}

// admin is the node as these APIs see it. A node without these verbs, which tests of produce and fetch have, must not be asked for them.
func (c *call) admin() administration { return c.srv.node.(administration) }

// Bounds of what a client may have a mutation wait, and what stands for no time at all.
const (
	maxAdminWait     = time.Minute
	defaultAdminWait = 5 * time.Second
)

// within is the context of a mutation whose request gives it timeoutMs. A time of zero or less gets a few seconds: the work is
// done or not by then, and an answer that says which is worth more than one that says "timed out".
func (c *call) within(timeoutMs int32) (context.Context, context.CancelFunc) {
	d := time.Duration(timeoutMs) * time.Millisecond
	if d <= 0 {
		d = defaultAdminWait
	}
	return context.WithTimeout(c.context(), min(d, maxAdminWait))
}

// topic finds the topic that a client names, if the caller has one of the rights given; none given means any right at all. Rights
// are looked at before existence. Errors: errForbidden, errNoTopic.
func (c *call) topic(view *cluster.Image, name string, rights ...broker.Action) (*cluster.Topic, error) {
	namespace, stream, err := c.srv.names.split(name)
	if err != nil {
		return nil, errNoTopic
	}
	if !allowedAny(c.caller(), namespace, stream, rights) {
		return nil, errForbidden
	}
	t := view.Topic(c.caller().Tenant, namespace, stream)
	if !visible(t) {
		return nil, errNoTopic
	}
	return t, nil
}

func allowedAny(caller *Caller, namespace, stream string, rights []broker.Action) bool {
	if len(rights) == 0 {
		return mayDescribe(caller, namespace, stream)
	}
	for _, a := range rights {
		if caller.Allowed(a, namespace, stream) {
			return true
		}
	}
	return false
}

// partition is one partition of a request about several topics: a shard, or why there is none.
func (c *call) shardOf(t *cluster.Topic, partition int32) (lookupShard, error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, errNoPartition
	}
	return c.admin().lookup(t, partition)
}

var errNoPartition = errcode.New(errcode.UnknownShard, "the topic has no such partition")

// duplicates counts how often each key occurs and tells which occur more than once.
type duplicates[K comparable] map[K]int

func (d duplicates[K]) add(k K) { d[k]++ }

// repeated reports whether k occurs more than once.
func (d duplicates[K]) repeated(k K) bool { return d[k] > 1 }

// answered reports whether k was answered already, and notes that it is now.
func (d duplicates[K]) answered(k K) bool {
	if d[k] < 0 {
		return true
	}
	d[k] = -1
	return false
}

// placesOf turns wire broker numbers into ours.
func placesOf(in []int32) []ids.BrokerID {
	out := make([]ids.BrokerID, len(in))
	for i, b := range in {
		out[i] = ids.BrokerID(b)
	}
	return out
}
