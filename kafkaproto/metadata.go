package kafkaproto

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Metadata, versions 0 to 13.
//
//	0      an empty list means all topics; no controller, no rack
//	1      null means all topics, empty means none; controller id, rack, internal flag
//	2      cluster id
//	4      allow_auto_topic_creation
//	5      offline replicas
//	7      leader epoch
//	8      authorized operations of topics; of the cluster in 8 to 10
//	10     topic ids in the answer
//	12     topics asked for by id, with a null name
//	13     top-level error, never set here: REBOOTSTRAP_REQUIRED is for clusters that moved
//
// Rules: Kafka request rules 4.7. A missing topic is made when the server, the request and the caller's rights allow it; the
// answer then already shows it. One view of the cluster serves the whole answer, so that leaders and brokers agree.
//
// Different from Kafka: a topic made here is answered with success at once, where KRaft answers 3 first. In-memory streams, and
// streams whose namespace has a dot, do not exist for Kafka clients.

// noOperations is what authorized operations are when nobody asked.
const noOperations int32 = -1 << 31

func handleMetadata(c *call) {
	req := c.req.(*kmsg.MetadataRequest)
	resp := c.response().(*kmsg.MetadataResponse)
	m := metadataAnswer{c: c, resp: resp, operations: req.IncludeTopicAuthorizedOperations}
	if req.Topics == nil || c.version == 0 && len(req.Topics) == 0 {
		m.view = c.view()
		m.all()
	} else {
		m.create(req)
		m.view = c.view()
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, m.asked(&req.Topics[i]))
		}
	}
	m.cluster()
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations(c.caller())
	}
	c.reply(resp)
}

type metadataAnswer struct {
	c          *call
	resp       *kmsg.MetadataResponse
	view       *cluster.Image
	operations bool // authorized operations of topics were asked for
	failed     map[string]error
}

// cluster fills what is not about topics.
func (m *metadataAnswer) cluster() {
	nodes := m.view.Nodes()
	m.resp.Brokers = make([]kmsg.MetadataResponseBroker, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if !n.Live || n.KafkaHost == "" {
			continue
		}
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.Broker), n.KafkaHost, n.KafkaPort, rackOf(n)
		m.resp.Brokers = append(m.resp.Brokers, b)
	}
	id := m.view.ClusterID()
	m.resp.ClusterID = &id
	m.resp.ControllerID = int32(m.view.Controller())
}

func rackOf(n *cluster.Node) *string {
	if n.Rack == "" {
		return nil
	}
	return &n.Rack
}

// all lists every topic that the caller may see.
func (m *metadataAnswer) all() {
	caller := m.c.caller()
	m.resp.Topics = []kmsg.MetadataResponseTopic{}
	if !caller.Known() {
		return
	}
	m.view.TopicsOf(caller.Tenant, func(t *cluster.Topic) bool {
		name := m.c.srv.names.join(t.Namespace, t.Name)
		if name != "" && visible(t) && mayDescribe(caller, t.Namespace, t.Name) {
			m.resp.Topics = append(m.resp.Topics, m.topic(name, t))
		}
		return true
	})
}

// mayDescribe: whoever may read, write or manage a stream may know of it.
func mayDescribe(caller *Caller, namespace, stream string) bool {
	return caller.Allowed(broker.StreamSubscribe, namespace, stream) ||
		caller.Allowed(broker.StreamPublish, namespace, stream) ||
		caller.Allowed(broker.StreamManage, namespace, stream)
}

// create makes the topics that are asked for by name, missing, and to be made. Failures are kept for the answer.
func (m *metadataAnswer) create(req *kmsg.MetadataRequest) {
	srv, caller := m.c.srv, m.c.caller()
	if !srv.opts.AutoCreate || m.c.version >= 4 && !req.AllowAutoTopicCreation {
		return
	}
	view := m.c.view()
	for i := range req.Topics {
		if req.Topics[i].Topic == nil {
			continue
		}
		name := *req.Topics[i].Topic
		namespace, stream, err := srv.names.split(name)
		if err != nil || view.Topic(caller.Tenant, namespace, stream) != nil {
			continue
		}
		if !caller.Allowed(broker.StreamManage, namespace, stream) {
			if mayDescribe(caller, namespace, stream) {
				m.fail(name, errForbidden)
			}
			continue
		}
		if err := srv.creating.create(m.c.context(), srv, caller, namespace, stream); err != nil {
			m.fail(name, err)
		}
	}
}

func (m *metadataAnswer) fail(name string, err error) {
	if m.failed == nil {
		m.failed = map[string]error{}
	}
	m.failed[name] = err
}

// asked answers for one topic of the request.
func (m *metadataAnswer) asked(t *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	id := ids.TopicID(t.TopicID)
	switch {
	case t.Topic != nil && id.IsZero():
		return m.byName(*t.Topic)
	case m.c.version >= 12 && t.Topic == nil:
		return m.byID(id)
	default: // an id before version 12, both, or neither
		out := m.refused(errcode.InvalidRequest)
		if out.Topic = t.Topic; out.Topic == nil && m.c.version < 12 {
			out.Topic = new(string) // the name may be null from version 12 on only
		}
		out.TopicID = t.TopicID
		return out
	}
}

func (m *metadataAnswer) byName(name string) kmsg.MetadataResponseTopic {
	caller := m.c.caller()
	namespace, stream, err := m.c.srv.names.split(name)
	var kind errcode.Kind
	switch {
	case err != nil:
		kind = errcode.Of(err)
	case !mayDescribe(caller, namespace, stream):
		kind = errcode.UnauthorizedTopic
	default:
		if t := m.view.Topic(caller.Tenant, namespace, stream); visible(t) {
			return m.topic(name, t)
		}
		kind = errcode.UnknownShard
		if err := m.failed[name]; err != nil {
			kind = creationFailure(err)
		}
	}
	out := m.refused(kind)
	out.Topic = &name
	return out
}

// creationFailure is what a topic's answer says when making it failed: what the client can do something about, or to come again.
func creationFailure(err error) errcode.Kind {
	switch k := errcode.Of(err); k {
	case errcode.UnauthorizedTopic, errcode.InvalidTopic, errcode.PolicyViolation, errcode.InvalidConfig,
		errcode.InvalidPartitions, errcode.InvalidReplicationFactor:
		return k
	default:
		return errcode.NoLeader
	}
}

func (m *metadataAnswer) byID(id ids.TopicID) kmsg.MetadataResponseTopic {
	caller := m.c.caller()
	t := m.view.TopicByID(id)
	if visible(t) && t.Tenant == caller.Tenant && mayDescribe(caller, t.Namespace, t.Name) {
		if name := m.c.srv.names.join(t.Namespace, t.Name); name != "" {
			return m.topic(name, t)
		}
	}
	// Not permitted and not there look the same: an id, unlike a name, says nothing to who may not describe its topic.
	out := m.refused(errcode.UnknownTopicID)
	out.TopicID = id
	return out
}

func (m *metadataAnswer) refused(k errcode.Kind) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.ErrorCode = m.c.kindCode(k)
	out.Partitions = []kmsg.MetadataResponseTopicPartition{}
	return out
}

// topic describes a topic that the caller may see.
func (m *metadataAnswer) topic(name string, t *cluster.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &name, t.ID, t.Internal
	if m.operations {
		out.AuthorizedOperations = topicOperations(m.c.caller(), t.Namespace, t.Name)
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		m.partition(&out.Partitions[i], int32(i), &t.Partitions[i])
	}
	return out
}

func (m *metadataAnswer) partition(out *kmsg.MetadataResponseTopicPartition, index int32, p *cluster.Partition) {
	out.Default()
	out.Partition = index
	out.Leader, out.LeaderEpoch = int32(p.Leader), int32(p.Epoch)
	out.Replicas = wireBrokers(p.Replicas)
	out.ISR = out.Replicas
	if p.Leader == ids.NoBroker {
		out.ErrorCode = m.c.kindCode(errcode.NoLeader)
		return
	}
	n, known := m.view.Node(p.Leader)
	switch {
	case !known || !n.Live:
		out.Leader = int32(ids.NoBroker)
		out.ErrorCode = m.c.kindCode(errcode.NoLeader)
	case n.KafkaHost == "":
		out.Leader = int32(ids.NoBroker)
		out.ErrorCode = m.c.kindCode(errcode.ListenerNotFound)
	}
}

func wireBrokers(in []ids.BrokerID) []int32 {
	out := make([]int32, len(in))
	for i, b := range in {
		out[i] = int32(b)
	}
	return out
}

// Bits of authorized operations (KIP-430), by the numbers of Kafka's AclOperation.
const (
	opRead            = 1 << 3
	opWrite           = 1 << 4
	opCreate          = 1 << 5
	opDelete          = 1 << 6
	opAlter           = 1 << 7
	opDescribe        = 1 << 8
	opDescribeConfigs = 1 << 10
	opAlterConfigs    = 1 << 11
	opIdempotentWrite = 1 << 12
)

// topicOperations are the operations on a topic that the caller's rights amount to.
func topicOperations(caller *Caller, namespace, stream string) int32 {
	var ops int32
	if caller.Allowed(broker.StreamSubscribe, namespace, stream) {
		ops |= opRead | opDescribe | opDescribeConfigs
	}
	if caller.Allowed(broker.StreamPublish, namespace, stream) {
		ops |= opWrite | opDescribe
	}
	if caller.Allowed(broker.StreamManage, namespace, stream) {
		ops |= opCreate | opDelete | opAlter | opDescribe | opDescribeConfigs | opAlterConfigs
	}
	return ops
}

// clusterOperations are those on the cluster: an authenticated caller sees its own tenant's part and may be idempotent.
func clusterOperations(caller *Caller) int32 {
	if !caller.Known() {
		return 0
	}
	return opDescribe | opIdempotentWrite
}

// creations makes concurrent wishes for one topic one creation.
type creations struct {
	mu      sync.Mutex
	running map[creationKey]*creation // guarded by mu
}

type creationKey struct{ tenant, namespace, stream string }

type creation struct {
	done chan struct{}
	err  error // set before done closes
}

// create makes the topic, or waits for whoever is making it. It returns once the topic is in this node's view.
func (s *creations) create(ctx context.Context, srv *Server, caller *Caller, namespace, stream string) error {
	key := creationKey{caller.Tenant, namespace, stream}
	s.mu.Lock()
	if running := s.running[key]; running != nil {
		s.mu.Unlock()
		select {
		case <-running.done:
			return running.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	mine := &creation{done: make(chan struct{})}
	if s.running == nil {
		s.running = map[creationKey]*creation{}
	}
	s.running[key] = mine
	s.mu.Unlock()

	if mine.err = srv.node.CreateTopic(ctx, caller, namespace, stream); mine.err == nil {
		srv.metrics.topicsMade.Inc()
	}
	s.mu.Lock()
	delete(s.running, key)
	s.mu.Unlock()
	close(mine.done)
	return mine.err
}
