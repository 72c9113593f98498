// Command rdkafka1 drives the librdkafka inside confluent-kafka-go v1.9.2 (librdkafka 1.9.2, the age of Debian's and of many
// frozen deployments) by the line protocol of package agent. rdkafka2 is the same program over a current librdkafka; its client.go,
// consumer.go and member.go are generated from these by `go generate`, so that both do the same.
package main

import (
	"fmt"
	"os"

	"github.com/felixlog/felix/compat/clients/agent"
)

//go:generate sh ../generate.sh

func main() {
	if err := agent.Serve(os.Stdin, os.Stdout, library{}); err != nil {
		fmt.Fprintln(os.Stderr, "rdkafka1:", err)
		os.Exit(1)
	}
}
