package udp

import (
	"encoding/binary"
	"errors"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// Sizes of receiving.
const (
	// readMessages is how many messages one system call may bring, each up to maxDatagrams bytes of coalesced datagrams.
	readMessages = 8
	maxDatagrams = 1 << 16
	controlBytes = 128 // of one message: type of service, packet info and the size of segments
)

// packetConn is the socket.
type packetConn struct {
	*net.UDPConn
	batch *ipv4.PacketConn
	msgs  []ipv4.Message // as read from the socket
	n     int            // of msgs that hold something
	at    int            // the message that is being split
	off   int            // what was given out of it
	size  int            // of its datagrams, the last may be shorter
}

// New makes socket coalesce where the kernel can; one without UDP_GRO gives single datagrams. Closing the result closes socket. Errors: the
// socket's, when it is closed already.
func New(socket *net.UDPConn) (net.PacketConn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) {
		// Kernels before 5.0 refuse, and then nothing is coalesced.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	})
	if err != nil {
		return nil, err
	}
	c := &packetConn{UDPConn: socket, batch: ipv4.NewPacketConn(socket), msgs: make([]ipv4.Message, readMessages)}
	for i := range c.msgs {
		c.msgs[i].Buffers = [][]byte{make([]byte, maxDatagrams)}
		c.msgs[i].OOB = make([]byte, controlBytes)
	}
	return c, nil
}

// ReadBatch fills ms with datagrams. It waits for the first one only.
func (c *packetConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	for {
		filled := 0
		for filled < len(ms) && c.at < c.n {
			if c.next(&ms[filled]) {
				filled++
			}
		}
		if filled > 0 || len(ms) == 0 {
			return filled, nil
		}
		n, err := c.batch.ReadBatch(c.msgs, 0)
		if err != nil {
			return 0, err
		}
		if n <= 0 {
			return 0, errors.New("udp: read of no message")
		}
		c.n, c.at, c.off = n, 0, 0
	}
}

// next moves one datagram into m; false when there is none that the library could use.
func (c *packetConn) next(m *ipv4.Message) bool {
	from := &c.msgs[c.at]
	if c.off == 0 {
		c.size = from.N
		if s := segmentSize(from.OOB[:from.NN]); s > 0 && s < from.N {
			c.size = s
		}
	}
	datagram := from.Buffers[0][c.off:min(c.off+c.size, from.N)]
	c.off += len(datagram)
	if c.off >= from.N {
		c.at, c.off = c.at+1, 0
	}
	if len(datagram) == 0 {
		return false
	}
	to := m.Buffers[0]
	if len(datagram) > len(to) {
		// A first flight may come in one large datagram: some clients do so on loopback, whatever is advertised. Once they have
		// seen our transport parameters they send none that does not fit.
		if datagram[0]&longHeaderBits != longHeaderBits {
			return false
		}
		to = make([]byte, len(datagram))
		m.Buffers[0] = to
	}
	m.N = copy(to, datagram)
	m.NN = copy(m.OOB, from.OOB[:from.NN])
	m.Flags, m.Addr = from.Flags, from.Addr
	return true
}

// longHeaderBits are set in the first byte of every packet before the handshake is over (RFC 9000, 17.2).
const longHeaderBits = 0xc0

// segmentSize is the size of the datagrams that a message was coalesced from, 0 if it was not.
func segmentSize(control []byte) int {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(data)))
		}
		control = rest
	}
	return 0
}
