package api

import (
	"net/http"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

type resourceBody struct {
	Result string     `json:"result"` // created or unchanged
	Stream streamBody `json:"stream"`
}

// createResources makes streams, all or none. The first item that cannot be made decides the answer, whose index says which it is.
func createResources(c *call) (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	if err := b.only("cannot be made: this release has no caches", "caches"); err != nil {
		return answer{}, err
	}
	list, err := b.objects("streams")
	if err != nil {
		return answer{}, err
	}
	if len(list) < 1 || len(list) > cluster.MaxCreateStreams {
		return answer{}, invalid("streams must have 1 to %d items", cluster.MaxCreateStreams)
	}
	cmd := cluster.CreateStreams{Streams: make([]cluster.NewStream, len(list))}
	names := make([]string, len(list))
	for i, item := range list {
		if names[i], err = item.name("stream"); err != nil {
			return answer{}, ofItem(i, err)
		}
	}
	for i, name := range names {
		if err := c.needStream(c.params["namespace"], name); err != nil {
			return answer{}, ofItem(i, err)
		}
	}
	for i, item := range list {
		if cmd.Streams[i], err = c.newStream(item, names[i]); err != nil {
			return answer{}, ofItem(i, err)
		}
	}
	res, err := c.propose(cmd)
	if err != nil {
		return answer{}, err
	}
	items := make([]resourceBody, len(res.Items))
	status := http.StatusOK
	for i, item := range res.Items {
		switch {
		case errcode.Of(item.Err) == errcode.OperationNotAttempted:
			continue // for another's sake, which is found
		case item.Err != nil:
			return answer{}, ofItem(i, item.Err)
		case item.Unchanged:
			items[i] = resourceBody{"unchanged", streamOf(item.Topic)}
		default:
			items[i] = resourceBody{"created", streamOf(item.Topic)}
			status = http.StatusCreated
		}
	}
	return answer{status, map[string]any{"items": items}}, nil
}

// ofItem says which item of a batch a refusal is about.
func ofItem(i int, err error) error {
	e := *refusalOf(err)
	e.index = i
	return &e
}
