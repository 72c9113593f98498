package raw_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "48.create", What: "full fetch (0,0)", Want: "0, a session"},
	Case{ID: "48.empty", What: "(id,1) with no partitions, nothing new", Want: "0, same session, no partitions"},
	Case{ID: "48.data", What: "(id,2) after a produce to one of two partitions", Want: "0, partition 1 with data alone"},
	Case{ID: "48.forget", What: "(id,3) that forgets partition 1, after another produce to it", Want: "0, no partitions"},
	Case{ID: "48.unknown", What: "unknown session id", Want: "FETCH_SESSION_ID_NOT_FOUND (70), no partitions"},
	Case{ID: "48.epoch", What: "known id, wrong epoch", Want: "INVALID_FETCH_SESSION_EPOCH (71), no partitions"},
	Case{ID: "48.close", What: "(id,-1), then the id again", Want: "0, session 0, all partitions; then FETCH_SESSION_ID_NOT_FOUND (70)"},
	Case{ID: "48.error", What: "a partition with an error in a session", Want: "answered each time"},
	Case{ID: "48.ids", What: "session opened with topic ids, then a request by name", Want: "FETCH_SESSION_TOPIC_ID_ERROR (106)"},
	Case{ID: "48.renew", What: "(id,0): drop, full fetch, create anew", Want: "0, another session, all partitions"},
)

// sessionFetch sends a fetch in a session for the given partitions (offset by partition).
func (c *client) sessionFetch(topic string, id, epoch int32, wait time.Duration, offsets map[int32]int64, forget ...int32) *kmsg.FetchResponse {
	c.t.Helper()
	req := fetchRequest(topic, 0, 0)
	req.SessionID, req.SessionEpoch, req.MaxWaitMillis, req.Topics[0].Partitions = id, epoch, int32(wait.Milliseconds()), nil
	for partition := range int32(10) {
		if offset, ok := offsets[partition]; ok {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(partition, offset))
		}
	}
	if len(offsets) == 0 {
		req.Topics = nil
	}
	if len(forget) > 0 {
		ft := kmsg.NewFetchRequestForgottenTopic()
		ft.Topic, ft.Partitions = topic, forget
		req.ForgottenTopics = append(req.ForgottenTopics, ft)
	}
	return do[*kmsg.FetchResponse](c, req)
}

// partitionsOf lists what a fetch answered: ", no partitions" or ", partition 1 with data alone".
func partitionsOf(resp *kmsg.FetchResponse) string {
	out := ""
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			data := ""
			if len(p.RecordBatches) > 0 {
				data = " with data"
			}
			if p.ErrorCode != 0 {
				data = " " + name(p.ErrorCode)
			}
			out += fmt.Sprintf(", partition %d%s", p.Partition, data)
		}
	}
	switch out {
	case "":
		return ", no partitions"
	case ", partition 1 with data":
		return out + " alone"
	case ", partition 0, partition 1 with data", ", partition 1 with data, partition 0", ", partition 0, partition 1", ", partition 1, partition 0":
		return ", all partitions"
	}
	return out
}

func TestCase48Sessions(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	opened := c.sessionFetch(topic, 0, 0, 0, map[int32]int64{0: 0, 1: 0})
	got := name(opened.ErrorCode)
	if opened.SessionID > 0 {
		got += ", a session"
	}
	expect(t, "48.create", got)
	id := opened.SessionID
	same := func(resp *kmsg.FetchResponse) string {
		if resp.SessionID != id {
			return fmt.Sprintf(", session %d", resp.SessionID)
		}
		return ""
	}
	var resp *kmsg.FetchResponse
	d := timed(func() { resp = c.sessionFetch(topic, id, 1, 400*time.Millisecond, nil) })
	if same(resp) == "" {
		expect(t, "48.empty", name(resp.ErrorCode)+", same session"+partitionsOf(resp))
	} else {
		expect(t, "48.empty", name(resp.ErrorCode)+same(resp)+partitionsOf(resp))
	}
	expect(t, "T45.wait", "empty, "+about(d, 400*time.Millisecond))
	c.mustProduce(topic, 1, values("x"))
	resp = c.sessionFetch(topic, id, 2, 0, nil)
	expect(t, "48.data", name(resp.ErrorCode)+same(resp)+partitionsOf(resp))
	c.mustProduce(topic, 1, values("y"))
	resp = c.sessionFetch(topic, id, 3, 0, nil, 1)
	expect(t, "48.forget", name(resp.ErrorCode)+same(resp)+partitionsOf(resp))

	resp = c.sessionFetch(topic, id^0x2a2a2a, 1, 0, nil)
	expect(t, "48.unknown", name(resp.ErrorCode)+partitionsOf(resp))
	resp = c.sessionFetch(topic, id, 9, 0, nil)
	expect(t, "48.epoch", name(resp.ErrorCode)+partitionsOf(resp))
	renewed := c.sessionFetch(topic, id, 0, 0, map[int32]int64{0: 0, 1: 0})
	session := ", another session"
	if renewed.SessionID == 0 || renewed.SessionID == id {
		session = fmt.Sprintf(", session %d", renewed.SessionID)
	}
	expect(t, "48.renew", name(renewed.ErrorCode)+session+partitionsOf(renewed))
	resp = c.sessionFetch(topic, renewed.SessionID, -1, 0, map[int32]int64{0: 0, 1: 0})
	closed := fmt.Sprintf("%s, session %d%s", name(resp.ErrorCode), resp.SessionID, partitionsOf(resp))
	resp = c.sessionFetch(topic, renewed.SessionID, 1, 0, nil)
	expect(t, "48.close", closed+"; then "+name(resp.ErrorCode))
}

func TestCase48SessionErrors(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	resp := c.sessionFetch(topic, 0, 0, 0, map[int32]int64{0: 0, 7: 0})
	got := "answered each time"
	for epoch := range int32(3) {
		if want := ", partition 7 UNKNOWN_TOPIC_OR_PARTITION (3)"; epoch > 0 && partitionsOf(resp) != want {
			got = partitionsOf(resp)
		}
		resp = c.sessionFetch(topic, resp.SessionID, epoch+1, 0, nil)
	}
	expect(t, "48.error", got)

	req := fetchRequest("", 0, 0)
	req.Version, req.SessionEpoch, req.Topics[0].TopicID = 13, 0, c.topicID(topic)
	opened := do[*kmsg.FetchResponse](c, req)
	resp = c.sessionFetch(topic, opened.SessionID, 1, 0, map[int32]int64{0: 0})
	expect(t, "48.ids", name(resp.ErrorCode))
}
