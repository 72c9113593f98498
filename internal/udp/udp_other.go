//go:build !linux

package udp

import "net"

// New returns socket as it is: coalescing is Linux's.
func New(socket *net.UDPConn) (net.PacketConn, error) { return socket, nil }
