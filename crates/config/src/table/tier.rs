//! Settings of tiered storage.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "remote.fetch.max.wait.ms" Int "500" AtLeast(1) ClusterWide Accepted "longest wait of a fetch for tiered bytes";
    "remote.list.offsets.request.timeout.ms" Long "30000" AtLeast(1) ClusterWide Accepted
        "longest wait of a ListOffsets for tiered bytes";
    "remote.log.index.file.cache.total.size.bytes" Long "1073741824" AtLeast(1) ClusterWide Accepted
        "bytes of indexes of tiered segments kept locally";
    "remote.log.manager.copier.thread.pool.size" Int "10" AtLeast(1) ClusterWide Accepted
        "segments copied to the tier at once";
    "remote.log.manager.copy.max.bytes.per.second" Long "9223372036854775807" AtLeast(1) ClusterWide Accepted
        "bytes per second copied to the tier";
    "remote.log.manager.copy.quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted
        "samples kept for the quota of copies to the tier";
    "remote.log.manager.copy.quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted
        "length of one sample for the quota of copies to the tier";
    "remote.log.manager.expiration.thread.pool.size" Int "10" AtLeast(1) ClusterWide Accepted
        "segments removed from the tier at once";
    "remote.log.manager.fetch.max.bytes.per.second" Long "9223372036854775807" AtLeast(1) ClusterWide Accepted
        "bytes per second read from the tier";
    "remote.log.manager.fetch.quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted
        "samples kept for the quota of reads from the tier";
    "remote.log.manager.fetch.quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted
        "length of one sample for the quota of reads from the tier";
    "remote.log.manager.follower.thread.pool.size" Int "2" AtLeast(1) ClusterWide Accepted
        "followers that ask the tier for its end at once";
    "remote.log.manager.task.interval.ms" Long "30000" AtLeast(1) ReadOnly Accepted
        "time between looks for segments to tier";
    "remote.log.manager.thread.pool.size" Int "2" AtLeast(1) ReadOnly Accepted
        "older name of remote.log.manager.follower.thread.pool.size";
    "remote.log.metadata.custom.metadata.max.bytes" Int "128" AtLeast(0) ReadOnly Accepted
        "largest custom metadata of a tiered segment";
    "remote.log.metadata.manager.class.name" String "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager" NonEmpty ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.metadata.manager.class.path" String - Any ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.metadata.manager.impl.prefix" String "rlmm.config." NonEmpty ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.metadata.manager.listener.name" String - NonEmpty ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.reader.max.pending.tasks" Int "100" AtLeast(1) ReadOnly Accepted "reads from the tier that may wait";
    "remote.log.reader.threads" Int "10" AtLeast(1) ClusterWide Accepted "reads from the tier at once";
    "remote.log.storage.manager.class.name" String - NonEmpty ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.storage.manager.class.path" String - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "remote.log.storage.manager.impl.prefix" String "rsm.config." NonEmpty ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "remote.log.storage.system.enable" Boolean "false" Any ReadOnly Accepted "tiered storage is on";
};
