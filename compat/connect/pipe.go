package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Pipe is a file source and a file sink on a topic of their own, which Connect makes with one partition. Its methods must be called from
// one goroutine at a time.
type Pipe struct {
	name    string // also of the topic; the connectors are name-source and name-sink
	in, out string // the files
	file    *os.File
	written int64 // lines
	bytes   int64 // of them
	taken   int64 // bytes of the sink's file that were judged
	tally   tally
}

// NewPipe makes a pipe with its files in dir. The name is that of the topic too.
func NewPipe(dir, name string) (*Pipe, error) {
	p := &Pipe{name: name, in: filepath.Join(dir, name+"-in.txt"), out: filepath.Join(dir, name+"-out.txt"), tally: tally{pipe: name}}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		p.file, err = os.OpenFile(p.in, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	return p, err
}

// Close closes the file that lines are written to.
func (p *Pipe) Close() error { return p.file.Close() }

func (p *Pipe) source() string { return p.name + "-source" }
func (p *Pipe) sink() string   { return p.name + "-sink" }

// connectors are the configurations of both connectors, by name.
func (p *Pipe) connectors() map[string]map[string]string {
	return map[string]map[string]string{
		p.source(): {
			"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "file": p.in, "topic": p.name,
			"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
			"topic.creation.default.retention.ms": "-1",
		},
		p.sink(): {
			"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1", "file": p.out, "topics": p.name,
		},
	}
}

// Write appends n lines to the source's file.
func (p *Pipe) Write(n int) error {
	var b []byte
	for range n {
		b = append(append(b, line(p.name, p.written)...), '\n')
		p.written++
	}
	written, err := p.file.Write(b)
	p.bytes += int64(written)
	return err
}

// Feed appends n lines at about a rate a second, some at a time.
func (p *Pipe) Feed(ctx context.Context, n, rate int) error {
	const beat = 50 * time.Millisecond
	for n > 0 {
		now := min(n, max(1, rate/int(time.Second/beat)))
		if err := p.Write(now); err != nil {
			return err
		}
		n -= now
		if err := pause(ctx, beat); err != nil {
			return err
		}
	}
	return nil
}

// look judges what is new in the sink's file.
func (p *Pipe) look() error {
	f, err := os.Open(p.out)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the sink has not begun
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.NewSectionReader(f, p.taken, 1<<40))
	if err != nil {
		return fmt.Errorf("%s: %w", p.out, err)
	}
	p.taken += int64(p.tally.addAll(b))
	return nil
}

// arrived is nil when every line is in the sink's file.
func (p *Pipe) arrived() error {
	if err := p.look(); err != nil {
		return err
	}
	if p.tally.next < p.written {
		return fmt.Errorf("%s: %d lines of %d are there", p.out, p.tally.next, p.written)
	}
	return nil
}

// pause waits, or returns early with the context's cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
