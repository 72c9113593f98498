package raw_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
)

var _ = register(
	Case{ID: "37.produce", What: "producer over its quota (20 KB/s, 25 KB at a time)", Want: "written, throttle_time_ms > 0, the next request answered later"},
	Case{ID: "37.acks-0", What: "the same with acks=0", Want: "written, the next request answered later"},
)

// quotaClient has a client id of its own.
const quotaClient = "over-quota"

// quotaPeer is a connection whose produce quota is 20 KB a second: the tenant's in Felix, the client id's in Kafka.
func quotaPeer(t *testing.T) func() *client {
	t.Helper()
	addr := server.Addr()
	if server.Kind() == peer.Felix {
		addr = startFelix(t, peer.Options{FelixEnv: []string{
			"FELIX_TENANT_PUBLISH_BYTES_PER_SEC=20000", "FELIX_TENANT_PUBLISH_BURST_MS=100",
		}}).Addr()
	} else {
		id := quotaClient
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Version = 1
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
		entity.Type, entity.Name = "client-id", &id
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value = "producer_byte_rate", 20000
		entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
		req.Entries = append(req.Entries, entry)
		if code := do[*kmsg.AlterClientQuotasResponse](dial(t), req).Entries[0].ErrorCode; code != 0 {
			t.Fatal(name(code))
		}
	}
	return func() *client {
		c := dialAddr(t, addr)
		c.SetClientID(quotaClient)
		return c
	}
}

func TestCase37Quota(t *testing.T) {
	connect := quotaPeer(t)
	c := connect()
	topic := c.topic(1)
	// As often as it takes until the server holds: Kafka averages over ten seconds.
	var throttle int32
	var sent int64
	for range 40 {
		resp := do[*kmsg.ProduceResponse](c, produceRequest(9, 1, topic, part{0, sized(25_000)}))
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatal(name(code))
		}
		sent++
		if throttle = resp.ThrottleMillis; throttle > 0 {
			break
		}
	}
	held := timed(func() { c.metadata(9) }) // the metadata of all topics: not affected by itself
	stored := connect().offset(topic, 0, -1)
	got := fmt.Sprintf("%d of %d written, throttle_time_ms %d", stored, sent, throttle)
	if stored == sent && throttle > 0 {
		got = "written, throttle_time_ms > 0"
	}
	if held > time.Duration(throttle)*time.Millisecond*8/10 {
		got += ", the next request answered later"
	} else {
		got += fmt.Sprintf(", the next request answered after %v of %d ms", held, throttle)
	}
	expect(t, "37.produce", got)

	d := connect()
	if _, err := d.Send(produceRequest(9, 0, topic, part{0, sized(25_000)})); err != nil {
		t.Fatal(err)
	}
	held = timed(func() { d.metadata(9) })
	got = "not written"
	if connect().offset(topic, 0, -1) == sent+1 {
		got = "written"
	}
	if held > 500*time.Millisecond {
		got += ", the next request answered later"
	} else {
		got += fmt.Sprintf(", the next request answered after %v", held)
	}
	expect(t, "37.acks-0", got)
}
