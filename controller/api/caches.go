package api

import (
	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

type cacheBody struct {
	TenantID          string `json:"tenant_id"`
	Namespace         string `json:"namespace"`
	Cache             string `json:"cache"`
	DisplayName       string `json:"display_name"`
	Shards            int    `json:"shards"`
	ReplicationFactor int    `json:"replication_factor"`
	Consistency       string `json:"consistency" enum:"Leader,Quorum" about:"of puts, deletes and counter adds"`
}

// cacheRequest is a cacheBody as it is asked for.
type cacheRequest struct {
	Cache             string `json:"cache" about:"1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit"`
	DisplayName       string `json:"display_name,omitempty" max:"256"`
	Shards            int64  `json:"shards,omitempty" min:"1" max:"1024" about:"fixed for life; default 1"`
	ReplicationFactor int64  `json:"replication_factor,omitempty" min:"1" max:"7" about:"leader included; fixed for life; default 1"`
	Consistency       string `json:"consistency,omitempty" enum:"Leader,Quorum" about:"default Leader"`
}

// cachePatch is what can be changed of a cache.
type cachePatch struct {
	DisplayName string `json:"display_name,omitempty" max:"256"`
}

func cacheOf(c *cluster.Cache) cacheBody {
	return cacheBody{
		TenantID: c.Tenant, Namespace: c.Namespace, Cache: c.Name, DisplayName: c.DisplayName, Shards: int(c.Shards),
		ReplicationFactor: int(c.ReplicationFactor), Consistency: consistencyWord(c.Consistency),
	}
}

// needCache wants the right to manage a cache.
func (c *call) needCache(namespace, cache string) error {
	tenant := c.params["tenant"]
	if cache != "" && c.identity.Grants.AllowedCache(auth.CacheManage, tenant, namespace, cache) {
		return nil
	}
	return c.forbid(auth.CacheManage, "cache:"+tenant+"/"+clip(namespace)+"/"+clip(cache))
}

func listCaches(c *call) (answer, error) {
	tenant, namespace := c.params["tenant"], c.params["namespace"]
	err := c.needSome(auth.CacheManage, "a cache of namespace "+clip(namespace), func(o auth.Object) bool {
		return o.Namespace == auth.Any || o.Namespace == namespace
	})
	if err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("caches", 1)
	if err != nil {
		return answer{}, err
	}
	if c.image.Namespace(tenant, namespace) == nil {
		return answer{}, notFound("namespace %s does not exist", clip(namespace))
	}
	after := ""
	if p.after != nil {
		after = p.after[0]
	}
	mine := filter(c.image.CachesAfter(tenant, namespace, after), func(k *cluster.Cache) bool {
		return c.identity.Grants.AllowedCache(auth.CacheManage, tenant, namespace, k.Name)
	})
	return ok(fill(p, mine, func(k *cluster.Cache) []string { return []string{k.Name} }, func(k *cluster.Cache) any { return cacheOf(k) })), nil
}

// cache is the one in the path, after its right was checked.
func (c *call) cache() (*cluster.Cache, error) {
	namespace, name := c.params["namespace"], c.params["cache"]
	if err := c.needCache(namespace, name); err != nil {
		return nil, err
	}
	k := c.image.Cache(c.params["tenant"], namespace, name)
	if k == nil {
		return nil, notFound("there is no cache %s in namespace %s", clip(name), clip(namespace))
	}
	return k, nil
}

func getCache(c *call) (answer, error) {
	k, err := c.cache()
	if err != nil {
		return answer{}, err
	}
	return ok(cacheOf(k)), nil
}

func createCache(c *call) (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	name, err := b.name("cache")
	if err != nil {
		return answer{}, err
	}
	if err := c.needCache(c.params["namespace"], name); err != nil {
		return answer{}, err
	}
	n, err := c.newCache(b, name)
	if err != nil {
		return answer{}, err
	}
	res, err := c.propose(cluster.CreateResources{Caches: []cluster.NewCache{n}})
	if err != nil {
		return answer{}, err
	}
	item := res.Items[0]
	switch {
	case item.Err != nil:
		return answer{}, item.Err
	case item.Unchanged:
		return ok(cacheOf(item.Cache)), nil
	default:
		return created(cacheOf(item.Cache)), nil
	}
}

// newCache reads the values of a cache object.
func (c *call) newCache(b body, name string) (cluster.NewCache, error) {
	n := cluster.NewCache{TopicRef: cluster.TopicRef{
		ID: ids.NewTopicID(), Tenant: c.params["tenant"], Namespace: c.params["namespace"], Name: name,
	}}
	if err := cluster.ValidateName("cache", name); err != nil {
		return n, err
	}
	shards, err := b.number("shards", 1, cluster.MaxStreamShards)
	if err != nil {
		return n, err
	}
	factor, err := b.number("replication_factor", 1, cluster.MaxStreamReplicas)
	if err != nil {
		return n, err
	}
	n.Shards, n.ReplicationFactor = int32(shards), int16(factor)
	if n.Consistency, err = consistency(b); err != nil {
		return n, err
	}
	n.DisplayName, err = displayName(b)
	return n, err
}

func patchCache(c *call) (answer, error) {
	if err := c.needCache(c.params["namespace"], c.params["cache"]); err != nil {
		return answer{}, err
	}
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	if err := b.only("is fixed for the life of a cache", "cache", "shards", "replication_factor", "consistency"); err != nil {
		return answer{}, err
	}
	cmd := cluster.UpdateCache{Tenant: c.params["tenant"], Namespace: c.params["namespace"], Name: c.params["cache"]}
	title, err := displayName(b)
	if err != nil {
		return answer{}, err
	}
	if b.has("display_name") {
		cmd.DisplayName = &title
	}
	res, err := c.propose(cmd)
	if err == nil {
		err = res.Items[0].Err
	}
	if err != nil {
		return answer{}, err
	}
	return ok(cacheOf(res.Items[0].Cache)), nil
}

func deleteCache(c *call) (answer, error) {
	k, err := c.cache()
	if err != nil {
		return answer{}, err
	}
	// By id: a cache of the same name that somebody made meanwhile is another one.
	if _, err := c.propose(cluster.DeleteCache{Tenant: k.Tenant, Namespace: k.Namespace, Name: k.Name, ID: k.ID}); err != nil {
		return answer{}, err
	}
	return done(), nil
}
