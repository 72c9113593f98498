package groups

// groupRecord is a group as it is stored: what the leader of a generation settled, or that the group is empty.
type groupRecord struct {
	Generation                     int32
	ProtocolType, Protocol, Leader string
	ChangedAt                      int64 // ms since 1970, of the last change of state
	Members                        []memberRecord
}

// memberRecord is one member of a groupRecord. The subscription is the member's metadata in the protocol chosen.
type memberRecord struct {
	ID, InstanceID, ClientID, ClientHost string
	SessionTimeoutMs, RebalanceTimeoutMs int32
	Subscription, Assignment             []byte
}
