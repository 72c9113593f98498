package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

const (
	// tripRecords is how many records a round trip writes and reads; tripPause is between two of one client.
	tripRecords = 5
	tripPause   = 3 * time.Second
	// tripLimit bounds one operation of a client.
	tripLimit = 30 * time.Second
	// tripAsks is how often a client may ask for what it wrote.
	tripAsks = 3
	// stopLimit is how long a member may take to leave.
	stopLimit = 60 * time.Second
	// openTopics is how many of the topics that come and go are there at a time.
	openTopics = 5
)

// soakClient is one kind of client in the soak.
type soakClient struct {
	name    string
	open    func(context.Context) (*driver.Client, error)
	loads   bool // has a load: it writes all the time; the others write and read back a few records again and again
	member  bool // can be a member of groups
	crashes bool // and is killed at times, because it starts quickly
}

var soakClients = []soakClient{
	{name: "kcat", open: driver.Kcat},
	{name: "franz-go", open: driver.Franz, loads: true, member: true},
	{name: "librdkafka 1", open: driver.Rdkafka1, loads: true, member: true, crashes: true},
	{name: "librdkafka 2", open: driver.Rdkafka2, loads: true, member: true, crashes: true},
	{name: "java", open: driver.Java, loads: true, member: true},
	{name: "confluent-kafka", open: driver.ConfluentPython, member: true, crashes: true},
	{name: "kafka-python", open: driver.KafkaPython, member: true, crashes: true},
	{name: "aiokafka", open: driver.Aiokafka, member: true, crashes: true},
	// Reads as a member of a group only: each of its round trips makes a group and leaves it behind, empty, for the server to forget.
	{name: "kafkajs", open: driver.Kafkajs, member: true, crashes: true},
	{name: "sarama", open: driver.Sarama, member: true, crashes: true},
	// Has no idempotent producer: what an outage makes it write twice lies before the offset that it tells. For its groups see memberGroup.
	{name: "kafka-go", open: driver.KafkaGo, member: true, crashes: true},
}

// soakGroupOfAll is the group in which members of most clients meet.
const soakGroupOfAll = "campaign.soak-all"

// memberGroup chooses the group of a client's next membership: that of all, or one that no other client is in. A client with old
// subscriptions stays in its own: whoever is first leads the group of all, and neither can it lead most others nor they it.
func memberGroup(name string, features driver.Features, random *rand.Rand) string {
	if random.IntN(2) == 0 && !features.OldSubscriptions {
		return soakGroupOfAll
	}
	return "campaign.soak-" + shortName(name)
}

// soakCounts are what the workers did.
type soakCounts struct {
	trips, tripsInOutage      atomic.Int64
	silences                  atomic.Int64 // a client saw less than it wrote and asked again
	sessions, crashes         atomic.Int64 // of group members
	sessionsInOutage          atomic.Int64 // that ended with an error
	topics, deleted, inOutage atomic.Int64 // topics that came and went, and what failed of it
}

// trips writes a few records with one client and reads them back with it, in a partition of its own, until stop ends. What fails while the
// server is down, or has just come back, is the client's to tell and no violation.
func (s *soak) trips(ctx, stop context.Context, c soakClient, partition int32) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	for n := 0; stop.Err() == nil; n++ {
		began := time.Now()
		err := s.trip(ctx, client, c, partition, n)
		switch {
		case err == nil:
			s.madeTrip(c.name)
		case ctx.Err() != nil:
			return errors.Join(client.Close(), context.Cause(ctx))
		case s.inOutage(began):
			s.counts.tripsInOutage.Add(1)
		default:
			s.check.violate("%s: round trip %d: %v", c.name, n, err)
		}
		_ = pause(stop, tripPause) // the loop sees it
	}
	return client.Close()
}

func (s *soak) trip(ctx context.Context, client *driver.Client, c soakClient, partition int32, n int) error {
	req := agent.Request{Bootstrap: s.addr, Topic: soakTripsTopic, Partition: partition, Assign: []int32{partition}, TimeoutMS: tripLimit.Milliseconds()}
	call := func(op string, change func(*agent.Request)) (agent.Response, error) {
		r := req
		r.Op = op
		if change != nil {
			change(&r)
		}
		return client.Call(ctx, r)
	}
	from := int64(-1)
	if client.Features.NoOffsets {
		res, err := call(agent.OpWatermarks, nil)
		if err != nil {
			return err
		}
		if len(res.Offsets) != 2 {
			return fmt.Errorf("watermarks: %v", res.Offsets)
		}
		from = res.Offsets[1]
	}
	var records []agent.Record
	for i := range tripRecords {
		records = append(records, agent.Record{Partition: partition, Value: agent.LoadValue(c.name, partition, int64(n*tripRecords+i), soakSize)})
	}
	res, err := call(agent.OpProduce, func(r *agent.Request) { r.Records = records })
	if err != nil {
		return err
	}
	if from < 0 {
		if len(res.Offsets) != tripRecords {
			return fmt.Errorf("produce: %d offsets for %d records", len(res.Offsets), tripRecords)
		}
		from = res.Offsets[0]
	}
	got, err := s.readBack(func() (agent.Response, error) { return call(agent.OpConsume, func(r *agent.Request) { r.From = from }) })
	if err != nil {
		return err
	}
	if len(got) != tripRecords {
		return fmt.Errorf("%d records from offset %d, wrote %d", len(got), from, tripRecords)
	}
	for i, r := range got {
		if r.Offset != from+int64(i) || string(r.Value) != string(records[i].Value) {
			return fmt.Errorf("offset %d holds %.40q, wrote %.40q at %d", r.Offset, r.Value, records[i].Value, from+int64(i))
		}
	}
	return nil
}

// readBack reads until all records of a trip are there. A client that cannot know an end takes silence for one, which on a busy machine it
// may be too quick to do; what is there is found when it asks again.
func (s *soak) readBack(consume func() (agent.Response, error)) ([]agent.Record, error) {
	for asked := 1; ; asked++ {
		res, err := consume()
		if err != nil || len(res.Records) >= tripRecords || asked == tripAsks {
			return res.Records, err
		}
		s.counts.silences.Add(1)
	}
}

// memberLoop lets one client join a group, stay for a while and leave or crash, again and again, until stop ends.
func (s *soak) memberLoop(ctx, stop context.Context, c soakClient, random *rand.Rand) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	features := client.Features
	for stop.Err() == nil {
		group := memberGroup(c.name, features, random)
		began := time.Now()
		stay := 8*time.Second + time.Duration(random.Int64N(int64(17*time.Second)))
		crash := c.crashes && random.IntN(6) == 0
		records, err := s.session(ctx, stop, client, group, stay, crash)
		s.counts.sessions.Add(1)
		switch {
		case ctx.Err() != nil:
			return errors.Join(client.Close(), context.Cause(ctx))
		case crash:
			s.counts.crashes.Add(1)
		case err != nil && s.inOutage(began):
			s.counts.sessionsInOutage.Add(1)
		case err != nil:
			s.check.violate("%s: a member of %s for %v: %v", c.name, group, time.Since(began).Round(time.Second), err)
		case records > 0:
			s.hadRecords(c.name)
		}
		if crash || err != nil {
			// A client that was killed, or whose answer was given up, is replaced.
			_ = client.Close() // how it ended is known
			if client, err = s.another(ctx, c); err != nil {
				return err
			}
		}
		_ = pause(stop, time.Second+time.Duration(random.Int64N(int64(2*time.Second))))
	}
	return client.Close()
}

func (s *soak) another(ctx context.Context, c soakClient) (*driver.Client, error) {
	if !c.crashes {
		return c.open(ctx)
	}
	return driver.Another(ctx, c.name)
}

// session is one membership; it returns how many records came.
func (s *soak) session(ctx, stop context.Context, client *driver.Client, group string, stay time.Duration, crash bool) (int64, error) {
	var records atomic.Int64
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end, err := client.Stream(callCtx, agent.Request{
		Op: agent.OpMember, Bootstrap: s.addr, Topic: soakTopic,
		Group: &agent.Group{ID: group, Assignor: agent.Range, Commit: true, SessionMS: int(groupSession.Milliseconds())},
	}, func(e agent.Event) {
		if e.Record != nil {
			records.Add(1)
		}
	})
	if err != nil {
		return 0, err
	}
	_ = pause(stop, stay) // an early end of the soak is an early end of the session
	limit := time.AfterFunc(stopLimit, func() { cancel(fmt.Errorf("it has not left after %v", stopLimit)) })
	defer limit.Stop()
	if crash {
		err := client.Kill()
		_, _ = end() // it is gone
		return records.Load(), err
	}
	_, err = end()
	return records.Load(), err
}

// topicLoop creates topics, writes to them, commits an offset for a group of their own, and deletes both again, until stop ends.
func (s *soak) topicLoop(ctx, stop context.Context, random *rand.Rand) error {
	cl, err := dial(s.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var open []string
	for n := 1; stop.Err() == nil || len(open) > 0; n++ {
		began := time.Now()
		var err error
		if stop.Err() == nil {
			name := fmt.Sprintf("campaign.soak-topic-%d", n)
			if err = s.useTopic(ctx, adm, cl, name, 1+random.Int32N(6)); err == nil {
				s.counts.topics.Add(1)
			}
			open = append(open, name)
		}
		if len(open) > openTopics || stop.Err() != nil {
			if deleteErr := s.dropTopic(ctx, adm, open[0]); deleteErr != nil {
				err = errors.Join(err, deleteErr)
			} else {
				s.counts.deleted.Add(1)
			}
			// A deletion that failed in an outage may have been done: the topic is left behind either way.
			open = open[1:]
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.inOutage(began):
			s.counts.inOutage.Add(1)
		default:
			s.check.violate("topics that come and go, %d: %v", n, err)
		}
		_ = pause(stop, 2*time.Second+time.Duration(random.Int64N(int64(2*time.Second))))
	}
	return nil
}

// useTopic creates a topic, writes a record to each partition and commits for a group.
func (s *soak) useTopic(ctx context.Context, adm *kadm.Client, cl *kgo.Client, name string, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, tripLimit)
	defer cancel()
	res, err := adm.CreateTopic(ctx, partitions, 1, nil, name)
	if err = errors.Join(err, res.Err); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	var records []*kgo.Record
	var offsets kadm.Offsets
	for p := range partitions {
		records = append(records, &kgo.Record{Topic: name, Partition: p, Value: agent.LoadValue("topic", p, 0, soakSize)})
		offsets.AddOffset(name, p, 1, -1)
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce to %s: %w", name, err)
	}
	if err := adm.CommitAllOffsets(ctx, "group-of-"+name, offsets); err != nil {
		return fmt.Errorf("commit for %s: %w", name, err)
	}
	return nil
}

// dropTopic deletes a topic and the group that committed for it.
func (s *soak) dropTopic(ctx context.Context, adm *kadm.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, tripLimit)
	defer cancel()
	deleted, err := adm.DeleteTopic(ctx, name)
	if err = errors.Join(err, deleted.Err); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	// The group may be gone already: with its topic it loses its only offset.
	if _, err := adm.DeleteGroup(ctx, "group-of-"+name); err != nil {
		return fmt.Errorf("delete the group of %s: %w", name, err)
	}
	return nil
}
