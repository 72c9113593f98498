package api

import (
	"net/http"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// resourceBody has one of stream and cache.
type resourceBody struct {
	Result string      `json:"result" enum:"created,unchanged"`
	Stream *streamBody `json:"stream,omitempty"`
	Cache  *cacheBody  `json:"cache,omitempty"`
}

type resourcesBody struct {
	Items []resourceBody `json:"items" about:"the streams and behind them the caches, as they were asked for"`
}

type resourcesRequest struct {
	Streams []streamRequest `json:"streams,omitempty" about:"1 to 256 together with the caches"`
	Caches  []cacheRequest  `json:"caches,omitempty"`
}

// createResources makes streams and caches, all or none. The first item that cannot be made decides the answer, whose index says which it
// is: the streams are counted first.
func createResources(c *call) (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	streams, err := b.objects("streams")
	if err != nil {
		return answer{}, err
	}
	caches, err := b.objects("caches")
	if err != nil {
		return answer{}, err
	}
	if n := len(streams) + len(caches); n < 1 || n > cluster.MaxCreateResources {
		return answer{}, invalid("streams and caches must have 1 to %d items together", cluster.MaxCreateResources)
	}
	cmd, err := c.newResources(streams, caches)
	if err != nil {
		return answer{}, err
	}
	res, err := c.propose(cmd)
	if err != nil {
		return answer{}, err
	}
	return madeResources(res.Items)
}

// newResources reads the items of a batch: first all names with their rights, then all values.
func (c *call) newResources(streams, caches []body) (cluster.CreateResources, error) {
	cmd := cluster.CreateResources{Streams: make([]cluster.NewStream, len(streams)), Caches: make([]cluster.NewCache, len(caches))}
	names := make([]string, 0, len(streams)+len(caches))
	named := func(list []body, field string) error {
		for _, item := range list {
			name, err := item.name(field)
			if err != nil {
				return ofItem(len(names), err)
			}
			names = append(names, name)
		}
		return nil
	}
	if err := named(streams, "stream"); err != nil {
		return cmd, err
	}
	if err := named(caches, "cache"); err != nil {
		return cmd, err
	}
	for i, name := range names {
		need := c.needStream
		if i >= len(streams) {
			need = c.needCache
		}
		if err := need(c.params["namespace"], name); err != nil {
			return cmd, ofItem(i, err)
		}
	}
	var err error
	for i := range streams {
		if cmd.Streams[i], err = c.newStream(streams[i], names[i]); err != nil {
			return cmd, ofItem(i, err)
		}
	}
	for i := range caches {
		if cmd.Caches[i], err = c.newCache(caches[i], names[len(streams)+i]); err != nil {
			return cmd, ofItem(len(streams)+i, err)
		}
	}
	return cmd, nil
}

func madeResources(items []cluster.ItemResult) (answer, error) {
	out := resourcesBody{Items: make([]resourceBody, len(items))}
	status := http.StatusOK
	for i, item := range items {
		if errcode.Of(item.Err) == errcode.OperationNotAttempted {
			continue // for another's sake, which is found
		}
		if item.Err != nil {
			return answer{}, ofItem(i, item.Err)
		}
		r := resourceBody{Result: "created"}
		if item.Unchanged {
			r.Result = "unchanged"
		} else {
			status = http.StatusCreated
		}
		if item.Cache != nil {
			cache := cacheOf(item.Cache)
			r.Cache = &cache
		} else {
			stream := streamOf(item.Topic)
			r.Stream = &stream
		}
		out.Items[i] = r
	}
	return answer{status, out}, nil
}

// ofItem says which item of a batch a refusal is about.
func ofItem(i int, err error) error {
	e := *refusalOf(err)
	e.index = i
	return &e
}
