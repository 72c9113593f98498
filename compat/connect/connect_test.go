package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// waitLimit bounds one wait; two JVMs on a busy machine may take their time.
const waitLimit = 3 * time.Minute

// startServer starts the server under test, with its files in the test's directory.
func startServer(t *testing.T, dir string) peer.Peer {
	t.Helper()
	server, err := peer.FromEnv(peer.Options{Dir: filepath.Join(dir, "server")})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// unique makes names that a remote server has not seen yet.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()) }

// TestStandalone sends a file through a topic, and goes on where it was after the worker was stopped: the files are equal byte for byte.
func TestStandalone(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, dir)
	p, err := NewPipe(dir, unique("alone"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for run := range 2 {
		// Some lines are there before the worker, some come while it runs.
		if err := p.Write(3000); err != nil {
			t.Fatal(err)
		}
		worker, err := StartStandalone(filepath.Join(dir, "worker"), server.Addr(), p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		err = p.Feed(ctx, 1000, 1000)
		for err == nil && p.arrived() != nil {
			err = errors.Join(worker.Alive(), pause(ctx, pollInterval))
		}
		cancel()
		if err != nil {
			t.Errorf("run %d: %v, %v\n%s", run, err, p.arrived(), worker.Tail())
		}
		if _, err := worker.Stop(); err != nil {
			t.Fatal(err)
		}
		in, inErr := os.ReadFile(p.in)
		out, outErr := os.ReadFile(p.out)
		if err := errors.Join(inErr, outErr); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(in, out) {
			t.Fatalf("run %d: the sink has %d bytes, the source %d; problems %q", run, len(out), len(in), p.tally.judge(p.written, true))
		}
	}
}

// TestDistributed runs two workers with a pipe, kills the one that has the source's task, and then the server.
func TestDistributed(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, dir)
	group := unique("connect")
	cluster := Cluster{Addr: server.Addr(), Group: group}
	p, err := NewPipe(dir, group+"-lines")
	if err != nil {
		t.Fatal(err)
	}
	workers := []*Worker{NewWorker(cluster, filepath.Join(dir, "worker-1")), NewWorker(cluster, filepath.Join(dir, "worker-2"))}
	crew, err := NewCrew(cluster, workers, []*Pipe{p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crew.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*waitLimit)
	defer cancel()
	if err := crew.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := crew.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	// feed writes while disturb does what it does, and checks the sink's file once all is settled.
	feed := func(name string, exact bool, disturb func() error) {
		t.Helper()
		began := time.Now()
		var wg sync.WaitGroup
		var disturbed error
		wg.Go(func() {
			if disturbed = pause(ctx, 500*time.Millisecond); disturbed == nil {
				disturbed = disturb()
			}
		})
		err := p.Feed(ctx, 1500, 1000)
		wg.Wait()
		if err := errors.Join(err, disturbed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		settleCtx, cancel := context.WithTimeout(ctx, waitLimit)
		defer cancel()
		problems, err := crew.Settle(settleCtx, exact)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
		written, again := crew.Totals()
		t.Logf("%s: %d lines, %d came again, %v", name, written, again, time.Since(began).Round(time.Millisecond))
	}
	feed("start", true, func() error { return nil })
	if err := crew.CheckTopics(ctx); err != nil {
		t.Error(err)
	}
	feed("kill a worker and start it", false, func() error {
		w, err := crew.Owner(ctx, p)
		if err != nil {
			return err
		}
		return errors.Join(w.Kill9(), w.Start())
	})
	if server.PID() != 0 {
		feed("kill the server", false, func() error { return errors.Join(server.Kill9(), server.Restart(ctx)) })
	}
	feed("stop a worker and start it", true, func() error { return errors.Join(workers[0].Stop(), workers[0].Start()) })
	again(ctx, t, crew, p)
}

// again makes the sink forget what it has read: all of the topic must come once more.
func again(ctx context.Context, t *testing.T, crew *Crew, p *Pipe) {
	t.Helper()
	_, before := crew.Totals()
	for _, do := range []func(Rest) error{
		func(r Rest) error { return r.Stop(ctx, p.sink()) },
		// The offsets of a connector can be reset once its tasks have ended; until then the answer is 400.
		func(r Rest) error { return crew.until(ctx, func() error { return r.ResetOffsets(ctx, p.sink()) }) },
		func(r Rest) error { return r.Resume(ctx, p.sink()) },
	} {
		if err := crew.Ask(ctx, do); err != nil {
			t.Fatal(err)
		}
	}
	ends, err := crew.adm.ListEndOffsets(ctx, p.name)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(p.name, 0)
	settleCtx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	problems, err := crew.Settle(settleCtx, false)
	if err != nil {
		t.Fatal(err)
	}
	_, after := crew.Totals()
	if len(problems) > 0 || after-before != end.Offset {
		t.Errorf("after the sink's offsets were reset %d lines came again, want %d; problems %q", after-before, end.Offset, problems)
	}
}
