// Command rdkafka2 drives the current librdkafka inside confluent-kafka-go v2 by the line protocol of package agent. See rdkafka1.
package main

import (
	"fmt"
	"os"

	"github.com/felixlog/felix/compat/clients/agent"
)

func main() {
	if err := agent.Serve(os.Stdin, os.Stdout, library{}); err != nil {
		fmt.Fprintln(os.Stderr, "rdkafka2:", err)
		os.Exit(1)
	}
}
