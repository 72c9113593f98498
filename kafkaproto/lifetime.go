package kafkaproto

import (
	"context"
	"sync"
	"time"
)

// lifetime is the context of everything that a server's handlers wait for. It has no parent: what ends it is the server's
// Close, and handlers derive their own deadlines from it.
type lifetime struct {
	done chan struct{}
	once sync.Once
}

var _ context.Context = (*lifetime)(nil)

func newLifetime() *lifetime { return &lifetime{done: make(chan struct{})} }

func (l *lifetime) end() { l.once.Do(func() { close(l.done) }) }

// Deadline implements context.Context: there is none.
func (l *lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (l *lifetime) Done() <-chan struct{} { return l.done }

// Err implements context.Context.
func (l *lifetime) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

// Value implements context.Context: there are none.
func (l *lifetime) Value(any) any { return nil }
