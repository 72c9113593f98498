package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// kafkaVersion is the release that the figures are compared with.
const kafkaVersion = "4.3.1"

// clusterID is any fixed UUID in Kafka's own form: the cluster is thrown away with its data.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qk"

// FindKafka returns the directory of Kafka's jars: $KAFKA_JARS, or the cache of the compat suites, which Maven fills from their pom
// on first use. compatDir is the project's folder compat.
func FindKafka(ctx context.Context, compatDir string) (string, error) {
	if dir := os.Getenv("KAFKA_JARS"); dir != "" {
		return dir, nil
	}
	dir := filepath.Join(compatDir, ".cache", "kafka-"+kafkaVersion, "lib")
	if jars, _ := filepath.Glob(filepath.Join(dir, "kafka-tools-*.jar")); len(jars) > 0 {
		return dir, nil
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(compatDir, "peer", "pom.xml"),
		"dependency:copy-dependencies", "-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Kafka's jars: %w: %s", err, out)
	}
	return dir, nil
}

// kafkaArgs writes the broker's properties, formats the directory on first use and returns the command line: Kafka's
// recommended G1 settings with a heap of 1 GiB.
func (in *Installation) kafkaArgs(ctx context.Context, cfg Config, port int) ([]string, error) {
	if in.KafkaLibs == "" {
		return nil, errors.New("no Kafka jars")
	}
	controllerPort, err := FreePort()
	if err != nil {
		return nil, err
	}
	props := filepath.Clean(cfg.DataDir) + ".properties"
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
num.network.threads=2
num.io.threads=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=5000
log.segment.delete.delay.ms=1000
`, port, controllerPort, cfg.DataDir)
	if err := os.WriteFile(props, []byte(text), 0o644); err != nil {
		return nil, err
	}
	classPath := filepath.Join(in.KafkaLibs, "*")
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "meta.properties")); err != nil {
		if err := in.formatKafka(ctx, cfg.DataDir, props, classPath); err != nil {
			return nil, err
		}
	}
	return []string{
		"java", "-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classPath, "kafka.Kafka", props,
	}, nil
}

// formatKafka formats a directory once with the storage tool; later directories are copies of that one, since the tool costs
// more than a second of every trial.
func (in *Installation) formatKafka(ctx context.Context, dataDir, props, classPath string) error {
	template := filepath.Join(in.LogDir, "kafka-formatted")
	if _, err := os.Stat(template); err != nil {
		cmd := exec.CommandContext(ctx, "java", "-cp", classPath, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", props)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("format: %w: %s", err, out)
		}
		if err := os.MkdirAll(in.LogDir, 0o755); err != nil {
			return err
		}
		return os.CopyFS(template, os.DirFS(dataDir))
	}
	return os.CopyFS(dataDir, os.DirFS(template))
}
