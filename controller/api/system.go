package api

import (
	"context"
	"net/http"
	"sync"
	"time"
)

type statusBody struct {
	Status string `json:"status"`
}

// live looks at nothing: a probe that asks a dependency restarts a healthy process.
func live(*call) (answer, error) { return ok(statusBody{"live"}), nil }

// ready is false while the server drains, before anything is asked.
func ready(c *call) (answer, error) {
	s := c.server
	if s.draining.Load() {
		return answer{}, refuse(http.StatusServiceUnavailable, codeDraining, "this member is stopping")
	}
	if err := s.ready.ask(c.ctx, &s.opts); err != nil {
		return answer{}, refuse(http.StatusServiceUnavailable, codeUnavailable, "%s", err)
	}
	return ok(statusBody{"ready"}), nil
}

// health is ready by another name.
func health(c *call) (answer, error) { return ready(c) }

// readiness remembers the last answer for a while, so that probes cost nothing.
type readiness struct {
	mu    sync.Mutex
	asked time.Time
	err   error
}

func (r *readiness) ask(ctx context.Context, o *Options) error {
	now := o.Now()
	r.mu.Lock()
	if !r.asked.IsZero() && now.Sub(r.asked) < o.ReadyCache {
		defer r.mu.Unlock()
		return r.err
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, o.ReadyTimeout)
	defer cancel()
	err := o.Ready(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.err = now, err
	return err
}
