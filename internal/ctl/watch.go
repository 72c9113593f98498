package ctl

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/client"
)

// fetchKey is the Kafka request key of Fetch.
const fetchKey = 1

// watcher hears from the client library what it keeps to itself otherwise: it retries a server that is gone without a word, and it
// swallows answers that hold no record. Its methods are called by the library's goroutines.
type watcher struct {
	app *app

	mu      sync.Mutex
	talking bool             // outages are told: the command is past its first connection
	down    map[string]error // address -> why it could not be reached the last time
	answers map[int32]int    // node -> fetches that it answered
}

var (
	_ kgo.HookBrokerConnect = (*watcher)(nil)
	_ kgo.HookBrokerRead    = (*watcher)(nil)
)

func newWatcher(a *app) *watcher {
	return &watcher{app: a, down: map[string]error{}, answers: map[int32]int{}}
}

// talk turns the sentences about outages on or off. After talk(false) returns none is written.
func (w *watcher) talk(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.talking = on
	clear(w.down)
}

// OnBrokerConnect notes an outage or its end.
func (w *watcher) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.heard(net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))), err)
}

// heard notes that a server was reached, or why it was not, and tells an outage and its end once. The native client calls it too.
func (w *watcher) heard(addr string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, was := w.down[addr]
	switch {
	case !w.talking, errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed), errors.Is(err, client.ErrClosed):
	case err == nil && was:
		delete(w.down, addr)
		w.app.warn("the server at %s answers again", addr)
	case err != nil:
		w.down[addr] = err
		if !was {
			w.app.warn("the server at %s is gone (%v): retrying", addr, err)
		}
	}
}

// OnBrokerRead counts answered fetches.
func (w *watcher) OnBrokerRead(meta kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != fetchKey || err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[meta.NodeID]++
}

// lost is a server that cannot be reached now, and why; empty when there is none.
func (w *watcher) lost() (addr string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for addr, err := range w.down {
		return addr, err
	}
	return "", nil
}

// answered is how many fetches each node has answered so far.
func (w *watcher) answered() map[int32]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.answers)
}
