package raw_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
)

var _ = register(
	Case{ID: "92.counts", What: "CreateTopics with 3 partitions and factor 1 (v7)", Want: "0, 3 partitions, factor 1, topic id, configs"},
	Case{ID: "92.defaults", What: "-1 partitions, -1 factor", Want: "0, 1 partition, factor 1"},
	Case{ID: "92.validate", What: "validate_only", Want: "0, not created"},
	Case{ID: "92.exists", What: "an existing topic", Want: "TOPIC_ALREADY_EXISTS (36)"},
	Case{ID: "92.name", What: "a bad name", Want: "INVALID_TOPIC_EXCEPTION (17)"},
	Case{ID: "92.unknown-config", What: "an unknown config", Want: "INVALID_CONFIG (40)"},
	Case{ID: "92.bad-config", What: "bad values: retention.ms=soon, cleanup.policy=maybe, compression.type=rar, max.message.bytes=-1", Want: "INVALID_CONFIG (40); INVALID_CONFIG (40); INVALID_CONFIG (40); INVALID_CONFIG (40)"},
	Case{ID: "92.duplicate", What: "a name twice in the request", Want: "INVALID_REQUEST (42), not created"},
	Case{ID: "92.partitions", What: "0 partitions, -2 partitions", Want: "INVALID_PARTITIONS (37); INVALID_PARTITIONS (37)"},
	Case{ID: "92.factor", What: "factor 0, factor 2 with one broker", Want: "INVALID_REPLICATION_FACTOR (38); INVALID_REPLICATION_FACTOR (38)"},
	Case{ID: "92.assignment", What: "an assignment: right, with an unknown broker, together with a count", Want: "0; INVALID_REPLICA_ASSIGNMENT (39); INVALID_REQUEST (42)"},
	Case{ID: "92.others", What: "a good and a bad topic in one request", Want: "0, created; INVALID_TOPIC_EXCEPTION (17)"},
	Case{ID: "94.name", What: "DeleteTopics by name (v6)", Want: "0, name and id in the answer, gone"},
	Case{ID: "94.id", What: "DeleteTopics by id (v6)", Want: "0, name and id in the answer, gone"},
	Case{ID: "94.missing", What: "missing name, missing id", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_ID (100)"},
	Case{ID: "94.recreate", What: "re-create after a delete", Want: "new id, offsets from 0"},
	Case{ID: "95.grow", What: "CreatePartitions 3 -> 6, produce to the last one", Want: "0, 6 partitions, 0"},
	Case{ID: "95.shrink", What: "6 -> 3, 6 -> 6", Want: "INVALID_PARTITIONS (37); INVALID_PARTITIONS (37)"},
	Case{ID: "95.missing", What: "a missing topic", Want: "UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "95.validate", What: "validate_only 6 -> 9", Want: "0, 6 partitions"},
	Case{ID: "96.describe", What: "DescribeConfigs of a topic: values, sources, types, synonyms, documentation", Want: "all as they should be"},
	Case{ID: "96.set", What: "IncrementalAlterConfigs SET retention.ms=60000", Want: "0, 60000 from the topic"},
	Case{ID: "96.delete", What: "IncrementalAlterConfigs DELETE retention.ms", Want: "0, 604800000 by default"},
	Case{ID: "96.append", What: "APPEND compact to cleanup.policy, then SUBTRACT delete", Want: "0, delete,compact; 0, compact"},
	Case{
		ID: "96.bad", What: "APPEND to retention.ms; a key twice; an unknown key; an unknown operation", Want: "INVALID_CONFIG (40); INVALID_REQUEST (42); INVALID_CONFIG (40); INVALID_REQUEST (42)",
		WantKafka: "INVALID_CONFIG (40); INVALID_REQUEST (42); INVALID_CONFIG (40); UNKNOWN_SERVER_ERROR (-1)", Why: "an answer that says what is wrong; Kafka fails with an exception",
	},
	Case{ID: "96.all-or-nothing", What: "a good and a bad key in one resource", Want: "INVALID_CONFIG (40), nothing set"},
	Case{ID: "96.validate", What: "validate_only", Want: "0, nothing set"},
	Case{ID: "96.replace", What: "AlterConfigs: keys that are not named return to default", Want: "0; retention.ms 604800000, segment.bytes 2097152"},
	Case{ID: "96.effective", What: "max.message.bytes lowered by IncrementalAlterConfigs, then a larger batch", Want: "MESSAGE_TOO_LARGE (10)"},
	Case{ID: "96.missing", What: "DescribeConfigs and IncrementalAlterConfigs of a missing topic", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "96.broker", What: "DescribeConfigs of the broker", Want: "0, has log.retention.ms or hours, message.max.bytes, num.partitions"},
	Case{ID: "96.named", What: "DescribeConfigs with two names", Want: "those two"},
	Case{ID: "97.to-10", What: "DeleteRecords to 10 of 20", Want: "0, log start 10, ListOffsets -2: 10"},
	Case{ID: "97.to-hw", What: "DeleteRecords to -1", Want: "0, log start 20, ListOffsets -2: 20"},
	Case{ID: "97.beyond", What: "DeleteRecords beyond the high watermark; below the log start; -2", Want: "OFFSET_OUT_OF_RANGE (1); 0, log start 20; OFFSET_OUT_OF_RANGE (1)"},
	Case{ID: "97.restart", What: "log start after a restart (Felix: kill -9; Kafka: a clean one, since it checkpoints the log start once a minute)", Want: "10"},
	Case{ID: "97.missing", What: "DeleteRecords of a missing topic and a missing partition", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "98.sizes", What: "DescribeLogDirs v4 of a partition with 1 MB", Want: "0, one directory, size within 10 %, lag 0, disk space shown"},
	Case{ID: "98.absolute", What: "the directory it names", Want: "a path"},
	Case{ID: "T20.create-v4", What: "CreateTopics v4 with -1 and -1", Want: "0"},
	Case{ID: "T22.compact", What: "DescribeConfigs of a topic made with cleanup.policy=compact", Want: "compact, dynamic topic config"},
	Case{ID: "T40.names", What: "one topic without a dot through every admin API", Want: "0 everywhere"},
	Case{ID: "T42.deletes", What: "DeleteTopics v5 of an existing and a missing topic", Want: "every topic answered by name: 0; UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "T43.create-configs", What: "configs in the answer of CreateTopics v5", Want: "more than 20, with sources"},
	Case{ID: "92.cluster", What: "DescribeCluster, endpoint type brokers; endpoint type controllers", Want: "0, brokers; MISMATCHED_ENDPOINT_TYPE (114)"},
	Case{ID: "92.pages", What: "DescribeTopicPartitions of three topics, limit 2, then by cursor", Want: "sorted pages, all partitions once"},
	Case{ID: "92.producers", What: "DescribeProducers of a partition with an idempotent producer", Want: "0, the producer with epoch 0 and last sequence 9"},
	Case{
		ID: "92.transactional", What: "InitProducerId with a transactional id while transactions are not served", Want: "refused with a final error at once",
		WantKafka: "0", Why: "this release serves no transactions; Kafka does",
	},
)

// create sends one topic; change may alter the request.
func (c *client) create(topic string, partitions int32, factor int16, change func(*kmsg.CreateTopicsRequest)) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	req := createRequest(topic, partitions, factor)
	if change != nil {
		change(req)
	}
	return do[*kmsg.CreateTopicsResponse](c, req).Topics[0]
}

// exists tells whether Metadata knows the topic.
func (c *client) exists(topic string) bool {
	c.t.Helper()
	return c.metadata(9, topic).Topics[0].ErrorCode != 3
}

func withConfig(key, value string) func(*kmsg.CreateTopicsRequest) {
	return func(req *kmsg.CreateTopicsRequest) {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = key, &value
		req.Topics[0].Configs = append(req.Topics[0].Configs, rc)
	}
}

func TestCase92CreateTopics(t *testing.T) {
	c := dial(t)
	topic := newName(t)
	made := c.create(topic, 3, 1, nil)
	got := fmt.Sprintf("%s, %d partitions, factor %d", name(made.ErrorCode), made.NumPartitions, made.ReplicationFactor)
	if made.TopicID != [16]byte{} {
		got += ", topic id"
	}
	if len(made.Configs) > 20 {
		got += ", configs"
	}
	expect(t, "92.counts", got)
	sources := true
	for _, config := range made.Configs {
		sources = sources && config.Source != 0
	}
	got = fmt.Sprintf("%d, sources %v", len(made.Configs), sources)
	if len(made.Configs) > 20 && sources {
		got = "more than 20, with sources"
	}
	expect(t, "T43.create-configs", got)
	made = c.create(newName(t), -1, -1, nil)
	expect(t, "92.defaults", fmt.Sprintf("%s, %d partition, factor %d", name(made.ErrorCode), made.NumPartitions, made.ReplicationFactor))

	only := newName(t)
	got = name(c.create(only, 1, 1, func(req *kmsg.CreateTopicsRequest) { req.ValidateOnly = true }).ErrorCode)
	if !c.exists(only) {
		got += ", not created"
	}
	expect(t, "92.validate", got)
	expect(t, "92.exists", name(c.create(topic, 1, 1, nil).ErrorCode))
	expect(t, "92.name", name(c.create("raw.bad name", 1, 1, nil).ErrorCode))
	expect(t, "92.unknown-config", name(c.create(newName(t), 1, 1, withConfig("no.such.config", "1")).ErrorCode))
	var codes []int16
	for _, kv := range [][2]string{{"retention.ms", "soon"}, {"cleanup.policy", "maybe"}, {"compression.type", "rar"}, {"max.message.bytes", "-1"}} {
		codes = append(codes, c.create(newName(t), 1, 1, withConfig(kv[0], kv[1])).ErrorCode)
	}
	expect(t, "92.bad-config", names(codes...))
	twice := newName(t)
	got = name(c.create(twice, 1, 1, func(req *kmsg.CreateTopicsRequest) { req.Topics = append(req.Topics, req.Topics[0]) }).ErrorCode)
	if !c.exists(twice) {
		got += ", not created"
	}
	expect(t, "92.duplicate", got)
	expect(t, "92.partitions", names(c.create(newName(t), 0, 1, nil).ErrorCode, c.create(newName(t), -2, 1, nil).ErrorCode))
	expect(t, "92.factor", names(c.create(newName(t), 1, 0, nil).ErrorCode, c.create(newName(t), 1, 2, nil).ErrorCode))
	broker := c.metadata(9).Brokers[0].NodeID
	assign := func(ids ...int32) func(*kmsg.CreateTopicsRequest) {
		return func(req *kmsg.CreateTopicsRequest) {
			ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			ra.Replicas = ids
			req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, ra)
		}
	}
	expect(t, "92.assignment", names(c.create(newName(t), -1, -1, assign(broker)).ErrorCode,
		c.create(newName(t), -1, -1, assign(broker+7)).ErrorCode, c.create(newName(t), 1, 1, assign(broker)).ErrorCode))

	good := newName(t)
	req := createRequest(good, 1, 1)
	bad := kmsg.NewCreateTopicsRequestTopic()
	bad.Topic, bad.NumPartitions, bad.ReplicationFactor = "raw.bad name", 1, 1
	req.Topics = append(req.Topics, bad)
	answers := map[string]int16{}
	for _, a := range do[*kmsg.CreateTopicsResponse](c, req).Topics {
		answers[a.Topic] = a.ErrorCode
	}
	got = name(answers[good])
	await(t, "the good topic", func() bool { return c.exists(good) })
	got += ", created"
	expect(t, "92.others", got+"; "+name(answers["raw.bad name"]))
	expect(t, "T20.create-v4", name(c.create(newName(t), -1, -1, func(req *kmsg.CreateTopicsRequest) { req.Version = 4 }).ErrorCode))
}

func TestCase94DeleteTopics(t *testing.T) {
	c := dial(t)
	byName, byID := c.topic(1), c.topic(1)
	c.mustProduce(byName, 0, values("a"))
	idOfName, id := c.topicID(byName), c.topicID(byID)
	look := func(a kmsg.DeleteTopicsResponseTopic, topic string, id [16]byte) string {
		got := name(a.ErrorCode)
		if a.Topic != nil && *a.Topic == topic && a.TopicID == id {
			got += ", name and id in the answer"
		}
		await(t, "the topic to be gone", func() bool { return !c.exists(topic) })
		return got + ", gone"
	}
	expect(t, "94.name", look(c.deleteTopic(byName), byName, idOfName))
	deleteID := func(id [16]byte) kmsg.DeleteTopicsResponseTopic {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = 6, 10000
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
		return do[*kmsg.DeleteTopicsResponse](c, req).Topics[0]
	}
	expect(t, "94.id", look(deleteID(id), byID, id))
	expect(t, "94.missing", names(c.deleteTopic(newName(t)).ErrorCode, deleteID([16]byte{3, 1, 4}).ErrorCode))
	c.createTopic(byName, 1)
	got := "old id"
	if c.topicID(byName) != idOfName {
		got = "new id"
	}
	expect(t, "94.recreate", fmt.Sprintf("%s, offsets from %d", got, c.mustProduce(byName, 0, values("b"))))

	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 10000
	missing := newName(t)
	req.TopicNames = []string{byName, missing}
	answers := map[string]int16{}
	for _, a := range do[*kmsg.DeleteTopicsResponse](c, req).Topics {
		answers[str(a.Topic)] = a.ErrorCode
	}
	got = fmt.Sprint(answers)
	if len(answers) == 2 {
		got = "every topic answered by name: " + names(answers[byName], answers[missing])
	}
	expect(t, "T42.deletes", got)
}

func TestCase95CreatePartitions(t *testing.T) {
	c := dial(t)
	topic := c.topic(3)
	grow := func(topic string, count int32, validate bool) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis, req.ValidateOnly = 3, 10000, validate
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = topic, count
		req.Topics = append(req.Topics, rt)
		return do[*kmsg.CreatePartitionsResponse](c, req).Topics[0].ErrorCode
	}
	partitions := func() int { return len(c.metadata(9, topic).Topics[0].Partitions) }
	code := grow(topic, 6, false)
	await(t, "six partitions that serve", func() bool {
		return partitions() == 6 && c.listOffsets(7, topic, 5, -1).ErrorCode == 0
	})
	expect(t, "95.grow", fmt.Sprintf("%s, %d partitions, %s", name(code), partitions(), name(c.produce(topic, 5, values("x")).ErrorCode)))
	expect(t, "95.shrink", names(grow(topic, 3, false), grow(topic, 6, false)))
	expect(t, "95.missing", name(grow(newName(t), 3, false)))
	expect(t, "95.validate", fmt.Sprintf("%s, %d partitions", name(grow(topic, 9, true)), partitions()))
}

// topicConfigs describes a topic's configs, all of them when no names are given.
func (c *client) topicConfigs(topic string, configs ...string) (int16, map[string]kmsg.DescribeConfigsResponseResourceConfig) {
	c.t.Helper()
	return c.configs(kmsg.ConfigResourceTypeTopic, topic, configs...)
}

func (c *client) configs(kind kmsg.ConfigResourceType, resource string, configs ...string) (int16, map[string]kmsg.DescribeConfigsResponseResourceConfig) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.ConfigNames = kind, resource, configs
	req.Resources = append(req.Resources, rr)
	resp := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	out := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, config := range resp.Configs {
		out[config.Name] = config
	}
	return resp.ErrorCode, out
}

// shown is a config's value and where it comes from.
func (c *client) shown(topic, key string) string {
	c.t.Helper()
	_, configs := c.topicConfigs(topic, key)
	config := configs[key]
	switch config.Source {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return str(config.Value) + " from the topic"
	case kmsg.ConfigSourceDefaultConfig:
		return str(config.Value) + " by default"
	default:
		return fmt.Sprintf("%s, source %d", str(config.Value), config.Source)
	}
}

// alteration is one entry of IncrementalAlterConfigs.
type alteration struct {
	op         int8
	key, value string
}

func (c *client) alter(topic string, validate bool, alterations ...alteration) int16 {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validate
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, a := range alterations {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op = a.key, kmsg.IncrementalAlterConfigOp(a.op)
		if a.op != 1 {
			rc.Value = &a.value
		}
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	return do[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0].ErrorCode
}

// mustHave are topic configs with the type that DescribeConfigs v3+ must show (spec/kafka.md 4.15).
var mustHave = map[string]kmsg.ConfigType{
	"cleanup.policy": kmsg.ConfigTypeList, "retention.ms": kmsg.ConfigTypeLong, "retention.bytes": kmsg.ConfigTypeLong,
	"max.message.bytes": kmsg.ConfigTypeInt, "min.insync.replicas": kmsg.ConfigTypeInt, "compression.type": kmsg.ConfigTypeString,
	"segment.bytes": kmsg.ConfigTypeInt, "segment.ms": kmsg.ConfigTypeLong, "message.timestamp.type": kmsg.ConfigTypeString,
	"delete.retention.ms": kmsg.ConfigTypeLong, "min.cleanable.dirty.ratio": kmsg.ConfigTypeDouble,
	"message.timestamp.after.max.ms": kmsg.ConfigTypeLong, "message.timestamp.before.max.ms": kmsg.ConfigTypeLong,
	"flush.messages": kmsg.ConfigTypeLong, "preallocate": kmsg.ConfigTypeBoolean,
}

func TestCase96Configs(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "segment.bytes=2097152")
	code, configs := c.topicConfigs(topic)
	var wrong []string
	for key, kind := range mustHave {
		config, ok := configs[key]
		if !ok || config.Value == nil || config.ConfigType != kind || config.Source == 0 || config.Documentation == nil {
			wrong = append(wrong, fmt.Sprintf("%s: %+v", key, config))
		}
	}
	segment := configs["segment.bytes"]
	if len(segment.ConfigSynonyms) < 2 || segment.Source != kmsg.ConfigSourceDynamicTopicConfig || segment.IsSensitive || segment.ReadOnly {
		wrong = append(wrong, fmt.Sprintf("segment.bytes: %+v", segment))
	}
	slices.Sort(wrong)
	got := strings.Join(wrong, "; ")
	if code == 0 && got == "" {
		got = "all as they should be"
	}
	expect(t, "96.describe", got)
	alter := func(validate bool, alterations ...alteration) string {
		return name(c.alter(topic, validate, alterations...))
	}
	expect(t, "96.set", alter(false, alteration{0, "retention.ms", "60000"})+", "+c.shown(topic, "retention.ms"))
	expect(t, "96.delete", alter(false, alteration{1, "retention.ms", ""})+", "+c.shown(topic, "retention.ms"))
	appended := alter(false, alteration{2, "cleanup.policy", "compact"}) + ", " + strings.TrimSuffix(c.shown(topic, "cleanup.policy"), " from the topic")
	expect(t, "96.append", appended+"; "+alter(false, alteration{3, "cleanup.policy", "delete"})+", "+strings.TrimSuffix(c.shown(topic, "cleanup.policy"), " from the topic"))
	expect(t, "96.bad", strings.Join([]string{
		alter(false, alteration{2, "retention.ms", "5"}),
		alter(false, alteration{0, "retention.ms", "5"}, alteration{0, "retention.ms", "6"}),
		alter(false, alteration{0, "no.such.config", "5"}),
		alter(false, alteration{9, "retention.ms", "5"}),
	}, "; "))
	got = alter(false, alteration{0, "retention.ms", "70000"}, alteration{0, "segment.bytes", "many"})
	if c.shown(topic, "retention.ms") == "604800000 by default" {
		got += ", nothing set"
	}
	expect(t, "96.all-or-nothing", got)
	got = alter(true, alteration{0, "retention.ms", "70000"})
	if c.shown(topic, "retention.ms") == "604800000 by default" {
		got += ", nothing set"
	}
	expect(t, "96.validate", got)
	_, two := c.topicConfigs(topic, "retention.ms", "segment.bytes")
	got = fmt.Sprintf("%d", len(two))
	if _, ok := two["retention.ms"]; ok && len(two) == 2 {
		got = "those two"
	}
	expect(t, "96.named", got)

	alter(false, alteration{0, "retention.ms", "60000"})
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = 2
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	rc := kmsg.NewAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = "segment.bytes", kmsg.StringPtr("2097152")
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	replaced := name(do[*kmsg.AlterConfigsResponse](c, req).Resources[0].ErrorCode)
	value := func(key string) string {
		_, configs := c.topicConfigs(topic, key)
		return key + " " + str(configs[key].Value)
	}
	expect(t, "96.replace", replaced+"; "+value("retention.ms")+", "+value("segment.bytes"))
	alter(false, alteration{0, "max.message.bytes", "1000"})
	var effective string
	await(t, "the new limit", func() bool {
		effective = name(c.produce(topic, 0, sized(1001)).ErrorCode)
		return effective != "0"
	})
	expect(t, "96.effective", effective)

	missing := newName(t)
	code, _ = c.topicConfigs(missing)
	expect(t, "96.missing", names(code, c.alter(missing, false, alteration{0, "retention.ms", "5"})))
	compact := c.topic(1, "cleanup.policy=compact")
	shown := c.shown(compact, "cleanup.policy")
	if shown == "compact from the topic" {
		shown = "compact, dynamic topic config"
	}
	expect(t, "T22.compact", shown)
	code, broker := c.configs(kmsg.ConfigResourceTypeBroker, fmt.Sprint(c.metadata(9).Brokers[0].NodeID))
	got = name(code)
	_, hours := broker["log.retention.hours"]
	_, ms := broker["log.retention.ms"]
	_, size := broker["message.max.bytes"]
	_, partitions := broker["num.partitions"]
	if (hours || ms) && size && partitions {
		got += ", has log.retention.ms or hours, message.max.bytes, num.partitions"
	}
	expect(t, "96.broker", got)
}

func TestCase97DeleteRecords(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	for range 20 {
		c.mustProduce(topic, 0, values("x"))
	}
	remove := func(offset int64) string {
		code, low := c.deleteRecords(topic, 0, offset)
		if code != 0 {
			return name(code)
		}
		return fmt.Sprintf("0, log start %d", low)
	}
	first := func() string { return fmt.Sprintf(", ListOffsets -2: %d", c.offset(topic, 0, -2)) }
	expect(t, "97.to-10", remove(10)+first())
	expect(t, "97.to-hw", remove(-1)+first())
	expect(t, "97.beyond", remove(21)+"; "+remove(5)+"; "+remove(-2))
	code1, _ := c.deleteRecords(newName(t), 0, 0)
	code2, _ := c.deleteRecords(topic, 9, 0)
	expect(t, "97.missing", names(code1, code2))
}

func TestCase98LogDirs(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, sized(1_000_000))
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	resp := do[*kmsg.DescribeLogDirsResponse](c, req)
	got := fmt.Sprintf("%+v", resp)
	path := "none"
	if len(resp.Dirs) == 1 {
		d := resp.Dirs[0]
		got = name(d.ErrorCode) + ", one directory"
		for _, topic := range d.Topics {
			for _, p := range topic.Partitions {
				if p.Size > 900_000 && p.Size < 1_100_000 {
					got += ", size within 10 %"
				} else {
					got += fmt.Sprintf(", size %d", p.Size)
				}
				got += fmt.Sprintf(", lag %d", p.OffsetLag)
			}
		}
		if d.TotalBytes > d.UsableBytes && d.UsableBytes > 0 {
			got += ", disk space shown"
		}
		path = d.Dir
		if _, err := os.Stat(d.Dir); filepath.IsAbs(d.Dir) && (err == nil || server.PID() == 0) {
			path = "a path"
		}
	}
	expect(t, "98.sizes", got)
	expect(t, "98.absolute", path)
}

func TestTrap40PlainNames(t *testing.T) {
	c := dial(t)
	topic := "t40-" + strings.TrimPrefix(newName(t), "raw.")
	c.createTopic(topic, 1)
	c.mustProduce(topic, 0, values("a", "b"))
	code1, low := c.deleteRecords(topic, 0, 1)
	code2, _ := c.topicConfigs(topic)
	codes := []int16{
		c.fetch(topic, 0, 1).ErrorCode, c.listOffsets(7, topic, 0, -1).ErrorCode, c.epochEnd(topic, -1, 0).ErrorCode,
		code1, code2, c.alter(topic, false, alteration{0, "retention.ms", "60000"}), c.metadata(12, topic).Topics[0].ErrorCode,
		c.deleteTopic(topic).ErrorCode,
	}
	got := names(codes...)
	if low == 1 && !slices.ContainsFunc(codes, func(code int16) bool { return code != 0 }) {
		got = "0 everywhere"
	}
	expect(t, "T40.names", got)
}

func TestDescribeCluster(t *testing.T) {
	c := dial(t)
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.EndpointType = 1, 1
	resp := do[*kmsg.DescribeClusterResponse](c, req)
	got := name(resp.ErrorCode)
	if len(resp.Brokers) == 1 && resp.ClusterID != "" && resp.ControllerID == resp.Brokers[0].NodeID {
		got += ", brokers"
	}
	req.EndpointType = 2
	expect(t, "92.cluster", got+"; "+name(do[*kmsg.DescribeClusterResponse](c, req).ErrorCode))
}

func TestDescribeTopicPartitions(t *testing.T) {
	c := dial(t)
	topics := []string{c.topic(1), c.topic(3), c.topic(1)}
	slices.Sort(topics)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	for _, topic := range []string{topics[2], topics[0], topics[1]} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = topic
		req.Topics = append(req.Topics, rt)
	}
	var seen, want []string
	for _, topic := range topics {
		for p := range len(c.metadata(9, topic).Topics[0].Partitions) {
			want = append(want, fmt.Sprintf("%s/%d", topic, p))
		}
	}
	pages := 0
	for ; pages < 10; pages++ {
		resp := do[*kmsg.DescribeTopicPartitionsResponse](c, req)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				seen = append(seen, fmt.Sprintf("%s/%d", str(topic.Topic), p.Partition))
			}
		}
		if resp.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &cursor
	}
	got := fmt.Sprint(seen)
	if slices.Equal(seen, want) && pages > 0 {
		got = "sorted pages, all partitions once"
	}
	expect(t, "92.pages", got)
}

func TestDescribeProducers(t *testing.T) {
	c := dial(t)
	topic, id := c.topic(1), c.producerID()
	c.mustProduce(topic, 0, batchOf(id, 0, 0, 10))
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, rt)
	p := do[*kmsg.DescribeProducersResponse](c, req).Topics[0].Partitions[0]
	got := fmt.Sprintf("%s, %+v", name(p.ErrorCode), p.ActiveProducers)
	if len(p.ActiveProducers) == 1 && p.ActiveProducers[0].ProducerID == id && p.ActiveProducers[0].CurrentTxnStartOffset == -1 {
		got = fmt.Sprintf("%s, the producer with epoch %d and last sequence %d", name(p.ErrorCode), p.ActiveProducers[0].ProducerEpoch, p.ActiveProducers[0].LastSequence)
	}
	expect(t, "92.producers", got)
}

func TestRefusalsOfWhatIsNotServed(t *testing.T) {
	c := dial(t)
	if server.Kind() == peer.Kafka { // makes its transaction log when someone looks for a coordinator
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{"tx"}
		do[*kmsg.FindCoordinatorResponse](c, find)
	}
	id := "tx"
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, 60000
	var code int16
	await(t, "an answer that is not about loading", func() bool {
		code = do[*kmsg.InitProducerIDResponse](c, req).ErrorCode
		return server.Kind() == peer.Felix || code == 0 // Kafka creates its log first
	})
	got := name(code)
	if code == 53 || code == 35 || code == 42 {
		got = "refused with a final error at once"
	}
	expect(t, "92.transactional", got)
}
