package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/peer"
)

// franz implements agent.Library with franz-go: kgo for records, kadm for the rest.
type franz struct{}

var _ agent.Library = franz{}

// Franz serves franz-go.
func Franz(ctx context.Context) (*Client, error) {
	return Local(ctx, "franz-go", franz{}, Features{FutureIsEnd: true})
}

// goModRequirement finds franz-go's version in the module file; a test binary carries no build information.
var goModRequirement = regexp.MustCompile(`(?m)^\s*github\.com/twmb/franz-go v(\S+)`)

// Version is the module's version.
func (franz) Version() string {
	b, err := os.ReadFile(filepath.Join(peer.ModuleDir(), "go.mod"))
	if m := goModRequirement.FindSubmatch(b); err == nil && m != nil {
		return "franz-go " + string(m[1])
	}
	return "franz-go"
}

// coded keeps Kafka's number of an error.
func coded(err error) error {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return &agent.CodedError{Code: int(ke.Code), Err: err}
	}
	return err
}

// codecs by the names that all clients share.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func dial(req agent.Request, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(req.Bootstrap)}, opts...)...)
}

// producerOpts are the options of a producing client; of req.Config only acks is known.
func producerOpts(req agent.Request) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(100 * time.Millisecond), kgo.DefaultProduceTopic(req.Topic),
	}
	if req.Codec != "" {
		codec, ok := codecs[req.Codec]
		if !ok {
			return nil, fmt.Errorf("unknown codec %q", req.Codec)
		}
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	}
	switch acks := req.Config["acks"]; acks {
	case "", "all", "-1":
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("unknown acks %q", acks)
	}
	return opts, nil
}

// Metadata lists with kadm.
func (franz) Metadata(ctx context.Context, req agent.Request) (*agent.Metadata, error) {
	cl, err := dial(req)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var topics []string
	if req.Topic != "" {
		topics = []string{req.Topic}
	}
	m, err := kadm.NewClient(cl).Metadata(ctx, topics...)
	if err != nil {
		return nil, coded(err)
	}
	out := &agent.Metadata{}
	for _, b := range m.Brokers {
		out.Brokers = append(out.Brokers, agent.Broker{ID: b.NodeID, Host: b.Host, Port: int(b.Port)})
	}
	for _, d := range m.Topics.Sorted() {
		t := agent.Topic{Name: d.Topic}
		if d.Err != nil {
			t.Error = d.Err.Error()
		}
		for _, p := range d.Partitions.Sorted() {
			t.Partitions = append(t.Partitions, agent.Partition{ID: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR})
		}
		out.Topics = append(out.Topics, t)
	}
	return out, nil
}

// Create makes one topic with kadm.
func (franz) Create(ctx context.Context, req agent.Request) error {
	cl, err := dial(req)
	if err != nil {
		return err
	}
	defer cl.Close()
	configs := map[string]*string{}
	for name, value := range req.Config {
		configs[name] = kadm.StringPtr(value)
	}
	res, err := kadm.NewClient(cl).CreateTopic(ctx, req.Partitions, 1, configs, req.Topic)
	if err == nil {
		err = res.Err
	}
	return coded(err)
}

// Produce sends all records and waits for all answers.
func (franz) Produce(ctx context.Context, req agent.Request) ([]int64, error) {
	opts, err := producerOpts(req)
	if err != nil {
		return nil, err
	}
	cl, err := dial(req, opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	offsets := make([]int64, len(req.Records))
	errs := make([]error, len(req.Records))
	for i, r := range req.Records {
		kr := &kgo.Record{Partition: r.Partition, Key: r.Key, Value: r.Value}
		if r.Timestamp != 0 {
			kr.Timestamp = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			kr.Headers = append(kr.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		cl.Produce(ctx, kr, func(done *kgo.Record, err error) { offsets[i], errs[i] = done.Offset, err })
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	return offsets, coded(errors.Join(errs...))
}

// Consume reads to the high watermark that the broker names at the start. Control records are kept until here, since one may be the
// last of its partition; they are not returned.
func (franz) Consume(ctx context.Context, req agent.Request) ([]agent.Record, error) {
	from := kgo.NewOffset().At(req.From)
	if req.From == agent.FromBeginning {
		from = kgo.NewOffset().AtStart()
	}
	assign := map[int32]kgo.Offset{}
	for _, p := range req.Assign {
		assign[p] = from
	}
	cl, err := dial(req, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{req.Topic: assign}),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	open, err := unread(ctx, cl, req)
	if err != nil {
		return nil, err
	}
	var records []agent.Record
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("partitions %v not at the end, %d records: %w", slices.Collect(maps.Keys(open)), len(records), context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			return nil, coded(e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, record(r))
			}
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	slices.SortStableFunc(records, func(a, b agent.Record) int { return int(a.Partition - b.Partition) })
	return records, nil
}

// unread is the end offset of each assigned partition that has something from req.From on.
func unread(ctx context.Context, cl *kgo.Client, req agent.Request) (map[int32]int64, error) {
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, req.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, coded(err)
	}
	ends, err := adm.ListEndOffsets(ctx, req.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, coded(err)
	}
	open := map[int32]int64{}
	for _, p := range req.Assign {
		start, _ := starts.Lookup(req.Topic, p)
		end, ok := ends.Lookup(req.Topic, p)
		if !ok {
			return nil, fmt.Errorf("no end offset of partition %d", p)
		}
		if end.Offset > max(start.Offset, req.From) {
			open[p] = end.Offset
		}
	}
	return open, nil
}

func record(r *kgo.Record) agent.Record {
	out := agent.Record{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, agent.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// Offsets looks each time up.
func (franz) Offsets(ctx context.Context, req agent.Request) ([]int64, error) {
	cl, err := dial(req)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []int64
	for _, at := range req.Times {
		listed, err := kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, at, req.Topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, coded(err)
		}
		o, ok := listed.Lookup(req.Topic, req.Partition)
		if !ok {
			return nil, fmt.Errorf("no offset of partition %d", req.Partition)
		}
		out = append(out, o.Offset)
	}
	return out, nil
}

// Watermarks asks for both ends.
func (franz) Watermarks(ctx context.Context, req agent.Request) (first, next int64, err error) {
	cl, err := dial(req)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, req.Topic)
	if err != nil {
		return 0, 0, coded(err)
	}
	ends, err := adm.ListEndOffsets(ctx, req.Topic)
	if err != nil {
		return 0, 0, coded(err)
	}
	s, _ := starts.Lookup(req.Topic, req.Partition)
	e, ok := ends.Lookup(req.Topic, req.Partition)
	if !ok {
		return 0, 0, fmt.Errorf("no offsets of partition %d", req.Partition)
	}
	return s.Offset, e.Offset, coded(errors.Join(s.Err, e.Err))
}

// Tail reads from the ends of the partitions until ctx ends.
func (f franz) Tail(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	assign := map[int32]kgo.Offset{}
	for _, p := range req.Assign {
		req.Partition = p
		_, next, err := f.Watermarks(ctx, req)
		if err != nil {
			return err
		}
		assign[p] = kgo.NewOffset().At(next)
	}
	opts := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{req.Topic: assign})}
	if wait := req.Config["fetch.wait.max.ms"]; wait != "" {
		d, err := time.ParseDuration(wait + "ms")
		if err != nil {
			return err
		}
		opts = append(opts, kgo.FetchMaxWait(d))
	}
	cl, err := dial(req, opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	emit(agent.Event{Ready: true})
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return coded(e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			rec := record(r)
			emit(agent.Event{Record: &rec})
		})
	}
}
