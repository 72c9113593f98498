package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/felixlog/felix/compat/raw"
)

const (
	// silentTicks is how long a connection that stopped in the middle of a frame stays open.
	silentTicks = 8
	// reactionLimit is how long an attacker listens for what the server does.
	reactionLimit = 50 * time.Millisecond
)

// role is what an attacker does all its life; most of them send one bad frame after the other.
type role int

// The roles, in turn over every ten connections: one each of the first three, and seven that send frames.
const (
	roleSlow     role = iota // whole requests, a byte a tick
	roleSilent               // a frame that stops in the middle, then nothing
	roleHalfOpen             // connects, sends less than a frame, resets, and again
	roleFrames
)

// attacker is one hostile connection, or rather the one that follows it when the server closes it.
type attacker struct {
	o       crowdOptions
	c       *raw.Conn // nil between connections
	arsenal *arsenal
	random  *rand.Rand
	report  *crowdReport

	chosen bool
	role   role
	slow   []byte // what a slow sender has still to send
	silent int    // ticks that a silent one still waits
}

func (a *attacker) close() {
	if a.c != nil {
		_ = a.c.Close()
	}
	a.c = nil
}

func (a *attacker) act(deadline time.Time) (string, error) {
	if !a.chosen {
		a.chosen, a.role = true, min(role(a.random.IntN(10)), roleFrames)
	}
	if a.c == nil {
		c, err := raw.Dial(a.o.Addr)
		if err != nil {
			return "connect", err // the healthy and the hostile alike must be let in
		}
		a.c = c
	}
	if limit := time.Now().Add(reactionLimit); limit.Before(deadline) {
		deadline = limit
	}
	switch a.role {
	case roleSlow:
		a.sendSlowly(deadline)
		return "slow byte", nil
	case roleSilent:
		a.stopInFrame(deadline)
		return "stopped frame", nil
	case roleHalfOpen:
		a.reset(deadline)
		return "half-open", nil
	case roleFrames:
	}
	name, frame := a.arsenal.frame(a.random)
	a.throw(frame, deadline)
	return name, nil
}

// throw sends a frame and looks for the server's reaction. A connection that it neither answers nor closes waits for more bytes of
// something that was never meant; the next frame gets a new one.
func (a *attacker) throw(frame []byte, deadline time.Time) {
	if a.write(frame, deadline) && !a.listen(deadline) {
		a.close()
	}
}

// write sends bytes as they are and says whether the connection took them. A server that does not read for as long as an action may
// take is left: the next action gets a new connection.
func (a *attacker) write(b []byte, deadline time.Time) bool {
	_ = a.c.SetWriteDeadline(deadline)
	_, err := a.c.Write(b)
	if err == nil {
		return true
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		a.report.Closed++ // by the server, while we were still writing
	}
	a.close()
	return false
}

// listen reads what there is until the deadline, and says whether there was something, an end included.
func (a *attacker) listen(deadline time.Time) bool {
	var buf [16 << 10]byte
	_ = a.c.SetReadDeadline(deadline)
	n, err := a.c.Read(buf[:])
	if n > 0 {
		a.report.Answers++
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	a.report.Closed++
	a.close()
	return true
}

// sendSlowly sends one more byte of a valid request, and a new request after the last.
func (a *attacker) sendSlowly(deadline time.Time) {
	if len(a.slow) == 0 {
		a.slow, _ = a.c.Encode(metadataOf(a.o.Topic))
	}
	next := a.slow[:1]
	a.slow = a.slow[1:]
	if !a.write(next, deadline) {
		a.slow = nil
	} else if len(a.slow) == 0 {
		a.listen(deadline)
	}
}

// stopInFrame sends the beginning of a frame, and then nothing for a while; the server may have closed it by then.
func (a *attacker) stopInFrame(deadline time.Time) {
	if a.silent == 0 {
		a.silent = silentTicks
		a.write(a.arsenal.beginning(a.random), deadline)
		return
	}
	a.silent--
	if a.listen(deadline) || a.silent == 0 {
		a.silent = 0
		a.close()
	}
}

// reset leaves less than a frame and ends the connection with RST, so that the server meets it half-way through anything.
func (a *attacker) reset(deadline time.Time) {
	var some [7]byte
	for i := range some {
		some[i] = byte(a.random.UintN(256))
	}
	if n := a.random.IntN(len(some) + 1); n > 0 && !a.write(some[:n], deadline) {
		return
	}
	if tcp, ok := a.c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	a.close()
}
