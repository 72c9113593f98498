package rawkafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOffsets(t *testing.T) {
	f, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := Dial(f.ListenAddrs()[0], time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.AwaitCoordinator(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit("g", "t", []int64{7, 8, 9}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		group     string
		partition int32
		want      int64
	}{{"g", 0, 7}, {"g", 2, 9}, {"other", 0, -1}} {
		if got, err := c.CommittedOffset(tt.group, "t", tt.partition); err != nil || got != tt.want {
			t.Errorf("%s %d: got %d, %v, want %d", tt.group, tt.partition, got, err, tt.want)
		}
	}
	// Answers come in the order of requests.
	requests := []kmsg.Request{CommitRequest("g", "t", []int64{1}), CommitRequest("g", "t", []int64{1, 2, 3})}
	for _, req := range requests {
		if err := c.Send(req, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{1, 3} {
		resp, err := c.Receive(requests[i], 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.(*kmsg.OffsetCommitResponse); CommitError(got) != nil || len(got.Topics[0].Partitions) != want {
			t.Errorf("answer %d: %+v", i, got)
		}
	}
}
