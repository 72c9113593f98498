package kafkaproto

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// DeleteGroups, versions 0 to 2.
//
//	1  throttle_time_ms
//	2  flexible
//
// Rules: Kafka request rules 4.12. A group is deleted with its offsets, if it has no members. Each group is answered, one that is named
// twice once; the answer comes when all deletions are durable.

func handleDeleteGroups(c *call) {
	req := c.req.(*kmsg.DeleteGroupsRequest)
	resp := c.response().(*kmsg.DeleteGroupsResponse)
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, 0, len(req.Groups))
	var keys []groups.Key
	var at []int // index in resp.Groups of each key
	seen := make(map[string]struct{}, len(req.Groups))
	for _, name := range req.Groups {
		if _, again := seen[name]; again {
			continue
		}
		seen[name] = struct{}{}
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = name
		key, err := c.group(name, broker.GroupManage)
		if err != nil {
			out.ErrorCode = c.code(err)
		} else {
			keys, at = append(keys, key), append(at, len(resp.Groups))
		}
		resp.Groups = append(resp.Groups, out)
	}
	done := answerLater(c, outcome{err: groups.ErrNotCoordinator}, func(c *call, res outcome) {
		for i, k := range at {
			resp.Groups[k].ErrorCode = c.code(res.of(i))
		}
		c.reply(resp)
	})
	all := &gathering{left: 1 + len(keys), each: make([]error, len(keys)), done: done}
	for i, key := range keys {
		c.srv.opts.Groups.Delete(key, func(err error) { all.set(i, err) })
	}
	all.arrive()
}

// gathering waits for the outcomes of several calls.
type gathering struct {
	mu   sync.Mutex
	left int     // guarded by mu: outcomes that are not there, and the one who starts the calls
	each []error // guarded by mu until left is 0
	done func(outcome)
}

func (g *gathering) set(i int, err error) {
	g.mu.Lock()
	g.each[i] = err
	g.mu.Unlock()
	g.arrive()
}

func (g *gathering) arrive() {
	g.mu.Lock()
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if last {
		g.done(outcome{each: g.each})
	}
}
