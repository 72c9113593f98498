package controller

import (
	"fmt"
	"io"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// snapshotMagic and snapshotVersion begin every snapshot (FORMAT.md).
const (
	snapshotMagic   = "FLXMETA\n"
	snapshotVersion = 4
	// Versions that are still read: before client quotas; before signing keys and what a native stream has; before incarnations of
	// tenants, caches and access rules.
	noQuotasVersion       = 1
	noKeysVersion         = 2
	noIncarnationsVersion = 3
	noCachesVersion       = 3
)

// maxSnapshotBytes bounds what Restore reads into memory. It is above what the limits of the state machine let a snapshot grow to, since
// one that cannot be read back is worse than a large one; a test adds them up.
const maxSnapshotBytes = 2 << 30

// EncodeSnapshot returns the whole of an image as bytes. Equal metadata gives equal bytes.
func EncodeSnapshot(m *cluster.Image) []byte {
	w := &writer{b: make([]byte, 0, 1024+64*m.TopicCount()+4*m.PartitionCount())}
	w.b = append(w.b, snapshotMagic...)
	w.byte(snapshotVersion)
	w.uint(m.Version())
	w.text(m.ClusterID())
	w.int(int64(m.NextBroker()))
	w.int(m.NextProducerID())
	w.uint(m.TenantsDeleted())
	w.count(len(m.Nodes()))
	for _, n := range m.Nodes() {
		w.node(n)
	}
	w.count(len(m.Tenants()))
	for _, t := range m.Tenants() {
		w.text(t.Name)
		w.text(t.DisplayName)
		w.uint(t.Incarnation)
		w.bool(t.Bootstrapped)
		list := m.Namespaces(t.Name)
		w.count(len(list))
		for _, n := range list {
			w.text(n.Name)
			w.text(n.DisplayName)
		}
		w.keys(t.Keys)
	}
	w.count(len(m.Deleted()))
	for _, id := range m.Deleted() {
		w.id(id)
	}
	w.count(m.QuotaCount())
	m.EachQuota(func(q *cluster.ClientQuota) bool { w.quota(q); return true })
	topics := m.SortedTopics()
	sets := newSetTable(topics)
	w.count(len(sets.list))
	for _, set := range sets.list {
		w.count(len(set))
		for _, b := range set {
			w.int(int64(b))
		}
	}
	w.count(len(topics))
	for _, t := range topics {
		w.topic(t, sets)
	}
	w.caches(m)
	w.rules(m)
	w.bool(m.PlacementPaused())
	return w.seal()
}

// DecodeSnapshot reads what EncodeSnapshot wrote. defaults are the reading node's own, see cluster.NewImage.
func DecodeSnapshot(b []byte, defaults *cluster.TopicConfig) (*cluster.Image, error) {
	if len(b) < len(snapshotMagic) || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: not a metadata snapshot", ErrCorrupt)
	}
	r, err := open(b)
	if err != nil {
		return nil, err
	}
	r.b = r.b[len(snapshotMagic):]
	format := r.byte()
	if format < noQuotasVersion || format > snapshotVersion {
		return nil, fmt.Errorf("metadata snapshot of version %d, this server knows %d to %d", format, noQuotasVersion, snapshotVersion)
	}
	build := cluster.NewBuilder(cluster.NewImage(defaults))
	version := r.uint()
	build.SetClusterID(r.text())
	build.SetNextBroker(ids.BrokerID(r.int32()))
	build.SetNextProducerID(r.int())
	if format > noIncarnationsVersion {
		build.SetTenantsDeleted(r.uint())
	}
	for range r.count(6) {
		build.PutNode(r.node())
	}
	for range r.count(3) {
		r.tenant(build, format)
	}
	deleted := make([]ids.TopicID, r.count(len(ids.TopicID{})))
	for i := range deleted {
		deleted[i] = r.id()
	}
	build.Remember(deleted)
	if format != noQuotasVersion {
		r.quotas(build)
	}
	if err := r.topics(build, format); err != nil {
		return nil, err
	}
	if format > noCachesVersion {
		r.caches(build)
		r.rules(build)
		build.SetPlacementPaused(r.bool())
	}
	return build.Build(version), r.end()
}

// tenant reads a tenant with its namespaces and keys. Versions up to noKeysVersion have neither keys nor names to display namespaces by;
// in those up to noIncarnationsVersion every tenant is the first of its name, as far as that is known.
func (r *reader) tenant(build *cluster.Builder, format byte) {
	t := cluster.Tenant{Name: r.text(), DisplayName: r.text()}
	if format > noIncarnationsVersion {
		if t.Incarnation = r.uint(); t.Incarnation > build.Current().TenantsDeleted() {
			r.fail("tenant of an incarnation that cannot be")
		}
		t.Bootstrapped = r.bool()
	}
	build.PutTenant(t)
	for range r.count(1) {
		n := cluster.Namespace{Tenant: t.Name, Name: r.text()}
		if format > noKeysVersion {
			n.DisplayName = r.text()
		}
		build.PutNamespace(n)
	}
	if format > noKeysVersion {
		if t.Keys = r.keys(); t.Keys != nil {
			build.PutTenant(t)
		}
	}
}

func (w *writer) node(n cluster.Node) {
	w.text(string(n.ID))
	w.int(int64(n.Broker))
	w.text(n.KafkaHost)
	w.int(int64(n.KafkaPort))
	w.text(n.Rack)
	w.uint(n.Incarnation)
	w.bool(n.Live)
}

func (r *reader) node() cluster.Node {
	return cluster.Node{
		ID: ids.NodeID(r.text()), Broker: ids.BrokerID(r.int32()), KafkaHost: r.text(), KafkaPort: r.int32(),
		Rack: r.text(), Incarnation: r.uint(), Live: r.bool(),
	}
}

// setTable numbers the distinct replica sets in the order in which the sorted topics use them first.
type setTable struct {
	list  [][]ids.BrokerID
	index map[*ids.BrokerID]int // by first element: sets are shared slices, so most look-ups end here
	text  map[string]int
}

func newSetTable(topics []*cluster.Topic) *setTable {
	s := &setTable{index: map[*ids.BrokerID]int{}, text: map[string]int{}}
	for _, t := range topics {
		for i := range t.Partitions {
			s.number(t.Partitions[i].Replicas)
		}
	}
	return s
}

func (s *setTable) number(set []ids.BrokerID) int {
	if len(set) == 0 {
		return s.byText(set)
	}
	if i, ok := s.index[&set[0]]; ok && len(s.list[i]) == len(set) {
		return i
	}
	i := s.byText(set)
	s.index[&set[0]] = i
	return i
}

func (s *setTable) byText(set []ids.BrokerID) int {
	key := fmt.Sprint(set)
	i, ok := s.text[key]
	if !ok {
		i = len(s.list)
		s.text[key] = i
		s.list = append(s.list, set)
	}
	return i
}

func (w *writer) topic(t *cluster.Topic, sets *setTable) {
	w.id(t.ID)
	w.text(t.Tenant)
	w.text(t.Namespace)
	w.text(t.Name)
	w.byte(flag(t.Durable, flagDurable) | flag(t.MadeByKafka, flagMadeByKafka) | flag(t.Internal, flagInternal))
	w.byte(byte(t.Consistency))
	w.byte(byte(t.Kind))
	w.byte(byte(t.Delivery))
	w.byte(byte(t.Routing))
	w.text(t.Region)
	w.overrides(t.Overrides)
	w.count(len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		w.int(int64(p.Leader))
		w.int(int64(p.Epoch))
		w.count(sets.number(p.Replicas))
	}
}

func (r *reader) topics(build *cluster.Builder, format byte) error {
	sets := make([][]ids.BrokerID, r.count(1))
	for i := range sets {
		sets[i] = make([]ids.BrokerID, r.count(1))
		for j := range sets[i] {
			sets[i][j] = ids.BrokerID(r.int32())
		}
	}
	for range r.count(16 + 3 + 4) {
		t := &cluster.Topic{ID: r.id(), Tenant: r.text(), Namespace: r.text(), Name: r.text()}
		f := r.flags(topicFlags &^ flagCreateNamespace)
		t.Durable, t.MadeByKafka, t.Internal = f&flagDurable != 0, f&flagMadeByKafka != 0, f&flagInternal != 0
		if t.Consistency = cluster.Consistency(r.byte()); t.Consistency > cluster.ConsistencyQuorum {
			r.fail("unknown consistency")
		}
		if format > noKeysVersion {
			r.native(t)
		}
		t.Overrides = r.overrides()
		t.Partitions = make([]cluster.Partition, r.count(3))
		for i := range t.Partitions {
			p := &t.Partitions[i]
			p.Leader, p.Epoch = ids.BrokerID(r.int32()), ids.LeaderEpoch(r.int32())
			if n := r.uint(); n < uint64(len(sets)) {
				p.Replicas = sets[n]
			} else {
				r.fail("unknown replica set")
			}
		}
		if r.err != nil {
			return r.err
		}
		if build.Current().TopicByID(t.ID) != nil || build.Current().Topic(t.Tenant, t.Namespace, t.Name) != nil {
			return fmt.Errorf("%w: topic %s is there twice", ErrCorrupt, t.ID)
		}
		if err := build.PutTopic(t); err != nil {
			return fmt.Errorf("topic %s: %w", t.ID, err)
		}
	}
	return r.err
}

// native reads what a native stream has besides what a Kafka topic has.
func (r *reader) native(t *cluster.Topic) {
	t.Kind, t.Delivery, t.Routing = cluster.StreamKind(r.byte()), cluster.Delivery(r.byte()), cluster.Routing(r.byte())
	if t.Kind > cluster.KindQueue || t.Delivery > cluster.AtMostOnce || t.Routing > cluster.RoutingJumpHash {
		r.fail("unknown kind, delivery or routing")
	}
	t.Region = r.text()
}

// readSnapshot is DecodeSnapshot on a stream.
func readSnapshot(from io.Reader, defaults *cluster.TopicConfig) (*cluster.Image, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxSnapshotBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read metadata snapshot: %w", err)
	}
	if len(b) > maxSnapshotBytes {
		return nil, fmt.Errorf("%w: snapshot above %d bytes", ErrCorrupt, maxSnapshotBytes)
	}
	return DecodeSnapshot(b, defaults)
}
