package node

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseFile reads the YAML file into texts by key, nested keys joined by dots. Every key must be one of the table's, once; a list of
// scalars is joined by commas.
func parseFile(text []byte, path string, table []setting) (map[string]string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	values := map[string]string{}
	if len(doc.Content) == 0 {
		return values, nil
	}
	f := &fileReader{path: path, values: values, known: map[string]bool{}, table: table}
	for _, s := range table {
		if s.Key != "" {
			f.known[s.Key] = true
		}
	}
	return values, f.mapping("", doc.Content[0])
}

type fileReader struct {
	path   string
	values map[string]string
	known  map[string]bool
	table  []setting
}

func (f *fileReader) errorf(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("configuration file %s, line %d: %s", f.path, at.Line, fmt.Sprintf(format, args...))
}

func (f *fileReader) mapping(prefix string, m *yaml.Node) error {
	if m.Kind != yaml.MappingNode {
		return f.errorf(m, "expected keys and values")
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := prefix+m.Content[i].Value, m.Content[i+1]
		if value.Kind == yaml.MappingNode && !f.known[key] && f.isGroup(key) {
			if err := f.mapping(key+".", value); err != nil {
				return err
			}
			continue
		}
		if !f.known[key] {
			return f.unknown(m.Content[i], key)
		}
		if _, twice := f.values[key]; twice {
			return f.errorf(m.Content[i], "%s appears twice", key)
		}
		text, err := f.scalar(key, value)
		if err != nil {
			return err
		}
		f.values[key] = text
	}
	return nil
}

func (f *fileReader) isGroup(key string) bool {
	for k := range f.known {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

func (f *fileReader) scalar(key string, value *yaml.Node) (string, error) {
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		return value.Value, nil
	case value.Kind == yaml.SequenceNode:
		parts := make([]string, len(value.Content))
		for i, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", f.errorf(item, "%s: expected a list of plain values", key)
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), nil
	default:
		return "", f.errorf(value, "%s has no plain value", key)
	}
}

// unknown explains a key that the file may not hold. Settings that weaken something or are secret have a variable and no key, on
// purpose: files get copied from machine to machine.
func (f *fileReader) unknown(at *yaml.Node, key string) error {
	flat := strings.ReplaceAll(strings.ToUpper(key), ".", "_")
	var keys []string
	for _, s := range f.table {
		if s.Key != "" {
			keys = append(keys, s.Key)
		} else if s.Env == envPrefix+flat {
			return f.errorf(at, "unknown key %s: this can only be set by the environment (%s) or a flag, so that a copied file never weakens a node", key, s.Env)
		}
	}
	if near := nearest(key, keys, "._"); len(near) > 0 {
		return f.errorf(at, "unknown key %s (did you mean %s?)", key, strings.Join(near, " or "))
	}
	return f.errorf(at, "unknown key %s", key)
}
