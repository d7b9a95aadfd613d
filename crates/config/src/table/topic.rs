//! Settings of a topic, each with the broker settings that give its default, first one first.

use super::TopicSetting;

pub(super) const SETTINGS: &[TopicSetting] = topic_settings! {
    "cleanup.policy" List "delete" ItemsOf(&["compact", "delete"]) Works ["log.cleanup.policy" 1]
        "what happens to old segments: delete, compact or both; empty keeps everything";
    "compression.gzip.level" Int "-1" GzipLevel Works ["compression.gzip.level" 1]
        "gzip level the broker compresses with; -1 takes the library's own";
    "compression.lz4.level" Int "9" Between(1, 17) Works ["compression.lz4.level" 1] "lz4 level the broker compresses with";
    "compression.type" String "producer" OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]) Works ["compression.type" 1]
        "codec batches are stored in: a codec forces it, producer keeps what came";
    "compression.zstd.level" Int "3" Between(-131072, 22) Works ["compression.zstd.level" 1]
        "zstd level the broker compresses with";
    "delete.retention.ms" Long "86400000" AtLeast(0) Works ["log.cleaner.delete.retention.ms" 1]
        "how long a delete marker stays in a compacted topic";
    "esker.compressed.verify" Boolean "false" Any Works ["log.esker.compressed.verify" 1]
        "unpack every compressed batch and check its records as Kafka does; false does so only where its header cannot be true";
    "esker.durability" String "sync" OneOf(&["sync", "os"]) Works ["log.esker.durability" 1]
        "when a record counts as written: synced to disk (sync) or handed to the system (os); transactions and internal topics are synced in any case";
    "file.delete.delay.ms" Long "60000" AtLeast(0) Works ["log.segment.delete.delay.ms" 1]
        "time between taking a segment out of the log and removing its file";
    "flush.messages" Long "9223372036854775807" AtLeast(1) Works ["log.flush.interval.messages" 1]
        "records after which a topic with esker.durability=os is synced; with sync every acknowledged record is";
    "flush.ms" Long "9223372036854775807" AtLeast(0) Works ["log.flush.interval.ms" 1, "log.flush.scheduler.interval.ms" 1]
        "age at which an unsynced record forces a sync of a topic with esker.durability=os; two seconds late at most";
    "follower.replication.throttled.replicas" List "" Replicas Works []
        "replicas whose following is throttled: partition:broker, separated by commas, or *";
    "index.interval.bytes" Int "4096" AtLeast(0) Works ["log.index.interval.bytes" 1]
        "bytes of log between two index entries";
    "internal.segment.bytes" Int - Any Meaningless [] "Not for users, not even in Kafka";
    "leader.replication.throttled.replicas" List "" Replicas Works []
        "replicas whose leading is throttled: partition:broker, separated by commas, or *";
    "local.retention.bytes" Long "-2" AtLeast(-2) Accepted ["log.local.retention.bytes" 1]
        "bytes a tiered partition keeps locally; -2 takes the full retention";
    "local.retention.ms" Long "-2" AtLeast(-2) Accepted ["log.local.retention.ms" 1]
        "time a tiered partition keeps segments locally; -2 takes the full retention";
    "max.compaction.lag.ms" Long "9223372036854775807" AtLeast(1) Works ["log.cleaner.max.compaction.lag.ms" 1]
        "time after which a record must become ready for compaction";
    "max.decompressed.message.bytes" Int "2147483639" Between(1, 2147483639) Works ["max.decompressed.message.bytes" 1]
        "largest record of a compressed batch, once unpacked; a smaller bound than the default has every compressed batch unpacked";
    "max.message.bytes" Int "1048588" AtLeast(0) Works ["message.max.bytes" 1]
        "largest batch a topic accepts, after compression";
    "message.timestamp.after.max.ms" Long "3600000" AtLeast(0) Works ["log.message.timestamp.after.max.ms" 1]
        "how far a record's timestamp may lie ahead of the broker's clock";
    "message.timestamp.before.max.ms" Long "9223372036854775807" AtLeast(0) Works ["log.message.timestamp.before.max.ms" 1]
        "how far a record's timestamp may lie behind the broker's clock";
    "message.timestamp.type" String "CreateTime" OneOf(&["CreateTime", "LogAppendTime"]) Works ["log.message.timestamp.type" 1]
        "whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime)";
    "min.cleanable.dirty.ratio" Double "0.5" Share(1.0) Works ["log.cleaner.min.cleanable.ratio" 1]
        "share of uncompacted bytes at which a log is compacted";
    "min.compaction.lag.ms" Long "0" AtLeast(0) Works ["log.cleaner.min.compaction.lag.ms" 1]
        "time a record stays out of compaction";
    "min.insync.replicas" Int "1" AtLeast(1) Works ["min.insync.replicas" 1]
        "replicas that must be in sync for acks=all; a partition that has fewer needs those it has";
    "preallocate" Boolean "false" Any Works ["log.preallocate" 1] "reserve the disk space of a segment when it is created";
    "remote.log.copy.disable" Boolean "false" Any Accepted [] "no further segments go to the tier";
    "remote.log.delete.on.disable" Boolean "false" Any Accepted []
        "tiered segments are deleted when the tier is switched off for the topic";
    "remote.storage.enable" Boolean "false" Any Accepted [] "segments of the topic go to the tier";
    "retention.bytes" Long "-1" Any Works ["log.retention.bytes" 1] "bytes a partition keeps; -1 sets no bound";
    "retention.ms" Long "604800000" AtLeast(-1) Works ["log.retention.ms" 1, "log.retention.minutes" 60000, "log.retention.hours" 3600000]
        "milliseconds the topic keeps a segment; -1 keeps it for ever";
    "segment.bytes" Int "1073741824" AtLeast(1048576) Works ["log.segment.bytes" 1]
        "size at which a segment is closed and the next one begun";
    "segment.index.bytes" Int "10485760" AtLeast(4) Works ["log.index.size.max.bytes" 1] "size limit of one index file";
    "segment.jitter.ms" Long "0" AtLeast(0) Works ["log.roll.jitter.ms" 1, "log.roll.jitter.hours" 3600000]
        "milliseconds, at most, taken at random from segment.ms";
    "segment.ms" Long "604800000" AtLeast(1) Works ["log.roll.ms" 1, "log.roll.hours" 3600000]
        "milliseconds after which a segment is closed";
    "unclean.leader.election.enable" Boolean "false" Any Works ["unclean.leader.election.enable" 1]
        "where no replica in sync is up, one that is behind leads; the records that it lacks are lost, acknowledged ones too";
};
