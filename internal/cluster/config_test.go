package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
)

// kafkaTopicConfigs are the topic configurations that Apache Kafka 4.3.1 shows, with its type and default; preallocate and segment.bytes
// have our default (Kafka: false and 1 GiB).
var kafkaTopicConfigs = map[string]struct {
	typ ConfigType
	def string
}{
	"cleanup.policy": {TypeList, "delete"}, "compression.gzip.level": {TypeInt, "-1"}, "compression.lz4.level": {TypeInt, "9"},
	"compression.type": {TypeString, "producer"}, "compression.zstd.level": {TypeInt, "3"}, "delete.retention.ms": {TypeLong, "86400000"},
	"file.delete.delay.ms": {TypeLong, "60000"}, "flush.messages": {TypeLong, "9223372036854775807"}, "flush.ms": {TypeLong, "9223372036854775807"},
	"follower.replication.throttled.replicas": {TypeList, ""}, "index.interval.bytes": {TypeInt, "4096"},
	"leader.replication.throttled.replicas": {TypeList, ""}, "local.retention.bytes": {TypeLong, "-2"}, "local.retention.ms": {TypeLong, "-2"},
	"max.compaction.lag.ms": {TypeLong, "9223372036854775807"}, "max.message.bytes": {TypeInt, "1048588"},
	"message.timestamp.after.max.ms": {TypeLong, "3600000"}, "message.timestamp.before.max.ms": {TypeLong, "9223372036854775807"},
	"message.timestamp.type": {TypeString, "CreateTime"}, "min.cleanable.dirty.ratio": {TypeDouble, "0.5"}, "min.compaction.lag.ms": {TypeLong, "0"},
	"min.insync.replicas": {TypeInt, "1"}, "preallocate": {TypeBoolean, "true"}, "remote.log.copy.disable": {TypeBoolean, "false"},
	"remote.log.delete.on.disable": {TypeBoolean, "false"}, "remote.storage.enable": {TypeBoolean, "false"}, "retention.bytes": {TypeLong, "-1"},
	"retention.ms": {TypeLong, "604800000"}, "segment.bytes": {TypeInt, "268435456"}, "segment.index.bytes": {TypeInt, "10485760"},
	"segment.jitter.ms": {TypeLong, "0"}, "segment.ms": {TypeLong, "604800000"}, "unclean.leader.election.enable": {TypeBoolean, "false"},
}

func TestTopicConfigTable(t *testing.T) {
	def := DefaultTopicConfig()
	seen := map[string]bool{}
	last := ""
	for _, d := range TopicConfigs() {
		if d.Name <= last {
			t.Errorf("%s stands after %s: the table is searched by halves", d.Name, last)
		}
		last = d.Name
		seen[d.Name] = true
		if TopicConfigByName(d.Name) == nil {
			t.Errorf("%s is not found by name", d.Name)
		}
		if d.Doc == "" {
			t.Errorf("%s has no documentation", d.Name)
		}
		if got := d.Value(def); got != d.Default {
			t.Errorf("%s: default shows as %q, want %q", d.Name, got, d.Default)
		}
		if want, ok := kafkaTopicConfigs[d.Name]; ok && (d.Type != want.typ || d.Default != want.def) {
			t.Errorf("%s: type %d, default %q, want %d, %q as Kafka", d.Name, d.Type, d.Default, want.typ, want.def)
		} else if !ok && !strings.HasPrefix(d.Name, "felix.") {
			t.Errorf("%s is neither Kafka's nor ours", d.Name)
		}
	}
	for name := range kafkaTopicConfigs {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestConfigValues holds what Kafka 4.3.1's own validation says of each value; refused means InvalidConfig. Rows marked ours differ.
func TestConfigValues(t *testing.T) {
	const refused = "\x00"
	for _, c := range []struct{ name, value, want string }{
		{"cleanup.policy", "delete", "delete"},
		{"cleanup.policy", "compact,delete", "compact,delete"},
		{"cleanup.policy", "delete, compact", "delete,compact"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact,compact", "compact,compact"},
		{"cleanup.policy", "foo", refused},
		{"cleanup.policy", "COMPACT", refused},
		{"cleanup.policy", " delete ", "delete"},
		{"cleanup.policy", "delete,", refused},
		{"retention.ms", "-1", "-1"},
		{"retention.ms", "-2", refused},
		{"retention.ms", "007", "7"},
		{"retention.ms", "+5", "5"},
		{"retention.ms", " 5 ", "5"},
		{"retention.ms", "", refused},
		{"retention.ms", "abc", refused},
		{"retention.ms", "9223372036854775807", "9223372036854775807"},
		{"retention.ms", "9223372036854775808", refused},
		{"retention.ms", "1.5", refused},
		{"retention.bytes", "-5", "-5"},
		{"segment.bytes", "1048576", "1048576"},
		{"segment.bytes", "1048575", refused},
		{"segment.bytes", "2147483647", "2147483647"},
		{"segment.bytes", "2147483648", refused},
		{"min.cleanable.dirty.ratio", "0", "0.0"},
		{"min.cleanable.dirty.ratio", "1", "1.0"},
		{"min.cleanable.dirty.ratio", "1.1", refused},
		{"min.cleanable.dirty.ratio", "-0.1", refused},
		{"min.cleanable.dirty.ratio", "NaN", refused}, // ours: a ratio that compares with nothing
		{"min.cleanable.dirty.ratio", "0.50", "0.5"},
		{"min.cleanable.dirty.ratio", "1e-3", "0.001"},
		{"min.cleanable.dirty.ratio", ".5", "0.5"},
		{"preallocate", "FALSE", "false"},
		{"preallocate", " True ", "true"},
		{"preallocate", "yes", refused},
		{"preallocate", "", refused},
		{"compression.type", "gzip", "gzip"},
		{"compression.type", "GZIP", refused},
		{"compression.type", "none", refused},
		{"compression.type", " lz4 ", "lz4"},
		{"compression.gzip.level", "-1", "-1"},
		{"compression.gzip.level", "0", refused},
		{"compression.gzip.level", "9", "9"},
		{"compression.gzip.level", "10", refused},
		{"compression.lz4.level", "0", refused},
		{"compression.lz4.level", "17", "17"},
		{"compression.zstd.level", "-131072", "-131072"},
		{"message.timestamp.type", "LogAppendTime", "LogAppendTime"},
		{"message.timestamp.type", "createtime", refused},
		{"min.insync.replicas", "0", refused},
		{"flush.messages", "0", refused},
		{"flush.messages", "1", "1"},
		{"leader.replication.throttled.replicas", "*", "*"},
		{"leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"},
		{"leader.replication.throttled.replicas", "a", refused},
		{"leader.replication.throttled.replicas", "*,0:1", refused},
		{"leader.replication.throttled.replicas", "0:1:2", refused},
		{"leader.replication.throttled.replicas", "", ""},
		{"remote.storage.enable", "false", "false"},
		{"remote.storage.enable", "true", refused},
		{"remote.log.copy.disable", "true", refused}, // ours: there is nothing to stop
		{"local.retention.ms", "-3", refused},
		{"local.retention.ms", "100", "100"},
		{"unclean.leader.election.enable", "true", "true"},
		{"max.message.bytes", "-1", refused},
		{"max.message.bytes", "0", "0"},
		{"max.compaction.lag.ms", "0", refused},
		{"segment.index.bytes", "3", refused},
		{"message.format.version", "3.0", refused},
		{"foo.bar", "1", refused},
		{"felix.consistency", "quorum", "quorum"},
		{"felix.consistency", "", ""},
		{"felix.consistency", "most", refused},
	} {
		got, err := CanonicalOverrides(map[string]string{c.name: c.value})
		switch {
		case c.want == refused && errcode.Of(err) != errcode.InvalidConfig:
			t.Errorf("%s=%q: %v, %v, want InvalidConfig", c.name, c.value, got, err)
		case c.want == refused && !strings.Contains(err.Error(), c.name):
			t.Errorf("%s=%q: the error does not name it: %v", c.name, c.value, err)
		case c.want != refused && (err != nil || got[c.name] != c.want):
			t.Errorf("%s=%q: %v, %v, want %q", c.name, c.value, got, err, c.want)
		}
	}
}

func TestConfigRelations(t *testing.T) {
	bad := map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
	if _, err := CanonicalOverrides(bad); errcode.Of(err) != errcode.InvalidConfig {
		t.Errorf("min above max compaction lag: %v, want InvalidConfig", err)
	}
	if got, err := CanonicalOverrides(nil); got != nil || err != nil {
		t.Errorf("CanonicalOverrides(nil) = %v, %v", got, err)
	}
}

func TestParseTopicConfig(t *testing.T) {
	base := DefaultTopicConfig()
	base.RetentionMs = 42
	c, err := ParseTopicConfig(map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "2097152", "compression.type": "zstd",
		"compression.zstd.level": "7", "message.timestamp.type": "LogAppendTime",
	}, base)
	if err != nil {
		t.Fatal(err)
	}
	if !c.CleanupCompact || c.CleanupDelete || c.SegmentBytes != 2<<20 || !c.LogAppendTime || c.RetentionMs != 42 {
		t.Errorf("parsed %+v", c)
	}
	if codec, keep := c.Codec(); codec != 4 || keep || c.CodecLevel() != 7 {
		t.Errorf("Codec() = %d, %t, level %d, want 4, false, 7", codec, keep, c.CodecLevel())
	}
	if _, keep := base.Codec(); !keep || base.SegmentBytes != 256<<20 {
		t.Errorf("the base was changed: %+v", base)
	}
}

func TestApplyConfigChange(t *testing.T) {
	now := map[string]string{"cleanup.policy": "compact", "retention.ms": "5"}
	for _, c := range []struct {
		change ConfigChange
		value  string
		set    bool
		kind   errcode.Kind
	}{
		{ConfigChange{"retention.ms", ConfigSet, "7"}, "7", true, errcode.OK},
		{ConfigChange{"retention.ms", ConfigDelete, ""}, "", false, errcode.OK},
		{ConfigChange{"retention.ms", ConfigAppend, "7"}, "", false, errcode.InvalidConfig},
		{ConfigChange{"cleanup.policy", ConfigAppend, "delete"}, "compact,delete", true, errcode.OK},
		{ConfigChange{"cleanup.policy", ConfigAppend, "compact"}, "compact", true, errcode.OK},
		{ConfigChange{"cleanup.policy", ConfigSubtract, "compact,delete"}, "", true, errcode.OK},
		{ConfigChange{"leader.replication.throttled.replicas", ConfigAppend, "0:1"}, "0:1", true, errcode.OK},
		{ConfigChange{"no.such", ConfigSet, "1"}, "", false, errcode.InvalidConfig},
		{ConfigChange{"retention.ms", 9, "1"}, "", false, errcode.InvalidRequest},
	} {
		value, set, err := ApplyConfigChange(now, c.change)
		if value != c.value || set != c.set || errcode.Of(err) != c.kind {
			t.Errorf("%+v: %q, %t, %v, want %q, %t, %v", c.change, value, set, err, c.value, c.set, c.kind)
		}
	}
	if value, _, _ := ApplyConfigChange(nil, ConfigChange{"cleanup.policy", ConfigAppend, "compact"}); value != "delete,compact" {
		t.Errorf("append to the default gives %q, want delete,compact", value)
	}
}

func TestBrokerConfigs(t *testing.T) {
	def := DefaultTopicConfig()
	def.RetentionMs = 1000
	list := BrokerConfigs(map[string]string{"num.partitions": "3", "no.such": "x"}, def)
	if !slices.IsSortedFunc(list, func(a, b BrokerConfig) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	byName := map[string]BrokerConfig{}
	for _, c := range list {
		if _, twice := byName[c.Name]; twice {
			t.Errorf("%s is listed twice", c.Name)
		}
		byName[c.Name] = c
	}
	for name, want := range map[string]BrokerConfig{
		"num.partitions":            {Value: "3"},
		"log.retention.ms":          {Value: "1000"},
		"log.segment.bytes":         {Value: "268435456", Default: true},
		"auto.create.topics.enable": {Value: "true", Default: true},
		"message.max.bytes":         {Value: "1048588", Default: true},
	} {
		if got := byName[name]; got.Value != want.Value || got.Default != want.Default {
			t.Errorf("%s = %q, default %t, want %q, %t", name, got.Value, got.Default, want.Value, want.Default)
		}
	}
	if slices.Contains(slices.Collect(maps.Keys(byName)), "no.such") {
		t.Error("an unknown name is listed")
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 249)
	for _, c := range []struct {
		namespace, name string
		ok              bool
	}{
		{"default", "a", true},
		{"default", "_schemas", true},
		{"default", "a.b", true},
		{"n", "..a", true},
		{"default", "", false},
		{"default", ".", false},
		{"default", "..", false},
		{"default", "a b", false},
		{"default", "ä", false},
		{"default", long, true},
		{"default", long + "x", false},
		{"n", long[:247], true},
		{"n", long[:248], false},
	} {
		if err := ValidateStreamName(c.namespace, c.name); (err == nil) != c.ok || err != nil && errcode.Of(err) != errcode.InvalidTopic {
			t.Errorf("ValidateStreamName(%q, %q) = %v, want ok %t", c.namespace, c.name, err, c.ok)
		}
	}
	for name, ok := range map[string]bool{"a": true, "9": true, "a.b_c-d": true, "": false, ".a": false, "-a": false, "_a": false, "a/b": false, strings.Repeat("x", 129): false} {
		if err := ValidateName("namespace", name); (err == nil) != ok {
			t.Errorf("ValidateName(%q) = %v, want ok %t", name, err, ok)
		}
	}
}
