package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a configuration's value. The numbers are those of DescribeConfigs.
type ConfigType int8

// The types in use.
const (
	TypeBoolean  ConfigType = 1
	TypeString   ConfigType = 2
	TypeInt      ConfigType = 3
	TypeShort    ConfigType = 4
	TypeLong     ConfigType = 5
	TypeDouble   ConfigType = 6
	TypeList     ConfigType = 7
	TypeClass    ConfigType = 8
	TypePassword ConfigType = 9
)

// Synonym names the broker configuration from which a topic configuration takes its default, and how to show a value there.
type Synonym struct {
	Name   string
	UnitMs int64 // the synonym's unit in milliseconds where it differs (hours, minutes); 0: the same value
}

// ConfigDef is one row of the table of topic configurations.
type ConfigDef struct {
	Name    string
	Type    ConfigType
	Default string // canonical text of the built-in default
	Doc     string
	// Synonyms are the broker configurations behind it, the strongest first. A topic's Kafka tools show them.
	Synonyms []Synonym

	// set parses value into c and returns the canonical text.
	set func(c *TopicConfig, value string) (string, error)
	// get is the canonical text of what c has.
	get func(c *TopicConfig) string
}

// Value is the canonical text of the configuration in c.
func (d *ConfigDef) Value(c *TopicConfig) string { return d.get(c) }

// Check parses a value and returns its canonical text.
func (d *ConfigDef) Check(value string) (string, error) { return d.set(new(TopicConfig), value) }

// TopicConfigs returns the table, sorted by name. Shared: do not write to it.
func TopicConfigs() []ConfigDef { return topicConfigs }

// TopicConfigByName returns a row, nil for an unknown name.
func TopicConfigByName(name string) *ConfigDef {
	i, ok := slices.BinarySearchFunc(topicConfigs, name, func(d ConfigDef, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil
	}
	return &topicConfigs[i]
}

var errNotBoolean = errors.New("neither true nor false")

func parseBool(s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, errNotBoolean
	}
}

func parseInt(s string, bits int, low, high int64) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(s), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("not a %d-bit whole number", bits)
	}
	if v < low {
		return 0, fmt.Errorf("must be at least %d", low)
	}
	if v > high {
		return 0, fmt.Errorf("must be no more than %d", high)
	}
	return v, nil
}

// splitList splits at commas and trims; an empty text is an empty list.
func splitList(s string) []string {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func joinList(list []string) string { return strings.Join(list, ",") }

func boolDef(name, def string, field func(*TopicConfig) *bool, doc string, synonyms ...Synonym) ConfigDef {
	return ConfigDef{
		Name: name, Type: TypeBoolean, Default: def, Doc: doc, Synonyms: synonyms,
		set: func(c *TopicConfig, value string) (string, error) {
			v, err := parseBool(value)
			if err != nil {
				return "", err
			}
			*field(c) = v
			return strconv.FormatBool(v), nil
		},
		get: func(c *TopicConfig) string { return strconv.FormatBool(*field(c)) },
	}
}

func intDef(name, def string, low, high int64, field func(*TopicConfig) *int32, doc string, synonyms ...Synonym) ConfigDef {
	return ConfigDef{
		Name: name, Type: TypeInt, Default: def, Doc: doc, Synonyms: synonyms,
		set: func(c *TopicConfig, value string) (string, error) {
			v, err := parseInt(value, 32, low, high)
			if err != nil {
				return "", err
			}
			*field(c) = int32(v)
			return strconv.FormatInt(v, 10), nil
		},
		get: func(c *TopicConfig) string { return strconv.FormatInt(int64(*field(c)), 10) },
	}
}

func longDef(name, def string, low int64, field func(*TopicConfig) *int64, doc string, synonyms ...Synonym) ConfigDef {
	d := wideIntDef(name, def, low, math.MaxInt64, field, doc, synonyms...)
	d.Type = TypeLong
	return d
}

// wideIntDef is a 32-bit configuration that is kept in 64 bits, where the sums are done in 64.
func wideIntDef(name, def string, low, high int64, field func(*TopicConfig) *int64, doc string, synonyms ...Synonym) ConfigDef {
	return ConfigDef{
		Name: name, Type: TypeInt, Default: def, Doc: doc, Synonyms: synonyms,
		set: func(c *TopicConfig, value string) (string, error) {
			bits := 64
			if high == maxInt32 {
				bits = 32
			}
			v, err := parseInt(value, bits, low, high)
			if err != nil {
				return "", err
			}
			*field(c) = v
			return strconv.FormatInt(v, 10), nil
		},
		get: func(c *TopicConfig) string { return strconv.FormatInt(*field(c), 10) },
	}
}

// wordDef is a configuration with a closed set of values, case-sensitive.
func wordDef(name, def string, words []string, field func(c *TopicConfig, set *string) string, doc string, synonyms ...Synonym) ConfigDef {
	return ConfigDef{
		Name: name, Type: TypeString, Default: def, Doc: doc, Synonyms: synonyms,
		set: func(c *TopicConfig, value string) (string, error) {
			value = strings.TrimSpace(value)
			if !slices.Contains(words, value) {
				return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
			}
			field(c, &value)
			return value, nil
		},
		get: func(c *TopicConfig) string { return field(c, nil) },
	}
}

// throttleDef is a list of partition:broker pairs, or "*". Kept as written: there is no replication to throttle by replica.
func throttleDef(name string, field func(*TopicConfig) *string, doc string) ConfigDef {
	return ConfigDef{
		Name: name, Type: TypeList, Default: "", Doc: doc,
		set: func(c *TopicConfig, value string) (string, error) {
			list := splitList(value)
			for _, e := range list {
				if e == "*" && len(list) == 1 {
					continue
				}
				partition, broker, ok := strings.Cut(e, ":")
				_, err := parseInt(partition, 32, 0, math.MaxInt32)
				_, err2 := parseInt(broker, 32, 0, math.MaxInt32)
				if !ok || err != nil || err2 != nil {
					return "", errors.New("must be * or a list of partition:broker pairs")
				}
			}
			*field(c) = joinList(list)
			return *field(c), nil
		},
		get: func(c *TopicConfig) string { return *field(c) },
	}
}
