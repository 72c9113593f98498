package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/felixlog/felix/felixproto/wire"
)

// PublishIf stores values under one key (nil for none) as one batch, if the shard's next offset is expected; of several writers that expect
// the same one exactly one succeeds. It is answered after the write.
//
// Nothing is sent again by itself once it may have been applied. After ErrOutcomeUnknown read the shard at the expected offset to see what
// became of it.
//
// Errors: *OffsetMismatchError with the actual next offset; ErrTooLarge; ErrInvalidRequest for an ephemeral stream or no values; others of
// the server.
func (c *Client) PublishIf(ctx context.Context, s Stream, expected int64, key []byte, values ...[]byte) (Ack, error) {
	return c.publishIf(ctx, s, nil, expected, key, values)
}

// PublishIfTo is PublishIf to a shard that the caller names, whatever the key says, as with Record.Shard.
func (c *Client) PublishIfTo(ctx context.Context, s Stream, shard uint32, expected int64, key []byte, values ...[]byte) (Ack, error) {
	return c.publishIf(ctx, s, &shard, expected, key, values)
}

func (c *Client) publishIf(ctx context.Context, s Stream, named *uint32, expected int64, key []byte, values [][]byte) (Ack, error) {
	if expected < 0 {
		return Ack{}, errors.New("felix: a negative offset is expected")
	}
	s = s.normal()
	size := 0
	for _, v := range values {
		size += payloadPrefix + len(v)
	}
	if len(values) > wire.MaxPayloads || !c.fitsMessage(s, key, jsonBytes(size, len(values))) {
		return Ack{}, fmt.Errorf("%w: a batch of %d bytes under a key of %d", ErrTooLarge, size, len(key))
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	shard, err := c.shardFor(ctx, s, key, named)
	if err != nil {
		return Ack{}, err
	}
	m := &wire.PublishIf{
		StreamScope: c.scope(s), Payloads: wire.MakePayloads(values...), Key: key, ExpectedOffset: uint64(expected), RequestID: c.requestID(),
		Shard: asNamed(named),
	}
	a, err := expect[*wire.PublishOK](c.request(ctx, s, shard, false, m))
	if err != nil {
		return Ack{}, err
	}
	return Ack{Shard: shard, Offset: optionalOffset(a.Offset)}, nil
}

// fitsMessage says that a write to a stream under a key, with so much JSON besides, fits a frame.
func (c *Client) fitsMessage(s Stream, key []byte, rest int) bool {
	return len(key) <= maxName && rest <= c.messageRoom(s, key)
}

// shardFor is the shard of a request: the one that it names, or else the key's.
func (c *Client) shardFor(ctx context.Context, s Stream, key []byte, named *uint32) (uint32, error) {
	if named != nil {
		return *named, nil // the server knows whether there is one
	}
	r, err := c.route(ctx, s)
	if err != nil {
		return 0, err
	}
	return r.shardOf(key), nil
}

func asNamed(shard *uint32) wire.Opt[uint32] {
	if shard == nil {
		return wire.Opt[uint32]{}
	}
	return wire.Some(*shard)
}

// changeOverhead bounds what the JSON of a change has beside its key and value.
const changeOverhead = 64

// Change is one change of an entity's state.
type Change struct {
	Key string
	// Value is what the key gets.
	Value []byte
	// Delete removes the key instead.
	Delete bool
}

// Commit is an event together with changes of the state of the entity that it is about.
type Commit struct {
	// EntityKey names the entity, and decides on the shard as a record's key does.
	EntityKey []byte
	// Event is the value of the record that subscribers get.
	Event []byte
	// Changes are applied in order.
	Changes []Change
	// Expected, if it is set, is the offset that the record must get; see PublishIf.
	Expected *int64
	// Shard, if it is set, is where the event goes, whatever EntityKey says, as with Record.Shard. State is kept by shard: read what the
	// commit changed with StateIn.
	Shard *uint32
}

// Commit stores an event and changes of state in one record of a durable stream: every reader sees both or neither. The offset of the answer
// is the version of each changed key.
//
// Nothing is sent again by itself once it may have been applied. Errors are those of PublishIf.
func (c *Client) Commit(ctx context.Context, s Stream, commit Commit) (Ack, error) {
	if commit.Expected != nil && *commit.Expected < 0 {
		return Ack{}, errors.New("felix: a negative offset is expected")
	}
	s = s.normal()
	rest := jsonBytes(len(commit.Event), 1)
	for _, ch := range commit.Changes {
		rest += changeOverhead + 6*len(ch.Key) + jsonBytes(len(ch.Value), 1)
	}
	if !c.fitsMessage(s, commit.EntityKey, rest) {
		return Ack{}, fmt.Errorf("%w: a commit of %d bytes as JSON", ErrTooLarge, rest)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	key := commit.EntityKey
	if key == nil {
		key = []byte{}
	}
	shard, err := c.shardFor(ctx, s, key, commit.Shard)
	if err != nil {
		return Ack{}, err
	}
	m := &wire.Commit{
		StreamScope: c.scope(s), EntityKey: key, Event: commit.Event, RequestID: c.requestID(), Shard: asNamed(commit.Shard),
	}
	for _, ch := range commit.Changes {
		op := wire.ChangePut
		if ch.Delete {
			op = wire.ChangeDelete
		}
		m.Changes = append(m.Changes, wire.Change{Op: op, Key: ch.Key, Value: ch.Value})
	}
	if commit.Expected != nil {
		m.ExpectedOffset = wire.Some(uint64(*commit.Expected))
	}
	a, err := expect[*wire.CommitOK](c.request(ctx, s, shard, false, m))
	if err != nil {
		return Ack{}, err
	}
	return Ack{Shard: shard, Offset: offsetOf(a.Offset)}, nil
}

// State is one key of an entity's state.
type State struct {
	// Value is nil if the key was never written, or was deleted.
	Value []byte
	// Version is the offset of the commit that wrote it, NoOffset if there is none.
	Version int64
	// AsOf is the offset of the last commit that the answer reflects: all up to it, and none behind. NoOffset if there is none.
	AsOf int64
}

// State reads one key of an entity's state as commits have left it.
//
// Errors: ErrInvalidRequest for an ephemeral stream; ErrNotFound; ErrForbidden; others of the server.
func (c *Client) State(ctx context.Context, s Stream, entityKey []byte, key string) (State, error) {
	return c.state(ctx, s, nil, entityKey, key)
}

// StateIn is State as commits to one shard have left it, for those that name theirs.
func (c *Client) StateIn(ctx context.Context, s Stream, shard uint32, entityKey []byte, key string) (State, error) {
	return c.state(ctx, s, &shard, entityKey, key)
}

func (c *Client) state(ctx context.Context, s Stream, named *uint32, entityKey []byte, key string) (State, error) {
	s = s.normal()
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if entityKey == nil {
		entityKey = []byte{}
	}
	shard, err := c.shardFor(ctx, s, entityKey, named)
	if err != nil {
		return State{}, err
	}
	m := &wire.StateGet{StreamScope: c.scope(s), EntityKey: entityKey, Key: key, RequestID: c.requestID(), Shard: asNamed(named)}
	a, err := expect[*wire.StateValue](c.request(ctx, s, shard, true, m))
	if err != nil {
		return State{}, err
	}
	return State{Value: a.Value, Version: optionalOffset(a.Version), AsOf: optionalOffset(a.AsOf)}, nil
}
