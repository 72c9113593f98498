package wire

// RequestID is the request_id of a JSON message of any type, absent when there is none that is an unsigned integer. The payload has
// been parsed before: what is wrong with it reads as absence.
func RequestID(payload []byte) Opt[uint64] {
	var c coder
	c.fields = c.space[:]
	var fault Fault
	if c.fields, fault = scanObject(payload, c.fields); fault != FaultNone {
		return Opt[uint64]{}
	}
	var id Opt[uint64]
	id.Value, id.Set = parseUint(c.find("request_id"))
	return id
}
