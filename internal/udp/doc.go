// Package udp is a UDP socket for a QUIC library: it receives datagrams that the kernel has joined (UDP_GRO), and datagrams larger than
// the library expects.
//
// The library must read through ReadBatch, which it does with any connection that has one, from one goroutine. Everything else is the
// socket's own.
//
// Non-obvious:
//   - what ReadBatch gives out are copies: the library keeps packets in queues of its own without saying when it is done with them, so
//     buffers of ours could never be used again.
//   - upstream's client sends its whole first flight in one datagram of 4,096 bytes on loopback, whatever the server advertises.
package udp
