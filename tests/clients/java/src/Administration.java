package clients;

import static clients.Facts.CONNECTION;
import static clients.Facts.FACTOR;
import static clients.Facts.NODES;
import static clients.Facts.equal;
import static clients.Facts.fails;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;
import static clients.Facts.waitFor;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeReplicaLogDirsResult.ReplicaLogDirInfo;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The admin client: topics, settings, records, offsets, directories, producers, the cluster. */
final class Administration implements AutoCloseable {
    private final Admin admin = Admin.create(CONNECTION);

    void register(Facts facts) {
        facts.add("admin_creates_describes_and_deletes_topics", this::topics);
        facts.add("admin_reports_what_cannot_be_made", this::cannotBeMade);
        facts.add("admin_adds_partitions", this::partitions);
        facts.add("admin_describes_and_alters_topic_settings", this::topicSettings);
        facts.add("admin_describes_and_alters_broker_settings", this::brokerSettings);
        facts.add("admin_deletes_records", this::deleteRecords);
        facts.add("admin_lists_offsets_of_every_kind", this::listOffsets);
        facts.add("admin_describes_log_dirs", this::logDirs);
        facts.add("admin_moves_a_partition_that_is_written_to_another_log_dir", this::moveBetweenLogDirs);
        facts.add("admin_is_told_which_replicas_cannot_move", this::cannotMove);
        facts.add("admin_describes_producers", this::producers);
        facts.add("admin_describes_the_cluster", this::cluster);
        facts.add("admin_lists_config_resources", this::configResources);
    }

    String create(String prefix, int partitions, Map<String, String> settings) throws Exception {
        String name = newName(prefix);
        // Some records are from 1970: without a retention they stay.
        Map<String, String> kept = settings.isEmpty() ? Map.of("retention.ms", "-1") : settings;
        return made(new NewTopic(name, partitions, FACTOR).configs(kept), partitions);
    }

    /** A topic that one node leads: what is asked of a node is asked of this one. */
    private String createOn(int node, String prefix, int partitions) throws Exception {
        Map<Integer, List<Integer>> places = new HashMap<>();
        for (int p = 0; p < partitions; p++) {
            places.put(p, List.of(node));
        }
        return made(new NewTopic(newName(prefix), places).configs(Map.of("retention.ms", "-1")), partitions);
    }

    private String made(NewTopic topic, int partitions) throws Exception {
        String name = topic.name();
        Facts.made(make(topic));
        waitFor("leaders of " + name, () -> {
            try {
                // Kafka shows a leader in its metadata before the leader serves; a pipelining producer must not meet that.
                for (int p = 0; p < partitions; p++) {
                    offset(new TopicPartition(name, p), OffsetSpec.latest());
                }
                return true;
            } catch (java.util.concurrent.ExecutionException notYet) {
                return false;
            }
        });
        return name;
    }

    Set<String> names() throws Exception {
        return get(admin.listTopics().names());
    }

    private static void fill(String topic, long... stamps) throws Exception {
        try (Producer<byte[], byte[]> p = Records.producer(Map.of())) {
            for (long stamp : stamps) {
                p.send(new ProducerRecord<>(topic, 0, stamp, null, new byte[] {1})).get();
            }
        }
    }

    private void topics() throws Exception {
        String name = newName("made");
        NewTopic wanted = new NewTopic(name, Optional.of(3), Optional.empty()).configs(Map.of("retention.ms", "3600000"));
        CreateTopicsResult made = admin.createTopics(List.of(wanted));
        equal(get(made.numPartitions(name)), 3, "partitions");
        equal(get(made.replicationFactor(name)), (int) FACTOR, "replication factor");
        equal(get(made.config(name)).get("retention.ms").value(), "3600000", "setting");
        Uuid id = get(made.topicId(name));
        waitFor("the topic by id", () -> {
            try {
                KafkaFuture<Map<Uuid, TopicDescription>> byId =
                        admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds();
                return get(byId).get(id).name().equals(name);
            } catch (java.util.concurrent.ExecutionException notYet) {
                return false;
            }
        });
        TopicDescription seen = get(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
        equal(seen.topicId(), id, "topic id");
        equal(seen.partitions().size(), 3, "partitions");
        int inSync = seen.partitions().get(2).isr().size();
        that(Math.max(1, FACTOR - 1) <= inSync && inSync <= FACTOR, "in sync: " + inSync);
        equal(seen.isInternal(), false, "internal");
        get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        waitFor("the topic to go", () -> !names().contains(name));
        fails(admin.describeTopics(List.of(name)).allTopicNames(), UnknownTopicOrPartitionException.class, "describe");
        fails(admin.deleteTopics(List.of(name)).all(), UnknownTopicOrPartitionException.class, "delete again");
    }

    private void cannotBeMade() throws Exception {
        String twin = create("twin", 1, Map.of());
        fails(make(new NewTopic(twin, 1, (short) 1)), TopicExistsException.class, "a name that exists");
        fails(make(new NewTopic("bad/name", 1, (short) 1)), InvalidTopicException.class, "a bad name");
        fails(make(new NewTopic(newName("zero"), 0, (short) 1)), InvalidPartitionsException.class, "no partitions");
        fails(make(new NewTopic(newName("wide"), 1, (short) (NODES.size() + 2))), InvalidReplicationFactorException.class, "more replicas than nodes");
        fails(make(new NewTopic(newName("odd"), 1, (short) 1).configs(Map.of("no.such.setting", "1"))),
                InvalidConfigurationException.class, "an unknown setting");
        fails(make(new NewTopic(newName("bad"), 1, (short) 1).configs(Map.of("retention.ms", "soon"))),
                InvalidConfigurationException.class, "a bad value");
        String dry = newName("dry");
        get(admin.createTopics(List.of(new NewTopic(dry, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all());
        that(!names().contains(dry), "a validation made the topic");
        String placed = newName("placed");
        int node = get(admin.describeCluster().controller()).id();
        get(make(new NewTopic(placed, Map.of(0, List.of(node), 1, List.of(node)))));
        waitFor("the placed topic", () -> names().contains(placed));
    }

    private KafkaFuture<Void> make(NewTopic topic) {
        return admin.createTopics(List.of(topic)).all();
    }

    private void partitions() throws Exception {
        String name = create("grow", 1, Map.of());
        get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all());
        waitFor("four partitions",
                () -> get(admin.describeTopics(List.of(name)).allTopicNames()).get(name).partitions().size() == 4);
        for (int count : new int[] {4, 2}) {
            fails(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(count))).all(),
                    InvalidPartitionsException.class, "to " + count);
        }
        fails(admin.createPartitions(Map.of(newName("nosuch"), NewPartitions.increaseTo(4))).all(),
                UnknownTopicOrPartitionException.class, "an unknown topic");
    }

    private Config settings(ConfigResource resource) throws Exception {
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return get(admin.describeConfigs(List.of(resource), all).all()).get(resource);
    }

    private KafkaFuture<Void> alter(ConfigResource resource, AlterConfigOp... changes) {
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(changes))).all();
    }

    private static AlterConfigOp op(AlterConfigOp.OpType type, String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private void topicSettings() throws Exception {
        ConfigResource topic = new ConfigResource(Type.TOPIC, create("settings", 1, Map.of("retention.ms", "7200000")));
        Config first = settings(topic);
        equal(first.get("retention.ms").source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source");
        equal(first.get("retention.ms").type(), ConfigEntry.ConfigType.LONG, "type");
        equal(first.get("segment.bytes").isDefault(), true, "default");
        equal(first.get("cleanup.policy").type(), ConfigEntry.ConfigType.LIST, "type of a list");
        that(first.get("retention.ms").documentation().length() > 20, "no documentation");
        that(first.entries().size() >= 30, "only " + first.entries().size() + " settings");
        get(alter(topic, op(AlterConfigOp.OpType.SET, "segment.bytes", "2097152"), op(AlterConfigOp.OpType.DELETE, "retention.ms", "")));
        waitFor("the change", () -> settings(topic).get("segment.bytes").value().equals("2097152"));
        equal(settings(topic).get("retention.ms").value(), "604800000", "deleted");
        get(alter(topic, op(AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact")));
        waitFor("appended", () -> settings(topic).get("cleanup.policy").value().equals("delete,compact"));
        fails(alter(topic, op(AlterConfigOp.OpType.SET, "segment.bytes", "many")), InvalidConfigurationException.class, "a bad value");
        fails(alter(topic, op(AlterConfigOp.OpType.SET, "no.such.setting", "1")), InvalidConfigurationException.class, "unknown");
        ConfigResource missing = new ConfigResource(Type.TOPIC, newName("nosuch"));
        fails(alter(missing, op(AlterConfigOp.OpType.SET, "retention.ms", "1")), UnknownTopicOrPartitionException.class, "no topic");
        fails(admin.describeConfigs(List.of(missing)).all(), UnknownTopicOrPartitionException.class, "describe of no topic");
        get(admin.incrementalAlterConfigs(Map.of(topic, List.of(op(AlterConfigOp.OpType.SET, "retention.ms", "1000"))),
                new AlterConfigsOptions().validateOnly(true)).all());
        equal(settings(topic).get("retention.ms").value(), "604800000", "after a validation");
    }

    private void brokerSettings() throws Exception {
        ConfigResource broker = new ConfigResource(Type.BROKER, "" + get(admin.describeCluster().controller()).id());
        Config first = settings(broker);
        equal(first.get("message.max.bytes").value(), "1048588", "message.max.bytes");
        that(first.get("log.dirs") != null && first.get("log.dirs").isReadOnly(), "log.dirs is read only");
        get(alter(broker, op(AlterConfigOp.OpType.SET, "log.retention.bytes", "123456789")));
        waitFor("the change", () -> settings(broker).get("log.retention.bytes").value().equals("123456789"));
        equal(settings(broker).get("log.retention.bytes").source(), ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, "source");
        ConfigResource topic = new ConfigResource(Type.TOPIC, create("inherits", 1, Map.of()));
        waitFor("inherited", () -> settings(topic).get("retention.bytes").value().equals("123456789"));
        get(alter(broker, op(AlterConfigOp.OpType.DELETE, "log.retention.bytes", "")));
        waitFor("the default", () -> settings(broker).get("log.retention.bytes").value().equals("-1"));
    }

    private void deleteRecords() throws Exception {
        String name = create("trim", 1, Map.of());
        fill(name, 1, 2, 3, 4, 5);
        TopicPartition partition = new TopicPartition(name, 0);
        equal(get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(3))).lowWatermarks().get(partition))
                .lowWatermark(), 3L, "low watermark");
        equal(offset(partition, OffsetSpec.earliest()).offset(), 3L, "start");
        fails(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(6))).all(), OffsetOutOfRangeException.class, "past");
        equal(get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(partition))
                .lowWatermark(), 5L, "all");
    }

    private ListOffsetsResultInfo offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition));
    }

    private void listOffsets() throws Exception {
        String name = create("offsets", 1, Map.of());
        TopicPartition partition = new TopicPartition(name, 0);
        equal(offset(partition, OffsetSpec.maxTimestamp()).offset(), -1L, "largest time of an empty log");
        fill(name, 100, 300, 200, 400, 400, 50);
        equal(offset(partition, OffsetSpec.earliest()).offset(), 0L, "earliest");
        equal(offset(partition, OffsetSpec.latest()).offset(), 6L, "latest");
        equal(offset(partition, OffsetSpec.maxTimestamp()).offset(), 3L, "largest time");
        equal(offset(partition, OffsetSpec.maxTimestamp()).timestamp(), 400L, "largest time");
        equal(offset(partition, OffsetSpec.earliestLocal()).offset(), 0L, "earliest local");
        equal(offset(partition, OffsetSpec.latestTiered()).offset(), -1L, "latest tiered");
        equal(offset(partition, OffsetSpec.forTimestamp(101)).offset(), 1L, "first at 101");
        equal(offset(partition, OffsetSpec.forTimestamp(301)).offset(), 3L, "first at 301");
        equal(offset(partition, OffsetSpec.forTimestamp(401)).offset(), -1L, "first at 401");
        that(offset(partition, OffsetSpec.latest()).leaderEpoch().isPresent(), "no leader epoch");
    }

    private void logDirs() throws Exception {
        int node = get(admin.describeCluster().controller()).id();
        String name = createOn(node, "dirs", 2);
        fill(name, 1, 2, 3);
        Map<String, LogDirDescription> dirs = get(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node);
        long size = 0;
        List<TopicPartition> found = new ArrayList<>();
        for (LogDirDescription dir : dirs.values()) {
            that(dir.error() == null, "an error");
            that(dir.totalBytes().getAsLong() > dir.usableBytes().getAsLong(), "volume sizes");
            for (Map.Entry<TopicPartition, org.apache.kafka.clients.admin.ReplicaInfo> e : dir.replicaInfos().entrySet()) {
                if (e.getKey().topic().equals(name)) {
                    found.add(e.getKey());
                    size += e.getValue().size();
                }
            }
        }
        equal(found.size(), 2, "partitions");
        that(size > 100, size + " bytes");
    }

    /** Directories of the broker, and of a replica that it has: where it is, and where it is on its way to. */
    private List<String> dirs(int node) throws Exception {
        return List.copyOf(get(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node).keySet());
    }

    private ReplicaLogDirInfo place(TopicPartitionReplica replica) throws Exception {
        return get(admin.describeReplicaLogDirs(List.of(replica)).all()).get(replica);
    }

    private void moveBetweenLogDirs() throws Exception {
        int node = get(admin.describeCluster().controller()).id();
        String name = createOn(node, "moved", 1);
        TopicPartitionReplica replica = new TopicPartitionReplica(name, 0, node);
        List<String> dirs = dirs(node);
        String home = place(replica).getCurrentReplicaLogDir();
        // Where it is already there is nothing to do, however many directories there are.
        get(admin.alterReplicaLogDirs(Map.of(replica, home)).all());
        that(place(replica).getFutureReplicaLogDir() == null, "it moves to where it is");
        Optional<String> other = dirs.stream().filter(dir -> !dir.equals(home)).findFirst();
        if (other.isEmpty()) {
            return;
        }
        long sent = 0;
        try (Producer<byte[], byte[]> producer = Records.producer(Map.of("linger.ms", 0, "retries", 0))) {
            byte[] value = new byte[10_000];
            for (; sent < 200; sent++) {
                producer.send(new ProducerRecord<>(name, value));
            }
            get(admin.alterReplicaLogDirs(Map.of(replica, other.get())).all());
            while (!place(replica).getCurrentReplicaLogDir().equals(other.get())) {
                equal(producer.send(new ProducerRecord<>(name, value)).get().offset(), sent, "offset of a record on the way");
                sent++;
            }
            equal(producer.send(new ProducerRecord<>(name, value)).get().offset(), sent, "offset of a record after the move");
            sent++;
        }
        equal(place(replica).getFutureReplicaLogDir(), null, "still on its way");
        TopicPartition partition = new TopicPartition(name, 0);
        equal(offset(partition, OffsetSpec.earliest()).offset(), 0L, "log start");
        equal(offset(partition, OffsetSpec.latest()).offset(), sent, "log end");
    }

    private KafkaFuture<Void> move(int node, String topic, int partition, String dir) {
        return admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, partition, node), dir)).all();
    }

    private void cannotMove() throws Exception {
        int node = get(admin.describeCluster().controller()).id();
        String name = createOn(node, "rests", 1);
        String home = place(new TopicPartitionReplica(name, 0, node)).getCurrentReplicaLogDir();
        fails(move(node, name, 0, home + "-none"), LogDirNotFoundException.class, "no such directory");
        fails(move(node, name, 7, home), UnknownTopicOrPartitionException.class, "no such partition");
        // With what is added to it on its way the directory's name would be too long for a file.
        fails(move(node, "l".repeat(214), 0, home), InvalidTopicException.class, "a long name");
        String wanted = newName("wanted");
        fails(move(node, wanted, 0, home), UnknownTopicOrPartitionException.class, "no such topic");
        get(make(new NewTopic(wanted, Map.of(0, List.of(node)))));
        waitFor(wanted + " in " + home,
            () -> home.equals(place(new TopicPartitionReplica(wanted, 0, node)).getCurrentReplicaLogDir()));
    }

    private void producers() throws Exception {
        String name = create("producers", 1, Map.of());
        fill(name, 1, 2, 3);
        TopicPartition partition = new TopicPartition(name, 0);
        List<ProducerState> active = get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
        equal(active.size(), 1, "producers");
        equal(active.get(0).lastSequence(), 2, "last sequence");
        equal(active.get(0).producerEpoch(), 0, "epoch");
        that(active.get(0).currentTransactionStartOffset().isEmpty(), "a transaction");
    }

    private void cluster() throws Exception {
        that(!get(admin.describeCluster().clusterId()).isEmpty(), "no cluster id");
        Collection<Node> nodes = get(admin.describeCluster().nodes());
        equal(nodes.stream().map(node -> node.host() + ":" + node.port()).sorted().toList(), NODES.stream().sorted().toList(), "addresses");
        that(nodes.contains(get(admin.describeCluster().controller())), "the controller is no node");
    }

    private void configResources() throws Exception {
        String name = create("resources", 1, Map.of());
        var listed = get(admin.listConfigResources(Set.of(Type.TOPIC),
                new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all());
        that(listed.contains(new ConfigResource(Type.TOPIC, name)), "the topic is missing");
    }

    @Override
    public void close() {
        admin.close();
    }
}
