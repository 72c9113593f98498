package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Single cases that only the Java producer can show. */
final class Cases {
    private Cases() {}

    /** Case 29: many records with the producer's defaults; the value is the record's number within its partition. */
    static void bulk(JsonNode request, ObjectNode response) throws Exception {
        String topic = request.path("topic").asText();
        int partitions = request.path("partitions").asInt();
        long count = request.path("from").asLong();
        AtomicLong acknowledged = new AtomicLong();
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = Records.producer(request)) {
            for (long i = 0; i < count; i++) {
                byte[] value = Long.toString(i / partitions).getBytes(StandardCharsets.US_ASCII);
                producer.send(new ProducerRecord<>(topic, (int) (i % partitions), null, value), (metadata, error) -> {
                    if (error == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        failed.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        response.putArray("offsets").add(acknowledged.get());
    }

    /** Case 25: gathers more in one batch than the topic takes; the producer must split it and succeed. */
    static void split(JsonNode request, ObjectNode response) throws Exception {
        String topic = request.path("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        // Incompressible-looking text is not needed: without a codec the batch is as large as its records.
        String filler = "x".repeat(2000);
        try (KafkaProducer<byte[], byte[]> producer = Records.producer(request,
                "batch.size", "400000", "linger.ms", "500", "max.request.size", "1000000")) {
            producer.partitionsFor(topic);
            for (int i = 0; i < 150; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, (i + "/" + filler).getBytes(StandardCharsets.US_ASCII))));
            }
            producer.flush();
            var offsets = response.putArray("offsets");
            for (Future<RecordMetadata> f : sent) {
                offsets.add(f.get().offset());
            }
            ObjectNode metrics = response.putObject("metrics");
            producer.metrics().forEach((name, metric) -> {
                if (name.group().equals("producer-metrics") && name.name().equals("batch-split-total")) {
                    metrics.put(name.name(), ((Number) metric.metricValue()).doubleValue());
                }
            });
        }
    }
}
