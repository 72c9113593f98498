package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
)

// waitLed waits until Metadata shows a leader for all partitions of some topics together.
func waitLed(ctx context.Context, addr string, topics []string, partitions int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var conn *rawkafka.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	last := errors.New("not asked yet")
	for {
		ok, n, err := led(addr, &conn, topics)
		if ok && n == partitions {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d partitions have a leader: %w (last error: %w)", n, partitions, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// led asks once, over a connection that it opens when there is none and drops when it fails.
func led(addr string, conn **rawkafka.Conn, topics []string) (ok bool, partitions int, err error) {
	if *conn == nil {
		if *conn, err = rawkafka.Dial(addr, time.Second); err != nil {
			return false, 0, err
		}
	}
	m, err := (*conn).Metadata(topics, 10*time.Second)
	if err != nil {
		_ = (*conn).Close()
		*conn = nil
		return false, 0, err
	}
	ok, partitions = rawkafka.Led(m)
	return ok, partitions, nil
}
