package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/peer"
)

// Cluster is what the workers of one Connect cluster have in common. The internal topics are Group-configs, Group-offsets and
// Group-status.
type Cluster struct {
	Addr  string // bootstrap address
	Group string
}

// internal is the names of the internal topics and the number of partitions that workers ask for by default.
func (c Cluster) internal() map[string]int {
	return map[string]int{c.Group + "-configs": 1, c.Group + "-offsets": 25, c.Group + "-status": 5}
}

// Worker is one distributed worker, started and ended any number of times. Its methods must be called from one goroutine at a time.
type Worker struct {
	cluster Cluster
	dir     string
	runs    int
	port    int // of the present run
	child   *peer.Child
}

// NewWorker makes a worker of a cluster that keeps its configuration and logs in dir. It starts nothing.
func NewWorker(c Cluster, dir string) *Worker { return &Worker{cluster: c, dir: dir} }

// common are the settings of workers of both modes: lines are strings, offsets and heartbeats are quick.
func common(addr string) map[string]string {
	return map[string]string{
		"bootstrap.servers":              addr,
		"key.converter":                  "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":                "org.apache.kafka.connect.storage.StringConverter",
		"offset.flush.interval.ms":       "500",
		"plugin.discovery":               "service_load",
		"reconnect.backoff.max.ms":       "500",
		"consumer.session.timeout.ms":    "6000",
		"consumer.heartbeat.interval.ms": "1000",
	}
}

// distributed are the settings of a worker of a cluster. A worker that is gone is replaced after a second instead of five minutes.
func (w *Worker) distributed() map[string]string {
	settings := common(w.cluster.Addr)
	maps.Copy(settings, map[string]string{
		"group.id":                          w.cluster.Group,
		"config.storage.topic":              w.cluster.Group + "-configs",
		"offset.storage.topic":              w.cluster.Group + "-offsets",
		"status.storage.topic":              w.cluster.Group + "-status",
		"config.storage.replication.factor": "1",
		"offset.storage.replication.factor": "1",
		"status.storage.replication.factor": "1",
		"exactly.once.source.support":       "disabled",
		"scheduled.rebalance.max.delay.ms":  "1000",
		"session.timeout.ms":                "6000",
		"heartbeat.interval.ms":             "1000",
		"listeners":                         w.URL(),
	})
	return settings
}

// properties is a Java properties file; no value here needs quoting.
func properties(settings map[string]string) []byte {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&out, "%s=%s\n", name, settings[name])
	}
	return []byte(out.String())
}

// jvm is a command line that starts a class of Kafka Connect.
func jvm(class string, args ...string) []string {
	argv := append([]string{"java"}, driver.JVMFlags()...)
	// Rebalances with their times are what is asked first of a worker that was slow.
	argv = append(argv, "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.distributed=info")
	argv = append(argv, "-Xmx256m", "-cp", filepath.Join(peer.KafkaJars(), "*"), class)
	return append(argv, args...)
}

// Start starts the worker on a new port, and does not wait for it.
func (w *Worker) Start() error {
	port, err := peer.FreePort()
	if err != nil {
		return err
	}
	w.runs, w.port = w.runs+1, port
	file := filepath.Join(w.dir, "worker.properties")
	err = errors.Join(os.MkdirAll(w.dir, 0o755), os.WriteFile(file, properties(w.distributed()), 0o600))
	if err != nil {
		return err
	}
	log := filepath.Join(w.dir, fmt.Sprintf("run-%d.log", w.runs))
	w.child, err = peer.StartChild(log, jvm("org.apache.kafka.connect.cli.ConnectDistributed", file)...)
	return err
}

// ID is what the status of a connector or task calls the present run.
func (w *Worker) ID() string { return fmt.Sprintf("127.0.0.1:%d", w.port) }

// URL is where the present run answers requests.
func (w *Worker) URL() string { return "http://" + w.ID() }

// AwaitReady waits until the worker answers on its REST interface.
func (w *Worker) AwaitReady(ctx context.Context) error {
	return w.child.Await(ctx, func() bool {
		res, err := http.Get(w.URL())
		if err != nil {
			return false
		}
		return errors.Join(res.Body.Close()) == nil && res.StatusCode == http.StatusOK
	})
}

// Alive is nil unless the worker was started and has ended by itself.
func (w *Worker) Alive() error {
	if w.child == nil {
		return nil
	}
	return w.child.Alive()
}

// Stop stops the worker cleanly: it commits and leaves the group. It is fine if it does not run.
func (w *Worker) Stop() error {
	if w.child == nil {
		return nil
	}
	child := w.child
	w.child = nil
	_, err := child.Stop()
	return err
}

// Kill9 ends the worker with SIGKILL.
func (w *Worker) Kill9() error {
	if w.child == nil {
		return errors.New("the worker does not run")
	}
	child := w.child
	w.child = nil
	return child.Kill9()
}
