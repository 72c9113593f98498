package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/felixlog/felix/internal/ids"
)

// topicInfo is topic describe's answer for one topic.
type topicInfo struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	IDBase64   string            `json:"id_base64"` // as Kafka's tools print it
	Internal   bool              `json:"internal"`
	Config     map[string]string `json:"config"` // what differs from the server's defaults
	Partitions []partitionInfo   `json:"partitions"`
}

type partitionInfo struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"leader_epoch"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"in_sync"`
	Start     int64   `json:"log_start_offset"`
	End       int64   `json:"high_watermark"`
	Bytes     int64   `json:"bytes"`
	Error     string  `json:"error,omitempty"`
}

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME...", Aliases: []string{"info"}, Short: "Show partitions, offsets and configuration", Args: upTo(0),
		Example:           "  felixctl topic describe orders",
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
			defer cancel()
			c, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			infos, err := c.describe(ctx, names)
			if err != nil {
				return err
			}
			if a.json() {
				return a.emit(infos, nil, nil)
			}
			for i, info := range infos {
				if err := a.printTopic(info, i > 0); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (c *kafkaClient) describe(ctx context.Context, names []string) ([]topicInfo, error) {
	details, err := c.topics(ctx, names)
	if err != nil {
		return nil, err
	}
	spans, err := c.spans(ctx, names)
	if err != nil {
		return nil, err
	}
	sizes := c.sizes(ctx, details)
	configs, err := c.configs(ctx, names)
	if err != nil {
		return nil, err
	}
	infos := make([]topicInfo, 0, len(names))
	for _, t := range details.Sorted() {
		id := ids.TopicID(t.ID)
		info := topicInfo{
			Name: t.Topic, ID: id.String(), IDBase64: id.Base64(), Internal: t.IsInternal, Config: map[string]string{}, Partitions: []partitionInfo{},
		}
		for _, e := range configs[t.Topic] {
			if e.Own {
				info.Config[e.Name] = e.Value
			}
		}
		for _, p := range t.Partitions.Sorted() {
			info.Partitions = append(info.Partitions, describePartition(p, spans, sizes))
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func describePartition(p kadm.PartitionDetail, spans map[partitionKey]span, sizes map[partitionKey]int64) partitionInfo {
	key := partitionKey{p.Topic, p.Partition}
	info := partitionInfo{
		Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, InSync: p.ISR, Start: -1, End: -1, Bytes: -1,
	}
	if s := spans[key]; s.err == nil {
		info.Start, info.End = s.start, s.end
	} else {
		info.Error = s.err.Error()
	}
	if p.Err != nil {
		info.Error = p.Err.Error()
	}
	if sizes != nil {
		info.Bytes = sizes[key]
	}
	return info
}

func (a *app) printTopic(info topicInfo, gap bool) error {
	facts := [][]string{{"topic", info.Name}, {"id", info.ID}}
	keys := make([]string, 0, len(info.Config))
	for k := range info.Config {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		facts = append(facts, []string{"config", k + "=" + info.Config[k]})
	}
	if err := errors.Join(a.blank(gap), a.facts(facts), a.blank(true)); err != nil {
		return err
	}
	header := []string{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "HIGH WATERMARK", "SIZE"}
	rows, failures := make([][]string, len(info.Partitions)), make([]string, len(info.Partitions))
	for i, p := range info.Partitions {
		rows[i] = []string{
			fmt.Sprint(p.Partition), orDash(int64(p.Leader)), orDash(int64(p.Epoch)), join(p.Replicas), join(p.InSync),
			orDash(p.Start), orDash(p.End), sizeOf(p.Bytes),
		}
		failures[i] = p.Error
	}
	header, rows = withColumn(header, rows, "ERROR", failures)
	return a.table(header, rows)
}
