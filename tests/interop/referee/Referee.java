// The controller of Apache Kafka decides what a line of standard input asks for, and says which records it writes.
//
// Lies in Kafka's own package because the managers that decide are visible there alone. Lines and answers are those of
// crates/meta/examples/decisions.rs. After each decision the records that the other side wrote are replayed, so that both go on
// from the same state even where they differ.

package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.timeline.SnapshotRegistry;

public final class Referee {
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();
    private static final HexFormat HEX = HexFormat.of();

    private final FeatureControlManager features;
    private final ConfigurationControlManager configs;
    private final ClusterControlManager cluster;
    private final ReplicationControlManager replication;
    private final Map<Integer, Long> registeredAt = new HashMap<>();
    private long offset = 0;

    private Referee() {
        LogContext context = new LogContext();
        SnapshotRegistry registry = new SnapshotRegistry(context);
        features = new FeatureControlManager.Builder().
            setLogContext(context).
            setSnapshotRegistry(registry).
            setQuorumFeatures(new QuorumFeatures(
                0, QuorumFeatures.defaultSupportedFeatureMap(false), List.of(0))).
            build();
        KafkaConfigSchema schema = new KafkaConfigSchema(
            Map.of(ConfigResource.Type.TOPIC, LogConfig.configDefCopy()),
            ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS);
        configs = new ConfigurationControlManager.Builder().
            setLogContext(context).
            setSnapshotRegistry(registry).
            setFeatureControl(features).
            setKafkaConfigSchema(schema).
            build();
        ReplicationControlManager[] later = new ReplicationControlManager[1];
        cluster = new ClusterControlManager.Builder().
            setLogContext(context).
            setSnapshotRegistry(registry).
            setClusterId("c").
            setFeatureControlManager(features).
            setBrokerShutdownHandler((id, isClean, records) ->
                later[0].handleBrokerShutdown(id, isClean, records)).
            build();
        replication = new ReplicationControlManager.Builder().
            setLogContext(context).
            setSnapshotRegistry(registry).
            setConfigurationControl(configs).
            setClusterControl(cluster).
            setFeatureControl(features).
            build();
        later[0] = replication;
        cluster.activate();
    }

    private void replay(String hex) {
        byte[] bytes = HEX.parseHex(hex);
        ApiMessage message = SERDE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(bytes)), bytes.length).message();
        if (message instanceof RegisterBrokerRecord record) {
            cluster.replay(record, offset);
            registeredAt.put(record.brokerId(), offset);
        } else if (message instanceof UnregisterBrokerRecord record) {
            cluster.replay(record);
        } else if (message instanceof BrokerRegistrationChangeRecord record) {
            cluster.replay(record);
        } else if (message instanceof FeatureLevelRecord record) {
            features.replay(record);
        } else if (message instanceof ConfigRecord record) {
            configs.replay(record);
        } else if (message instanceof TopicRecord record) {
            replication.replay(record);
        } else if (message instanceof PartitionRecord record) {
            replication.replay(record);
        } else if (message instanceof PartitionChangeRecord record) {
            replication.replay(record);
        } else {
            throw new IllegalArgumentException("no decision here writes " + message);
        }
        offset++;
    }

    /** The records and the answer of a decision. */
    private record Decided(List<ApiMessageAndVersion> records, String answer) {
    }

    private Decided decide(String[] words) {
        return switch (words[0]) {
            case "fence" -> {
                List<ApiMessageAndVersion> records = new ArrayList<>();
                replication.handleBrokerFenced(Integer.parseInt(words[1]), records);
                cluster.heartbeatManager().fence(Integer.parseInt(words[1]));
                yield new Decided(records, "done");
            }
            case "unregister" ->
                new Decided(replication.unregisterBroker(Integer.parseInt(words[1])).records(), "done");
            case "register" -> register(words);
            case "beat" -> beat(words);
            case "alter" -> alter(words);
            case "assign" -> assign(words);
            case "elect" -> elect(words);
            default -> throw new IllegalArgumentException("unknown: " + words[0]);
        };
    }

    private Decided register(String[] words) {
        BrokerRegistrationRequestData request = new BrokerRegistrationRequestData().
            setBrokerId(Integer.parseInt(words[1])).
            setClusterId("c").
            setIncarnationId(uuid(words[2])).
            setPreviousBrokerEpoch(Long.parseLong(words[3])).
            setRack(words[4].equals("-") ? null : words[4]).
            setLogDirs(uuids(words[5]));
        for (String feature : list(words[6])) {
            String[] parts = feature.split(":");
            request.features().add(new BrokerRegistrationRequestData.Feature().
                setName(parts[0]).
                setMinSupportedVersion(Short.parseShort(parts[1])).
                setMaxSupportedVersion(Short.parseShort(parts[2])));
        }
        ControllerResult<BrokerRegistrationReply> result = cluster.registerBroker(
            request, offset, features.finalizedFeatures(Long.MAX_VALUE), true);
        return new Decided(result.records(), Long.toString(result.response().epoch()));
    }

    private Decided beat(String[] words) {
        int id = Integer.parseInt(words[1]);
        BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData().
            setBrokerId(id).
            setBrokerEpoch(Long.parseLong(words[2])).
            setCurrentMetadataOffset(Long.parseLong(words[3])).
            setWantFence(words[4].equals("1")).
            setWantShutDown(words[5].equals("1")).
            setOfflineLogDirs(uuids(words[6])).
            setCordonedLogDirs(words[7].equals("none") ? null : uuids(words[7]));
        ControllerResult<BrokerHeartbeatReply> result =
            replication.processBrokerHeartbeat(request, registeredAt.get(id));
        BrokerHeartbeatReply reply = result.response();
        if (reply.inControlledShutdown()) {
            long end = offset + result.records().size() - 1;
            cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(id, end);
        }
        String answer = String.join(",",
            reply.isCaughtUp() ? "caught-up" : "behind",
            reply.isFenced() ? "fenced" : "unfenced",
            reply.shouldShutDown() ? "goes" : "stays");
        return new Decided(result.records(), answer);
    }

    private Decided alter(String[] words) {
        AlterPartitionRequestData.PartitionData partition = new AlterPartitionRequestData.PartitionData().
            setPartitionIndex(Integer.parseInt(words[4])).
            setLeaderEpoch(Integer.parseInt(words[5])).
            setPartitionEpoch(Integer.parseInt(words[6])).
            setLeaderRecoveryState(Byte.parseByte(words[7]));
        for (String member : list(words[8])) {
            String[] parts = member.split(":");
            partition.newIsrWithEpochs().add(new AlterPartitionRequestData.BrokerState().
                setBrokerId(Integer.parseInt(parts[0])).
                setBrokerEpoch(Long.parseLong(parts[1])));
        }
        AlterPartitionRequestData request = new AlterPartitionRequestData().
            setBrokerId(Integer.parseInt(words[1])).
            setBrokerEpoch(Long.parseLong(words[2])).
            setTopics(List.of(new AlterPartitionRequestData.TopicData().
                setTopicId(uuid(words[3])).
                setPartitions(List.of(partition))));
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion((short) 3), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        var result = replication.alterPartition(context, request);
        short code = result.response().topics().get(0).partitions().get(0).errorCode();
        return new Decided(result.records(), Short.toString(code));
    }

    private Decided assign(String[] words) {
        var partition = new AssignReplicasToDirsRequestData.PartitionData().
            setPartitionIndex(Integer.parseInt(words[5]));
        var topic = new AssignReplicasToDirsRequestData.TopicData().
            setTopicId(uuid(words[4])).
            setPartitions(List.of(partition));
        var request = new AssignReplicasToDirsRequestData().
            setBrokerId(Integer.parseInt(words[1])).
            setBrokerEpoch(Long.parseLong(words[2])).
            setDirectories(List.of(new AssignReplicasToDirsRequestData.DirectoryData().
                setId(uuid(words[3])).
                setTopics(List.of(topic))));
        var result = replication.handleAssignReplicasToDirs(request);
        short code = result.response().directories().get(0).topics().get(0).partitions().get(0).errorCode();
        return new Decided(result.records(), Short.toString(code));
    }

    private Decided elect(String[] words) {
        ElectLeadersRequestData.TopicPartitionsCollection named =
            new ElectLeadersRequestData.TopicPartitionsCollection();
        named.add(new ElectLeadersRequestData.TopicPartitions().
            setTopic(words[2]).
            setPartitions(List.of(Integer.parseInt(words[3]))));
        var result = replication.electLeaders(new ElectLeadersRequestData().
            setElectionType(Byte.parseByte(words[1])).
            setTopicPartitions(named));
        short code = result.response().replicaElectionResults().get(0).partitionResult().get(0).errorCode();
        return new Decided(result.records(), Short.toString(code));
    }

    private static Uuid uuid(String hex) {
        java.nio.ByteBuffer bytes = java.nio.ByteBuffer.wrap(HEX.parseHex(hex));
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    private static List<String> list(String word) {
        return word.equals("-") ? List.of() : Arrays.asList(word.split(","));
    }

    private static List<Uuid> uuids(String word) {
        return list(word).stream().map(Referee::uuid).toList();
    }

    private static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        java.nio.ByteBuffer bytes = java.nio.ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(bytes));
        return HEX.formatHex(bytes.array());
    }

    /** Changes of partitions that follow each other come in no order that means anything. */
    private static List<String> sorted(List<ApiMessageAndVersion> records) {
        List<String> all = new ArrayList<>();
        List<PartitionChangeRecord> run = new ArrayList<>();
        Comparator<PartitionChangeRecord> order = Comparator.
            comparing((PartitionChangeRecord change) -> change.topicId().toString()).
            thenComparing(PartitionChangeRecord::partitionId);
        Map<PartitionChangeRecord, ApiMessageAndVersion> of = new java.util.IdentityHashMap<>();
        Runnable flush = () -> {
            run.sort(order);
            run.forEach(change -> all.add(hex(of.get(change)) + " " + change));
            run.clear();
        };
        for (ApiMessageAndVersion record : records) {
            if (record.message() instanceof PartitionChangeRecord change) {
                run.add(change);
                of.put(change, record);
            } else {
                flush.run();
                all.add(hex(record) + " " + record.message());
            }
        }
        flush.run();
        return all;
    }

    private static ApiMessageAndVersion read(String hex) {
        byte[] bytes = HEX.parseHex(hex);
        return SERDE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(bytes)), bytes.length);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Map<String, int[]> table = new java.util.TreeMap<>();
        Referee referee = null;
        String seed = "";
        int differences = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("cluster")) {
                referee = new Referee();
                seed = words[1];
                continue;
            }
            if (words[0].equals("base")) {
                referee.replay(words[1]);
                continue;
            }
            // The decision, then `=> <answer> <records>` of the other side.
            String[] other = lines.readLine().split(" ");
            List<String> written = new ArrayList<>(Arrays.asList(other).subList(2, other.length));
            List<ApiMessageAndVersion> theirs = new ArrayList<>();
            written.forEach(hex -> theirs.add(read(hex)));
            Decided ours;
            try {
                ours = referee.decide(words);
            } catch (RuntimeException error) {
                ours = new Decided(List.of(), error.getClass().getSimpleName());
            }
            int[] counts = table.computeIfAbsent(words[0], __ -> new int[3]);
            counts[0]++;
            counts[1] += theirs.size();
            List<String> want = sorted(ours.records());
            List<String> got = sorted(theirs);
            if (!want.equals(got) || !ours.answer().equals(other[1])) {
                counts[2]++;
                differences++;
                if (counts[2] <= 3) {
                    System.out.println("seed " + seed + ": " + line);
                    System.out.println("  answer: Kafka " + ours.answer() + ", Esker " + other[1]);
                    want.forEach(record -> System.out.println("  Kafka " + record));
                    got.forEach(record -> System.out.println("  Esker " + record));
                }
            }
            for (String hex : written) {
                referee.replay(hex);
            }
        }
        System.out.printf("%-12s %10s %10s %10s%n", "decision", "times", "records", "other");
        table.forEach((name, counts) ->
            System.out.printf("%-12s %10d %10d %10d%n", name, counts[0], counts[1], counts[2]));
        boolean isEnough = !table.isEmpty() && table.values().stream().allMatch(counts -> 0 < counts[0]);
        System.exit(differences == 0 && isEnough ? 0 : 1);
    }
}
