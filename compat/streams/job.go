package streams

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	wordsPerLine = 5
	// vocabulary is how many words may be written at a time, and wordStep by how many the choice moves with every feed: most words
	// change in several feeds, and all of those before them must stand still.
	vocabulary = 100
	wordStep   = 20
	// pollInterval is how often something is looked for that comes in its own time.
	pollInterval = 100 * time.Millisecond
)

// Job is the topics of one application, what was written to them and what was counted. Its methods must be called from one goroutine at
// a time.
type Job struct {
	ID string // of the application; all of its topics begin with it

	addr       string
	partitions int32
	cl         *kgo.Client
	adm        *kadm.Client
	tally      *tally
	at         map[int32]int64 // next offset to read of the counts
	feeds      int
	setbacks   int // of all instances, when last settled
}

// NewJob makes the topics of an application.
func NewJob(ctx context.Context, addr, id string, partitions int32) (*Job, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	j := &Job{ID: id, addr: addr, partitions: partitions, cl: cl, adm: kadm.NewClient(cl), tally: newTally(), at: map[int32]int64{}}
	keep := map[string]*string{"retention.ms": kadm.StringPtr("-1"), "retention.bytes": kadm.StringPtr("-1")}
	res, err := j.adm.CreateTopics(ctx, partitions, 1, keep, j.lines(), j.counts())
	if err == nil {
		err = res.Error()
	}
	if err != nil {
		cl.Close()
		return nil, fmt.Errorf("create the topics of %s: %w", id, err)
	}
	return j, nil
}

// Close ends the job's own client, and leaves the topics.
func (j *Job) Close() { j.cl.Close() }

func (j *Job) lines() string       { return j.ID + "-lines" }
func (j *Job) counts() string      { return j.ID + "-output" }
func (j *Job) repartition() string { return j.ID + "-words-repartition" }
func (j *Job) changelog() string   { return j.ID + "-counts-changelog" }

// Feed writes n lines at a rate a second, and returns when all of them are acknowledged. Nothing is written twice: the producer is
// idempotent and never gives up.
func (j *Job) Feed(ctx context.Context, random *rand.Rand, n, rate int) error {
	first := j.feeds * wordStep
	j.feeds++
	began := time.Now()
	failed := make(chan error, 1)
	var all []string
	for i := range n {
		words := make([]string, wordsPerLine)
		for k := range words {
			words[k] = "word-" + strconv.Itoa(first+random.IntN(vocabulary))
		}
		all = append(all, words...)
		record := &kgo.Record{Topic: j.lines(), Partition: int32(i) % j.partitions, Value: []byte(strings.Join(words, " "))}
		j.cl.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		if ahead := time.Duration(i+1)*time.Second/time.Duration(rate) - time.Since(began); ahead > 0 {
			if err := pause(ctx, ahead); err != nil {
				return err
			}
		}
	}
	if err := j.cl.Flush(ctx); err != nil {
		return fmt.Errorf("lines without an answer: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("write lines: %w", err)
	default:
		j.tally.wrote(all)
		return nil
	}
}

// Settle waits until the application has processed and committed everything, reads the new counts, and returns what is wrong with them.
// exact says that nothing was killed since the last time; it counts only if no instance had a setback since then, which the result says.
// alive tells whether the application still runs, and may be asked again and again.
func (j *Job) Settle(ctx context.Context, exact bool, apps []*App, alive func() error) (problems []string, setbacks int, err error) {
	// The order matters: while lines are being processed the repartition topic grows.
	for _, topic := range []string{j.lines(), j.repartition()} {
		err := j.until(ctx, alive, func() error { return j.committed(ctx, topic) })
		if err != nil {
			return nil, 0, err
		}
	}
	if err := j.until(ctx, alive, func() error {
		return j.read(ctx, j.counts(), j.at, func(r *kgo.Record) { j.tally.count(string(r.Key), number(r.Value)) })
	}); err != nil {
		return nil, 0, err
	}
	before := j.setbacks
	j.setbacks = 0
	for _, app := range apps {
		n, err := app.Setbacks()
		if err != nil {
			return nil, 0, err
		}
		j.setbacks += n
	}
	setbacks = j.setbacks - before
	return j.tally.judge(exact && setbacks == 0), setbacks, nil
}

// until repeats a look at the server until it finds what it looks for.
func (j *Job) until(ctx context.Context, alive, look func() error) error {
	for {
		err := look()
		if err == nil {
			return nil
		}
		if err := alive(); err != nil {
			return err
		}
		if pauseErr := pause(ctx, pollInterval); pauseErr != nil {
			return fmt.Errorf("%w: %w", pauseErr, err)
		}
	}
}

// committed is nil when the application's group has committed the ends of all partitions of a topic.
func (j *Job) committed(ctx context.Context, topic string) error {
	ends, err := j.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	offsets, err := j.adm.FetchOffsets(ctx, j.ID)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return err
	}
	for _, end := range ends[topic] {
		// A partition that never held anything needs no commit.
		if at, _ := offsets.Lookup(topic, end.Partition); at.At != end.Offset {
			return fmt.Errorf("partition %d of %s ends at %d, committed is %d", end.Partition, topic, end.Offset, at.At)
		}
	}
	return nil
}

// read hands every record from the offsets in at to the present ends to visit, and moves at.
func (j *Job) read(ctx context.Context, topic string, at map[int32]int64, visit func(*kgo.Record)) error {
	ends, err := j.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	open, assign := map[int32]int64{}, map[int32]kgo.Offset{}
	for _, end := range ends[topic] {
		if from := at[end.Partition]; from < end.Offset {
			open[end.Partition], assign[end.Partition] = end.Offset, kgo.NewOffset().At(from)
		}
	}
	if len(open) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(j.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(open) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%s is not read to its end: %w", topic, context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("fetch of %s %d: %w", e.Topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := open[r.Partition]
			if !ok {
				return
			}
			visit(r)
			at[r.Partition] = r.Offset + 1
			// The last record of a compacted topic stays: there is no later one of its key.
			if r.Offset+1 == end {
				delete(open, r.Partition)
			}
		})
	}
	return nil
}

// number decodes a count: 8 bytes, the highest first.
func number(b []byte) int64 {
	if len(b) != 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(b))
}

// CheckTopics compares the configurations of the internal topics that the application made with what it must have asked for.
func (j *Job) CheckTopics(ctx context.Context) error {
	want := map[string]map[string]string{
		j.changelog():   {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
		j.repartition(): {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"},
	}
	configs, err := j.adm.DescribeTopicConfigs(ctx, j.changelog(), j.repartition())
	if err != nil {
		return err
	}
	for topic, wanted := range want {
		c, err := configs.On(topic, nil)
		if err == nil {
			err = c.Err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
		for _, entry := range c.Configs {
			if value, ok := wanted[entry.Key]; ok && entry.MaybeValue() != value {
				return fmt.Errorf("%s of %s is %q, want %q", entry.Key, topic, entry.MaybeValue(), value)
			}
			delete(wanted, entry.Key)
		}
		if len(wanted) > 0 {
			return fmt.Errorf("%s has no configuration %v", topic, wanted)
		}
	}
	topics, err := j.adm.ListTopics(ctx, j.changelog(), j.repartition())
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return err
	}
	for name, detail := range topics {
		if len(detail.Partitions) != int(j.partitions) {
			return fmt.Errorf("%s has %d partitions, want %d", name, len(detail.Partitions), j.partitions)
		}
	}
	return nil
}

// AwaitPurged waits until the running application has deleted all that it has processed of the repartition topic.
func (j *Job) AwaitPurged(ctx context.Context, alive func() error) error {
	topic := j.repartition()
	return j.until(ctx, alive, func() error {
		starts, err := j.adm.ListStartOffsets(ctx, topic)
		if err == nil {
			err = starts.Error()
		}
		if err != nil {
			return err
		}
		ends, err := j.adm.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		purged := int64(0)
		for _, end := range ends[topic] {
			start, _ := starts.Lookup(topic, end.Partition)
			if start.Offset != end.Offset {
				return fmt.Errorf("partition %d of %s still begins at %d and ends at %d", end.Partition, topic, start.Offset, end.Offset)
			}
			purged += start.Offset
		}
		if purged == 0 {
			return errors.New("nothing ever was in " + topic)
		}
		return nil
	})
}

// CheckChangelog reads the changelog topic whole: its last record of each word must be the word's count, as judged last. It returns how
// many records are left of how many updates.
func (j *Job) CheckChangelog(ctx context.Context) (left, updates int64, problems []string, err error) {
	last := map[string]int64{}
	err = j.read(ctx, j.changelog(), map[int32]int64{}, func(r *kgo.Record) {
		last[string(r.Key)] = number(r.Value)
		left++
	})
	if err != nil {
		return 0, 0, nil, err
	}
	for word, n := range j.tally.counted {
		if last[word] != n {
			problems = append(problems, fmt.Sprintf("%s: counted %d, the changelog says %d", word, n, last[word]))
		}
	}
	if len(last) != len(j.tally.counted) {
		problems = append(problems, fmt.Sprintf("%d words were counted, the changelog has %d", len(j.tally.counted), len(last)))
	}
	return left, j.tally.updates, problems, nil
}

// Totals are the words written, and how many of them were counted again, when last judged.
func (j *Job) Totals() (written, again int64) { return j.tally.totals() }

// Delete removes the application's topics and its group; no instance may run.
func (j *Job) Delete(ctx context.Context) error {
	topics, err := j.adm.DeleteTopics(ctx, j.lines(), j.counts(), j.repartition(), j.changelog())
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return fmt.Errorf("delete the topics of %s: %w", j.ID, err)
	}
	return nil
}

// pause waits, or returns early with the context's cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
