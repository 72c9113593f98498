package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces and consumes records as the protocol describes them. */
final class Records {
    private Records() {}

    static KafkaProducer<byte[], byte[]> producer(JsonNode request, String... defaults) {
        return new KafkaProducer<>(Agent.config(request, defaults), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return new KafkaConsumer<>(Agent.config(request, "auto.offset.reset", "none"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void produce(JsonNode request, ObjectNode response) throws Exception {
        String topic = request.path("topic").asText();
        String codec = request.path("codec").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(request,
                "linger.ms", "100", "compression.type", codec.isEmpty() ? "none" : codec)) {
            for (JsonNode r : request.path("records")) {
                sent.add(producer.send(record(topic, r)));
            }
            producer.flush();
            ArrayNode offsets = response.putArray("offsets");
            for (Future<RecordMetadata> f : sent) {
                offsets.add(f.get(Agent.timeoutMs(request), TimeUnit.MILLISECONDS).offset());
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode r) throws IOException {
        long timestamp = r.path("timestamp").asLong();
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, r.path("partition").asInt(),
                timestamp == 0 ? null : timestamp, bytes(r.path("key")), bytes(r.path("value")));
        for (JsonNode h : r.path("headers")) {
            record.headers().add(h.path("key").asText(), bytes(h.path("value")));
        }
        return record;
    }

    /** Base64 text to bytes; a JSON null, or nothing, is null. */
    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() || node.isMissingNode() ? null : node.binaryValue();
    }

    static void consume(JsonNode request, ObjectNode response) {
        List<TopicPartition> assignment = assignment(request);
        long from = request.path("from").asLong();
        long deadline = System.nanoTime() + Duration.ofMillis(Agent.timeoutMs(request)).toNanos();
        ArrayNode records = response.putArray("records");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(assignment);
            if (from == -2) {
                consumer.seekToBeginning(assignment);
            } else {
                assignment.forEach(tp -> consumer.seek(tp, from));
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(assignment);
            while (assignment.stream().anyMatch(tp -> consumer.position(tp) < ends.get(tp))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not at the end after " + records.size() + " records; ends are " + ends);
                }
                consumer.poll(Duration.ofMillis(100)).forEach(r -> records.add(node(r)));
            }
        }
    }

    static ObjectNode node(ConsumerRecord<byte[], byte[]> r) {
        ObjectNode node = Agent.JSON.createObjectNode();
        node.put("partition", r.partition()).put("offset", r.offset()).put("timestamp", r.timestamp());
        node.put("key", r.key()).put("value", r.value());
        if (r.headers().iterator().hasNext()) {
            ArrayNode headers = node.putArray("headers");
            for (Header h : r.headers()) {
                headers.addObject().put("key", h.key()).put("value", h.value());
            }
        }
        return node;
    }

    static void offsets(JsonNode request, ObjectNode response) {
        TopicPartition tp = new TopicPartition(request.path("topic").asText(), request.path("partition").asInt());
        ArrayNode offsets = response.putArray("offsets");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            for (JsonNode time : request.path("times")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(tp, time.asLong())).get(tp);
                offsets.add(found == null ? -1 : found.offset());
            }
        }
    }

    static void watermarks(JsonNode request, ObjectNode response) {
        TopicPartition tp = new TopicPartition(request.path("topic").asText(), request.path("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            response.putArray("offsets")
                    .add(consumer.beginningOffsets(List.of(tp)).get(tp))
                    .add(consumer.endOffsets(List.of(tp)).get(tp));
        }
    }

    static void tail(JsonNode request, AtomicBoolean stop, Consumer<ObjectNode> emit) {
        List<TopicPartition> assignment = assignment(request);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(assignment);
            consumer.seekToEnd(assignment);
            assignment.forEach(consumer::position);
            emit.accept(Agent.JSON.createObjectNode().put("ready", true));
            while (!stop.get()) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(100))) {
                    ObjectNode event = Agent.JSON.createObjectNode();
                    event.set("record", node(r));
                    emit.accept(event);
                }
            }
        }
    }

    private static List<TopicPartition> assignment(JsonNode request) {
        List<TopicPartition> assignment = new ArrayList<>();
        request.path("assign").forEach(p -> assignment.add(new TopicPartition(request.path("topic").asText(), p.asInt())));
        return assignment;
    }
}
