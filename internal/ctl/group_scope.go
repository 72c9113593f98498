package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// scope is which partitions a command is about: of each topic the named partitions, or nil for all.
type scope map[string][]int32

// parseScope reads the values of --topic: NAME, or NAME:0,1,2. A topic that is named whole stays whole.
func parseScope(list []string) (scope, error) {
	out := scope{}
	for _, text := range list {
		topic, numbers, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, usageErrorf("--topic %q is not NAME or NAME:0,1,2", text)
		}
		before, named := out[topic]
		if !some {
			out[topic] = nil
			continue
		}
		partitions := before
		for number := range strings.SplitSeq(numbers, ",") {
			p, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
			if err != nil {
				return nil, usageErrorf("--topic %q is not NAME or NAME:0,1,2", text)
			}
			if !slices.Contains(partitions, int32(p)) {
				partitions = append(partitions, int32(p))
			}
		}
		if !named || before != nil {
			out[topic] = partitions
		}
	}
	return out, nil
}

// has says that the scope takes in a partition. An empty scope takes in none.
func (s scope) has(key partitionKey) bool {
	partitions, ok := s[key.topic]
	return ok && (partitions == nil || slices.Contains(partitions, key.partition))
}

// topics are the names in order.
func (s scope) topics() []string {
	out := make([]string, 0, len(s))
	for topic := range s {
		out = append(out, topic)
	}
	slices.Sort(out)
	return out
}

// maxOffsetFile is the most that --from-file reads: a description of some 200,000 partitions.
const maxOffsetFile = 64 << 20

// readOffsetFile reads --from-file; "-" is standard input.
func (a *app) readOffsetFile(path, group string) (map[partitionKey]commit, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(a.p.In, maxOffsetFile+1))
	} else {
		text, err = readFile(path)
	}
	if err == nil && len(text) > maxOffsetFile {
		err = fmt.Errorf("more than %s", sizeOf(maxOffsetFile))
	}
	if err != nil {
		return nil, usageErrorf("--from-file %s: %w", path, err)
	}
	from, offsets, err := parseOffsetFile(text, group)
	if err != nil {
		return nil, usageErrorf("--from-file %s: %w", path, err)
	}
	if from != group {
		a.say("the offsets in %s are of group %s", path, from)
	}
	return offsets, nil
}

// readFile reads one byte more than is allowed at most, so that the caller sees what is too much.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, maxOffsetFile+1))
}

var errNotADescription = errors.New("not what `felixctl group describe GROUP -o json` prints")

// parseOffsetFile reads what group describe -o json prints, the list or one of its objects, and returns the committed offsets of the
// group, or those of the only group in the file, and the name of the group that they are of. Partitions without a committed offset are
// left out. What it takes is bounded by the text.
func parseOffsetFile(text []byte, group string) (from string, offsets map[partitionKey]commit, err error) {
	var infos []groupInfo
	if text = bytes.TrimSpace(text); bytes.HasPrefix(text, []byte("{")) {
		infos = make([]groupInfo, 1)
		err = json.Unmarshal(text, &infos[0])
	} else {
		err = json.Unmarshal(text, &infos)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w (%w)", errNotADescription, err)
	}
	i := slices.IndexFunc(infos, func(info groupInfo) bool { return info.Group == group })
	switch {
	case i < 0 && len(infos) == 1:
		i = 0
	case i < 0:
		return "", nil, fmt.Errorf("it describes %d groups and group %q is none of them", len(infos), group)
	}
	offsets = map[partitionKey]commit{}
	for _, o := range infos[i].Offsets {
		key := partitionKey{o.Topic, o.Partition}
		if _, twice := offsets[key]; twice || o.Topic == "" || o.Partition < 0 {
			return "", nil, fmt.Errorf("%w: topic %q partition %d is no partition, or there twice", errNotADescription, o.Topic, o.Partition)
		}
		if o.Committed >= 0 {
			offsets[key] = commit{offset: o.Committed, metadata: o.Metadata}
		}
	}
	if len(offsets) == 0 {
		return "", nil, errors.New("it holds no committed offsets")
	}
	return infos[i].Group, offsets, nil
}
