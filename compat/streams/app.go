package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/peer"
)

// AppOptions describe one instance of the word count.
type AppOptions struct {
	Dir      string   // holds state/ and the logs of all runs
	Settings []string // name=value, over those of WordCount.java
}

// App is one instance of the word count, started and ended any number of times. Its methods must be called from one goroutine at a time.
type App struct {
	o     AppOptions
	job   *Job
	runs  int
	child *peer.Child // nil while it does not run
}

// NewApp makes an instance for a job. It starts nothing.
func NewApp(job *Job, o AppOptions) *App { return &App{o: o, job: job} }

// Start starts the instance, and does not wait for it.
func (a *App) Start() error {
	if err := os.MkdirAll(a.o.Dir, 0o755); err != nil {
		return err
	}
	a.runs++
	classpath := filepath.Join(peer.ModuleDir(), "bin", "streams") + ":" + filepath.Join(peer.KafkaJars(), "*")
	argv := append([]string{"java"}, driver.JVMFlags()...)
	argv = append(argv, "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Xmx192m", "-cp", classpath, "io.felixlog.compat.streams.WordCount", a.job.addr, a.job.lines(), a.job.counts(),
		"application.id="+a.job.ID, "state.dir="+a.stateDir())
	var err error
	a.child, err = peer.StartChild(a.logPath(a.runs), append(argv, a.o.Settings...)...)
	return err
}

func (a *App) stateDir() string { return filepath.Join(a.o.Dir, "state") }

func (a *App) logPath(run int) string { return filepath.Join(a.o.Dir, fmt.Sprintf("run-%d.log", run)) }

// AwaitRunning waits until the present run says that all of its tasks run.
func (a *App) AwaitRunning(ctx context.Context) error {
	return a.child.Await(ctx, func() bool {
		b, err := os.ReadFile(a.logPath(a.runs))
		return err == nil && bytes.Contains(b, []byte("state RUNNING\n"))
	})
}

// Alive is nil unless the instance was started and has ended by itself.
func (a *App) Alive() error {
	if a.child == nil {
		return nil
	}
	return a.child.Alive()
}

// Close lets the application close itself; one that does not commit and end in time is an error. It is fine if it does not run.
func (a *App) Close() error {
	if a.child == nil {
		return nil
	}
	child := a.child
	a.child = nil
	code, err := child.Stop()
	if err == nil && code != 0 {
		err = fmt.Errorf("the application closed with exit code %d:\n%s", code, child.Tail())
	}
	return err
}

// End ends the application at once if it runs, for when nobody looks at its counts any more.
func (a *App) End() error {
	if a.child == nil {
		return nil
	}
	return a.Kill9()
}

// Kill9 ends the application with SIGKILL.
func (a *App) Kill9() error {
	if a.child == nil {
		return errors.New("the application does not run")
	}
	child := a.child
	a.child = nil
	return child.Kill9()
}

// setbackTexts are what Kafka Streams logs when it gives up tasks without committing them: the group went on without it, or a write or a
// commit failed. What it had processed since its last commit is then processed again, which at-least-once allows.
var setbackTexts = [][]byte{
	[]byte("the thread is being fenced"), []byte("lost due to missed rebalance"), []byte("close the task as dirty"),
	[]byte("will be cleaned and revived"), []byte("will be closed and revived"),
}

// Setbacks is how often the application has said, in all of its runs, that it gave up tasks without committing them.
func (a *App) Setbacks() (int, error) {
	n := 0
	for run := 1; run <= a.runs; run++ {
		b, err := os.ReadFile(a.logPath(run))
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(b) {
			if slices.ContainsFunc(setbackTexts, func(text []byte) bool { return bytes.Contains(line, text) }) {
				n++
			}
		}
	}
	return n, nil
}

// Wipe removes the state of the stopped instance: the next run restores all of it from the changelog topic.
func (a *App) Wipe() error { return os.RemoveAll(a.stateDir()) }
