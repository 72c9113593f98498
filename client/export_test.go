package client

import "time"

// SetRouteAge sets after what time a publisher with Murmur2 looks again how many shards there are.
func (p *Publisher) SetRouteAge(d time.Duration) { p.routeAge = d }
