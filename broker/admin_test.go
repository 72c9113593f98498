package broker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/storetest"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
)

// adminFixture is a broker over a real state machine whose store is in memory.
type adminFixture struct {
	b     *Broker
	store *storetest.Memory
	all   *Caller // may do everything in tenant default
}

func newAdminFixture(t *testing.T, change func(*Options)) *adminFixture {
	t.Helper()
	f := &adminFixture{all: &Caller{Tenant: "default"}}
	meta, err := controller.Open(t.Context(), controller.Options{Store: func(ctx context.Context, m controller.Machine, first [][]byte) (controller.Store, error) {
		st, err := storetest.OpenMemory(ctx, m, first)
		f.store = st.(*storetest.Memory)
		return st, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := meta.Propose(t.Context(), cluster.RegisterNode{ID: "n", KafkaHost: "127.0.0.1", KafkaPort: 9092})
	if err != nil || res.Err != nil {
		t.Fatal(err, res.Err)
	}
	fs := vfs.NewMem()
	j, err := journal.Open(fs, "data/journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	opts := Options{
		Metadata: meta, Self: res.Node.Broker, Dir: "data/shards", AutoCreateNamespaces: true, DefaultPartitions: 4,
		Shared: &log.Shared{FS: fs, Journal: j, Pool: buf.NewPool(1 << 20)},
	}
	if change != nil {
		change(&opts)
	}
	if f.b, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return f
}

// rights are the actions that a caller has, by "action namespace/stream".
type rights map[string]bool

func (r rights) Allowed(a Action, namespace, stream string) bool {
	return r[a.String()+" "+namespace+"/"+stream]
}

func kinds(results []TopicResult) []errcode.Kind {
	out := make([]errcode.Kind, len(results))
	for i, r := range results {
		out[i] = errcode.Of(r.Err)
	}
	return out
}

func wantKinds(t *testing.T, what string, results []TopicResult, want ...errcode.Kind) {
	t.Helper()
	if got := kinds(results); !cmp.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
		for _, r := range results {
			t.Log(r.Err)
		}
	}
}

func TestCreateTopics(t *testing.T) {
	f := newAdminFixture(t, nil)
	list := []NewTopic{
		{Namespace: "default", Stream: "defaults", Partitions: -1, ReplicationFactor: -1},
		{Namespace: "ns", Stream: "counted", Partitions: 2, ReplicationFactor: 1, Configs: map[string]string{"cleanup.policy": "compact"}},
		{Namespace: "ns", Stream: "placed", Assignment: [][]ids.BrokerID{{1}, {1}, {1}}},
		{Namespace: "ns", Stream: "too.replicated", Partitions: 1, ReplicationFactor: 2},
		{Namespace: "ns", Stream: "counted", Partitions: 2, ReplicationFactor: 1},
	}
	want := []errcode.Kind{errcode.OK, errcode.OK, errcode.OK, errcode.InvalidReplicationFactor, errcode.TopicExists}
	dry := f.b.CreateTopics(t.Context(), f.all, list, true)
	wantKinds(t, "validate only", dry, want...)
	if f.b.Image().TopicCount() != 0 || f.b.Image().Namespace("default", "ns") != nil {
		t.Error("validating made something")
	}
	if len(dry[0].Topic.Partitions) != 4 {
		t.Errorf("validated topic has %d partitions, want 4", len(dry[0].Topic.Partitions))
	}
	wantKinds(t, "create", f.b.CreateTopics(t.Context(), f.all, list, false), want...)
	for name, partitions := range map[string]int{"counted": 2, "placed": 3} {
		topic := f.b.Image().Topic("default", "ns", name)
		if topic == nil || len(topic.Partitions) != partitions || !topic.MadeByKafka || !topic.Durable {
			t.Errorf("%s is %+v", name, topic)
		} else if topic.ID[6]>>4 != 4 {
			t.Errorf("%s has id %s, not a random UUID", name, topic.ID)
		}
	}
	wantKinds(t, "again", f.b.CreateTopics(t.Context(), f.all, list[:1], false), errcode.TopicExists)
}

func TestRightsComeBeforeExistence(t *testing.T) {
	f := newAdminFixture(t, func(o *Options) { o.AutoCreateNamespaces = false })
	if err := f.b.CreateTopic(t.Context(), f.all, "default", "have"); err != nil {
		t.Fatal(err)
	}
	have := f.b.Image().Topic("default", "default", "have")
	if _, err := f.b.opts.Metadata.Propose(t.Context(), cluster.CreateTenant{Name: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	some := &Caller{Tenant: "default", Rights: rights{
		"stream.manage default/mine": true, "stream.manage other/mine": true, "stream.manage made/mine": true, "ns.manage made/": true,
	}}
	reader := &Caller{Tenant: "default", Rights: rights{"stream.subscribe default/have": true}}
	stranger := &Caller{Tenant: "elsewhere"}
	nobody := &Caller{}
	create := func(c *Caller, namespace, stream string) []TopicResult {
		return f.b.CreateTopics(t.Context(), c, []NewTopic{{Namespace: namespace, Stream: stream, Partitions: 1, ReplicationFactor: 1}}, false)
	}
	wantKinds(t, "existing, forbidden", create(some, "default", "have"), errcode.UnauthorizedTopic)
	wantKinds(t, "missing, forbidden", create(some, "default", "have not"), errcode.UnauthorizedTopic)
	wantKinds(t, "allowed", create(some, "default", "mine"), errcode.OK)
	wantKinds(t, "no namespace", create(some, "other", "mine"), errcode.PolicyViolation)
	wantKinds(t, "namespace by right", create(some, "made", "mine"), errcode.OK)
	wantKinds(t, "nobody", create(nobody, "default", "x"), errcode.UnauthorizedTopic)
	byName, byID := TopicName{Namespace: "default", Stream: "have"}, TopicName{ID: have.ID}
	remove := func(c *Caller, names ...TopicName) []TopicResult { return f.b.DeleteTopics(t.Context(), c, names) }
	wantKinds(t, "delete, forbidden", remove(some, byName, TopicName{Namespace: "default", Stream: "none"}),
		errcode.UnauthorizedTopic, errcode.UnauthorizedTopic)
	wantKinds(t, "delete by id, not known", remove(some, byID), errcode.UnknownTopicID)
	wantKinds(t, "delete by id, known but forbidden", remove(reader, byID), errcode.UnauthorizedTopic)
	wantKinds(t, "delete, stranger", remove(stranger, byName, byID), errcode.UnknownShard, errcode.UnknownTopicID)
	wantKinds(t, "delete, nobody", remove(nobody, byName, byID), errcode.UnauthorizedTopic, errcode.UnknownTopicID)
	if f.b.Image().TopicByID(have.ID) == nil {
		t.Error("the topic is gone")
	}
	wantKinds(t, "mixed", remove(f.all, TopicName{Namespace: "default", Stream: "none"}, byID, byName),
		errcode.UnknownShard, errcode.OK, errcode.UnknownShard)
}

func TestCreateTopicIsIdempotent(t *testing.T) {
	f := newAdminFixture(t, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := f.b.CreateTopic(t.Context(), f.all, "auto", "made"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.b.Image().TopicCount(); n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
	if err := f.b.CreateTopic(t.Context(), f.all, "auto", "a b"); errcode.Of(err) != errcode.InvalidTopic {
		t.Errorf("bad name: %v", err)
	}
}

func TestGrowAndConfigure(t *testing.T) {
	f := newAdminFixture(t, nil)
	if err := f.b.CreateTopic(t.Context(), f.all, "default", "t"); err != nil {
		t.Fatal(err)
	}
	name := TopicName{Namespace: "default", Stream: "t"}
	wantKinds(t, "grow", f.b.CreatePartitions(t.Context(), f.all, []MorePartitions{
		{Topic: name, Count: 4}, {Topic: name, Count: 6}, {Topic: TopicName{Namespace: "default", Stream: "u"}, Count: 6},
	}, false), errcode.InvalidPartitions, errcode.OK, errcode.UnknownShard)
	wantKinds(t, "grow, validate", f.b.CreatePartitions(t.Context(), f.all, []MorePartitions{{Topic: name, Count: 9}}, true), errcode.OK)
	if n := len(f.b.Image().Topic("default", "default", "t").Partitions); n != 6 {
		t.Errorf("%d partitions, want 6", n)
	}
	set := func(replace, dry bool, changes ...cluster.ConfigChange) []TopicResult {
		return f.b.AlterTopicConfigs(t.Context(), f.all, []ConfigChanges{{Topic: name, Replace: replace, Changes: changes}}, dry)
	}
	retention := cluster.ConfigChange{Name: "retention.ms", Value: "5"}
	wantKinds(t, "validate", set(false, true, retention), errcode.OK)
	if o := f.b.Image().Topic("default", "default", "t").Overrides; o != nil {
		t.Errorf("validating set %v", o)
	}
	wantKinds(t, "set", set(false, false, retention, cluster.ConfigChange{Name: "cleanup.policy", Op: cluster.ConfigAppend, Value: "compact"}), errcode.OK)
	wantKinds(t, "unknown", set(false, false, cluster.ConfigChange{Name: "x", Value: "1"}), errcode.InvalidConfig)
	topic := f.b.Image().Topic("default", "default", "t")
	if topic.Config.RetentionMs != 5 || !topic.Config.CleanupCompact || !topic.Config.CleanupDelete {
		t.Errorf("configured: %+v", topic.Overrides)
	}
	wantKinds(t, "replace", set(true, false, cluster.ConfigChange{Name: "segment.ms", Value: "7"}), errcode.OK)
	if diff := cmp.Diff(map[string]string{"segment.ms": "7"}, f.b.Image().Topic("default", "default", "t").Overrides); diff != "" {
		t.Error(diff)
	}
}

// TestDuplicatesInLists: a list that names one thing twice is refused, wherever it comes from, after what the controller looks at first.
func TestDuplicatesInLists(t *testing.T) {
	f := newAdminFixture(t, nil)
	twice := map[string]string{"cleanup.policy": "compact, compact"}
	topic := func(stream string, configs map[string]string) NewTopic {
		return NewTopic{Namespace: "default", Stream: stream, Partitions: 1, ReplicationFactor: 1, Configs: configs}
	}
	create := func(dry bool) []TopicResult {
		return f.b.CreateTopics(t.Context(), f.all, []NewTopic{topic("new", twice), topic("t", nil), topic("not a name", twice)}, dry)
	}
	wantKinds(t, "validate", create(true), errcode.InvalidConfig, errcode.OK, errcode.InvalidTopic)
	wantKinds(t, "create", create(false), errcode.InvalidConfig, errcode.OK, errcode.InvalidTopic)
	wantKinds(t, "create again", f.b.CreateTopics(t.Context(), f.all, []NewTopic{topic("t", twice)}, false), errcode.TopicExists)
	changes := []cluster.ConfigChange{{Name: "retention.ms", Value: "5"}, {Name: "cleanup.policy", Value: "delete,compact,delete"}}
	name := func(stream string) TopicName { return TopicName{Namespace: "default", Stream: stream} }
	for _, dry := range []bool{true, false} {
		wantKinds(t, "change", f.b.AlterTopicConfigs(t.Context(), f.all, []ConfigChanges{
			{Topic: name("t"), Changes: changes}, {Topic: name("t"), Changes: changes[:1]}, {Topic: name("none"), Changes: changes},
		}, dry), errcode.InvalidConfig, errcode.OK, errcode.UnknownShard)
	}
	if o := f.b.Image().Topic("default", "default", "t").Overrides; len(o) != 1 || f.b.Image().Topic("default", "default", "new") != nil {
		t.Errorf("configured: %v", o)
	}
}

// TestCallerOfATenantBefore: who logged in to a tenant that was deleted since changes nothing in the next one of its name.
func TestCallerOfATenantBefore(t *testing.T) {
	f := newAdminFixture(t, nil)
	for _, cmd := range []cluster.Command{cluster.DeleteTenant{Name: "default"}, cluster.CreateTenant{Name: "default"}} {
		if res, err := f.b.opts.Metadata.Propose(t.Context(), cmd); err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
	}
	now := &Caller{Tenant: "default", Incarnation: f.b.Image().Tenant("default").Incarnation}
	if err := f.b.CreateTopic(t.Context(), now, "default", "t"); err != nil {
		t.Fatal(err)
	}
	gone := errcode.ResourceNotFound
	name := TopicName{Namespace: "default", Stream: "t"}
	for _, dry := range []bool{true, false} {
		wantKinds(t, "create", f.b.CreateTopics(t.Context(), f.all, []NewTopic{{Namespace: "default", Stream: "u", Partitions: 1, ReplicationFactor: 1}}, dry), gone)
		wantKinds(t, "grow", f.b.CreatePartitions(t.Context(), f.all, []MorePartitions{{Topic: name, Count: 9}}, dry), gone)
		wantKinds(t, "configure", f.b.AlterTopicConfigs(t.Context(), f.all, []ConfigChanges{
			{Topic: name, Changes: []cluster.ConfigChange{{Name: "retention.ms", Value: "5"}}},
		}, dry), gone)
		change := cluster.QuotaChange{
			Entity: cluster.QuotaEntity{User: cluster.QuotaName{Kind: cluster.QuotaDefault}},
			Rates:  []cluster.RateChange{{Rate: cluster.ProducerByteRate, Value: 1}},
		}
		if errs := f.b.AlterClientQuotas(t.Context(), f.all, []cluster.QuotaChange{change}, dry); errcode.Of(errs[0]) != gone {
			t.Errorf("quota: %v", errs[0])
		}
	}
	wantKinds(t, "delete", f.b.DeleteTopics(t.Context(), f.all, []TopicName{name}), gone)
	topic := f.b.Image().Topic("default", "default", "t")
	if topic == nil || topic.Overrides != nil || len(topic.Partitions) != 4 || f.b.Image().TopicCount() != 1 || f.b.Image().QuotaCount() != 0 {
		t.Errorf("topic %+v, %d topics, %d quotas", topic, f.b.Image().TopicCount(), f.b.Image().QuotaCount())
	}
}

func TestControllerFailureReachesEveryItem(t *testing.T) {
	f := newAdminFixture(t, nil)
	f.store.Fail(controller.ErrUnknownOutcome)
	some := &Caller{Tenant: "default", Rights: rights{"stream.manage default/b": true}}
	list := []NewTopic{{Namespace: "default", Stream: "a"}, {Namespace: "default", Stream: "b"}}
	wantKinds(t, "create", f.b.CreateTopics(t.Context(), some, list, false), errcode.UnauthorizedTopic, errcode.QuorumTimeout)
	if _, err := f.b.AllocateProducerID(t.Context()); !errors.Is(err, controller.ErrUnknownOutcome) {
		t.Errorf("producer id: %v", err)
	}
	f.store.Fail(nil)
	if _, err := f.b.AllocateProducerID(t.Context()); err != nil {
		t.Errorf("producer id after the failure: %v", err)
	}
	if got := f.b.CreateTopics(t.Context(), some, nil, false); len(got) != 0 {
		t.Errorf("an empty request has results %v", got)
	}
}

func TestProducerIDsAreNeverRepeated(t *testing.T) {
	f := newAdminFixture(t, nil)
	const workers, each = 8, 700 // several blocks
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				id, err := f.b.AllocateProducerID(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[id] {
					t.Errorf("id %d was given out twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if next := f.b.Image().NextProducerID(); next != 6000 {
		t.Errorf("%d ids taken from the controller for %d, want 6000", next, workers*each)
	}
	other := newAdminFixture(t, nil)
	other.b.opts.Metadata = f.b.opts.Metadata // a second node of the cluster
	if id, err := other.b.AllocateProducerID(t.Context()); err != nil || seen[id] {
		t.Errorf("another node gets id %d, %v", id, err)
	}
}

func TestErrorsSayWhy(t *testing.T) {
	f := newAdminFixture(t, nil)
	for want, n := range map[string]NewTopic{
		"number of live brokers is 1":    {Namespace: "default", Stream: "a", Partitions: 1, ReplicationFactor: 3},
		"must be above 0":                {Namespace: "default", Stream: "a", Partitions: 0, ReplicationFactor: 1},
		"unknown topic config name: foo": {Namespace: "default", Stream: "a", Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"foo": "1"}},
	} {
		res := f.b.CreateTopics(t.Context(), f.all, []NewTopic{n}, false)
		if res[0].Err == nil || !strings.Contains(res[0].Err.Error(), want) {
			t.Errorf("%v, want it to say %q", res[0].Err, want)
		}
	}
}
