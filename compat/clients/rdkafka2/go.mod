module github.com/felixlog/felix/compat/clients/rdkafka2

go 1.26.0

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	github.com/felixlog/felix/compat/clients/agent v0.0.0
)

replace github.com/felixlog/felix/compat/clients/agent => ../agent
