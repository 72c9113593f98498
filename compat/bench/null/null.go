// Package null is the throw-away server of the benchmarks: a Kafka server that drops what is produced and serves the same
// batches from memory for ever, as cheaply as one Go process can. What a client reaches against it is the client's own
// ceiling on this machine.
//
// It speaks only what franz-go, librdkafka and Kafka's own tools need for produce and for consumption without groups. It keeps no
// state besides a count of records per partition that nobody reads back: offsets of produced records are wrong on purpose.
package null

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRequest bounds a request; larger ones end the connection.
const maxRequest = 128 << 20

// Options says what the server pretends to hold.
type Options struct {
	Partitions  int    // partitions of every topic; default 4
	RecordBytes int    // size of the values it serves; default 1024
	BatchBytes  int    // uncompressed bytes of the batches it serves; default 64 KiB
	Codec       string // codec of the batches it serves: "none" or "lz4"; default "none"
}

func (o Options) withDefaults() Options {
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	if o.RecordBytes == 0 {
		o.RecordBytes = 1024
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 64 << 10
	}
	return o
}

// Server is a throw-away server.
type Server struct {
	opts       Options
	host       string
	port       int32
	batch      []byte // one encoded batch with base offset 0
	records    int64  // records in it
	producerID atomic.Int64
	wg         sync.WaitGroup
}

// New prepares a server; Serve runs it.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	batch, records, err := buildBatch(opts)
	if err != nil {
		return nil, err
	}
	return &Server{opts: opts, batch: batch, records: records}, nil
}

// Serve answers connections of ln until ctx ends, then closes it and waits for the connections.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	host, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s.host, s.port = host, int32(n)
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			s.wg.Wait()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.wg.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer end()
			defer c.Close()
			_ = s.serve(c) // the peer left, or spoke something else: either way the connection ends
		})
	}
}

// conn is what one connection reuses between requests.
type conn struct {
	net.Conn
	in    []byte // the last request
	out   []byte // header of the answer
	serve []byte // copies of the served batch, base offsets patched in place before each write
}

func (s *Server) serve(nc net.Conn) error {
	c := &conn{Conn: nc}
	r := bufio.NewReaderSize(nc, 64<<10)
	var size [4]byte
	for {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if n < 10 || n > maxRequest {
			return fmt.Errorf("request of %d bytes", n)
		}
		if cap(c.in) < n {
			c.in = make([]byte, n)
		}
		c.in = c.in[:n]
		if _, err := io.ReadFull(r, c.in); err != nil {
			return err
		}
		if err := s.handle(c); err != nil {
			return err
		}
	}
}

// handle answers the request in c.in.
func (s *Server) handle(c *conn) error {
	key := int16(binary.BigEndian.Uint16(c.in))
	version := int16(binary.BigEndian.Uint16(c.in[2:]))
	correlation := c.in[4:8]
	low, high, ok := served(key)
	if !ok || version < low || version > high {
		if key != int16(kmsg.ApiVersions) {
			return fmt.Errorf("api %d version %d is not served", key, version)
		}
		resp := apiVersions()
		resp.ErrorCode = 35 // UNSUPPORTED_VERSION, in the oldest shape
		return c.send(correlation, resp)
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	body, err := skipHeader(c.in[8:], req.IsFlexible())
	if err != nil {
		return err
	}
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		if req.Acks == 0 {
			return nil
		}
		return c.send(correlation, s.produce(req))
	case *kmsg.FetchRequest:
		return s.fetch(c, correlation, req)
	case *kmsg.ApiVersionsRequest:
		resp := apiVersions()
		resp.SetVersion(version)
		return c.send(correlation, resp)
	default:
		resp := s.control(req)
		if resp == nil {
			return errors.New("unreachable: served but not handled")
		}
		return c.send(correlation, resp)
	}
}

// skipHeader returns what follows the client id and, in flexible versions, the header's tags.
func skipHeader(b []byte, flexible bool) ([]byte, error) {
	if len(b) < 2 {
		return nil, io.ErrUnexpectedEOF
	}
	if n := int(int16(binary.BigEndian.Uint16(b))); n > 0 {
		if len(b) < 2+n {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[2+n:]
	} else {
		b = b[2:]
	}
	if !flexible {
		return b, nil
	}
	if len(b) == 0 || b[0] != 0 {
		return nil, errors.New("tags in the request header are not understood")
	}
	return b[1:], nil
}

// send writes one answer.
func (c *conn) send(correlation []byte, resp kmsg.Response) error {
	b := append(c.out[:0], 0, 0, 0, 0)
	b = append(b, correlation...)
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	c.out = b
	_, err := c.Write(b)
	return err
}
