package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// kafkaVersion is the pinned release (design.md section 10); pom.xml names the same.
const kafkaVersion = "4.3.1"

// kafkaPeer runs one KRaft node of Apache Kafka.
type kafkaPeer struct {
	o      Options
	jars   string
	dir    string // holds data/, server.properties, kafka.log, *.pem
	ownDir bool
	ports  []int // plaintext, SASL, TLS, controller
	proc   *process
	ready  bool // formatted
}

// NewKafka makes a peer that runs Apache Kafka from its jars. It starts nothing.
func NewKafka(o Options) (Peer, error) {
	o = o.withDefaults()
	k := &kafkaPeer{o: o, jars: KafkaJars(), dir: o.Dir}
	if found, _ := filepath.Glob(filepath.Join(k.jars, "kafka-clients-*.jar")); len(found) == 0 {
		return nil, fmt.Errorf("no Kafka jars in %s: run compat/install.sh, or set KAFKA_JARS", k.jars)
	}
	if k.dir == "" {
		dir, err := os.MkdirTemp("", "kafka-peer-")
		if err != nil {
			return nil, err
		}
		k.dir, k.ownDir = dir, true
	}
	var err error
	if k.o.Certificate == nil {
		if k.o.Certificate, err = NewCertificate(); err != nil {
			return nil, err
		}
	}
	k.ports, err = freePorts(4)
	return k, err
}

// KafkaJars is the directory with the jars of Apache Kafka, broker and tools.
func KafkaJars() string {
	if d := os.Getenv("KAFKA_JARS"); d != "" {
		return d
	}
	return filepath.Join(ModuleDir(), ".cache", "kafka-"+kafkaVersion, "lib")
}

func (k *kafkaPeer) Kind() Kind          { return Kafka }
func (k *kafkaPeer) Addr() string        { return k.addr(0) }
func (k *kafkaPeer) DataDir() string     { return filepath.Join(k.dir, "data") }
func (k *kafkaPeer) LogPath() string     { return filepath.Join(k.dir, "kafka.log") }
func (k *kafkaPeer) Bound(string) string { return "" }
func (k *kafkaPeer) RootPEM() []byte     { return k.o.Certificate.CertPEM }
func (k *kafkaPeer) addr(i int) string {
	return fmt.Sprintf("127.0.0.1:%d", k.ports[i])
}

func (k *kafkaPeer) PID() int {
	if k.proc == nil {
		return 0
	}
	return k.proc.cmd.Process.Pid
}

func (k *kafkaPeer) SecureAddr(_ context.Context, s Security) (string, error) {
	if s == Development {
		return "", ErrRemote
	}
	return k.addr(int(s)), nil
}

func (k *kafkaPeer) Start(ctx context.Context) error {
	properties := filepath.Join(k.dir, "server.properties")
	if !k.ready {
		if err := k.format(ctx, properties); err != nil {
			return err
		}
		k.ready = true
	}
	// The recommended collector settings with a 1 GiB heap; the start-up flags only shorten the start of a short-lived JVM.
	argv := []string{
		"java", "-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", k.jars + "/*", "kafka.Kafka", properties,
	}
	var err error
	k.proc, err = start(k.LogPath(), nil, argv...)
	if err != nil {
		return err
	}
	if err := k.proc.await(ctx, func() bool { return answers(k.Addr()) }); err != nil {
		return errors.Join(err, k.Kill9())
	}
	return nil
}

// format writes the configuration and the storage directory.
func (k *kafkaPeer) format(ctx context.Context, properties string) error {
	keystore := filepath.Join(k.dir, "keystore.pem")
	pem := slices.Concat(k.o.Certificate.KeyPEM, k.o.Certificate.CertPEM)
	err := errors.Join(os.MkdirAll(k.DataDir(), 0o700), os.WriteFile(keystore, pem, 0o600),
		os.WriteFile(properties, []byte(k.properties(keystore)), 0o600))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", k.jars+"/*", "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", properties,
		"--standalone")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafka storage format: %w\n%s", err, out)
	}
	return nil
}

// properties is Kafka's configuration: defaults, except what one node on loopback needs, an authorizer (so that refusals
// can be tested) and a cleaner that starts often (so that compaction can be tested).
func (k *kafkaPeer) properties(keystore string) string {
	var jaas strings.Builder
	jaas.WriteString(`org.apache.kafka.common.security.plain.PlainLoginModule required`)
	for user, password := range k.o.Users {
		fmt.Fprintf(&jaas, ` user_%s="%s"`, user, password)
	}
	jaas.WriteString(";")
	listeners := fmt.Sprintf("PLAINTEXT://%s,SASL_PLAINTEXT://%s,SSL://%s", k.addr(0), k.addr(1), k.addr(2))
	lines := map[string]string{
		"process.roles":                                       "broker,controller",
		"node.id":                                             "1",
		"controller.quorum.bootstrap.servers":                 k.addr(3),
		"listeners":                                           listeners + ",CONTROLLER://" + k.addr(3),
		"advertised.listeners":                                listeners + ",CONTROLLER://" + k.addr(3),
		"controller.listener.names":                           "CONTROLLER",
		"inter.broker.listener.name":                          "PLAINTEXT",
		"listener.security.protocol.map":                      "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL",
		"sasl.enabled.mechanisms":                             "PLAIN",
		"ssl.keystore.type":                                   "PEM",
		"ssl.keystore.location":                               keystore,
		"log.dirs":                                            k.DataDir(),
		"num.network.threads":                                 "2",
		"num.io.threads":                                      "4",
		"offsets.topic.replication.factor":                    "1",
		"offsets.topic.num.partitions":                        "4",
		"group.initial.rebalance.delay.ms":                    "0",
		"transaction.state.log.num.partitions":                "4",
		"transaction.state.log.min.isr":                       "1",
		"share.coordinator.state.topic.min.isr":               "1",
		"authorizer.class.name":                               "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                         "User:ANONYMOUS",
		"log.cleaner.backoff.ms":                              "200",
		"log.retention.check.interval.ms":                     "500",
		"log.initial.task.delay.ms":                           "500",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas.String(),
		"transaction.state.log.replication.factor":            "1",
		"share.coordinator.state.topic.replication.factor":    "1",
	}
	for name, value := range k.o.KafkaProperties {
		lines[name] = value
	}
	out := make([]string, 0, len(lines))
	for name, value := range lines {
		out = append(out, name+"="+value+"\n")
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

func (k *kafkaPeer) Kill9() error {
	if k.proc == nil {
		return nil
	}
	err := k.proc.end(syscall.SIGKILL)
	k.proc = nil
	return err
}

func (k *kafkaPeer) Restart(ctx context.Context) error {
	if err := k.halt(); err != nil {
		return err
	}
	return k.Start(ctx)
}

// halt stops the server itself, and keeps data and addresses.
func (k *kafkaPeer) halt() error {
	if k.proc == nil {
		return nil
	}
	p := k.proc
	k.proc = nil
	select {
	case <-p.done:
		return fmt.Errorf("kafka ended by itself: %v\n%s", p.cmd.ProcessState, tail(p.log))
	default:
	}
	return p.end(syscall.SIGTERM)
}

func (k *kafkaPeer) Stop() error {
	err := k.halt()
	if k.ownDir && os.Getenv("PEER_LOG") == "" {
		err = errors.Join(err, os.RemoveAll(k.dir))
	}
	return err
}
