package raw_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// server is the peer of this test process: one for all tests, since a JVM takes seconds to start.
var server peer.Peer

// setupTimeout bounds the start of a server.
const setupTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	p, err := peer.FromEnv(peer.Options{})
	if err == nil {
		err = p.Start(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the peer:", err)
		return 1
	}
	server = p
	code := m.Run()
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the peer:", err)
		code = 1
	}
	if flag.Lookup("test.run").Value.String() == "" && code == 0 {
		if rows := unobserved(); len(rows) > 0 {
			fmt.Fprintln(os.Stderr, "rows that no test observed:", rows)
			code = 1
		}
	}
	return code
}
