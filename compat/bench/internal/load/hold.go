package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/native"
	"github.com/felixlog/felix/compat/bench/internal/procfs"
)

// Held is the memory of a server that holds what clients have opened so far.
type Held struct {
	// RSS is resident memory in bytes.
	RSS int64 `json:"rss"`
	// Live is what heap and stacks hold after a collection, in bytes; 0 when the server does not say.
	Live int64 `json:"live"`
}

// rest is how long a server is left alone before its memory counts.
const rest = 2 * time.Second

// runHold is Hold: in steps, nothing, connections, a stream on each with the rest of them, subscriptions; then the processor time of
// doing nothing.
func runHold(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Bus == nil || spec.Bus.Native == nil {
		return nil, errors.New("a hold load needs a native server")
	}
	res := &Result{}
	measure := func() error {
		if err := pauseFor(ctx, rest); err != nil {
			return err
		}
		h, err := heldBy(ctx, spec.ServerPID, spec.Metrics)
		res.Held = append(res.Held, h)
		return err
	}
	if err := measure(); err != nil {
		return nil, err
	}
	var conns []*native.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range spec.Bus.Connections {
		c, err := spec.Bus.Native.Dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
		conns = append(conns, c)
		if _, err := c.Open(ctx); err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if err := measure(); err != nil {
		return nil, err
	}
	for i, c := range conns {
		for range spec.Bus.Streams {
			if _, err := c.Open(ctx); err != nil {
				return nil, fmt.Errorf("stream of connection %d: %w", i, err)
			}
		}
	}
	if err := measure(); err != nil {
		return nil, err
	}
	for i, c := range conns {
		for range spec.Bus.Subscriptions {
			if _, err := c.Subscribe(ctx, spec.Bus.Stream); err != nil {
				return nil, fmt.Errorf("subscription of connection %d: %w", i, err)
			}
		}
	}
	if err := measure(); err != nil {
		return nil, err
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	return res, errors.Join(pauseFor(ctx, seconds(spec.Seconds)), m.end(res))
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// heldBy reads a server's memory. metrics is where its profiles are, empty for none.
func heldBy(ctx context.Context, pid int, metrics string) (h Held, err error) {
	mem, err := procfs.ReadMemory(pid)
	if err != nil {
		return h, err
	}
	h.RSS = mem.RSS
	if metrics == "" {
		return h, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/debug/pprof/heap?debug=1&gc=1", nil)
	if err != nil {
		return h, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return h, errors.Join(err, fmt.Errorf("heap profile: %s", resp.Status))
	}
	// The text form ends with the runtime's statistics: # HeapAlloc = n, # Stack = n / n.
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), " = ")
		if !ok || name != "HeapAlloc" && name != "Stack" {
			continue
		}
		value, _, _ = strings.Cut(value, " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return h, err
		}
		h.Live += n
	}
	return h, nil
}
