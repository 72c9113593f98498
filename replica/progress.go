package replica

import "github.com/felixlog/felix/internal/ids"

// progress is what the leader knows of one member of the replica set.
type progress struct {
	broker ids.BrokerID
	held   ids.Offset // exclusive: the member holds every record below it, in the sense of the sync mode. Only rises.
}
