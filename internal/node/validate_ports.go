package node

import (
	"fmt"
	"net"
)

// validatePorts refuses a client listener on the port of the listener for other nodes: whoever means one would reach the other.
func (l *Loaded) validatePorts() []error {
	c := &l.Config
	peer := portOf(c.PeerListen)
	if peer == "" {
		return nil
	}
	var errs []error
	for _, client := range []struct{ name, addr string }{{"kafka.listen", c.Kafka.Listen}, {"native.listen", c.NativeListen}, {"api_bind", c.APIListen}} {
		if portOf(client.addr) == peer {
			errs = append(errs, fmt.Errorf("peer_bind and %s are both on port %s: give the listener for other nodes a port of its own", client.name, peer))
		}
	}
	return errs
}

// portOf is the port of a listen address, "" for none and for one that the system picks.
func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return ""
	}
	return port
}
