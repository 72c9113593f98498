package api

import (
	"iter"
	"math"
	"net/http"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

type retentionBody struct {
	MaxAgeSeconds *int64 `json:"max_age_seconds,omitempty"`
	MaxSizeBytes  *int64 `json:"max_size_bytes,omitempty"`
}

type streamBody struct {
	TenantID          string        `json:"tenant_id"`
	Namespace         string        `json:"namespace"`
	Stream            string        `json:"stream"`
	Kind              string        `json:"kind" enum:"Stream,Queue"`
	Shards            int           `json:"shards"`
	ReplicationFactor int           `json:"replication_factor"`
	Retention         retentionBody `json:"retention"`
	Consistency       string        `json:"consistency" enum:"Leader,Quorum"`
	Delivery          string        `json:"delivery" enum:"AtLeastOnce,AtMostOnce"`
	Durable           bool          `json:"durable"`
	Region            string        `json:"region,omitempty"`
	Routing           string        `json:"routing,omitempty" enum:"modulo,jump_hash" about:"left out for modulo"`
}

// retentionRequest is a retentionBody as it is asked for.
type retentionRequest struct {
	MaxAgeSeconds int64 `json:"max_age_seconds,omitempty" min:"1" about:"left out: the broker's bound"`
	MaxSizeBytes  int64 `json:"max_size_bytes,omitempty" min:"1" about:"of each shard; left out: the broker's bound"`
}

// streamRequest is a streamBody as it is asked for.
type streamRequest struct {
	Stream            string           `json:"stream" about:"of A-Z a-z 0-9 . _ -, not . or ..; 249 characters with the namespace"`
	Kind              string           `json:"kind,omitempty" enum:"Stream,Queue" about:"recorded; default Stream"`
	Shards            int64            `json:"shards,omitempty" min:"1" max:"1024" about:"fixed for life; default 1"`
	ReplicationFactor int64            `json:"replication_factor,omitempty" min:"1" max:"7" about:"leader included; fixed for life; default 1"`
	Retention         retentionRequest `json:"retention,omitempty"`
	Consistency       string           `json:"consistency,omitempty" enum:"Leader,Quorum" about:"default Leader"`
	Delivery          string           `json:"delivery,omitempty" enum:"AtLeastOnce,AtMostOnce" about:"recorded; default AtLeastOnce"`
	Durable           bool             `json:"durable,omitempty" about:"false: in memory alone; fixed for life; default false"`
	Region            string           `json:"region,omitempty" min:"1" about:"where its replicas may stand; fixed for life; left out: anywhere"`
	Routing           string           `json:"routing,omitempty" enum:"modulo,jump_hash" about:"how a key finds its shard; fixed for life"`
}

// streamPatch is what can be changed of a stream.
type streamPatch struct {
	Retention   retentionRequest `json:"retention,omitempty" about:"in place of both bounds"`
	Consistency string           `json:"consistency,omitempty" enum:"Leader,Quorum"`
	Delivery    string           `json:"delivery,omitempty" enum:"AtLeastOnce,AtMostOnce"`
	Durable     bool             `json:"durable,omitempty" about:"as it is: another value is refused"`
}

func streamOf(t *cluster.Topic) streamBody {
	b := streamBody{
		TenantID: t.Tenant, Namespace: t.Namespace, Stream: t.Name, Kind: t.Kind.String(), Shards: len(t.Partitions),
		ReplicationFactor: t.ReplicationFactor(), Retention: retentionOf(t.Retention()), Consistency: consistencyWord(t.Consistency),
		Delivery: t.Delivery.String(), Durable: t.Durable, Region: t.Region,
	}
	if t.Routing != cluster.RoutingModulo {
		b.Routing = t.Routing.String()
	}
	return b
}

// retentionOf shows what was set. Kafka's tools can set bounds that this API has no words for: a part of a second is shown as the next
// whole one, and "no bound" as what it is not to have one.
func retentionOf(r cluster.Retention) retentionBody {
	var b retentionBody
	if r.Ms > 0 {
		seconds := (r.Ms-1)/1000 + 1
		b.MaxAgeSeconds = &seconds
	}
	if r.Bytes > 0 {
		b.MaxSizeBytes = &r.Bytes
	}
	return b
}

// The words of this API for levels; configurations have others.
const (
	wordLeader = "Leader"
	wordQuorum = "Quorum"
)

func consistencyWord(c cluster.Consistency) string {
	if c == cluster.ConsistencyQuorum {
		return wordQuorum
	}
	return wordLeader
}

// visible says that a stream is one of those that clients name.
func visible(t *cluster.Topic) bool { return t != nil && !t.Internal }

func listStreams(c *call) (answer, error) {
	tenant, namespace := c.params["tenant"], c.params["namespace"]
	err := c.needSome(auth.StreamManage, "a stream of namespace "+clip(namespace), func(o auth.Object) bool {
		return o.Namespace == auth.Any || o.Namespace == namespace
	})
	if err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("streams", 1)
	if err != nil {
		return answer{}, err
	}
	if c.image.Namespace(tenant, namespace) == nil {
		return answer{}, notFound("namespace %s does not exist", clip(namespace))
	}
	mine := filter(streamsBehind(c.image, tenant, namespace, p), func(t *cluster.Topic) bool {
		return visible(t) && c.identity.Grants.Allowed(auth.StreamManage, tenant, namespace, t.Name)
	})
	return ok(fill(p, mine, func(t *cluster.Topic) []string { return []string{t.Name} }, func(t *cluster.Topic) any { return streamOf(t) })), nil
}

// streamsBehind iterates over the streams of a namespace that follow the start of a page, sorted by name.
func streamsBehind(m *cluster.Image, tenant, namespace string, p page) iter.Seq[*cluster.Topic] {
	after := ""
	if p.after != nil {
		after = p.after[0]
	}
	return func(yield func(*cluster.Topic) bool) {
		for t := range topicsBehind(m, tenant, namespace, after) {
			if t.Tenant != tenant || t.Namespace != namespace || !yield(t) {
				return
			}
		}
	}
}

// topicsBehind iterates over what of all topics, sorted by tenant, namespace and name, follows a key.
func topicsBehind(m *cluster.Image, tenant, namespace, name string) iter.Seq[*cluster.Topic] {
	return func(yield func(*cluster.Topic) bool) { m.TopicsBehind(tenant, namespace, name, yield) }
}

// stream is the one in the path, after its right was checked.
func (c *call) stream() (*cluster.Topic, error) {
	namespace, name := c.params["namespace"], c.params["stream"]
	if err := c.needStream(namespace, name); err != nil {
		return nil, err
	}
	t := c.image.Topic(c.params["tenant"], namespace, name)
	if !visible(t) {
		return nil, noStream(namespace, name)
	}
	return t, nil
}

func noStream(namespace, name string) error {
	return notFound("there is no stream %s in namespace %s", clip(name), clip(namespace))
}

func getStream(c *call) (answer, error) {
	t, err := c.stream()
	if err != nil {
		return answer{}, err
	}
	return ok(streamOf(t)), nil
}

func createStream(c *call) (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	name, err := b.name("stream")
	if err != nil {
		return answer{}, err
	}
	if err := c.needStream(c.params["namespace"], name); err != nil {
		return answer{}, err
	}
	n, err := c.newStream(b, name)
	if err != nil {
		return answer{}, err
	}
	res, err := c.propose(cluster.CreateStreams{Streams: []cluster.NewStream{n}})
	if err != nil {
		return answer{}, err
	}
	item := res.Items[0]
	switch {
	case item.Err != nil:
		return answer{}, item.Err
	case item.Unchanged:
		return ok(streamOf(item.Topic)), nil
	default:
		return created(streamOf(item.Topic)), nil
	}
}

// newStream reads the values of a stream object. Names and combinations are the state machine's to judge.
func (c *call) newStream(b body, name string) (cluster.NewStream, error) {
	n := cluster.NewStream{TopicRef: cluster.TopicRef{
		ID: ids.NewTopicID(), Tenant: c.params["tenant"], Namespace: c.params["namespace"], Name: name,
	}}
	if err := cluster.ValidateStreamName(n.Namespace, name); err != nil {
		return n, err
	}
	shards, err := b.number("shards", 1, cluster.MaxStreamShards)
	if err != nil {
		return n, err
	}
	factor, err := b.number("replication_factor", 1, cluster.MaxStreamReplicas)
	if err != nil {
		return n, err
	}
	n.Shards, n.ReplicationFactor = int32(shards), int16(factor)
	if n.Durable, err = b.boolean("durable"); err != nil {
		return n, err
	}
	if n.Kind, err = word(b, "kind", cluster.ParseStreamKind); err != nil {
		return n, err
	}
	if n.Delivery, err = word(b, "delivery", cluster.ParseDelivery); err != nil {
		return n, err
	}
	if n.Consistency, err = consistency(b); err != nil {
		return n, err
	}
	if n.Retention, _, err = retention(b); err != nil {
		return n, err
	}
	if n.Routing, err = word(b, "routing", cluster.ParseRouting); err != nil {
		return n, err
	}
	n.AnyRouting = !b.has("routing")
	n.Region, err = c.region(b)
	return n, err
}

// word reads an optional enumeration; the zero value stands for one that is absent.
func word[T any](b body, name string, parse func(string) (T, error)) (v T, err error) {
	s, err := b.text(name, "")
	if err != nil || !b.has(name) {
		return v, err
	}
	if v, err = parse(s); err != nil {
		return v, invalid("%s", err)
	}
	return v, nil
}

func consistency(b body) (cluster.Consistency, error) {
	return word(b, "consistency", func(s string) (cluster.Consistency, error) {
		switch s {
		case wordLeader:
			return cluster.ConsistencyLeader, nil
		case wordQuorum:
			return cluster.ConsistencyQuorum, nil
		default:
			return 0, invalid("unknown consistency %.64q: %s or %s", s, wordLeader, wordQuorum)
		}
	})
}

// retention reads the bounds; there says that they were given, in which case a bound that is absent is the broker's.
func retention(b body) (r cluster.Retention, there bool, err error) {
	o, err := b.object("retention")
	if err != nil || o == nil {
		return r, false, err
	}
	seconds, err := o.number("max_age_seconds", 0, math.MaxInt64/1000)
	if err != nil {
		return r, true, err
	}
	r.Ms = seconds * 1000
	r.Bytes, err = o.number("max_size_bytes", 0, math.MaxInt64)
	return r, true, err
}

// region reads where a stream may stand. All nodes stand in one region so far; a stream for another would have no place.
func (c *call) region(b body) (string, error) {
	region, err := b.text("region", "")
	switch {
	case err != nil || !b.has("region"):
		return "", err
	case region == "":
		return "", invalid("region is empty: leave it out for any region")
	case region != c.server.opts.Region:
		return "", refuse(http.StatusConflict, codeRegionNotAllowed, "no node stands in region %s", clip(region))
	}
	return region, nil
}

func patchStream(c *call) (answer, error) {
	if err := c.needStream(c.params["namespace"], c.params["stream"]); err != nil {
		return answer{}, err
	}
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	if err := b.only("is fixed for the life of a stream", "kind", "shards", "replication_factor", "region", "routing", "stream"); err != nil {
		return answer{}, err
	}
	cmd := cluster.UpdateStream{Stream: cluster.TopicRef{Tenant: c.params["tenant"], Namespace: c.params["namespace"], Name: c.params["stream"]}}
	if err := patchOf(b, &cmd); err != nil {
		return answer{}, err
	}
	res, err := c.propose(cmd)
	if err == nil {
		err = res.Items[0].Err
	}
	if err != nil {
		return answer{}, err
	}
	return ok(streamOf(res.Items[0].Topic)), nil
}

// patchOf reads what a change may have.
func patchOf(b body, cmd *cluster.UpdateStream) error {
	var err error
	if cmd.Consistency, err = consistency(b); err != nil {
		return err
	}
	r, there, err := retention(b)
	if err != nil {
		return err
	}
	if there {
		cmd.Retention = &r
	}
	delivery, err := word(b, "delivery", cluster.ParseDelivery)
	if err != nil {
		return err
	}
	if b.has("delivery") {
		cmd.Delivery = &delivery
	}
	durable, err := b.boolean("durable")
	if err != nil {
		return err
	}
	if b.has("durable") {
		cmd.Durable = &durable
	}
	return nil
}

func deleteStream(c *call) (answer, error) {
	t, err := c.stream()
	if err != nil {
		return answer{}, err
	}
	// By id: a stream of the same name that somebody made meanwhile is another one.
	res, err := c.propose(cluster.DeleteTopics{Topics: []cluster.TopicRef{{ID: t.ID, Tenant: t.Tenant}}})
	if err == nil {
		err = res.Items[0].Err
	}
	if err != nil {
		return answer{}, err
	}
	return done(), nil
}
