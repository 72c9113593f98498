package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// RunOptions are what a process gives to Run.
type RunOptions struct {
	Out io.Writer // log lines and the greeting
	// Signals are requests to stop: the first begins the stop, each further one ends a wait of it.
	Signals <-chan os.Signal
	Began   time.Time // when main began
}

// settleAfter is when a node that has started gives back what only the start needed.
const settleAfter = 3 * time.Second

// Run serves until it is told to stop, and stops. It returns nil after a clean stop, an error with ErrForced after a forced one, and
// why the node could not start or go on otherwise.
func Run(ctx context.Context, l *Loaded, opts RunOptions) error {
	logger, err := newLogger(&l.Config, opts.Out)
	if err != nil {
		return err
	}
	for _, w := range l.Warnings {
		logger.Named("node").Warn(w)
	}

	// A signal during the start cancels it; the channel below then still reads as stopped.
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, hurry := make(chan struct{}), make(chan struct{}, 1)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { relay(opts.Signals, ended, func() { close(stop); cancel() }, hurry) })
	defer wg.Wait()
	defer close(ended)

	n, err := Open(starting, l.Config, Options{Logger: logger, Began: opts.Began})
	if err != nil {
		select {
		case <-stop:
			if errors.Is(err, context.Canceled) {
				logger.Named("node").Info("stopped before it served")
				return nil
			}
		default:
		}
		return err
	}
	if l.SingleNode && l.Config.LogFormat == "text" {
		greet(opts.Out, n.Addrs(), &l.Config)
	}
	// What the start used and nothing needs any more goes back to the system: an idle node is small. Later, because the first
	// clients are being answered now.
	settle := time.AfterFunc(settleAfter, debug.FreeOSMemory)
	defer settle.Stop()

	var failed error
	select {
	case <-stop:
	case <-ctx.Done():
	case failed = <-n.Failed():
		logger.Named("node").Error("stopping after a failure", zap.Error(failed))
	}
	return errors.Join(failed, n.Close(context.WithoutCancel(ctx), hurry))
}

// relay turns the first signal into a call of first, and later ones into hurry, until ended is closed.
func relay(signals <-chan os.Signal, ended <-chan struct{}, first func(), hurry chan<- struct{}) {
	begun := false
	for {
		select {
		case <-ended:
			return
		case <-signals:
		}
		if !begun {
			begun = true
			first()
			continue
		}
		select {
		case hurry <- struct{}{}:
		default: // one is waiting to be seen already
		}
	}
}

// greet tells a person at a terminal what they can do now.
func greet(w io.Writer, a Addresses, c *Config) {
	files := developmentFiles{developmentDir(c)}
	metrics := "off"
	if a.Metrics != "" {
		metrics = "http://" + dialable(a.Metrics) + "/metrics, /live and /ready"
	}
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) } // a Builder does not fail
	line("\n  Felix %s serves one node; data in %s.\n", Version, c.DataDir)
	if a.Kafka != "" {
		line("    Kafka     %s   (plaintext, no login, tenant %s)", a.Kafka, c.Kafka.AnonymousTenant)
	}
	if a.Native != "" {
		line("    native    %s   (QUIC; CA certificate %s, token %s)", a.Native, developmentCertOf(c).ca(), files.token())
	}
	if a.API != "" {
		line("    API       http://%s   (token %s)", dialable(a.API), files.apiToken())
	}
	line("    metrics   %s\n\n  Try it in another terminal:", metrics)
	if a.Kafka != "" {
		line("    echo hello | kcat -b %[1]s -P -t greetings\n    kcat -b %[1]s -C -t greetings -e\n    bin/felixctl topic list%[2]s", a.Kafka, brokersFlag(a.Kafka))
	}
	if a.API != "" { // the native protocol makes no streams by itself
		line(`    curl -H "Authorization: Bearer $(cat %s)" -H 'Content-Type: application/json' \`, files.apiToken())
		line(`      -d '{"stream": "orders", "durable": true}' http://%s/v1/tenants/%s/namespaces/%s/streams`,
			dialable(a.API), c.Kafka.AnonymousTenant, c.Kafka.DefaultNamespace)
	}
	line("\n  Ctrl-C stops it and loses nothing.\n")
	_, _ = io.WriteString(w, b.String()) // a greeting that nobody can read is no failure
}

// dialable is a bound address as this machine can dial it: a wildcard is loopback.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	switch ip, err := netip.ParseAddr(host); {
	case err != nil || !ip.IsUnspecified():
		return addr
	case ip.Is4():
		return net.JoinHostPort("127.0.0.1", port)
	default:
		return net.JoinHostPort("::1", port)
	}
}

// brokersFlag is what felixctl needs to find this node.
func brokersFlag(addr string) string {
	if addr == "127.0.0.1:9092" {
		return ""
	}
	return " --brokers " + addr
}
