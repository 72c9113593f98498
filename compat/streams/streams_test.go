package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

const (
	testLines = 1500
	testRate  = 1000
	// settleLimit bounds one wait; after a kill the group waits 6 s for the dead member, and a JVM may take its time.
	settleLimit = 3 * time.Minute
)

// TestWordCount takes one application through its life: a clean start, a clean stop in the middle, a kill with its state lost, and a
// kill of the server.
func TestWordCount(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	dir := t.TempDir()
	server, err := peer.FromEnv(peer.Options{Dir: filepath.Join(dir, "server")})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	// A remote server keeps its topics, so their names are new each time.
	job, err := NewJob(ctx, server.Addr(), fmt.Sprintf("words-%d", time.Now().UnixNano()), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	app := NewApp(job, AppOptions{Dir: filepath.Join(dir, "app")})
	t.Cleanup(func() {
		if t.Failed() && app.child != nil {
			t.Log(app.child.Tail())
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	random := rand.New(rand.NewPCG(1, 1))
	// feed writes while disturb does what it does, and checks the counts once they are settled.
	feed := func(name string, exact bool, disturb func() error) {
		t.Helper()
		began := time.Now()
		var wg sync.WaitGroup
		var disturbed error
		wg.Go(func() { // half of the lines come before, half after
			if disturbed = pause(ctx, testLines*time.Second/testRate/2); disturbed == nil {
				disturbed = disturb()
			}
		})
		err := job.Feed(ctx, random, testLines, testRate)
		wg.Wait()
		if err := errors.Join(err, disturbed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		settleCtx, cancel := context.WithTimeout(ctx, settleLimit)
		defer cancel()
		problems, setbacks, err := job.Settle(settleCtx, exact, []*App{app}, app.Alive)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
		written, again := job.Totals()
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("%s: %d words written, %d counted again, %d setbacks, %v", name, written, again, setbacks, took)
	}

	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	feed("start", true, func() error { return nil })
	if err := job.CheckTopics(ctx); err != nil {
		t.Error(err)
	}
	feed("close and start", true, func() error { return errors.Join(app.Close(), app.Start()) })
	feed("kill, lose the state and start", false, func() error { return errors.Join(app.Kill9(), app.Wipe(), app.Start()) })
	if server.PID() != 0 {
		feed("kill the server", false, func() error { return errors.Join(server.Kill9(), server.Restart(ctx)) })
	}
	feed("quiet again", true, func() error { return nil })

	purgeCtx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := job.AwaitPurged(purgeCtx, app.Alive); err != nil {
		t.Error(err)
	}
	left, updates, problems, err := job.CheckChangelog(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("changelog: %d records of %d updates", left, updates)
	if err := app.Close(); err != nil {
		t.Error(err)
	}
	if err := job.Delete(ctx); err != nil {
		t.Error(err)
	}
}
