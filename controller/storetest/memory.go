package storetest

import (
	"context"
	"sync"

	"github.com/felixlog/felix/controller"
)

// Memory is a Store that applies each command at once and keeps nothing over its end: for tests of what stands on a controller. It does
// not pass the suite, which reopens stores.
type Memory struct {
	mu       sync.Mutex
	m        controller.Machine
	position uint64
	fail     error
}

// OpenMemory makes a Memory; it is a controller.OpenStore.
func OpenMemory(ctx context.Context, m controller.Machine, first [][]byte) (controller.Store, error) {
	s := &Memory{m: m}
	for _, c := range first {
		if _, err := s.Propose(ctx, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Fail makes every later Propose return err without applying anything; nil ends that.
func (s *Memory) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Propose is controller.Store's.
func (s *Memory) Propose(_ context.Context, command []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	s.position++
	return s.m.Apply(s.position, command)
}

// Ready is controller.Store's.
func (s *Memory) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

// Close does nothing.
func (s *Memory) Close() error { return nil }
