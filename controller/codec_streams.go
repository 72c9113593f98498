package controller

import "github.com/felixlog/felix/internal/cluster"

// streamCommand writes the commands about native streams, what holds them, and signing keys; false: cmd is none of them.
func (w *writer) streamCommand(cmd cluster.Command) bool {
	switch c := cmd.(type) {
	case cluster.CreateStreams:
		w.byte(kindCreateStreams)
		w.count(len(c.Streams))
		for i := range c.Streams {
			w.newStream(&c.Streams[i])
		}
	case cluster.UpdateStream:
		w.byte(kindUpdateStream)
		w.updateStream(&c)
	case cluster.DeleteNamespace:
		w.byte(kindDeleteNamespace)
		w.text(c.Tenant)
		w.text(c.Name)
	case cluster.DeleteTenant:
		if c.Uncounted {
			w.byte(kindDeleteTenant)
		} else {
			w.byte(kindDeleteTenantCounted)
		}
		w.text(c.Name)
	case cluster.InitializeTenant:
		w.byte(kindInitializeTenant)
		w.initializeTenant(&c)
	case cluster.PutSigningKey:
		w.byte(kindPutSigningKey)
		w.text(c.Tenant)
		w.newKey(c.Key)
	case cluster.ActivateSigningKey:
		w.byte(kindActivateSigningKey)
		w.text(c.Tenant)
		w.text(c.ID)
	case cluster.RetireSigningKey:
		w.byte(kindRetireSigningKey)
		w.text(c.Tenant)
		w.text(c.ID)
	default:
		return false
	}
	return true
}

// streamCommand reads what the writer's wrote behind the kind; nil: the kind is none of them.
func (r *reader) streamCommand(kind byte) cluster.Command {
	switch kind {
	case kindCreateTenantWithKey:
		key := r.newKey()
		if key.IsZero() {
			r.fail("missing key")
		}
		return cluster.CreateTenant{Key: key, Name: r.text(), DisplayName: r.text()}
	case kindDisplayedNamespace:
		c := cluster.CreateNamespace{DisplayName: r.text()}
		if c.DisplayName == "" {
			r.fail("missing display name")
		}
		c.Tenant, c.Name = r.text(), r.text()
		return c
	case kindCreateStreams:
		c := cluster.CreateStreams{Streams: make([]cluster.NewStream, r.count(minNewStream))}
		for i := range c.Streams {
			c.Streams[i] = r.newStream()
		}
		return c
	case kindUpdateStream:
		return r.updateStream()
	case kindDeleteNamespace:
		return cluster.DeleteNamespace{Tenant: r.text(), Name: r.text()}
	case kindDeleteTenant:
		return cluster.DeleteTenant{Name: r.text(), Uncounted: true}
	case kindDeleteTenantCounted:
		return cluster.DeleteTenant{Name: r.text()}
	case kindInitializeTenant:
		return r.initializeTenant()
	case kindPutSigningKey:
		return cluster.PutSigningKey{Tenant: r.text(), Key: r.newKey()}
	case kindActivateSigningKey:
		return cluster.ActivateSigningKey{Tenant: r.text(), ID: r.text()}
	case kindRetireSigningKey:
		return cluster.RetireSigningKey{Tenant: r.text(), ID: r.text()}
	default:
		return nil
	}
}

// Flags of a new stream.
const (
	flagStreamDurable = 1 << iota
	flagAnyRouting
	streamFlags = 1<<iota - 1
)

const minNewStream = minTopicRef + 10

func (w *writer) newStream(n *cluster.NewStream) {
	w.topicRef(&n.TopicRef)
	w.byte(flag(n.Durable, flagStreamDurable) | flag(n.AnyRouting, flagAnyRouting))
	w.byte(byte(n.Kind))
	w.byte(byte(n.Consistency))
	w.byte(byte(n.Delivery))
	w.byte(byte(n.Routing))
	w.int(int64(n.Shards))
	w.int(int64(n.ReplicationFactor))
	w.retention(n.Retention)
	w.text(n.Region)
}

func (r *reader) newStream() cluster.NewStream {
	n := cluster.NewStream{TopicRef: r.topicRef()}
	f := r.flags(streamFlags)
	n.Durable, n.AnyRouting = f&flagStreamDurable != 0, f&flagAnyRouting != 0
	n.Kind, n.Consistency = cluster.StreamKind(r.byte()), cluster.Consistency(r.byte())
	n.Delivery, n.Routing = cluster.Delivery(r.byte()), cluster.Routing(r.byte())
	n.Shards, n.ReplicationFactor = r.int32(), r.int16()
	n.Retention, n.Region = r.retention(), r.text()
	return n
}

func (w *writer) retention(p cluster.Retention) {
	w.int(p.Ms)
	w.int(p.Bytes)
}

func (r *reader) retention() cluster.Retention { return cluster.Retention{Ms: r.int(), Bytes: r.int()} }

// What a change of a stream has.
const (
	hasRetention = 1 << iota
	hasDelivery
	hasDurable
	isDurable   // the value, with hasDurable
	updateFlags = 1<<iota - 1
)

func (w *writer) updateStream(c *cluster.UpdateStream) {
	w.topicRef(&c.Stream)
	w.byte(flag(c.Retention != nil, hasRetention) | flag(c.Delivery != nil, hasDelivery) |
		flag(c.Durable != nil, hasDurable) | flag(c.Durable != nil && *c.Durable, isDurable))
	w.byte(byte(c.Consistency))
	if c.Retention != nil {
		w.retention(*c.Retention)
	}
	if c.Delivery != nil {
		w.byte(byte(*c.Delivery))
	}
}

func (r *reader) updateStream() cluster.UpdateStream {
	c := cluster.UpdateStream{Stream: r.topicRef()}
	f := r.flags(updateFlags)
	c.Consistency = cluster.Consistency(r.byte())
	if f&hasRetention != 0 {
		p := r.retention()
		c.Retention = &p
	}
	if f&hasDelivery != 0 {
		d := cluster.Delivery(r.byte())
		c.Delivery = &d
	}
	switch {
	case f&hasDurable != 0:
		durable := f&isDurable != 0
		c.Durable = &durable
	case f&isDurable != 0:
		r.fail("value without its flag")
	}
	return c
}
