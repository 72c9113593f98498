package wire

import "unicode/utf8"

// maxType is the longest type of a message that is looked at, in bytes: an answer repeats it.
const maxType = 255

// Message is one of this package's JSON messages, as a pointer. The set is closed.
type Message interface {
	// kind is the type on the wire.
	kind() string
	// code describes the fields.
	code(c *coder)
}

// TypeOf is the type of m on the wire.
func TypeOf(m Message) string { return m.kind() }

// AppendMessage appends m as a whole frame with flags 0. Text that is not UTF-8 has the offending bytes replaced.
func AppendMessage(dst []byte, m Message) []byte {
	start := len(dst)
	dst = append(append(append(BeginFrame(dst, 0), `{"type":"`...), m.kind()...), '"')
	c := getCoder()
	defer putCoder(c)
	c.encoding, c.dst, c.comma = true, dst, true
	m.code(c)
	dst = append(c.dst, '}')
	EndFrame(dst[start:])
	return dst
}

// ParseRequest reads the payload of a JSON frame that a client sent: a pointer to one of the messages that say so. The message owns its
// memory, except Extension.Body.
//
// Errors: *UnknownTypeError for a type that no client sends; else a DecodeError. If the payload is no JSON object with a type, nothing
// can be told of the request, and its verdict is EndStream. If fields are missing or wrong it is Continue, with the request id if there
// is one: publishes are answered by PublishError under it, everything else by Error.
func ParseRequest(payload []byte) (Message, error) { return parseMessage(payload, 0, newRequest) }

// ParseRequestWithout is ParseRequest for a client with which the features in without were not agreed on. A field that belongs to one of
// them is an unknown field then, and ignored as such whatever it holds. FeatureExplicitShard is the only one with such fields.
func ParseRequestWithout(payload []byte, without Features) (Message, error) {
	return parseMessage(payload, without, newRequest)
}

// ParseReply reads the payload of a JSON frame that a server sent, on whatever stream. See ParseRequest; a client ends the stream after
// any error, as it no longer knows what was answered.
func ParseReply(payload []byte) (Message, error) { return parseMessage(payload, 0, newReply) }

func parseMessage(payload []byte, without Features, fresh func(kind []byte) Message) (Message, error) {
	if !utf8.Valid(payload) {
		return nil, &DecodeError{Fault: FaultUTF8, Verdict: EndStream}
	}
	c := getCoder()
	defer putCoder(c)
	var fault Fault
	if c.fields, fault = scanObject(payload, c.fields); fault != FaultNone {
		return nil, &DecodeError{Fault: fault, Verdict: EndStream}
	}
	v := c.find("type")
	if v == nil || v[0] != '"' {
		return nil, &DecodeError{Fault: FaultType, Verdict: EndStream}
	}
	kind := unquoteBytes(v)
	if len(kind) > maxType {
		return nil, &DecodeError{Fault: FaultType, Verdict: EndStream}
	}
	id := c.requestID()
	m := fresh(kind)
	if m == nil {
		return nil, &UnknownTypeError{Type: string(kind), RequestID: id}
	}
	c.without = without
	if m.code(c); c.fault != FaultNone {
		return nil, &DecodeError{Fault: c.fault, Verdict: Continue, Type: m.kind(), Field: c.name, RequestID: id, Acked: c.acked()}
	}
	return m, nil
}

// newRequest makes the message of a type that clients send, nil if there is none.
func newRequest(kind []byte) Message {
	switch string(kind) {
	case "auth":
		return new(Auth)
	case "extension":
		return new(Extension)
	case "topology":
		return new(Topology)
	case "stream_shards":
		return new(StreamShards)
	case "cache_shards":
		return new(CacheShards)
	case "shard_owners":
		return new(ShardOwners)
	case "publish":
		return new(Publish)
	case "publish_batch":
		return new(PublishBatch)
	case "publish_idempotent":
		return new(PublishIdempotent)
	case "publish_if":
		return new(PublishIf)
	case "producer_init":
		return new(ProducerInit)
	case "subscribe":
		return new(Subscribe)
	case "cache_put":
		return new(CachePut)
	case "cache_get":
		return new(CacheGet)
	case "cache_delete":
		return new(CacheDelete)
	case "cache_put_if":
		return new(CachePutIf)
	case "cache_delete_if":
		return new(CacheDeleteIf)
	case "cache_watch":
		return new(CacheWatch)
	case "counter_add":
		return new(CounterAdd)
	case "counter_get":
		return new(CounterGet)
	case "commit":
		return new(Commit)
	case "state_get":
		return new(StateGet)
	case "stream_read":
		return new(StreamRead)
	case "offset_for_time":
		return new(OffsetForTime)
	case "shard_inspect":
		return new(ShardInspect)
	case "subscriptions_list":
		return new(SubscriptionsList)
	}
	return newGroupRequest(kind)
}

func newGroupRequest(kind []byte) Message {
	switch string(kind) {
	case "group_poll":
		return new(GroupPoll)
	case "group_ack":
		return new(GroupAck)
	case "group_nack":
		return new(GroupNack)
	case "group_extend":
		return new(GroupExtend)
	case "group_dead_letter":
		return new(GroupDeadLetter)
	case "group_dead_letters":
		return new(GroupDeadLetters)
	case "group_discard":
		return new(GroupDiscard)
	case "group_redrive":
		return new(GroupRedrive)
	case "group_seek":
		return new(GroupSeek)
	case "group_describe":
		return new(GroupDescribe)
	case "group_delete":
		return new(GroupDelete)
	}
	return nil
}

// newReply makes the message of a type that servers send, nil if there is none.
func newReply(kind []byte) Message {
	switch string(kind) {
	case "auth_ok":
		return new(AuthOK)
	case "ok":
		return new(OK)
	case "error":
		return new(Error)
	case "unsupported":
		return new(Unsupported)
	case "topology_view":
		return new(TopologyView)
	case "stream_shards_view":
		return new(StreamShardsView)
	case "cache_shards_view":
		return new(CacheShardsView)
	case "shard_owners_view":
		return new(ShardOwnersView)
	case "not_leader":
		return new(NotLeader)
	case "publish_ok":
		return new(PublishOK)
	case "publish_error":
		return new(PublishError)
	case "publish_refused":
		return new(PublishRefused)
	case "producer_init_ok":
		return new(ProducerInitOK)
	case "subscribed":
		return new(Subscribed)
	case "subscribe_cursor_error":
		return new(SubscribeCursorError)
	case "commit_ok":
		return new(CommitOK)
	case "state_value":
		return new(StateValue)
	case "stream_records":
		return new(StreamRecords)
	case "offset_value":
		return new(OffsetValue)
	case "shard_inspect_info":
		return new(ShardInspectInfo)
	case "subscriptions_list_info":
		return new(SubscriptionsListInfo)
	case "group_records":
		return new(GroupRecords)
	case "group_extended":
		return new(GroupExtended)
	case "group_dead_letter_list":
		return new(GroupDeadLetterList)
	case "group_position":
		return new(GroupPosition)
	case "group_info":
		return new(GroupInfo)
	case "group_deleted":
		return new(GroupDeleted)
	}
	return newEventReply(kind)
}

// newEventReply makes the messages of event streams and of caches.
func newEventReply(kind []byte) Message {
	switch string(kind) {
	case "event_stream_hello":
		return new(EventStreamHello)
	case "event":
		return new(EventMessage)
	case "event_batch":
		return new(EventBatchMessage)
	case "shard_moved":
		return new(ShardMoved)
	case "subscription_lagged":
		return new(SubscriptionLagged)
	case "cache_ok":
		return new(CacheOK)
	case "cache_value":
		return new(CacheValue)
	case "cache_condition_result":
		return new(CacheConditionResult)
	case "cache_watch_started":
		return new(CacheWatchStarted)
	case "cache_event":
		return new(CacheEvent)
	case "cache_watch_lagged":
		return new(CacheWatchLagged)
	case "counter_value":
		return new(CounterValue)
	}
	return nil
}

// StreamScope names a stream.
type StreamScope struct {
	TenantID  string
	Namespace string
	Stream    string
}

func (s *StreamScope) scope(c *coder) {
	c.str("tenant_id", &s.TenantID)
	c.str("namespace", &s.Namespace)
	c.str("stream", &s.Stream)
}

// CacheScope names a cache.
type CacheScope struct {
	TenantID  string
	Namespace string
	Cache     string
}

func (s *CacheScope) scope(c *coder) {
	c.str("tenant_id", &s.TenantID)
	c.str("namespace", &s.Namespace)
	c.str("cache", &s.Cache)
}
