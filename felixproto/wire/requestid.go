package wire

// RequestID is the request_id of a JSON message of any type, absent when there is none that is an unsigned integer. The payload has
// been parsed before: what is wrong with it reads as absence.
func RequestID(payload []byte) Opt[uint64] {
	c := getCoder()
	defer putCoder(c)
	if !c.open(payload) {
		return Opt[uint64]{}
	}
	return c.requestID()
}

// acked reports whether a publish names an ack mode other than none.
func (c *coder) acked() bool {
	v := c.find("ack")
	return v != nil && (v[0] != '"' || string(unquoteBytes(v)) != ackNames[AckNone])
}
