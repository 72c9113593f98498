package driver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// Rdkafka1 starts the agent over the old librdkafka. compat/install.sh builds it.
func Rdkafka1(ctx context.Context) (*Client, error) {
	return start(ctx, "librdkafka 1", filepath.Join(peer.ModuleDir(), "bin", "rdkafka1"))
}

// Rdkafka2 starts the agent over the current librdkafka.
func Rdkafka2(ctx context.Context) (*Client, error) {
	return start(ctx, "librdkafka 2", filepath.Join(peer.ModuleDir(), "bin", "rdkafka2"))
}

// Java starts the agent over Apache Kafka's Java clients.
func Java(ctx context.Context) (*Client, error) {
	// Refused fetch sessions are only logged, at info: case 48 looks for them.
	c, err := start(ctx, "java", "java", append(JVMFlags(), "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.FetchSessionHandler=info", "-Xmx512m", "-cp", JavaClasspath(), "io.felixlog.compat.Agent")...)
	if err != nil {
		return nil, err
	}
	c.Features = Features{Xerial: true}
	return c, nil
}

// JVMFlags keep a short-lived JVM small and quick to start.
func JVMFlags() []string {
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
}

// JavaClasspath is the Java agent and the jars of Apache Kafka.
func JavaClasspath() string {
	return filepath.Join(peer.ModuleDir(), "bin", "java") + ":" + filepath.Join(peer.KafkaJars(), "*")
}

// exitGrace is how long a client may take to end once its input is closed.
const exitGrace = 10 * time.Second

// start runs a program that speaks the line protocol on its standard input and output.
func start(ctx context.Context, name, program string, args ...string) (*Client, error) {
	logFile, err := os.CreateTemp("", "client-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = logFile.Close() }() // the child has its own descriptor
	cmd := exec.Command(program, args...)
	cmd.Stderr = logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s (compat/install.sh builds the clients): %w", name, err)
	}
	end := func() error {
		timer := time.AfterFunc(exitGrace, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		return cmd.Wait()
	}
	c, err := open(ctx, name, in, out, end, logFile.Name())
	if err != nil {
		return nil, err
	}
	c.kill = cmd.Process.Kill
	return c, nil
}
