package clients;

import static clients.Facts.CONNECTION;
import static clients.Facts.equal;
import static clients.Facts.fails;
import static clients.Facts.get;
import static clients.Facts.that;
import static clients.Facts.waitFor;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The admin client on what concerns the whole cluster: leaders, replicas, features, the metadata quorum. */
final class Cluster implements AutoCloseable {
    private final Admin admin = Admin.create(CONNECTION);
    private final Administration administration;

    Cluster(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.add("admin_elects_leaders", this::elections);
        facts.add("admin_reassigns_partitions", this::reassignments);
        facts.add("admin_describes_and_updates_features", this::features);
        facts.add("admin_describes_the_metadata_quorum", this::quorum);
    }

    private void elections() throws Exception {
        TopicPartition known = new TopicPartition(administration.create("elect", 2, Map.of()), 1);
        TopicPartition missing = new TopicPartition(known.topic(), 7);
        for (ElectionType type : ElectionType.values()) {
            Map<TopicPartition, Optional<Throwable>> elected = get(admin.electLeaders(type, Set.of(known, missing)).partitions());
            equal(kind(elected.get(known)), ElectionNotNeededException.class, type + " of " + known);
            equal(kind(elected.get(missing)), UnknownTopicOrPartitionException.class, type + " of " + missing);
            // Where a node was killed, others lead what it led.
            var all = get(admin.electLeaders(type, null).partitions());
            that(all.values().stream().allMatch(Optional::isEmpty), type + " of all: " + all);
            that(all.isEmpty() || get(admin.describeCluster().nodes()).size() > 1, type + " of all, at one node: " + all);
        }
    }

    private void reassignments() throws Exception {
        TopicPartition here = new TopicPartition(administration.create("reassign", 2, Map.of()), 0);
        TopicPartition missing = new TopicPartition(here.topic(), 2);
        int node = get(admin.describeCluster().nodes()).iterator().next().id();
        get(admin.alterPartitionReassignments(Map.of(here, to(node))).all());
        get(admin.alterPartitionReassignments(Map.of(here, to(node)),
                new AlterPartitionReassignmentsOptions().allowReplicationFactorChange(false)).all());
        equal(get(admin.listPartitionReassignments().reassignments()), Map.of(), "reassignments under way");
        equal(get(admin.listPartitionReassignments(Set.of(here, missing)).reassignments()), Map.of(), "of those");
        var refused = admin.alterPartitionReassignments(Map.of(
                here, to(node, 99), new TopicPartition(here.topic(), 1), Optional.empty(), missing, to(node))).values();
        fails(refused.get(here), InvalidReplicaAssignmentException.class, "to an unknown broker");
        fails(refused.get(new TopicPartition(here.topic(), 1)), NoReassignmentInProgressException.class, "a cancellation");
        fails(refused.get(missing), UnknownTopicOrPartitionException.class, "a missing partition");
        fails(admin.alterPartitionReassignments(Map.of(here, to(node, node))).all(), InvalidReplicaAssignmentException.class, "one broker twice");
    }

    private void features() throws Exception {
        var before = get(admin.describeFeatures().featureMetadata());
        FinalizedVersionRange metadata = before.finalizedFeatures().get("metadata.version");
        that(metadata != null && metadata.maxVersionLevel() >= 25, "metadata.version: " + metadata);
        equal(before.supportedFeatures().get("group.version").maxVersion(), (short) 1, "group.version");
        short level = before.finalizedFeatures().get("transaction.version").maxVersionLevel();
        equal(level, (short) 2, "transaction.version");

        update("transaction.version", 1, UpgradeType.SAFE_DOWNGRADE, true);
        equal(finalized("transaction.version"), (short) 2, "transaction.version after a validation");
        update("transaction.version", 1, UpgradeType.SAFE_DOWNGRADE, false);
        waitFor("level 1", () -> finalized("transaction.version") == 1);
        update("transaction.version", 0, UpgradeType.UNSAFE_DOWNGRADE, false);
        waitFor("level 0", () -> finalized("transaction.version") == 0);
        update("transaction.version", 2, UpgradeType.UPGRADE, false);
        waitFor("level 2", () -> finalized("transaction.version") == 2);

        refused("metadata.version", 17, UpgradeType.SAFE_DOWNGRADE);
        refused("metadata.version", 17, UpgradeType.UNSAFE_DOWNGRADE);
        refused("metadata.version", 3, UpgradeType.SAFE_DOWNGRADE);
        refused("transaction.version", 1, UpgradeType.UPGRADE);
        refused("transaction.version", 9, UpgradeType.UPGRADE);
        refused("no.such.version", 1, UpgradeType.UPGRADE);
        equal(finalized("transaction.version"), (short) 2, "transaction.version in the end");
    }

    private void quorum() throws Exception {
        QuorumInfo quorum = get(admin.describeMetadataQuorum().quorumInfo());
        Set<Integer> nodes = get(admin.describeCluster().nodes()).stream().map(Node::id).collect(Collectors.toSet());
        that(nodes.contains(quorum.leaderId()), "leader: " + quorum);
        equal(quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toSet()), nodes, "voters");
        QuorumInfo.ReplicaState voter = quorum.voters().stream().filter(v -> v.replicaId() == quorum.leaderId()).findFirst().get();
        that(voter.logEndOffset() >= quorum.highWatermark() && quorum.highWatermark() > 0, "offsets: " + quorum);
        that(Math.abs(System.currentTimeMillis() - voter.lastCaughtUpTimestamp().getAsLong()) < 60_000, "times: " + quorum);
        equal(quorum.nodes().keySet(), nodes, "nodes");
        that(quorum.nodes().values().stream().noneMatch(node -> node.endpoints().isEmpty()), "endpoints: " + quorum.nodes());
    }

    private short finalized(String feature) throws Exception {
        FinalizedVersionRange range = get(admin.describeFeatures().featureMetadata()).finalizedFeatures().get(feature);
        return range == null ? 0 : range.maxVersionLevel();
    }

    private void update(String feature, int level, UpgradeType type, boolean validates) throws Exception {
        get(admin.updateFeatures(Map.of(feature, new FeatureUpdate((short) level, type)), new UpdateFeaturesOptions().validateOnly(validates)).all());
    }

    private void refused(String feature, int level, UpgradeType type) throws Exception {
        fails(admin.updateFeatures(Map.of(feature, new FeatureUpdate((short) level, type)), new UpdateFeaturesOptions()).all(),
                InvalidUpdateVersionException.class, type + " of " + feature + " to " + level);
    }

    private static Optional<NewPartitionReassignment> to(Integer... brokers) {
        return Optional.of(new NewPartitionReassignment(List.of(brokers)));
    }

    private static Class<?> kind(Optional<Throwable> error) {
        return error.<Class<?>>map(Object::getClass).orElse(null);
    }

    @Override
    public void close() {
        admin.close();
    }
}
