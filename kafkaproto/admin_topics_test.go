package kafkaproto

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

type wantedTopic struct {
	name       string
	partitions int32
	factor     int16
	replicas   map[int32][]int32
	configs    map[string]string
	nullConfig bool
}

func createRequest(version int16, list ...wantedTopic) *kmsg.CreateTopicsRequest {
	req := at(kmsg.NewPtrCreateTopicsRequest(), version)
	req.TimeoutMillis = 5000
	for _, w := range list {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = w.name, w.partitions, w.factor
		for p, replicas := range w.replicas {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = p, replicas
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
		}
		for name, value := range w.configs {
			cfg := kmsg.NewCreateTopicsRequestTopicConfig()
			cfg.Name, cfg.Value = name, &value
			rt.Configs = append(rt.Configs, cfg)
		}
		if w.nullConfig {
			cfg := kmsg.NewCreateTopicsRequestTopicConfig()
			cfg.Name = "retention.ms"
			rt.Configs = append(rt.Configs, cfg)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// TestCreateTopics92 is acceptance case 92 and what else the API refuses.
func TestCreateTopics92(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "have")
	list := []wantedTopic{
		{name: "counted", partitions: 3, factor: 1},
		{name: "defaults", partitions: -1, factor: -1},
		{name: "ns.assigned", partitions: -1, factor: -1, replicas: map[int32][]int32{1: {h.self}, 0: {h.self}}},
		{name: "configured", partitions: 1, factor: 1, configs: map[string]string{"retention.ms": "1000", "cleanup.policy": "compact,delete"}},
		{name: "have", partitions: 1, factor: 1},
		{name: "a b", partitions: 1, factor: 1},
		{name: "default.x", partitions: 1, factor: 1},
		{name: "bad.config", partitions: 1, factor: 1, configs: map[string]string{"no.such": "1"}},
		{name: "bad.value", partitions: 1, factor: 1, configs: map[string]string{"retention.ms": "soon"}},
		{name: "null.config", partitions: 1, factor: 1, nullConfig: true},
		{name: "none", partitions: 0, factor: 1},
		{name: "negative", partitions: -2, factor: 1},
		{name: "no.replica", partitions: 1, factor: 0},
		{name: "three", partitions: 1, factor: 3},
		{name: "both", partitions: 2, factor: 1, replicas: map[int32][]int32{0: {h.self}}},
		{name: "gap", partitions: -1, factor: -1, replicas: map[int32][]int32{0: {h.self}, 2: {h.self}}},
		{name: "stranger", partitions: -1, factor: -1, replicas: map[int32][]int32{0: {77}}},
		{name: "twice", partitions: 1, factor: 1},
		{name: "twice", partitions: 2, factor: 1},
	}
	want := []struct {
		name       string
		kind       errcode.Kind
		partitions int32
	}{
		{"counted", errcode.OK, 3},
		{"defaults", errcode.OK, 2},
		{"ns.assigned", errcode.OK, 2},
		{"configured", errcode.OK, 1},
		{"have", errcode.TopicExists, -1},
		{"a b", errcode.InvalidTopic, -1},
		{"default.x", errcode.InvalidTopic, -1},
		{"bad.config", errcode.InvalidConfig, -1},
		{"bad.value", errcode.InvalidConfig, -1},
		{"null.config", errcode.InvalidConfig, -1},
		{"none", errcode.InvalidPartitions, -1},
		{"negative", errcode.InvalidPartitions, -1},
		{"no.replica", errcode.InvalidReplicationFactor, -1},
		{"three", errcode.InvalidReplicationFactor, -1},
		{"both", errcode.InvalidRequest, -1},
		{"gap", errcode.InvalidReplicaAssignment, -1},
		{"stranger", errcode.InvalidReplicaAssignment, -1},
		{"twice", errcode.InvalidRequest, -1},
	}
	check := func(resp *kmsg.CreateTopicsResponse, made bool) {
		t.Helper()
		if len(resp.Topics) != len(want) {
			t.Fatalf("%d topics answered, want %d", len(resp.Topics), len(want))
		}
		for i, w := range want {
			got := resp.Topics[i]
			wantCode(t, w.name, got.ErrorCode, w.kind)
			switch {
			case got.Topic != w.name:
				t.Errorf("answer %d is for %s, want %s", i, got.Topic, w.name)
			case w.kind != errcode.OK && plain(got.ErrorMessage) == "":
				t.Errorf("%s: no message", w.name)
			case w.kind == errcode.OK && got.ErrorMessage != nil:
				t.Errorf("%s: message %q", w.name, *got.ErrorMessage)
			case got.NumPartitions != w.partitions || (got.ReplicationFactor == 1) != (w.kind == errcode.OK):
				t.Errorf("%s: %d partitions, factor %d", w.name, got.NumPartitions, got.ReplicationFactor)
			case ids.TopicID(got.TopicID).IsZero() == (made && w.kind == errcode.OK):
				t.Errorf("%s: topic id %x", w.name, got.TopicID)
			case w.kind == errcode.OK && len(got.Configs) != len(cluster.TopicConfigs()):
				t.Errorf("%s: %d configurations shown", w.name, len(got.Configs))
			}
		}
	}
	dry := createRequest(7, list...)
	dry.ValidateOnly = true
	check(h.ask(dry).(*kmsg.CreateTopicsResponse), false)
	if n := h.b.Image().TopicCount(); n != 1 {
		t.Errorf("validating left %d topics, want 1", n)
	}
	made := h.ask(createRequest(7, list...)).(*kmsg.CreateTopicsResponse)
	check(made, true)
	for _, cfg := range made.Topics[3].Configs {
		if cfg.Name == "retention.ms" && (plain(cfg.Value) != "1000" || cfg.Source != int8(kmsg.ConfigSourceDynamicTopicConfig)) {
			t.Errorf("retention.ms is shown as %s, source %d", plain(cfg.Value), cfg.Source)
		}
	}
	for _, name := range []string{"counted", "defaults", "ns.assigned", "configured"} {
		if h.find(name) == nil {
			t.Errorf("%s was answered with success and is not there", name)
		}
	}
	if h.find("twice") != nil {
		t.Error("a topic named twice was made")
	}
	if n := counted(t, h.srv.metrics.topicsMade); n != 0 {
		t.Errorf("%v topics count as made because a client named them", n)
	}
}

func TestCreateTopicsOldVersions(t *testing.T) {
	h := newRealHarness(t, nil)
	for v := int16(0); v <= 7; v++ {
		name := fmt.Sprint("v", v)
		resp := h.ask(createRequest(v, wantedTopic{name: name, partitions: 1, factor: 1})).(*kmsg.CreateTopicsResponse)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 || h.find(name) == nil {
			t.Errorf("version %d: %+v", v, resp)
		}
	}
}

func TestRightsOverTopics(t *testing.T) {
	h := newRealHarness(t, only("stream.manage default/mine", "stream.subscribe default/read", "stream.manage default/read2", "stream.publish default/write"))
	h.make(1, "read", "write", "hidden")
	resp := h.ask(createRequest(5, wantedTopic{name: "mine", partitions: 1, factor: 1}, wantedTopic{
		name: "hidden", partitions: 0, factor: 0,
		configs: map[string]string{"x": "y"},
	}, wantedTopic{name: "missing", partitions: 1, factor: 1})).(*kmsg.CreateTopicsResponse)
	for i, want := range []errcode.Kind{errcode.OK, errcode.UnauthorizedTopic, errcode.UnauthorizedTopic} {
		wantCode(t, resp.Topics[i].Topic, resp.Topics[i].ErrorCode, want)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.SetVersion(1)
	for _, name := range []string{"read", "write", "hidden", "missing"} {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = name
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = -1
		rt.Partitions = append(rt.Partitions, rp)
		list.Topics = append(list.Topics, rt)
	}
	topics := h.ask(list).(*kmsg.ListOffsetsResponse).Topics
	for i, want := range []errcode.Kind{errcode.OK, errcode.OK, errcode.UnauthorizedTopic, errcode.UnauthorizedTopic} {
		wantCode(t, "list offsets of "+topics[i].Topic, topics[i].Partitions[0].ErrorCode, want)
	}
	hidden := h.find("hidden").ID
	del := at(kmsg.NewPtrDeleteTopicsRequest(), 6)
	for _, d := range []deletion{{name: new("hidden")}, {name: new("missing")}, {id: hidden}, {id: h.find("read").ID}} {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic, rt.TopicID = d.name, d.id
		del.Topics = append(del.Topics, rt)
	}
	gone := h.ask(del).(*kmsg.DeleteTopicsResponse).Topics
	for i, want := range []errcode.Kind{errcode.UnauthorizedTopic, errcode.UnauthorizedTopic, errcode.UnknownTopicID, errcode.UnauthorizedTopic} {
		wantCode(t, fmt.Sprint("deletion ", i), gone[i].ErrorCode, want)
	}
	if gone[2].Topic != nil {
		t.Errorf("the name of a hidden topic is told: %s", *gone[2].Topic)
	}
	if plain(gone[3].Topic) != "read" {
		t.Errorf("the name of a topic that the caller may read is %q", plain(gone[3].Topic))
	}
}

// TestDeleteTopics94 is acceptance case 94, and trap 42: every topic is answered, by its name.
func TestDeleteTopics94(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "n.a", "b", "c", "d", "e")
	h.write("b", 0, nil, 1, 2)
	oldB, c := h.find("b").ID, h.find("c").ID
	unknown := ids.TopicID{1, 2, 3}
	req := at(kmsg.NewPtrDeleteTopicsRequest(), 6)
	for _, d := range []deletion{
		{name: new("n.a")},
		{name: new("b")},
		{id: c},
		{name: new("none")},
		{id: unknown},
		{name: new("a b")},
		{name: new("d"), id: h.find("d").ID},
		{},
		{name: new("e")},
		{name: new("e")},
	} {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic, rt.TopicID = d.name, d.id
		req.Topics = append(req.Topics, rt)
	}
	got := h.ask(req).(*kmsg.DeleteTopicsResponse).Topics
	want := []struct {
		name string
		kind errcode.Kind
	}{
		{"n.a", errcode.OK},
		{"b", errcode.OK},
		{"c", errcode.OK},
		{"none", errcode.UnknownShard},
		{"", errcode.UnknownTopicID},
		{"a b", errcode.UnknownShard},
		{"d", errcode.InvalidRequest},
		{"", errcode.InvalidRequest},
		{"e", errcode.InvalidRequest},
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		wantCode(t, fmt.Sprintf("answer %d, %s", i, w.name), got[i].ErrorCode, w.kind)
		if plain(got[i].Topic) != w.name || (got[i].ErrorMessage == nil) != (w.kind == errcode.OK) {
			t.Errorf("answer %d: name %q, message %q, want %q", i, plain(got[i].Topic), plain(got[i].ErrorMessage), w.name)
		}
	}
	if ids.TopicID(got[1].TopicID) != oldB || ids.TopicID(got[4].TopicID) != unknown {
		t.Errorf("ids %x and %x", got[1].TopicID, got[4].TopicID)
	}
	if h.find("d") == nil || h.find("e") == nil || h.find("c") != nil {
		t.Error("the wrong topics are gone")
	}
	h.make(1, "b")
	if id := h.find("b").ID; id == oldB {
		t.Error("the topic made again has the old id")
	}
	s, err := h.b.Shard(h.find("b"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b := s.Bounds(); b.End != 0 || b.Start != 0 {
		t.Errorf("the topic made again has offsets %+v", b)
	}
	for v := int16(0); v <= 5; v++ {
		name := fmt.Sprint("v", v)
		h.make(1, name)
		old := at(kmsg.NewPtrDeleteTopicsRequest(), v)
		old.TopicNames = []string{name, "none"}
		answer := h.ask(old).(*kmsg.DeleteTopicsResponse).Topics
		if len(answer) != 2 || answer[0].ErrorCode != 0 || answer[1].ErrorCode != 3 || h.find(name) != nil {
			t.Errorf("version %d: %+v", v, answer)
		}
	}
}

// TestCreatePartitions95 is acceptance case 95.
func TestCreatePartitions95(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(3, "t", "u")
	ask := func(validate bool, names []string, count int32, assignment [][]int32) []kmsg.CreatePartitionsResponseTopic {
		req := at(kmsg.NewPtrCreatePartitionsRequest(), 3)
		req.ValidateOnly, req.TimeoutMillis = validate, 1000
		for _, name := range names {
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, count
			for _, a := range assignment {
				ra := kmsg.NewCreatePartitionsRequestTopicAssignment()
				ra.Replicas = a
				rt.Assignment = append(rt.Assignment, ra)
			}
			req.Topics = append(req.Topics, rt)
		}
		return h.ask(req).(*kmsg.CreatePartitionsResponse).Topics
	}
	for _, c := range []struct {
		name       string
		topics     []string
		count      int32
		assignment [][]int32
		kinds      []errcode.Kind
	}{
		{"grow", []string{"t", "none"}, 6, nil, []errcode.Kind{errcode.OK, errcode.UnknownShard}},
		{"shrink", []string{"t"}, 3, nil, []errcode.Kind{errcode.InvalidPartitions}},
		{"same", []string{"t"}, 6, nil, []errcode.Kind{errcode.InvalidPartitions}},
		{"twice", []string{"u", "u"}, 6, nil, []errcode.Kind{errcode.InvalidRequest}},
		{"assigned", []string{"u"}, 4, [][]int32{{h.self}}, []errcode.Kind{errcode.OK}},
		{"assigned_wrongly", []string{"u"}, 6, [][]int32{{h.self}}, []errcode.Kind{errcode.InvalidReplicaAssignment}},
	} {
		got := ask(false, c.topics, c.count, c.assignment)
		if len(got) != len(c.kinds) {
			t.Fatalf("%s: %d answers", c.name, len(got))
		}
		for i, k := range c.kinds {
			wantCode(t, c.name, got[i].ErrorCode, k)
		}
	}
	wantCode(t, "validate", ask(true, []string{"t"}, 9, nil)[0].ErrorCode, errcode.OK)
	if n := len(h.find("t").Partitions); n != 6 {
		t.Errorf("%d partitions, want 6", n)
	}
}

func configsOf(t *testing.T, h *realHarness, version int16, kind kmsg.ConfigResourceType, name string, synonyms bool, names ...string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := at(kmsg.NewPtrDescribeConfigsRequest(), version)
	req.IncludeSynonyms, req.IncludeDocumentation = synonyms, synonyms
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, names
	req.Resources = append(req.Resources, r)
	resp := h.ask(req).(*kmsg.DescribeConfigsResponse)
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name || resp.Resources[0].ResourceType != kind {
		t.Fatalf("answer %+v", resp)
	}
	return resp.Resources[0]
}

func TestDescribeConfigs(t *testing.T) {
	h := newRealHarness(t, nil)
	h.ask(createRequest(7, wantedTopic{name: "t", partitions: 1, factor: 1, configs: map[string]string{"cleanup.policy": "compact"}}))
	const topic, node = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	for v := int16(0); v <= 4; v++ {
		r := configsOf(t, h, v, topic, "t", true)
		if len(r.Configs) != len(cluster.TopicConfigs()) || r.ErrorCode != 0 {
			t.Fatalf("version %d: %d configurations, error %d", v, len(r.Configs), r.ErrorCode)
		}
		for _, c := range r.Configs {
			own := c.Name == "cleanup.policy"
			switch {
			case c.Value == nil, c.ReadOnly, c.IsSensitive:
				t.Errorf("version %d: %+v", v, c)
			case own && *c.Value != "compact":
				t.Errorf("cleanup.policy is %s: Connect would not start", *c.Value)
			case v == 0 && c.IsDefault == own:
				t.Errorf("version 0: %s default %t", c.Name, c.IsDefault)
			case v >= 1 && own && (c.Source != kmsg.ConfigSourceDynamicTopicConfig || len(c.ConfigSynonyms) != 2):
				t.Errorf("version %d: %s has source %d, synonyms %+v", v, c.Name, c.Source, c.ConfigSynonyms)
			case v >= 1 && !own && c.Source != kmsg.ConfigSourceDefaultConfig:
				t.Errorf("version %d: %s has source %d", v, c.Name, c.Source)
			case v >= 3 && (c.ConfigType == 0 || plain(c.Documentation) == ""):
				t.Errorf("version %d: %s has type %d, documentation %q", v, c.Name, c.ConfigType, plain(c.Documentation))
			case v >= 1 && c.Name == "retention.ms" && (len(c.ConfigSynonyms) != 1 || c.ConfigSynonyms[0].Name != "log.retention.hours" || plain(c.ConfigSynonyms[0].Value) != "168"):
				t.Errorf("retention.ms has synonyms %+v", c.ConfigSynonyms)
			}
		}
	}
	if r := configsOf(t, h, 4, topic, "t", false, "retention.ms", "no.such", "segment.bytes"); len(r.Configs) != 2 {
		t.Errorf("%d configurations for two known names", len(r.Configs))
	} else if r.Configs[0].Documentation != nil || len(r.Configs[0].ConfigSynonyms) != 0 {
		t.Errorf("not asked for: %+v", r.Configs[0])
	}
	self := fmt.Sprint(h.self)
	r := configsOf(t, h, 4, node, self, true)
	byName := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range r.Configs {
		byName[c.Name] = c
		if !c.ReadOnly || c.Value == nil || len(c.ConfigSynonyms) != 1 {
			t.Errorf("broker configuration %+v", c)
		}
	}
	for name, want := range map[string]string{
		"num.partitions": "2", "broker.id": self, "log.retention.ms": "604800000", "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
	} {
		if got := plain(byName[name].Value); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		want    errcode.Kind
		configs int
	}{
		{topic, "none", errcode.UnknownShard, 0},
		{topic, "a b", errcode.InvalidTopic, 0},
		{node, "", errcode.OK, 0},
		{node, "99", errcode.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeBrokerLogger, self, errcode.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeClientMetrics, "m", errcode.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeGroupConfig, "g", errcode.InvalidRequest, 0},
		{kmsg.ConfigResourceType(99), "x", errcode.InvalidRequest, 0},
	} {
		r := configsOf(t, h, 4, c.kind, c.name, false)
		wantCode(t, fmt.Sprintf("resource %d %q", c.kind, c.name), r.ErrorCode, c.want)
		if len(r.Configs) != c.configs || (c.want != errcode.OK) != (plain(r.ErrorMessage) != "") {
			t.Errorf("resource %d %q: %d configurations, message %q", c.kind, c.name, len(r.Configs), plain(r.ErrorMessage))
		}
	}
}

// TestAlterConfigs96 is acceptance case 96 as raw requests: set, effective, delete, replace.
func TestAlterConfigs96(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "t")
	value := func(s string) *string { return &s }
	type op struct {
		name  string
		op    kmsg.IncrementalAlterConfigOp
		value *string
	}
	incremental := func(kind kmsg.ConfigResourceType, name string, validate bool, ops ...op) kmsg.IncrementalAlterConfigsResponseResource {
		t.Helper()
		req := at(kmsg.NewPtrIncrementalAlterConfigsRequest(), 1)
		req.ValidateOnly = validate
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		for _, o := range ops {
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			rc.Name, rc.Op, rc.Value = o.name, o.op, o.value
			r.Configs = append(r.Configs, rc)
		}
		req.Resources = append(req.Resources, r)
		resp := h.ask(req).(*kmsg.IncrementalAlterConfigsResponse)
		if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name {
			t.Fatalf("answer %+v", resp)
		}
		return resp.Resources[0]
	}
	const topic = kmsg.ConfigResourceTypeTopic
	has := func(want string) {
		t.Helper()
		if got := fmt.Sprint(h.find("t").Overrides); got != want {
			t.Errorf("configured %s, want %s", got, want)
		}
	}
	for _, c := range []struct {
		name string
		ops  []op
		kind errcode.Kind
		has  string
	}{
		{"set", []op{{"retention.ms", 0, value("1000")}, {"segment.ms", 0, value("7")}}, errcode.OK, "map[retention.ms:1000 segment.ms:7]"},
		{"append", []op{{"cleanup.policy", 2, value("compact")}}, errcode.OK, "map[cleanup.policy:delete,compact retention.ms:1000 segment.ms:7]"},
		{"subtract", []op{{"cleanup.policy", 3, value("delete")}}, errcode.OK, "map[cleanup.policy:compact retention.ms:1000 segment.ms:7]"},
		{"delete", []op{{"segment.ms", 1, nil}, {"cleanup.policy", 1, nil}}, errcode.OK, "map[retention.ms:1000]"},
		{"unknown", []op{{"no.such", 0, value("1")}}, errcode.InvalidConfig, "map[retention.ms:1000]"},
		{"all_or_nothing", []op{{"segment.ms", 0, value("9")}, {"retention.ms", 0, value("soon")}}, errcode.InvalidConfig, "map[retention.ms:1000]"},
		{"key_twice", []op{{"segment.ms", 0, value("9")}, {"segment.ms", 0, value("8")}}, errcode.InvalidRequest, "map[retention.ms:1000]"},
		{"null", []op{{"segment.ms", 0, nil}}, errcode.InvalidRequest, "map[retention.ms:1000]"},
		{"append_to_number", []op{{"segment.ms", 2, value("9")}}, errcode.InvalidConfig, "map[retention.ms:1000]"},
		{"unknown_operation", []op{{"segment.ms", 9, value("9")}}, errcode.InvalidRequest, "map[retention.ms:1000]"},
	} {
		r := incremental(topic, "t", false, c.ops...)
		wantCode(t, c.name, r.ErrorCode, c.kind)
		if (c.kind != errcode.OK) != (plain(r.ErrorMessage) != "") {
			t.Errorf("%s: message %q", c.name, plain(r.ErrorMessage))
		}
		has(c.has)
	}
	wantCode(t, "validate", incremental(topic, "t", true, op{"segment.ms", 0, value("9")}).ErrorCode, errcode.OK)
	wantCode(t, "validate bad", incremental(topic, "t", true, op{"segment.ms", 0, value("x")}).ErrorCode, errcode.InvalidConfig)
	has("map[retention.ms:1000]")
	if got := h.find("t").Config.RetentionMs; got != 1000 {
		t.Errorf("retention.ms in force is %d", got)
	}
	wantCode(t, "missing topic", incremental(topic, "none", false).ErrorCode, errcode.UnknownShard)
	wantCode(t, "illegal topic", incremental(topic, "a b", false).ErrorCode, errcode.InvalidTopic)
	wantCode(t, "broker", incremental(kmsg.ConfigResourceTypeBroker, "1", false, op{"num.io.threads", 0, value("9")}).ErrorCode, errcode.InvalidRequest)
	wantCode(t, "group", incremental(kmsg.ConfigResourceTypeGroupConfig, "g", false).ErrorCode, errcode.InvalidRequest)

	replace := at(kmsg.NewPtrAlterConfigsRequest(), 2)
	for _, name := range []string{"t", "dup", "dup"} {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = topic, name
		rc := kmsg.NewAlterConfigsRequestResourceConfig()
		rc.Name, rc.Value = "max.message.bytes", value("5000")
		r.Configs = append(r.Configs, rc)
		replace.Resources = append(replace.Resources, r)
	}
	answer := h.ask(replace).(*kmsg.AlterConfigsResponse).Resources
	if len(answer) != 2 {
		t.Fatalf("%d answers, want 2", len(answer))
	}
	wantCode(t, "replace", answer[0].ErrorCode, errcode.OK)
	wantCode(t, "resource twice", answer[1].ErrorCode, errcode.InvalidRequest)
	has("map[max.message.bytes:5000]")
}

func TestMessagesNameWhatIsWrong(t *testing.T) {
	h := newRealHarness(t, nil)
	for want, w := range map[string]wantedTopic{
		"no.such": {name: "x", partitions: 1, factor: 1, configs: map[string]string{"no.such": "1"}},
		"brokers": {name: "x", partitions: 1, factor: 3},
		"default": {name: "default.x", partitions: 1, factor: 1},
	} {
		resp := h.ask(createRequest(7, w)).(*kmsg.CreateTopicsResponse)
		if m := plain(resp.Topics[0].ErrorMessage); !strings.Contains(m, want) {
			t.Errorf("message %q does not say %q", m, want)
		}
	}
}
