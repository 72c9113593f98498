package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/** Java's admin client. */
final class Admin {
    private static final long WAIT_SECONDS = 30;

    private Admin() {}

    private static AdminClient client(JsonNode request) {
        return AdminClient.create(Agent.config(request));
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(WAIT_SECONDS, TimeUnit.SECONDS);
    }

    static void metadata(JsonNode request, ObjectNode response) throws Exception {
        try (AdminClient admin = client(request)) {
            ObjectNode metadata = response.putObject("metadata");
            ArrayNode brokers = metadata.putArray("brokers");
            for (Node n : get(admin.describeCluster().nodes())) {
                brokers.addObject().put("id", n.id()).put("host", n.host()).put("port", n.port());
            }
            Collection<String> names = request.path("topic").asText().isEmpty()
                    ? get(admin.listTopics(new ListTopicsOptions().listInternal(true)).names())
                    : List.of(request.path("topic").asText());
            ArrayNode topics = metadata.putArray("topics");
            for (TopicDescription d : get(admin.describeTopics(names).allTopicNames()).values()) {
                ObjectNode topic = topics.addObject().put("name", d.name());
                ArrayNode partitions = topic.putArray("partitions");
                for (TopicPartitionInfo p : d.partitions()) {
                    ObjectNode partition = partitions.addObject().put("id", p.partition())
                            .put("leader", p.leader() == null ? -1 : p.leader().id());
                    ids(partition.putArray("replicas"), p.replicas());
                    ids(partition.putArray("isr"), p.isr());
                }
            }
        }
    }

    private static void ids(ArrayNode array, List<Node> nodes) {
        nodes.forEach(n -> array.add(n.id()));
    }

    static void create(JsonNode request) throws Exception {
        // The config of a create request is the topic's, not the client's.
        Map<String, String> configs = new HashMap<>();
        request.path("config").properties().forEach(f -> configs.put(f.getKey(), f.getValue().asText()));
        try (AdminClient admin = AdminClient.create(Map.of("bootstrap.servers", request.path("bootstrap").asText()))) {
            NewTopic topic = new NewTopic(request.path("topic").asText(), request.path("partitions").asInt(), (short) 1);
            get(admin.createTopics(List.of(topic.configs(configs))).all());
        }
    }

    /**
     * Walks through the admin calls on a topic of its own, which a producer of the caller's has filled between "phase" 1 and 2.
     * Phase 1 creates and configures; phase 2 looks, deletes records, grows and deletes. Results go back by name.
     */
    static void round(JsonNode request, ObjectNode response) throws Exception {
        String topic = request.path("topic").asText();
        ObjectNode values = response.putObject("values");
        try (AdminClient admin = AdminClient.create(Map.of("bootstrap.servers", request.path("bootstrap").asText()))) {
            if (request.path("partition").asInt() == 1) {
                createAndConfigure(admin, topic, values);
            } else {
                look(admin, topic, values);
                shrinkGrowDelete(admin, topic, values);
            }
        }
    }

    private static void createAndConfigure(AdminClient admin, String topic, ObjectNode values) throws Exception {
        var created = admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "3600000"))));
        get(created.all());
        values.put("create.partitions", String.valueOf(get(created.numPartitions(topic))));
        values.put("create.replication", String.valueOf(get(created.replicationFactor(topic))));
        Config atCreation = get(created.config(topic));
        values.put("create.config.retention.ms", atCreation.get("retention.ms").value());
        values.put("create.config.count>20", String.valueOf(atCreation.entries().size() > 20));
        values.put("create.again", failure(admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all()));
        values.put("create.bad-config", failure(admin.createTopics(List.of(
                new NewTopic(topic + "-bad", 1, (short) 1).configs(Map.of("no.such.config", "1")))).all()));
        values.put("create.bad-replication", failure(admin.createTopics(List.of(new NewTopic(topic + "-rf", 1, (short) 9))).all()));

        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        entry(values, "describe.retention.ms", get(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms"));
        entry(values, "describe.cleanup.policy", get(admin.describeConfigs(List.of(resource)).all()).get(resource).get("cleanup.policy"));
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all());
        Config altered = await(admin, resource, "retention.ms", "7200000");
        entry(values, "alter.retention.ms", altered.get("retention.ms"));
        entry(values, "alter.cleanup.policy", altered.get("cleanup.policy"));
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT)))).all());
        Config reset = await(admin, resource, "retention.ms", "604800000");
        entry(values, "reset.retention.ms", reset.get("retention.ms"));
        values.put("reset.cleanup.policy", reset.get("cleanup.policy").value());
        values.put("alter.bad-name", failure(admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("no.such.config", "1"), AlterConfigOp.OpType.SET)))).all()));
        values.put("alter.bad-value", failure(admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all()));
    }

    /** Configs reach the broker's view a moment after the answer in Apache Kafka; waits for the value, and returns the last look. */
    private static Config await(AdminClient admin, ConfigResource resource, String name, String value) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (true) {
            Config config = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
            if (value.equals(config.get(name).value()) || System.nanoTime() > deadline) {
                return config;
            }
            Thread.sleep(20);
        }
    }

    private static void look(AdminClient admin, String topic, ObjectNode values) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        values.put("cluster.nodes", String.valueOf(get(cluster.nodes()).size()));
        values.put("cluster.controller-is-a-node", String.valueOf(get(cluster.nodes()).contains(get(cluster.controller()))));
        values.put("cluster.has-id", String.valueOf(!get(cluster.clusterId()).isEmpty()));

        TopicDescription description = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        values.put("topic.partitions", String.valueOf(description.partitions().size()));
        values.put("topic.has-id", String.valueOf(!description.topicId().equals(org.apache.kafka.common.Uuid.ZERO_UUID)));
        values.put("topic.internal", String.valueOf(description.isInternal()));
        values.put("topic.missing", failure(admin.describeTopics(List.of(topic + "-missing")).allTopicNames()));
        values.put("topics.listed", String.valueOf(get(admin.listTopics().names()).contains(topic)));

        Node node = get(cluster.nodes()).iterator().next();
        long size = -1;
        Map<String, LogDirDescription> dirs = get(admin.describeLogDirs(List.of(node.id())).allDescriptions()).get(node.id());
        for (LogDirDescription dir : dirs.values()) {
            var replica = dir.replicaInfos().get(new TopicPartition(topic, 0));
            size = replica == null ? size : replica.size();
        }
        values.put("logdirs.size>0", String.valueOf(size > 0));

        TopicPartition first = new TopicPartition(topic, 0);
        PartitionProducerState producers = get(admin.describeProducers(List.of(first)).partitionResult(first));
        values.put("producers.count", String.valueOf(producers.activeProducers().size()));
        producers.activeProducers().forEach(p -> {
            values.put("producers.last-sequence", String.valueOf(p.lastSequence()));
            values.put("producers.epoch", String.valueOf(p.producerEpoch()));
            values.put("producers.transaction", String.valueOf(p.currentTransactionStartOffset()));
        });
    }

    private static void shrinkGrowDelete(AdminClient admin, String topic, ObjectNode values) throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        values.put("delete-records.low-watermark", String.valueOf(
                get(admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(first)).lowWatermark()));
        values.put("delete-records.beyond", failure(admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1_000_000))).all()));
        values.put("offsets.earliest", String.valueOf(get(admin.listOffsets(Map.of(first, OffsetSpec.earliest())).partitionResult(first)).offset()));
        values.put("offsets.latest", String.valueOf(get(admin.listOffsets(Map.of(first, OffsetSpec.latest())).partitionResult(first)).offset()));
        values.put("offsets.max-timestamp", String.valueOf(get(admin.listOffsets(Map.of(first, OffsetSpec.maxTimestamp())).partitionResult(first)).offset()));

        values.put("grow.fewer", failure(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all()));
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
        int partitions = 0;
        for (long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); partitions != 5 && System.nanoTime() < deadline; ) {
            partitions = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
        }
        values.put("grow.partitions", String.valueOf(partitions));

        get(admin.deleteTopics(List.of(topic)).all());
        boolean listed = true;
        for (long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); listed && System.nanoTime() < deadline; ) {
            Set<String> names = get(admin.listTopics().names());
            listed = names.contains(topic);
        }
        values.put("delete.listed", String.valueOf(listed));
        values.put("delete.again", failure(admin.deleteTopics(List.of(topic)).all()));
    }

    private static void entry(ObjectNode values, String name, ConfigEntry e) {
        values.put(name, e.value() + " " + e.source());
    }

    /** The name of the error that a call fails with, or "none". */
    private static String failure(KafkaFuture<?> future) throws Exception {
        try {
            get(future);
            return "none";
        } catch (ExecutionException e) {
            return Errors.forException(e.getCause()).name();
        }
    }
}
