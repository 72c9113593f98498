#!/bin/sh
# Writes what is generated here, run by `go generate` in rdkafka1: rdkafka2's sources from rdkafka1's (the same program over the other
# librdkafka), and the documents of the clients from results/.
set -eu
cd "$(dirname "$0")"
for file in client.go consumer.go member.go; do
  {
    echo '// Code generated from ../rdkafka1 by generate.sh. DO NOT EDIT.'
    echo
    sed 's#confluentinc/confluent-kafka-go/kafka#confluentinc/confluent-kafka-go/v2/kafka#' "rdkafka1/$file"
  } >"rdkafka2/$file"
done
go test -count=1 -run '^TestDocuments$' ./report -rewrite
