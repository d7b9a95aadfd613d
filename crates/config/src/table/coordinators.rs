//! Settings of group, share and transaction coordinators.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "add.partitions.to.txn.retry.backoff.max.ms" Int "100" AtLeast(0) ReadOnly Works
        "longest time the broker retries to add partitions to a transaction";
    "add.partitions.to.txn.retry.backoff.ms" Int "20" AtLeast(1) ReadOnly Meaningless
        "Who waits for markers goes on as soon as they are written, not at the next try";
    "group.consumer.assignment.interval.ms" Int "1000" AtLeast(0) ClusterWide Works
        "pause between two assignments of a consumer group";
    "group.consumer.assignors" List "uniform,range" Items ReadOnly Works
        "assignors of consumer groups; the first is the default";
    "group.consumer.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Works "heartbeat interval of consumer groups; a fifth of it while partitions move, if `group.consumer.min.heartbeat.interval.ms` is not set above that";
    "group.consumer.max.assignment.interval.ms" Int "15000" AtLeast(0) ReadOnly Works
        "upper bound of a group's assignment interval";
    "group.consumer.max.heartbeat.interval.ms" Int "15000" AtLeast(1) ReadOnly Works
        "upper bound of a group's heartbeat interval";
    "group.consumer.max.session.timeout.ms" Int "60000" AtLeast(1) ReadOnly Works
        "upper bound of a group's session timeout";
    "group.consumer.max.size" Int "2147483647" AtLeast(1) ReadOnly Works "members a consumer group may have";
    "group.consumer.migration.policy" String "bidirectional" OneOfAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]) ReadOnly Works
        "which changes between classic and consumer protocol happen by themselves";
    "group.consumer.min.assignment.interval.ms" Int "0" AtLeast(0) ReadOnly Works
        "lower bound of a group's assignment interval";
    "group.consumer.min.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Works
        "lower bound of a group's heartbeat interval; where it is set, members come no more often while partitions move either";
    "group.consumer.min.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Works
        "lower bound of a group's session timeout";
    "group.consumer.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Works
        "silence after which a member leaves its consumer group";
    "group.coordinator.append.linger.ms" Int "-1" AtLeast(-1) ReadOnly Meaningless
        "The group coordinator holds no write back to gather others: those of one moment share a sync anyway";
    "group.coordinator.background.threads" Int "2" AtLeast(1) ReadOnly Meaningless
        "The group coordinator has no background threads";
    "group.coordinator.cached.buffer.max.bytes" Int "1048588" AtLeast(524288) ClusterWide Meaningless
        "The group coordinator keeps no buffer between two writes";
    "group.coordinator.rebalance.protocols" List "classic,consumer,streams" ItemsOf(&["consumer", "classic", "share", "streams"]) ReadOnly Works
        "group protocols that are enabled: `consumer` can be left out, `classic` is always there, and `share` and `streams` have no effect, as those protocols are not built yet";
    "group.coordinator.threads" Int "4" AtLeast(1) ReadOnly Meaningless "Coordinators run on the network threads";
    "group.initial.rebalance.delay.ms" Int "3000" Any ReadOnly Works
        "wait for more members before the first rebalance of a new group";
    "group.max.session.timeout.ms" Int "1800000" Any ReadOnly Works "longest session timeout of a classic group";
    "group.max.size" Int "2147483647" AtLeast(1) ReadOnly Works "members a classic group may have";
    "group.min.session.timeout.ms" Int "6000" Any ReadOnly Works "shortest session timeout of a classic group";
    "group.share.assignment.interval.ms" Int "1000" AtLeast(0) ClusterWide Accepted
        "pause between two assignments of a share group";
    "group.share.assignors" List "simple" Items ReadOnly Accepted "assignors of share groups";
    "group.share.delivery.count.limit" Int "5" Between(2, 10) ReadOnly Accepted "deliveries of a record in a share group";
    "group.share.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Accepted "heartbeat interval of share groups";
    "group.share.max.assignment.interval.ms" Int "15000" AtLeast(0) ReadOnly Accepted
        "upper bound of a share group's assignment interval";
    "group.share.max.delivery.count.limit" Int "10" Between(5, 25) ReadOnly Accepted
        "upper bound of a share group's delivery limit";
    "group.share.max.heartbeat.interval.ms" Int "15000" AtLeast(1) ReadOnly Accepted
        "upper bound of a share group's heartbeat interval";
    "group.share.max.partition.max.record.locks" Int "4000" Between(2000, 10000) ReadOnly Accepted
        "upper bound of a share group's record locks";
    "group.share.max.record.lock.duration.ms" Int "60000" Between(30000, 3600000) ReadOnly Accepted
        "upper bound of a share group's lock time";
    "group.share.max.session.timeout.ms" Int "60000" AtLeast(1) ReadOnly Accepted
        "upper bound of a share group's session timeout";
    "group.share.max.share.sessions" Int "2000" AtLeast(1) ReadOnly Accepted "share sessions the broker remembers";
    "group.share.max.size" Int "200" Between(1, 1000) ReadOnly Accepted "members a share group may have";
    "group.share.min.assignment.interval.ms" Int "0" AtLeast(0) ReadOnly Accepted
        "lower bound of a share group's assignment interval";
    "group.share.min.delivery.count.limit" Int "2" Between(2, 5) ReadOnly Accepted
        "lower bound of a share group's delivery limit";
    "group.share.min.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Accepted
        "lower bound of a share group's heartbeat interval";
    "group.share.min.partition.max.record.locks" Int "100" Between(100, 2000) ReadOnly Accepted
        "lower bound of a share group's record locks";
    "group.share.min.record.lock.duration.ms" Int "15000" Between(1000, 30000) ReadOnly Accepted
        "lower bound of a share group's lock time";
    "group.share.min.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Accepted
        "lower bound of a share group's session timeout";
    "group.share.partition.max.record.locks" Int "2000" Between(100, 10000) ReadOnly Accepted
        "records of a partition a share group may lock";
    "group.share.record.lock.duration.ms" Int "30000" Between(1000, 3600000) ReadOnly Accepted
        "time a record stays locked for its receiver";
    "group.share.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Accepted
        "silence after which a member leaves its share group";
    "group.streams.assignment.interval.ms" Int "1000" AtLeast(0) ClusterWide Accepted
        "pause between two assignments of a streams group";
    "group.streams.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Accepted "heartbeat interval of streams groups";
    "group.streams.initial.rebalance.delay.ms" Int "3000" AtLeast(0) ReadOnly Accepted
        "wait for more members before the first rebalance of a streams group";
    "group.streams.max.assignment.interval.ms" Int "15000" AtLeast(0) ReadOnly Accepted
        "upper bound of a streams group's assignment interval";
    "group.streams.max.heartbeat.interval.ms" Int "15000" AtLeast(1) ReadOnly Accepted
        "upper bound of a streams group's heartbeat interval";
    "group.streams.max.session.timeout.ms" Int "60000" AtLeast(1) ReadOnly Accepted
        "upper bound of a streams group's session timeout";
    "group.streams.max.size" Int "2147483647" AtLeast(1) ReadOnly Accepted "members a streams group may have";
    "group.streams.max.standby.replicas" Int "2" AtLeast(0) ReadOnly Accepted
        "upper bound of a streams group's standby replicas";
    "group.streams.min.assignment.interval.ms" Int "0" AtLeast(0) ReadOnly Accepted
        "lower bound of a streams group's assignment interval";
    "group.streams.min.heartbeat.interval.ms" Int "5000" AtLeast(1) ReadOnly Accepted
        "lower bound of a streams group's heartbeat interval";
    "group.streams.min.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Accepted
        "lower bound of a streams group's session timeout";
    "group.streams.num.standby.replicas" Int "0" AtLeast(0) ReadOnly Accepted "standby replicas of each task";
    "group.streams.session.timeout.ms" Int "45000" AtLeast(1) ReadOnly Accepted
        "silence after which a member leaves its streams group";
    "offset.metadata.max.bytes" Int "4096" Any ReadOnly Works "largest text stored beside a committed offset";
    "offsets.commit.timeout.ms" Int "5000" AtLeast(1) ReadOnly Works
        "wait of groups and transactions for a disk that is full, then COORDINATOR_NOT_AVAILABLE; up to 5 s longer";
    "offsets.load.buffer.size" Int "5242880" AtLeast(1) ReadOnly Meaningless
        "Group state is loaded in pieces of 256 KiB, between which clients are served";
    "offsets.retention.check.interval.ms" Long "600000" AtLeast(1) ReadOnly Works
        "time between looks for stale committed offsets";
    "offsets.retention.minutes" Int "10080" AtLeast(1) ReadOnly Works "minutes a committed offset outlives its group";
    "offsets.topic.compression.codec" Int "0" Between(0, 4) ReadOnly Works
        "codec of what is written to the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd";
    "offsets.topic.num.partitions" Int "50" AtLeast(1) ReadOnly Works "partitions of the offsets topic";
    "offsets.topic.replication.factor" Short "3" AtLeast(1) ReadOnly Works
        "replicas of the offsets topic, or as many as there are brokers or will be by the named voters; it is made once so many are registered";
    "offsets.topic.segment.bytes" Int "104857600" AtLeast(1) ReadOnly Works "segment size of the offsets topic";
    "share.coordinator.append.linger.ms" Int "-1" AtLeast(-1) ReadOnly Accepted
        "time the share coordinator gathers writes; -1 adapts";
    "share.coordinator.cached.buffer.max.bytes" Int "1048588" AtLeast(524288) ClusterWide Accepted
        "largest buffer the share coordinator keeps";
    "share.coordinator.load.buffer.size" Int "5242880" AtLeast(1) ReadOnly Accepted
        "bytes read at once while share state is loaded";
    "share.coordinator.snapshot.update.records.per.snapshot" Int "500" Between(0, 500) ReadOnly Accepted
        "updates between two snapshots of share state";
    "share.coordinator.state.topic.compression.codec" Int "0" Any ReadOnly Accepted
        "codec of the share state topic, as its number";
    "share.coordinator.state.topic.min.isr" Short "2" AtLeast(1) ReadOnly Accepted
        "min.insync.replicas of the share state topic";
    "share.coordinator.state.topic.num.partitions" Int "50" AtLeast(1) ReadOnly Accepted
        "partitions of the share state topic";
    "share.coordinator.state.topic.replication.factor" Short "3" AtLeast(1) ReadOnly Accepted
        "replicas of the share state topic";
    "share.coordinator.state.topic.segment.bytes" Int "104857600" AtLeast(1) ReadOnly Accepted
        "segment size of the share state topic";
    "share.coordinator.threads" Int "1" AtLeast(1) ReadOnly Meaningless "Coordinators run on the network threads";
    "share.coordinator.write.timeout.ms" Int "5000" AtLeast(1) ReadOnly Accepted
        "time a write of share state waits for its replicas";
    "transaction.abort.timed.out.transaction.cleanup.interval.ms" Int "10000" AtLeast(1) ReadOnly Works
        "time between looks for transactions to abort";
    "transaction.max.timeout.ms" Int "900000" AtLeast(1) ReadOnly Works
        "longest transaction timeout a producer may ask for";
    "transaction.partition.verification.enable" Boolean "true" Any ClusterWide Works
        "a partition checks with the coordinator before it takes transactional records";
    "transaction.remove.expired.transaction.cleanup.interval.ms" Int "3600000" AtLeast(1) ReadOnly Works
        "time between looks for transactional ids to forget";
    "transaction.state.log.load.buffer.size" Int "5242880" AtLeast(1) ReadOnly Meaningless
        "Transaction state is loaded in pieces of 256 KiB, between which clients are served";
    "transaction.state.log.min.isr" Int "2" AtLeast(1) ReadOnly Works "min.insync.replicas of the transaction topic";
    "transaction.state.log.num.partitions" Int "50" AtLeast(1) ReadOnly Works "partitions of the transaction topic";
    "transaction.state.log.replication.factor" Short "3" AtLeast(1) ReadOnly Works
        "replicas of the transaction topic, or as many as there are brokers or will be by the named voters; it is made once so many are registered";
    "transaction.state.log.segment.bytes" Int "104857600" AtLeast(1) ReadOnly Works
        "segment size of the transaction topic";
    "transaction.two.phase.commit.enable" Boolean "false" Any ReadOnly Accepted
        "transactions may take part in a two-phase commit";
    "transactional.id.expiration.ms" Int "604800000" AtLeast(1) ReadOnly Works
        "idle time after which a transactional id is forgotten";
};
