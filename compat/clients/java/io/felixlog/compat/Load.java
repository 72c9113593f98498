package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.protocol.Errors;

/** A steady stream of numbered records from an idempotent producer that never gives one up. */
final class Load {
    private record Answer(int partition, long sequence, long offset, Exception error) {}

    /** agent.DrainLimit. */
    private static final long DRAIN_LIMIT_NANOS = 60_000_000_000L;

    private Load() {}

    static void run(JsonNode request, AtomicBoolean stop, ObjectNode response, Consumer<ObjectNode> emit) throws Exception {
        JsonNode load = request.path("load");
        String topic = request.path("topic").asText();
        String name = load.path("name").asText();
        int size = load.path("size").asInt();
        int window = load.path("max_inflight").asInt();
        int rate = load.path("rate").asInt();
        long[] next = new long[load.path("first").size()];
        for (int i = 0; i < next.length; i++) {
            next[i] = load.path("first").get(i).asLong();
        }
        LinkedBlockingQueue<Answer> answers = new LinkedBlockingQueue<>();
        // Defaults are idempotent with acks=all; only the giving up is put off.
        try (KafkaProducer<byte[], byte[]> producer = Records.producer(request,
                "linger.ms", "5", "delivery.timeout.ms", String.valueOf(Integer.MAX_VALUE),
                "max.block.ms", String.valueOf(Integer.MAX_VALUE), "reconnect.backoff.max.ms", "500",
                "retry.backoff.max.ms", "500")) {
            long start = System.nanoTime();
            long interval = rate > 0 ? 1_000_000_000L / rate : 0;
            long sent = 0;
            int inFlight = 0;
            long drainUntil = 0;
            while (!stop.get() || inFlight > 0) {
                if (stop.get()) {
                    drainUntil = drainUntil == 0 ? System.nanoTime() + DRAIN_LIMIT_NANOS : drainUntil;
                    if (System.nanoTime() > drainUntil) {
                        producer.close(Duration.ZERO);
                        throw new IllegalStateException("load: " + inFlight + " records without an answer");
                    }
                }
                while (!stop.get() && inFlight < window && System.nanoTime() - start >= sent * interval) {
                    int partition = (int) (sent % next.length);
                    long sequence = next[partition]++;
                    byte[] value = value(name, partition, sequence, size);
                    producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) ->
                            answers.add(new Answer(partition, sequence, error == null ? metadata.offset() : -1, error)));
                    sent++;
                    inFlight++;
                    long late = System.nanoTime() - start - sent * interval;
                    if (late > 100_000_000L) {
                        start += late;
                    }
                }
                List<Answer> batch = new ArrayList<>();
                Answer first = answers.poll(1, TimeUnit.MILLISECONDS);
                if (first != null) {
                    batch.add(first);
                    answers.drainTo(batch);
                    inFlight -= batch.size();
                    report(batch, emit);
                } else if (interval > 0 && inFlight < window) {
                    LockSupport.parkNanos(Math.min(1_000_000L, Math.max(0, start + sent * interval - System.nanoTime())));
                }
            }
        }
        ArrayNode out = response.putArray("next");
        for (long n : next) {
            out.add(n);
        }
    }

    private static void report(List<Answer> batch, Consumer<ObjectNode> emit) {
        ObjectNode event = Agent.JSON.createObjectNode();
        ArrayNode acks = event.putArray("acks");
        for (Answer a : batch) {
            if (a.error == null) {
                acks.addObject().put("p", a.partition).put("s", a.sequence).put("o", a.offset);
            } else {
                emit.accept(Agent.JSON.createObjectNode()
                        .put("failed", "partition " + a.partition + " sequence " + a.sequence + ": " + a.error)
                        .put("code", Errors.forException(a.error).code()));
            }
        }
        if (!acks.isEmpty()) {
            emit.accept(event);
        }
    }

    /** The same bytes as agent.LoadValue. */
    private static byte[] value(String name, int partition, long sequence, int size) {
        StringBuilder b = new StringBuilder(size);
        b.append(name).append('/').append(partition).append('/').append(sequence).append('/');
        while (b.length() < size) {
            b.append((char) ('a' + b.length() % 26));
        }
        return b.toString().getBytes(StandardCharsets.US_ASCII);
    }
}
