package driver

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/peer"
)

// Opener starts one client.
type Opener struct {
	Name string
	Open func(context.Context) (*Client, error)
}

// All are the clients of the suite, in the order of its tables.
var All = []Opener{
	{"kcat", Kcat},
	{"franz-go", Franz},
	{"librdkafka 1", Rdkafka1},
	{"librdkafka 2", Rdkafka2},
	{"java", Java},
	{"confluent-kafka", ConfluentPython},
	{"kafka-python", KafkaPython},
	{"aiokafka", Aiokafka},
	{"kafkajs", Kafkajs},
	{"sarama", Sarama},
	{"kafka-go", KafkaGo},
}

// What several libraries lack.
const (
	noCooperative = "no cooperative-sticky assignor"
	noStatic      = "no static members"
)

// Another starts a further instance of a client, in a process of its own, so that it can be killed.
func Another(ctx context.Context, name string) (*Client, error) {
	if _, here := served[name]; here {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return start(ctx, name, program, serveArgument+name)
	}
	for _, o := range All {
		if o.Name == name {
			return o.Open(ctx)
		}
	}
	return nil, agent.ErrUnsupported
}

// served are the clients without a program of their own: the test binary is started to be their agent.
var served = map[string]agent.Library{"franz-go": franz{}, "kcat": kcat{}}

// serveArgument, followed by a client's name, is the only argument of a test binary that is started to be that client's agent.
const serveArgument = "-serve="

// MaybeServe is the whole program when the binary was started by Another; it does not return then. A test binary calls it first of all.
func MaybeServe() {
	if len(os.Args) != 2 {
		return
	}
	name, asked := strings.CutPrefix(os.Args[1], serveArgument)
	library, known := served[name]
	if !asked || !known {
		return
	}
	if err := agent.Serve(os.Stdin, os.Stdout, library); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n") // the driver reads it with the log
		os.Exit(1)
	}
	os.Exit(0)
}

func python(ctx context.Context, name, library string, f Features) (*Client, error) {
	dir := peer.ModuleDir()
	c, err := start(ctx, name, filepath.Join(dir, ".cache", "venv", "bin", "python"), filepath.Join(dir, "clients", "python", "agent.py"), library)
	if err != nil {
		return nil, err
	}
	c.Features = f
	return c, nil
}

// ConfluentPython starts the agent over confluent-kafka, which is librdkafka for Python.
func ConfluentPython(ctx context.Context) (*Client, error) {
	return python(ctx, "confluent-kafka", "confluent", Features{})
}

// KafkaPython starts the agent over kafka-python.
func KafkaPython(ctx context.Context) (*Client, error) {
	return python(ctx, "kafka-python", "kafkapython", Features{Xerial: true, NoNullHeader: true, NoEmptyPair: true})
}

// Aiokafka starts the agent over aiokafka.
func Aiokafka(ctx context.Context) (*Client, error) {
	return python(ctx, "aiokafka", "aiokafka", Features{Xerial: true, NoEmptyPair: true, NoCooperative: noCooperative})
}

// Kafkajs starts the agent over kafkajs.
func Kafkajs(ctx context.Context) (*Client, error) {
	c, err := start(ctx, "kafkajs", "node", filepath.Join(peer.ModuleDir(), "clients", "node", "agent.js"))
	if err != nil {
		return nil, err
	}
	c.Features = Features{
		NoTail: true, GroupsOnly: true, HeaderMap: true, NoNullHeader: true, FutureIsEnd: true, NoStatic: noStatic, NoCooperative: noCooperative,
	}
	return c, nil
}

// Sarama starts the agent over sarama.
func Sarama(ctx context.Context) (*Client, error) {
	return program(ctx, "sarama", Features{Xerial: true, NoCooperative: noCooperative})
}

// KafkaGo starts the agent over kafka-go.
func KafkaGo(ctx context.Context) (*Client, error) {
	return program(ctx, "kafka-go", Features{
		Xerial: true, EmptyIsNull: true, ShowsControl: true, NoAppendTime: true, OldSubscriptions: true,
		NoIdempotence: "no idempotent producer", NoStatic: noStatic, NoCooperative: noCooperative,
	})
}

// program starts an agent that compat/install.sh builds under the client's name without the hyphen.
func program(ctx context.Context, name string, f Features) (*Client, error) {
	file := map[string]string{"sarama": "sarama", "kafka-go": "kafkago"}[name]
	c, err := start(ctx, name, filepath.Join(peer.ModuleDir(), "bin", file))
	if err != nil {
		return nil, err
	}
	c.Features = f
	return c, nil
}
