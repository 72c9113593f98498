package raw

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timeout bounds every wait for bytes of the server.
const Timeout = 20 * time.Second

// maxResponse is the largest response that a test is willing to read.
const maxResponse = 200 << 20

// ErrNotCanonical is returned for a response that decodes but does not encode to the bytes that were received.
var ErrNotCanonical = errors.New("raw: response is not what its own values encode to")

// Conn is one connection to a Kafka listener. It is used by one goroutine.
type Conn struct {
	net.Conn
	clientID    string
	correlation int32
}

// Dial opens a connection.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, Timeout)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// NewConn uses a connection that is already open, a TLS one for instance.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, clientID: "raw"} }

// SetClientID sets the client id of the following requests.
func (c *Conn) SetClientID(id string) { c.clientID = id }

// AppendHeader appends a request header: key, version, correlation id and client id, and in header version 2 an empty tag
// section. A nil client id is written as null.
func AppendHeader(dst []byte, key, version int16, correlation int32, clientID *string, flexible bool) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if clientID == nil {
		dst = append(dst, 0xff, 0xff)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(*clientID)))
		dst = append(dst, *clientID...)
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// Frame puts the length in front of a request.
func Frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// Encode returns the frame of req in its version, with the next correlation id, and that id.
func (c *Conn) Encode(req kmsg.Request) ([]byte, int32) {
	c.correlation++
	payload := AppendHeader(nil, req.Key(), req.GetVersion(), c.correlation, &c.clientID, req.IsFlexible())
	return Frame(req.AppendTo(payload)), c.correlation
}

// Send writes req and returns its correlation id.
func (c *Conn) Send(req kmsg.Request) (int32, error) {
	frame, id := c.Encode(req)
	return id, c.SendBytes(frame)
}

// SendBytes writes bytes as they are.
func (c *Conn) SendBytes(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// ReadFrame reads one frame and returns what follows the length.
func (c *Conn) ReadFrame() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(Timeout)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > maxResponse {
		return nil, fmt.Errorf("response of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return b, err
}

// Receive reads the response to req, which was sent with the given correlation id.
func (c *Conn) Receive(req kmsg.Request, correlation int32) (kmsg.Response, error) {
	b, err := c.ReadFrame()
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return Decode(req, correlation, b)
}

// Decode decodes the response frame b, without its length, to req.
func Decode(req kmsg.Request, correlation int32, b []byte) (kmsg.Response, error) {
	name := fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		return nil, fmt.Errorf("%s: correlation id %d, want %d", name, got, correlation)
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(b) == 0 || b[0] != 0 {
			return nil, fmt.Errorf("%s: response header without an empty tag section: % x", name, b[:min(len(b), 8)])
		}
		b = b[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("%s: decode: %w", name, err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		return resp, fmt.Errorf("%s: %w:\nreceived % x\nencoded  % x", name, ErrNotCanonical, head(b), head(again))
	}
	return resp, nil
}

func head(b []byte) []byte { return b[:min(len(b), 400)] }

// Do sends req and reads its response.
func (c *Conn) Do(req kmsg.Request) (kmsg.Response, error) {
	id, err := c.Send(req)
	if err != nil {
		return nil, err
	}
	return c.Receive(req, id)
}

// Outcome waits up to d for the connection to be closed and says what happened: "closed, no bytes" (also for a reset),
// "closed, N bytes", "open, no bytes" or "open, N bytes".
func (c *Conn) Outcome(d time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(d))
	b, err := io.ReadAll(io.LimitReader(c, 1<<20))
	state := "closed"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		state = "open"
	}
	if len(b) == 0 {
		return state + ", no bytes"
	}
	return fmt.Sprintf("%s, %d bytes", state, len(b))
}
