//go:build !linux

package felixproto

import "net"

// newPacketConn returns udp as it is: coalescing is Linux's.
func newPacketConn(udp *net.UDPConn) (net.PacketConn, error) { return udp, nil }
