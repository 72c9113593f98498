package io.felixlog.compat.streams;

import java.time.Duration;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts the words of a topic of lines and writes each new count to another topic: the word is the key, the count a long of 8 bytes.
 * Words are grouped through the repartition topic APPLICATION-words-repartition; counts are kept in RocksDB and in the changelog topic
 * APPLICATION-counts-changelog.
 *
 * <p>Arguments are the bootstrap address, the lines' topic, the counts' topic, and name=value settings of Kafka Streams, or of the
 * changelog topic when they begin with "changelog.". SIGTERM closes the application; it then ends with exit code 0, or 1 when closing
 * took too long. An exception that a stream thread cannot live with ends it with 2.
 */
public final class WordCount {
    private static final String CHANGELOG = "changelog.";
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(20);

    private WordCount() {}

    /** Runs until SIGTERM, or until a stream thread fails. */
    public static void main(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        // Every update is written, so that the output shows each step, and the purge of repartition topics can be waited for.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        config.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, "1000");
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "6000");
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), "500");
        config.put(StreamsConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, "500");
        Map<String, String> changelog = new HashMap<>();
        for (String setting : Arrays.asList(args).subList(3, args.length)) {
            String[] pair = setting.split("=", 2);
            if (pair[0].startsWith(CHANGELOG)) {
                changelog.put(pair[0].substring(CHANGELOG.length()), pair[1]);
            } else {
                config.put(pair[0], pair[1]);
            }
        }
        KafkaStreams streams = new KafkaStreams(topology(args[1], args[2], changelog), config);
        AtomicBoolean failed = new AtomicBoolean();
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            failed.set(true);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println(LocalTime.now() + " state " + now);
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(2);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean closed = streams.close(CLOSE_LIMIT);
            // The exit code of a signal would say nothing of how the closing went.
            Runtime.getRuntime().halt(failed.get() ? 2 : closed ? 0 : 1);
        }));
        streams.start();
    }

    private static Topology topology(String lines, String counts, Map<String, String> changelog) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(lines, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withLoggingEnabled(changelog))
                .toStream()
                .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }
}
