package native

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCommit commits an event with changes of state, reads the state back, and the event as every kind of reader.
func TestCommit(t *testing.T) {
	each(t, func(t *testing.T, a *agent) {
		stream := suite.server.durable(t, 4)
		entity := []byte("order-42") // shard 3 of 4
		commit := func(event string, puts map[string][]byte, deletes ...string) int64 {
			t.Helper()
			res := a.call(t, "commit", request{
				"client": "dev", "stream": stream, "key": entity, "event": []byte(event), "puts": puts, "deletes": deletes,
			})
			return *res.Offsets[0]
		}
		get := func(name string) answer {
			t.Helper()
			return a.call(t, "state_get", request{"client": "dev", "stream": stream, "key": entity, "name": name})
		}
		if v := get("status"); v.Value != nil || v.At != nil {
			t.Errorf("before the first commit: %q at %s", v.Value, offsetText(v.At))
		}
		if o := commit("created", map[string][]byte{"status": []byte("new"), "note": []byte("n")}); o != 0 {
			t.Errorf("first commit at %d", o)
		}
		if o := commit("paid", map[string][]byte{"status": []byte("paid")}, "note"); o != 1 {
			t.Errorf("second commit at %d", o)
		}
		if v := get("status"); string(v.Value) != "paid" || v.At == nil || *v.At != 1 || v.AsOf == nil || *v.AsOf != 1 {
			t.Errorf("status %q at %s as of %s, want paid at 1 as of 1", v.Value, offsetText(v.At), offsetText(v.AsOf))
		}
		if v := get("note"); v.Value != nil {
			t.Errorf("a deleted name holds %q", v.Value)
		}
		a.call(t, "subscribe_sharded", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
		got := a.call(t, "next_sharded", request{"subscription": stream, "count": 2, "timeout": 10}).Events
		wantEvents(t, got, 0, []byte("created"), []byte("paid"))
		if got[0].Shard != 3 {
			t.Errorf("committed to shard %d, want 3", got[0].Shard)
		}
		a.call(t, "close", request{"subscription": stream})

		cl := suite.server.kafka(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{stream: {3: kgo.NewOffset().AtStart()}}))
		records := cl.PollFetches(t.Context()).Records()
		if len(records) == 0 || string(records[0].Key) != string(entity) || string(records[0].Value) != "created" ||
			len(records[0].Headers) != 1 {
			t.Errorf("Kafka reads %+v, want the event with the entity as its key and the changes in a header", records)
		}
	})
}

// TestCommitOnEphemeral is refused: there is no log to commit to.
func TestCommitOnEphemeral(t *testing.T) {
	stream := suite.server.ephemeral(t)
	f := suite.sync.refused(t, "commit", request{"client": "dev", "stream": stream, "key": []byte("k"), "event": []byte("e")})
	wantFailure(t, f, "FelixError", "invalid_request", "fatal")
}

// TestCommitRights commits with the right to publish alone, and reads the state with the right to subscribe alone.
func TestCommitRights(t *testing.T) {
	stream := suite.server.durable(t, 1)
	for name, right := range map[string]string{"writer": "stream.publish", "reader": "stream.subscribe"} {
		c := suite.server.connection(name)
		c["token"] = suite.server.mint(t, right+":stream:default/default/"+stream)
		suite.sync.call(t, "connect", c)
	}
	key := []byte("k")
	commit := request{"client": "writer", "stream": stream, "key": key, "event": []byte("e"), "puts": map[string][]byte{"n": []byte("v")}}
	suite.sync.call(t, "commit", commit)
	if v := suite.sync.call(t, "state_get", request{"client": "reader", "stream": stream, "key": key, "name": "n"}); string(v.Value) != "v" {
		t.Errorf("state %q, want v", v.Value)
	}
	f := suite.sync.refused(t, "state_get", request{"client": "writer", "stream": stream, "key": key, "name": "n"})
	wantFailure(t, f, "AuthError", "forbidden", "fatal")
}
