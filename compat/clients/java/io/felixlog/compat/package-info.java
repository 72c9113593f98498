/**
 * The Java agent: Apache Kafka's own clients behind the line protocol of the Go package compat/clients/agent, which documents
 * every request and answer. Agent reads requests; Records produces and consumes; Admin, Cases and Load hold the rest.
 *
 * <p>Operations beyond the protocol: "java.admin" (every admin call the suite covers, results by name), "java.bulk" (many
 * records with the producer's defaults), "java.split" (a batch that the broker finds too large).
 */
package io.felixlog.compat;
