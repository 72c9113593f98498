package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/felixlog/felix/compat/clients/agent"
)

// Reasons why a case is not for a client.
const (
	GroupsOnly = "reads as a member of a group only"
	NoAdmin    = "no admin client"
)

// Features says what a client cannot do, so that a case can expect less of it.
type Features struct {
	NoTimestamps bool // the client chooses the timestamps of what it writes
	NoOffsets    bool // the client does not report where its records went
	TextOnly     bool // keys and values of one line each, without tabs
	NoCreate     bool // no admin client
	NoTail       bool // cannot wait at the end of a partition that is assigned by hand
	GroupsOnly   bool // reads as a member of a group only
	HeaderMap    bool // headers of one name stand together, where the first of them is
	EmptyIsNull  bool // what it reads as empty it gives out as null
	NoNullHeader bool // refuses to write a header without a value
	NoEmptyPair  bool // refuses to write a record with neither key nor value
	FutureIsEnd  bool // a lookup of a time after the last record gives the end offset, not "none"
	Xerial       bool // snappy in the framing of the Java library
	EndsAlone    bool // ends when its only broker is away
	ShowsControl bool // gives out the control records of transactions
	NoAppendTime bool // shows the producer's timestamps of a topic with LogAppendTime

	// OldSubscriptions: the subscriptions of its members lack the owned partitions of the version that they name, as a leader it decodes
	// none but such, and its DescribeGroups none newer than version 1 of the consumer protocol.
	OldSubscriptions bool

	NoIdempotence string // why it has no idempotent producer; empty if it has
	NoStatic      string // why it cannot be a static member
	NoCooperative string // why it has no cooperative-sticky assignor
}

// Client is one client under test. Its methods must be called from one goroutine at a time.
type Client struct {
	Name     string
	Version  string
	Features Features

	in     io.WriteCloser
	lines  chan []byte   // closed at the end of the client's output
	closed chan struct{} // closed by Close: nobody reads lines any more
	wg     sync.WaitGroup
	kill   func() error // ends the client's process at once; nil for a client in this process
	end    func() error // waits for the client to be gone; says how it ended
	stderr string       // file with what the client logged, empty for one in this process
	broken error        // an answer was given up: what comes next could belong to either operation
}

// open puts a client behind its two pipes and asks for its version.
func open(ctx context.Context, name string, in io.WriteCloser, out io.Reader, end func() error, stderr string) (*Client, error) {
	c := &Client{Name: name, in: in, lines: make(chan []byte, 256), closed: make(chan struct{}), end: end, stderr: stderr}
	c.wg.Go(func() {
		defer close(c.lines)
		r := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			select {
			case c.lines <- line:
			case <-c.closed:
				return
			}
		}
	})
	res, err := c.Call(ctx, agent.Request{Op: agent.OpVersion})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.Version = res.Version
	return c, nil
}

// Local serves a library of this process.
func Local(ctx context.Context, name string, lib agent.Library, f Features) (*Client, error) {
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := agent.Serve(requests, answers, lib)
		_ = answers.Close() // never fails
		done <- err
	})
	end := func() error {
		_ = out.Close() // a library that still writes must not wait for a reader
		wg.Wait()
		return <-done
	}
	c, err := open(ctx, name, in, out, end, "")
	if err != nil {
		return nil, err
	}
	c.Features = f
	return c, nil
}

// CallError is a failed operation: the client's own words and, if there is one, Kafka's error number.
type CallError struct {
	Client, Op, Text string
	Code             int
	Unsupported      bool // the library has no such call
}

// Error names client and operation before the client's words.
func (e *CallError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Client, e.Op, e.Text) }

// Call runs one operation and returns its answer, or a *CallError if the client failed.
func (c *Client) Call(ctx context.Context, req agent.Request) (agent.Response, error) {
	if c.broken != nil {
		return agent.Response{}, fmt.Errorf("out of step since: %w", c.broken)
	}
	if err := json.NewEncoder(c.in).Encode(req); err != nil {
		return agent.Response{}, c.gone(err)
	}
	return c.await(ctx, req.Op, nil)
}

// Stream starts a tail or load. Events go to emit, from one goroutine, until stop has returned; stop asks the client to end,
// waits and returns the answer. It must be called exactly once.
func (c *Client) Stream(ctx context.Context, req agent.Request, emit func(agent.Event)) (stop func() (agent.Response, error), err error) {
	if err := json.NewEncoder(c.in).Encode(req); err != nil {
		return nil, c.gone(err)
	}
	var (
		wg     sync.WaitGroup
		res    agent.Response
		resErr error
	)
	wg.Go(func() { res, resErr = c.await(ctx, req.Op, emit) })
	return func() (agent.Response, error) {
		if err := json.NewEncoder(c.in).Encode(agent.Request{Op: agent.OpStop}); err != nil {
			return agent.Response{}, c.gone(err)
		}
		wg.Wait()
		return res, resErr
	}, nil
}

// await reads events until the operation's response.
func (c *Client) await(ctx context.Context, op string, emit func(agent.Event)) (agent.Response, error) {
	for {
		var line []byte
		var ok bool
		select {
		case line, ok = <-c.lines:
		case <-ctx.Done():
			c.broken = fmt.Errorf("%s: %s: %w\n%s", c.Name, op, context.Cause(ctx), c.Log())
			return agent.Response{}, c.broken
		}
		if !ok {
			return agent.Response{}, c.gone(io.ErrUnexpectedEOF)
		}
		var res agent.Response
		if err := json.Unmarshal(line, &res); err != nil {
			return agent.Response{}, fmt.Errorf("%s: %s: %q: %w", c.Name, op, line, err)
		}
		if res.Done {
			if res.Error != "" {
				return res, &CallError{Client: c.Name, Op: op, Text: res.Error, Code: res.Code, Unsupported: res.Unsupported}
			}
			return res, nil
		}
		var event agent.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return agent.Response{}, fmt.Errorf("%s: %s: %q: %w", c.Name, op, line, err)
		}
		if emit != nil {
			emit(event)
		}
	}
}

// gone explains a broken pipe by what the client logged last.
func (c *Client) gone(err error) error {
	return fmt.Errorf("%s ended: %w\n%s", c.Name, err, c.Log())
}

// Log is the end of what the client has logged.
func (c *Client) Log() string {
	if c.stderr == "" {
		return ""
	}
	b, err := os.ReadFile(c.stderr)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4096):])
}

// Kill ends the client's process at once, as a crash does: nothing is committed, left or said. Close must still be called, and
// returns nil.
func (c *Client) Kill() error {
	if c.kill == nil {
		return fmt.Errorf("%s runs in this process", c.Name)
	}
	err := c.kill()
	end := c.end
	c.end = func() error {
		_ = end() // says that it was killed
		return nil
	}
	return err
}

// Close ends the client and waits until it is gone.
func (c *Client) Close() error {
	c.in.Close()
	close(c.closed)
	err := c.end()
	c.wg.Wait()
	if c.stderr != "" {
		err = errors.Join(err, os.Remove(c.stderr))
	}
	return err
}
