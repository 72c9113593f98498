package kafkaproto

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// DescribeTopicPartitions, version 0 (KIP-966).
//
// Topics sorted by name, at most the asked number of partitions an answer (and never above 2,000), with a cursor for the rest. An empty
// list of topics means all that the caller may see. A topic that the caller may not see is 29 when named and left out of "all"; a
// missing one is 3. Eligible leader replicas are empty: followers are promoted by another rule (design decision 1).

const maxDescribedPartitions = 2000

var errCursor = errcode.New(errcode.InvalidRequest, "the cursor's partition is negative")

func handleDescribeTopicPartitions(c *call) {
	req := c.req.(*kmsg.DescribeTopicPartitionsRequest)
	resp := c.response().(*kmsg.DescribeTopicPartitionsResponse)
	resp.Topics = []kmsg.DescribeTopicPartitionsResponseTopic{}
	d := topicPages{c: c, view: c.view(), resp: resp}
	d.left = max(1, min(int(req.ResponsePartitionLimit), maxDescribedPartitions))
	names := d.names(req)
	var from int32
	if cur := req.Cursor; cur != nil {
		if cur.Partition < 0 {
			d.invalid(names)
			c.reply(resp)
			return
		}
		i, found := slices.BinarySearch(names, cur.Topic)
		names = names[i:]
		if found {
			from = cur.Partition
		}
	}
	for _, name := range names {
		if !d.topic(name, from) {
			break
		}
		from = 0
	}
	c.reply(resp)
}

type topicPages struct {
	c    *call
	view *cluster.Image
	resp *kmsg.DescribeTopicPartitionsResponse
	left int // partitions that the answer may still hold
}

// names are the topics to describe, sorted and each once.
func (d *topicPages) names(req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if caller := d.c.caller(); len(req.Topics) == 0 && caller.Known() {
		d.view.TopicsOf(caller.Tenant, func(t *cluster.Topic) bool {
			name := d.c.srv.names.join(t.Namespace, t.Name)
			if name != "" && visible(t) && mayDescribe(caller, t.Namespace, t.Name) {
				names = append(names, name)
			}
			return true
		})
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

// invalid answers each topic of a request that makes no sense as a whole; the API has no error of its own.
func (d *topicPages) invalid(names []string) {
	for _, name := range names {
		d.resp.Topics = append(d.resp.Topics, d.refused(name, errCursor))
	}
}

func (d *topicPages) refused(name string, err error) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode = &name, d.c.code(err)
	out.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	return out
}

// topic adds one topic from a partition on and reports whether there is room for more. When there is not, the cursor is set to
// what comes next.
func (d *topicPages) topic(name string, from int32) bool {
	if d.left == 0 {
		d.next(name, from)
		return false
	}
	t, err := d.c.topic(d.view, name)
	if err != nil {
		if _, _, illegal := d.c.srv.names.split(name); illegal != nil {
			err = illegal
		}
		d.resp.Topics = append(d.resp.Topics, d.refused(name, err))
		return true
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &name, t.ID, t.Internal
	out.AuthorizedOperations = topicOperations(d.c.caller(), t.Namespace, t.Name)
	total := int32(len(t.Partitions))
	from = min(from, total)
	n := min(int(total-from), d.left)
	out.Partitions = make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, n)
	for i := range out.Partitions {
		d.partition(&out.Partitions[i], from+int32(i), &t.Partitions[from+int32(i)])
	}
	d.left -= n
	d.resp.Topics = append(d.resp.Topics, out)
	if rest := from + int32(n); rest < total {
		d.next(name, rest)
		return false
	}
	return true
}

func (d *topicPages) next(name string, partition int32) {
	cur := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cur.Topic, cur.Partition = name, partition
	d.resp.NextCursor = &cur
}

func (d *topicPages) partition(out *kmsg.DescribeTopicPartitionsResponseTopicPartition, index int32, p *cluster.Partition) {
	out.Default()
	out.Partition, out.LeaderID, out.LeaderEpoch = index, int32(p.Leader), int32(p.Epoch)
	out.Replicas = wireBrokers(p.Replicas)
	out.ISR = out.Replicas
	out.EligibleLeaderReplicas, out.LastKnownELR, out.OfflineReplicas = []int32{}, []int32{}, []int32{}
	if n, ok := d.view.Node(p.Leader); !ok || !n.Live {
		out.LeaderID = int32(ids.NoBroker)
		out.ErrorCode = d.c.kindCode(errcode.NoLeader)
	}
}
