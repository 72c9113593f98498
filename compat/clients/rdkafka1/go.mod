module github.com/felixlog/felix/compat/clients/rdkafka1

go 1.26.0

require (
	github.com/confluentinc/confluent-kafka-go v1.9.2
	github.com/felixlog/felix/compat/clients/agent v0.0.0
)

replace github.com/felixlog/felix/compat/clients/agent => ../agent
