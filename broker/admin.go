package broker

import (
	"context"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// DefaultReplicationFactor is what -1 stands for when a topic is created.
const DefaultReplicationFactor int16 = 1

// NewTopic is a stream to be made for a caller.
type NewTopic struct {
	Namespace, Stream string
	// Partitions and ReplicationFactor: -1 means the broker's default. Ignored with an Assignment.
	Partitions        int32
	ReplicationFactor int16
	// Assignment names the brokers of each partition, the leader first; nil lets the controller place.
	Assignment [][]ids.BrokerID
	// Configs are the configurations to set, as the client wrote them.
	Configs map[string]string
}

// TopicName names a stream of the caller's tenant, or any by id when ID is not zero.
type TopicName struct {
	ID                ids.TopicID
	Namespace, Stream string
}

// MorePartitions asks for a topic to grow to Count partitions in all.
type MorePartitions struct {
	Topic      TopicName
	Count      int32
	Assignment [][]ids.BrokerID // of the added partitions; nil lets the controller place
}

// ConfigChanges are changes to the configurations of one topic, done all or not at all. With Replace, what they do not set returns to
// its default.
type ConfigChanges struct {
	Topic   TopicName
	Replace bool
	Changes []cluster.ConfigChange
}

// TopicResult is the outcome for one item of a request, in the request's order.
type TopicResult struct {
	Topic *cluster.Topic // as it is now; as it was, for a deletion; as it would be, for validateOnly; nil after an error
	Err   error          // of a kind of errcode
}

// LogDir is the directory that holds this node's shards.
func (b *Broker) LogDir() string { return b.opts.Dir }

// DefaultPartitions is how many partitions a topic gets that does not ask for a number.
func (b *Broker) DefaultPartitions() int32 { return b.opts.DefaultPartitions }

// CreateTopics makes durable streams for Kafka clients, each on its own terms: one that fails does not stop the others. The streams are in
// this node's image on return. With validateOnly nothing is made, and the results are what would be.
//
// Errors of items: UnauthorizedTopic, decided before anything else; InvalidTopic, TopicExists, InvalidPartitions,
// InvalidReplicationFactor, InvalidReplicaAssignment, InvalidConfig, PolicyViolation (no such namespace and no right to make it);
// QuorumTimeout when it is not known whether the topic was made, NotController.
func (b *Broker) CreateTopics(ctx context.Context, caller *Caller, topics []NewTopic, validateOnly bool) []TopicResult {
	cmd := cluster.CreateTopics{Topics: make([]cluster.NewTopic, 0, len(topics)), ValidateOnly: validateOnly}
	out := newOutcome(len(topics))
	for i := range topics {
		t := &topics[i]
		if !caller.Allowed(StreamManage, t.Namespace, t.Stream) {
			out.refuse(i, t.Namespace, t.Stream)
			continue
		}
		if err := b.checkNewLists(caller, t); err != nil {
			out.results[i].Err = err
			continue
		}
		out.ask(i)
		cmd.Topics = append(cmd.Topics, b.newTopic(caller, t))
	}
	return out.finish(ctx, b, caller, cmd)
}

// checkNewLists refuses a new topic of which a list names one thing twice. What comes before configurations in the order of the controller's
// checks is left to it.
func (b *Broker) checkNewLists(caller *Caller, t *NewTopic) error {
	if b.Image().Topic(caller.Tenant, t.Namespace, t.Stream) != nil || cluster.ValidateStreamName(t.Namespace, t.Stream) != nil {
		return nil //nolint:nilerr // the controller answers these
	}
	return cluster.CheckDuplicates("cleanup.policy", t.Configs["cleanup.policy"])
}

// checkChangedLists refuses changes that set a list which names one thing twice. A topic that is not there is left to the controller.
func (b *Broker) checkChangedLists(ref cluster.TopicRef, changes []cluster.ConfigChange) error {
	if b.Image().Topic(ref.Tenant, ref.Namespace, ref.Name) == nil {
		return nil
	}
	for _, ch := range changes {
		if ch.Op != cluster.ConfigSet {
			continue // the others make no duplicates
		}
		if err := cluster.CheckDuplicates(ch.Name, ch.Value); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) newTopic(caller *Caller, t *NewTopic) cluster.NewTopic {
	n := cluster.NewTopic{
		ID: ids.NewTopicID(), Tenant: caller.Tenant, Namespace: t.Namespace, Name: t.Stream,
		CreateNamespace: b.opts.AutoCreateNamespaces || caller.Allowed(NamespaceManage, t.Namespace, ""),
		Partitions:      t.Partitions, ReplicationFactor: t.ReplicationFactor, Assignment: t.Assignment,
		Durable: true, MadeByKafka: true, Overrides: t.Configs,
	}
	if n.Partitions == -1 {
		n.Partitions = b.opts.DefaultPartitions
	}
	if n.ReplicationFactor == -1 {
		n.ReplicationFactor = DefaultReplicationFactor
	}
	return n
}

// CreateTopic makes a stream as auto-creation does: durable, with the broker's defaults. One that exists by now is success. On return
// it is in this node's image. Errors: as for CreateTopics.
func (b *Broker) CreateTopic(ctx context.Context, caller *Caller, namespace, stream string) error {
	res := b.CreateTopics(ctx, caller, []NewTopic{{Namespace: namespace, Stream: stream, Partitions: -1, ReplicationFactor: -1}}, false)
	if errcode.Of(res[0].Err) == errcode.TopicExists {
		return nil
	}
	return res[0].Err
}

// DeleteTopics removes streams with all their records. On return no client can reach them here any more. Errors of items:
// UnauthorizedTopic; UnknownShard by name and UnknownTopicID by id when there is none, or none that the caller may know of.
func (b *Broker) DeleteTopics(ctx context.Context, caller *Caller, topics []TopicName) []TopicResult {
	cmd := cluster.DeleteTopics{Topics: make([]cluster.TopicRef, 0, len(topics))}
	out := newOutcome(len(topics))
	for i := range topics {
		if ref, ok := b.resolve(caller, &topics[i], i, out); ok {
			cmd.Topics = append(cmd.Topics, ref)
		}
	}
	return out.finish(ctx, b, caller, cmd)
}

// CreatePartitions grows topics that were made through Kafka. Errors of items: as for DeleteTopics; InvalidPartitions when the count
// is not above the present one or the stream was made natively; InvalidReplicaAssignment.
func (b *Broker) CreatePartitions(ctx context.Context, caller *Caller, topics []MorePartitions, validateOnly bool) []TopicResult {
	cmd := cluster.CreatePartitions{Topics: make([]cluster.MorePartitions, 0, len(topics)), ValidateOnly: validateOnly}
	out := newOutcome(len(topics))
	for i := range topics {
		if ref, ok := b.resolve(caller, &topics[i].Topic, i, out); ok {
			cmd.Topics = append(cmd.Topics, cluster.MorePartitions{Topic: ref, Count: topics[i].Count, Assignment: topics[i].Assignment})
		}
	}
	return out.finish(ctx, b, caller, cmd)
}

// AlterTopicConfigs changes configurations of topics; on return they hold here. Errors of items: as for DeleteTopics; InvalidConfig for
// an unknown name or a bad value.
func (b *Broker) AlterTopicConfigs(ctx context.Context, caller *Caller, topics []ConfigChanges, validateOnly bool) []TopicResult {
	cmd := cluster.SetTopicConfigs{Topics: make([]cluster.TopicConfigChange, 0, len(topics)), ValidateOnly: validateOnly}
	out := newOutcome(len(topics))
	for i := range topics {
		ref, ok := b.resolve(caller, &topics[i].Topic, i, out)
		if !ok {
			continue
		}
		if err := b.checkChangedLists(ref, topics[i].Changes); err != nil {
			out.takeBack(i, err)
		} else {
			cmd.Topics = append(cmd.Topics, cluster.TopicConfigChange{Topic: ref, Replace: topics[i].Replace, Changes: topics[i].Changes})
		}
	}
	return out.finish(ctx, b, caller, cmd)
}

// resolve decides whether the caller may manage the topic of item i. By id, a topic that it may not even know of does not exist.
func (b *Broker) resolve(caller *Caller, t *TopicName, i int, out *outcome) (cluster.TopicRef, bool) {
	namespace, stream := t.Namespace, t.Stream
	if !t.ID.IsZero() {
		have := b.Image().TopicByID(t.ID)
		if have == nil || !caller.Known() || have.Tenant != caller.Tenant || have.Internal || !mayKnow(caller, have) {
			out.results[i].Err = errcode.Newf(errcode.UnknownTopicID, "there is no topic with id %s", t.ID.Base64())
			return cluster.TopicRef{}, false
		}
		namespace, stream = have.Namespace, have.Name
	}
	if !caller.Allowed(StreamManage, namespace, stream) {
		out.refuse(i, namespace, stream)
		return cluster.TopicRef{}, false
	}
	out.ask(i)
	return cluster.TopicRef{ID: t.ID, Tenant: caller.Tenant, Namespace: namespace, Name: stream}, true
}

// mayKnow: whoever may do anything with a stream may know that it exists.
func mayKnow(caller *Caller, t *cluster.Topic) bool {
	for _, a := range []Action{StreamManage, StreamPublish, StreamSubscribe} {
		if caller.Allowed(a, t.Namespace, t.Name) {
			return true
		}
	}
	return false
}

// outcome gathers the results of a request of which some items are refused here and the others go to the controller.
type outcome struct {
	results []TopicResult
	asked   []int // index in results of each item of the command
}

func newOutcome(n int) *outcome { return &outcome{results: make([]TopicResult, n)} }

func (o *outcome) ask(i int) { o.asked = append(o.asked, i) }

// takeBack answers the item that was asked last.
func (o *outcome) takeBack(i int, err error) {
	o.asked = o.asked[:len(o.asked)-1]
	o.results[i].Err = err
}

func (o *outcome) refuse(i int, namespace, stream string) {
	o.results[i].Err = errcode.Newf(errcode.UnauthorizedTopic, "%s is needed on %s/%s", StreamManage, namespace, stream)
}

// finish proposes the command, unless nothing is left to ask, and fills in what it answers. The caller sees its own change at once: the
// image is applied to the open shards before the answer.
func (o *outcome) finish(ctx context.Context, b *Broker, caller *Caller, cmd cluster.Command) []TopicResult {
	if len(o.asked) == 0 {
		return o.results
	}
	res, err := b.opts.Metadata.Propose(ctx, caller.guarded(cmd))
	if err == nil {
		err = res.Err
	}
	if err == nil && len(res.Items) != len(o.asked) {
		err = errcode.Newf(errcode.Internal, "broker: %d results for %d items", len(res.Items), len(o.asked))
	}
	for k, i := range o.asked {
		if err != nil {
			o.results[i].Err = err
			continue
		}
		o.results[i] = TopicResult{Topic: res.Items[k].Topic, Err: res.Items[k].Err}
	}
	b.apply()
	return o.results
}
