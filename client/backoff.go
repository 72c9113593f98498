package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// backoff counts failed attempts and waits between them.
type backoff struct {
	lowest, highest time.Duration
	failed          int
}

func (c *Client) backoff() backoff {
	return backoff{lowest: c.cfg.BackoffMin, highest: c.cfg.BackoffMax}
}

// next is how long to wait before the next attempt after err. A server that names a time is waited for at least that long.
func (b *backoff) next(err error) time.Duration {
	ceiling := min(b.lowest<<min(b.failed, 16), b.highest)
	b.failed++
	wait := time.Duration(rand.Int64N(int64(ceiling) + 1))
	var refused *Error
	if errors.As(err, &refused) {
		wait = max(wait, refused.RetryAfter)
	}
	return wait
}

// wait waits before the next attempt. It returns ctx's cause when that ends first.
func (b *backoff) wait(ctx context.Context, err error) error {
	return pause(ctx, b.next(err))
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
