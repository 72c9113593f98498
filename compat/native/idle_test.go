package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The idle time-out of the idle server: a minute has as many of them as an hour has of the default of 6 s to within a factor of 20, and
// the client, which keeps its connections alive every 5 s, does nothing in time: the server's keep-alive alone carries the connection.
const (
	idleTimeout   = "FELIX_MAX_IDLE_TIMEOUT_MS=2000"
	idleKeepAlive = "FELIX_KEEPALIVE_MS=500"
	idleStream    = "idle"
)

// idleWatch is a subscription that is left alone.
type idleWatch struct {
	server *server
	agent  *agent
	since  time.Time
}

// startIdle opens a subscription on a server and in a process of its own.
func startIdle(ctx context.Context) (w *idleWatch, err error) {
	w = &idleWatch{}
	if w.server, err = startServer(ctx, idleTimeout, idleKeepAlive); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.server.Addr()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, idleStream); err != nil {
		return nil, err
	}
	if w.agent, err = startAgent("sync"); err != nil {
		return nil, err
	}
	connect := w.server.connection("c")
	connect["op"] = "connect"
	subscribe := request{"op": "subscribe", "client": "c", "subscription": "s", "stream": idleStream}
	for _, req := range []request{connect, subscribe} {
		if _, err := w.agent.try(ctx, req); err != nil {
			return nil, fmt.Errorf("idle: %w", err)
		}
	}
	w.since = time.Now()
	return w, nil
}

func (w *idleWatch) close() error {
	var err error
	if w.agent != nil {
		err = w.agent.close()
	}
	return errors.Join(err, w.server.Stop())
}

// TestIdleSubscription leaves a subscription alone for a minute, which is an hour on a clock that runs faster: it still delivers, on the
// connection that it was opened on. It runs beside nothing: parallel tests wait until the others are through.
func TestIdleSubscription(t *testing.T) {
	t.Parallel()
	idle := time.Minute
	if os.Getenv("CI") != "" {
		idle = 15 * time.Second
	}
	if text := os.Getenv("NATIVE_IDLE"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		idle = d
	}
	w := suite.idle
	timer := time.NewTimer(time.Until(w.since.Add(idle)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal("no time left")
	}
	if n := w.server.metric(t, "felix_quic_connections_total"); n != 1 {
		t.Errorf("%v connections, want the first one alone", n)
	}
	w.server.produce(t, idleStream, 0, []byte("still there"))
	got := w.agent.call(t, "next", request{"subscription": "s", "count": 1, "timeout": 5}).Events
	wantEvents(t, got, 0, []byte("still there"))
	if n := w.server.metric(t, "felix_quic_connections_total"); n != 1 {
		t.Errorf("%v connections after the event, want the first one alone", n)
	}
}
