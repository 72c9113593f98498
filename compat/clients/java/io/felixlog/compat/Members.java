package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a consumer group, and the admin client's side of groups. */
final class Members {
    private Members() {}

    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    /** Reports changes of ownership, in the thread that polls. */
    private static final class Listener implements ConsumerRebalanceListener {
        private final Consumer<ObjectNode> emit;
        private boolean ended;

        Listener(Consumer<ObjectNode> emit) {
            this.emit = emit;
        }

        private void owned(String what, Collection<TopicPartition> partitions) {
            ObjectNode event = Agent.JSON.createObjectNode().put("at", now());
            ArrayNode numbers = event.putObject("owned").putArray(what);
            partitions.forEach(tp -> numbers.add(tp.partition()));
            emit.accept(event);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!ended) {
                owned("revoked", partitions);
            }
        }
    }

    private static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    static void run(JsonNode request, AtomicBoolean stop, Consumer<ObjectNode> emit) {
        JsonNode group = request.path("group");
        boolean commit = group.path("commit").asBoolean();
        List<String> config = new ArrayList<>(List.of("group.id", group.path("id").asText(), "auto.offset.reset", "earliest",
                "enable.auto.commit", String.valueOf(!commit), "reconnect.backoff.max.ms", "500"));
        switch (group.path("assignor").asText()) {
            case "range" -> config.addAll(List.of("partition.assignment.strategy", ASSIGNORS + "RangeAssignor"));
            case "cooperative-sticky" -> config.addAll(List.of("partition.assignment.strategy", ASSIGNORS + "CooperativeStickyAssignor"));
            default -> { }
        }
        if (group.hasNonNull("instance")) {
            config.addAll(List.of("group.instance.id", group.path("instance").asText()));
        }
        int session = group.path("session_ms").asInt();
        if (session > 0) {
            config.addAll(List.of("session.timeout.ms", String.valueOf(session), "heartbeat.interval.ms", String.valueOf(session / 10)));
        }
        Listener listener = new Listener(emit);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Agent.config(request, config.toArray(String[]::new)),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(request.path("topic").asText()), listener);
            while (!stop.get()) {
                ConsumerRecords<byte[], byte[]> got = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> r : got) {
                    ObjectNode event = Agent.JSON.createObjectNode().put("at", now());
                    event.set("record", Records.node(r));
                    emit.accept(event);
                }
                if (commit && !got.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (CommitFailedException | RebalanceInProgressException e) {
                        // A commit that a rebalance overtook is the next owner's to make again.
                    }
                }
            }
            if (!consumer.assignment().isEmpty()) {
                listener.owned("revoked", consumer.assignment());
            }
            listener.ended = true;
        }
    }

    static void admin(String op, JsonNode request, ObjectNode response) throws Exception {
        String topic = request.path("topic").asText();
        String group = request.path("group").path("id").asText();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", request.path("bootstrap").asText()))) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            switch (op) {
                case "delete" -> admin.deleteTopics(List.of(topic)).all().get();
                case "alter" -> {
                    List<AlterConfigOp> ops = new ArrayList<>();
                    request.path("config").properties().forEach(f ->
                            ops.add(new AlterConfigOp(new ConfigEntry(f.getKey(), f.getValue().asText()), AlterConfigOp.OpType.SET)));
                    admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
                }
                case "configs" -> {
                    ObjectNode values = response.putObject("values");
                    admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().forEach(e -> values.put(e.name(), e.value()));
                }
                case "groups" -> {
                    ArrayNode groups = response.putArray("groups");
                    for (GroupListing g : admin.listGroups().all().get()) {
                        groups.addObject().put("id", g.groupId());
                    }
                }
                case "describe" -> {
                    ConsumerGroupDescription g = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                    ObjectNode info = response.putArray("groups").addObject().put("id", g.groupId()).put("state", g.groupState().toString());
                    ArrayNode members = info.putArray("members");
                    g.members().forEach(m -> members.add(m.clientId()));
                }
                case "delete-group" -> admin.deleteConsumerGroups(List.of(group)).all().get();
                case "reset" -> {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    request.path("assign").forEach(p ->
                            offsets.put(new TopicPartition(topic, p.asInt()), new OffsetAndMetadata(request.path("from").asLong())));
                    admin.alterConsumerGroupOffsets(group, offsets).all().get();
                }
                case "committed" -> {
                    Map<TopicPartition, OffsetAndMetadata> found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
                    ArrayNode offsets = response.putArray("offsets");
                    request.path("assign").forEach(p -> {
                        OffsetAndMetadata o = found.get(new TopicPartition(topic, p.asInt()));
                        offsets.add(o == null ? -1 : o.offset());
                    });
                }
                default -> throw new IllegalArgumentException("unknown operation " + op);
            }
        }
    }
}
