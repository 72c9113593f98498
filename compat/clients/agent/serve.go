package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultTimeout bounds an operation whose Request names no limit.
const DefaultTimeout = 60 * time.Second

// DrainLimit bounds how long a stopped load waits for the answers to what it has sent.
const DrainLimit = 60 * time.Second

// Library is one client library under the protocol. Each call makes the client it needs and closes it again, so that cases do not
// share connections or producer ids. A method returns when its context ends.
type Library interface {
	// Version names library and version, as "librdkafka 1.9.2".
	Version() string
	// Metadata lists brokers and topics, of one topic if req.Topic is set.
	Metadata(ctx context.Context, req Request) (*Metadata, error)
	// Create makes one topic.
	Create(ctx context.Context, req Request) error
	// Produce writes req.Records in order and returns the offset of each.
	Produce(ctx context.Context, req Request) ([]int64, error)
	// Consume reads the partitions of req.Assign from req.From to their ends, in order within each.
	Consume(ctx context.Context, req Request) ([]Record, error)
	// Offsets returns for each time of req.Times the first offset with that time or later.
	Offsets(ctx context.Context, req Request) ([]int64, error)
	// Watermarks returns the first and the next offset of a partition.
	Watermarks(ctx context.Context, req Request) (first, next int64, err error)
	// Tail waits at the ends of the partitions of req.Assign until ctx ends; it emits Ready once, then each record as it comes.
	Tail(ctx context.Context, req Request, emit func(Event)) error
	// Load produces until ctx ends, then waits for all answers and returns the next sequence of each partition.
	Load(ctx context.Context, req Request, emit func(Event)) ([]int64, error)
}

// GroupLibrary is a Library with consumer groups and an admin side.
type GroupLibrary interface {
	// Member joins req.Group for req.Topic and emits, by way of an Owner, changes of ownership and records, until ctx ends; it then
	// leaves the group.
	Member(ctx context.Context, req Request, emit func(Event)) error
	// Admin does one of the admin operations, or returns ErrUnsupported.
	Admin(ctx context.Context, req Request) (Response, error)
}

// ErrUnsupported is the answer of a library that has no such call.
var ErrUnsupported = errors.New("the library has no such call")

// CodedError is an error with the number of a Kafka error code.
type CodedError struct {
	Code int
	Err  error
}

// Error is the wrapped error's own text.
func (e *CodedError) Error() string { return e.Err.Error() }

// Unwrap returns the library's own error.
func (e *CodedError) Unwrap() error { return e.Err }

// Serve answers requests from r on w until r ends. A stop is only meaningful while a tail, load or member runs; elsewhere it is
// answered with an error.
func Serve(r io.Reader, w io.Writer, lib Library) error {
	var (
		mu       sync.Mutex // guards enc: events come from the running operation, responses from this loop
		enc      = json.NewEncoder(w)
		requests = json.NewDecoder(r)
		running  func() // ends the running tail, load or member
		wg       sync.WaitGroup
	)
	write := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		// A driver that is gone cannot be told; the next read ends the loop.
		_ = enc.Encode(v)
	}
	for {
		var req Request
		if err := requests.Decode(&req); err != nil {
			if running != nil {
				running()
			}
			wg.Wait()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		}
		switch req.Op {
		case OpTail, OpLoad, OpMember:
			ctx, cancel := context.WithCancel(context.Background())
			running = cancel
			wg.Go(func() { write(stream(ctx, lib, req, func(e Event) { write(e) })) })
		case OpStop:
			if running == nil {
				write(respond(Response{}, errors.New("stop: nothing is running")))
				continue
			}
			running()
			wg.Wait()
			running = nil
		default:
			write(answer(lib, req))
		}
	}
}

// stream runs one tail, load or member to its end.
func stream(ctx context.Context, lib Library, req Request, emit func(Event)) Response {
	switch req.Op {
	case OpTail:
		return respond(Response{}, lib.Tail(ctx, req, emit))
	case OpMember:
		groups, ok := lib.(GroupLibrary)
		if !ok || req.Group == nil {
			return respond(Response{}, ErrUnsupported)
		}
		return respond(Response{}, groups.Member(ctx, req, emit))
	}
	next, err := lib.Load(ctx, req, emit)
	return respond(Response{Next: next}, err)
}

// answer runs one operation under its time limit.
func answer(lib Library, req Request) Response {
	limit := DefaultTimeout
	if req.TimeoutMS > 0 {
		limit = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var (
		res Response
		err error
	)
	switch req.Op {
	case OpVersion:
		res.Version = lib.Version()
	case OpMetadata:
		res.Metadata, err = lib.Metadata(ctx, req)
	case OpCreate:
		err = lib.Create(ctx, req)
	case OpProduce:
		res.Offsets, err = lib.Produce(ctx, req)
	case OpConsume:
		res.Records, err = lib.Consume(ctx, req)
	case OpOffsets:
		res.Offsets, err = lib.Offsets(ctx, req)
	case OpWatermarks:
		var first, next int64
		first, next, err = lib.Watermarks(ctx, req)
		res.Offsets = []int64{first, next}
	case OpDelete, OpAlter, OpConfigs, OpGroups, OpDescribe, OpDeleteGroup, OpReset, OpCommitted:
		groups, ok := lib.(GroupLibrary)
		if !ok {
			return respond(res, ErrUnsupported)
		}
		if req.Group == nil {
			req.Group = &Group{}
		}
		res, err = groups.Admin(ctx, req)
	default:
		err = fmt.Errorf("unknown operation %q", req.Op)
	}
	return respond(res, err)
}

func respond(res Response, err error) Response {
	res.Done = true
	if err == nil {
		return res
	}
	res.Error = err.Error()
	res.Unsupported = errors.Is(err, ErrUnsupported)
	var coded *CodedError
	if errors.As(err, &coded) {
		res.Code = coded.Code
	}
	return res
}

// LoadValue is the value of one load record: its identity, then padding up to size.
func LoadValue(name string, partition int32, sequence int64, size int) []byte {
	b := make([]byte, 0, size)
	b = append(b, name...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(partition), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, sequence, 10)
	b = append(b, '/')
	for len(b) < size {
		b = append(b, byte('a'+len(b)%26))
	}
	return b
}

// ParseLoadValue undoes LoadValue. ok is false for a value that no load wrote.
func ParseLoadValue(value []byte) (name string, partition int32, sequence int64, ok bool) {
	parts := strings.SplitN(string(value), "/", 4)
	if len(parts) != 4 {
		return "", 0, 0, false
	}
	p, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return "", 0, 0, false
	}
	s, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	return parts[0], int32(p), s, true
}
