package raftstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
)

// childVar holds the directory in which a child process of these tests runs a store until it is killed.
const childVar = "FELIX_RAFTSTORE_CHILD"

// runChild is the child's main: three writers that print what was acknowledged, one line each, after it was.
func runChild() bool {
	dir := os.Getenv(childVar)
	if dir == "" {
		return false
	}
	ctx := context.Background()
	c, err := controller.Open(ctx, controller.Options{Store: Opener(Options{
		Dir: dir, Node: "n1", SnapshotEntries: 30, SnapshotInterval: 5 * time.Millisecond,
	})})
	if err != nil {
		fmt.Println("failed", err)
		return true
	}
	fmt.Println("cluster", c.Image().ClusterID())
	if _, err := c.Propose(ctx, cluster.RegisterNode{ID: "n1", KafkaHost: "h", KafkaPort: 1}); err != nil {
		fmt.Println("failed", err)
		return true
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("p%d.w%d.%d", os.Getpid(), w, i)
				topic := cluster.NewTopic{ID: randomID(), Tenant: "default", Namespace: "default", Name: name, Partitions: 1, ReplicationFactor: 1}
				res, err := c.Propose(ctx, cluster.CreateTopics{Topics: []cluster.NewTopic{topic}})
				if err != nil || res.Items[0].Err != nil {
					fmt.Println("failed", err, res)
					return
				}
				block, err := c.Propose(ctx, cluster.AllocateProducerIDs{Count: 10})
				if err != nil {
					fmt.Println("failed", err)
					return
				}
				out.Lock()
				fmt.Printf("topic %s %s\nblock %d\n", name, topic.ID, block.First)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return true
}

// acked collects what children reported.
type acked struct {
	mu      sync.Mutex
	cluster string
	topics  map[string]string // name -> id
	blocks  map[string]bool
	errs    []string
	first   chan struct{} // closed at the first acknowledgement
}

func newAcked() *acked {
	return &acked{topics: map[string]string{}, blocks: map[string]bool{}, first: make(chan struct{})}
}

// await waits for the first acknowledgement of all.
func (a *acked) await(t *testing.T) {
	t.Helper()
	select {
	case <-a.first:
	case <-time.After(30 * time.Second):
		t.Fatal("the child acknowledges nothing")
	}
}

func (a *acked) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		f := strings.Fields(s.Text())
		a.mu.Lock()
		switch {
		case len(f) == 2 && f[0] == "cluster" && (a.cluster == "" || a.cluster == f[1]):
			a.cluster = f[1]
		case len(f) == 3 && f[0] == "topic" && a.topics[f[1]] == "":
			a.topics[f[1]] = f[2]
		case len(f) == 2 && f[0] == "block" && !a.blocks[f[1]]:
			if a.blocks[f[1]] = true; len(a.blocks) == 1 {
				close(a.first)
			}
		default:
			a.errs = append(a.errs, "unexpected or repeated: "+s.Text())
		}
		a.mu.Unlock()
	}
}

// copy is what was acknowledged up to now.
func (a *acked) copy() *acked {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := newAcked()
	c.cluster = a.cluster
	for k, v := range a.topics {
		c.topics[k] = v
	}
	for k := range a.blocks {
		c.blocks[k] = true
	}
	return c
}

// check opens dir and compares.
func (a *acked) check(t *testing.T, dir string) {
	t.Helper()
	c := open(t, dir)
	defer func() { _ = c.Close() }()
	m := c.Image()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.errs {
		t.Error(e)
	}
	if a.cluster != "" && m.ClusterID() != a.cluster {
		t.Errorf("cluster id %q, was %q", m.ClusterID(), a.cluster)
	}
	for name, id := range a.topics {
		if topic := m.Topic("default", "default", name); topic == nil || topic.ID.String() != id {
			t.Errorf("acknowledged topic %s with id %s is now %+v", name, id, topic)
		}
	}
	for first := range a.blocks {
		var n int64
		_, _ = fmt.Sscan(first, &n)
		if n+10 > m.NextProducerID() {
			t.Errorf("acknowledged producer ids from %d, but the next is %d", n, m.NextProducerID())
		}
	}
	if got := int64(m.TopicCount()); got < int64(len(a.topics)) || m.NextProducerID()%10 != 0 {
		t.Errorf("%d topics, %d acknowledged; next producer id %d", got, len(a.topics), m.NextProducerID())
	}
}

// child starts a child on dir and returns it with a channel that ends when its output did.
func child(t *testing.T, dir string, a *acked) (*exec.Cmd, chan struct{}) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.read(out)
	}()
	return cmd, done
}

func kill(cmd *exec.Cmd, done chan struct{}) {
	_ = cmd.Process.Kill()
	<-done
	_ = cmd.Wait()
}

// TestKill kills the process at random moments, from its first millisecond on, and looks for every acknowledged command after each.
func TestKill(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for range 3 {
		dir := filepath.Join(t.TempDir(), "raft")
		a := newAcked()
		for round := range 8 {
			cmd, done := child(t, dir, a)
			// The first rounds of a directory hit its making, later ones its use, snapshots included.
			if round >= 4 {
				a.await(t)
			}
			time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond)
			kill(cmd, done)
			a.check(t, dir)
		}
	}
}

// TestCrashImages freezes a running process at random moments and opens copies of its directory: each has what was acknowledged.
func TestCrashImages(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	dir := filepath.Join(t.TempDir(), "raft")
	a := newAcked()
	cmd, done := child(t, dir, a)
	defer kill(cmd, done)
	a.await(t)
	for range 12 {
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// Only when the kernel reports the stop does no thread run any more.
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("the child did not stop: %v, %v", status, err)
		}
		before := a.copy()
		image := filepath.Join(t.TempDir(), "image")
		err := os.CopyFS(image, os.DirFS(dir))
		_ = cmd.Process.Signal(syscall.SIGCONT)
		if err != nil {
			t.Fatal(err)
		}
		before.check(t, image)
	}
}
