//! Settings of the log: what a topic gets when it does not say otherwise, and how logs are kept.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "auto.create.topics.enable" Boolean "true" Any ReadOnly Works "a client that asks for an unknown topic creates it";
    "compression.gzip.level" Int "-1" GzipLevel ClusterWide Works
        "gzip level the broker compresses with; -1 takes the library's own";
    "compression.lz4.level" Int "9" Between(1, 17) ClusterWide Works "lz4 level the broker compresses with";
    "compression.type" String "producer" OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]) ClusterWide Works
        "codec batches are stored in: a codec forces it, producer keeps what came";
    "compression.zstd.level" Int "3" Between(-131072, 22) ClusterWide Works "zstd level the broker compresses with";
    "default.replication.factor" Int "1" Any ReadOnly Works
        "replicas of a topic whose creator did not say; where it is not set, one on each broker, on three at most";
    "delete.topic.enable" Boolean "true" Any ReadOnly Works "topics may be deleted";
    "log.cleaner.backoff.ms" Long "15000" AtLeast(0) ClusterWide Works "pause of a cleaner that found nothing to clean";
    "log.cleaner.dedupe.buffer.size" Long "134217728" Any ClusterWide Works
        "memory all cleaners share for finding duplicate keys";
    "log.cleaner.delete.retention.ms" Long "86400000" AtLeast(0) ClusterWide Works
        "how long a delete marker stays in a compacted topic";
    "log.cleaner.enable" Boolean "true" Any ReadOnly Works "compaction runs";
    "log.cleaner.io.buffer.load.factor" Double "0.9" Any ClusterWide Works "share of the key buffer that may fill";
    "log.cleaner.io.buffer.size" Int "524288" AtLeast(0) ClusterWide Meaningless
        "A cleaner reads up to 1 MiB at once and writes 256 KiB";
    "log.cleaner.io.max.bytes.per.second" Double "1.7976931348623157E308" Any ClusterWide Works
        "bytes per second all cleaners read and write together";
    "log.cleaner.max.compaction.lag.ms" Long "9223372036854775807" AtLeast(1) ClusterWide Works
        "time after which a record must become ready for compaction";
    "log.cleaner.min.cleanable.ratio" Double "0.5" Share(1.0) ClusterWide Works
        "share of uncompacted bytes at which a log is compacted";
    "log.cleaner.min.compaction.lag.ms" Long "0" AtLeast(0) ClusterWide Works "time a record stays out of compaction";
    "log.cleaner.threads" Int "1" AtLeast(0) ClusterWide Works "threads that compact";
    "log.cleanup.policy" List "delete" ItemsOf(&["compact", "delete"]) ClusterWide Works
        "what happens to old segments: delete, compact or both; empty keeps everything";
    "log.dir" List "./data" Items ReadOnly Works "data directories, used when log.dirs is not set";
    "log.dir.failure.timeout.ms" Long "30000" AtLeast(1) ReadOnly Accepted
        "time a failed directory may stay unreported before the broker stops";
    "log.dirs" List - Items ReadOnly Works
        "data directories, separated by commas; each has its own journal and may fail alone; partitions move between them while they are used";
    "log.flush.interval.messages" Long "9223372036854775807" AtLeast(1) ClusterWide Works
        "records after which a topic with esker.durability=os is synced; with sync every acknowledged record is";
    "log.flush.interval.ms" Long - Any ClusterWide Works
        "age at which an unsynced record forces a sync of a topic with esker.durability=os; two seconds late at most";
    "log.flush.offset.checkpoint.interval.ms" Int "60000" AtLeast(0) ReadOnly Meaningless
        "Checkpoints follow the bytes in the journal";
    "log.flush.scheduler.interval.ms" Long "9223372036854775807" Any ReadOnly Works
        "log.flush.interval.ms where that is not set; nothing else, as each sync has its own time";
    "log.flush.start.offset.checkpoint.interval.ms" Int "60000" AtLeast(0) ReadOnly Meaningless
        "A log start offset is durable when the client is told";
    "log.index.interval.bytes" Int "4096" AtLeast(0) ClusterWide Works "bytes of log between two index entries";
    "log.index.size.max.bytes" Int "10485760" AtLeast(4) ClusterWide Works "size limit of one index file";
    "log.local.retention.bytes" Long "-2" AtLeast(-2) ClusterWide Accepted
        "bytes a tiered partition keeps locally; -2 takes the full retention";
    "log.local.retention.ms" Long "-2" AtLeast(-2) ClusterWide Accepted
        "time a tiered partition keeps segments locally; -2 takes the full retention";
    "log.message.timestamp.after.max.ms" Long "3600000" AtLeast(0) ClusterWide Works
        "how far a record's timestamp may lie ahead of the broker's clock";
    "log.message.timestamp.before.max.ms" Long "9223372036854775807" AtLeast(0) ClusterWide Works
        "how far a record's timestamp may lie behind the broker's clock";
    "log.message.timestamp.type" String "CreateTime" OneOf(&["CreateTime", "LogAppendTime"]) ClusterWide Works
        "whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime)";
    "log.preallocate" Boolean "false" Any ClusterWide Works "reserve the disk space of a segment when it is created";
    "log.retention.bytes" Long "-1" Any ClusterWide Works "bytes a partition keeps; -1 sets no bound";
    "log.retention.check.interval.ms" Long "300000" AtLeast(1) ReadOnly Works
        "time between looks for segments that are past retention";
    "log.retention.hours" Int "168" Any ReadOnly Works
        "hours a partition keeps a segment; minutes and milliseconds come first";
    "log.retention.minutes" Int - Any ReadOnly Works "minutes a partition keeps a segment; milliseconds come first";
    "log.retention.ms" Long - Any ClusterWide Works "milliseconds a partition keeps a segment; -1 keeps it for ever";
    "log.roll.hours" Int "168" AtLeast(1) ReadOnly Works "hours after which a segment is closed; milliseconds come first";
    "log.roll.jitter.hours" Int "0" AtLeast(0) ReadOnly Works
        "hours, at most, taken at random from the roll time; milliseconds come first";
    "log.roll.jitter.ms" Long - Any ClusterWide Works "milliseconds, at most, taken at random from the roll time";
    "log.roll.ms" Long - Any ClusterWide Works "milliseconds after which a segment is closed";
    "log.segment.bytes" Int "1073741824" AtLeast(1048576) ClusterWide Works
        "size at which a segment is closed and the next one begun";
    "log.segment.delete.delay.ms" Long "60000" AtLeast(0) ClusterWide Works
        "time between taking a segment out of the log and removing its file";
    "max.decompressed.message.bytes" Int "2147483639" Between(1, 2147483639) ClusterWide Works
        "largest record of a compressed batch, once unpacked; a smaller bound than the default has every compressed batch unpacked";
    "max.request.partition.size.limit" Int "2000" AtLeast(1) ReadOnly Works "partitions one request may ask about";
    "message.max.bytes" Int "1048588" AtLeast(0) ClusterWide Works "largest batch a topic accepts, after compression";
    "min.insync.replicas" Int "1" AtLeast(1) ClusterWide Works
        "replicas that must be in sync for acks=all; a partition that has fewer needs those it has; a new cluster of three or more keeps 2 as a setting of all its brokers";
    "num.partitions" Int "1" AtLeast(1) ReadOnly Works "partitions of a topic whose creator did not say";
    "num.recovery.threads.per.data.dir" Int "2" AtLeast(1) ClusterWide Accepted
        "threads per directory that recover logs at start and close them at the end";
    "producer.id.expiration.ms" Int "86400000" AtLeast(1) ClusterWide Works
        "idle time after which an idempotent producer is forgotten";
    "unclean.leader.election.enable" Boolean "false" Any ClusterWide Works
        "where no replica in sync is up, one that is behind leads; the records that it lacks are lost, acknowledged ones too";
    "cordoned.log.dirs" List "" Items PerBroker Works
        "directories of log.dirs that take no new partitions, and none that move there; * for all";
    "log.esker.compressed.verify" Boolean "false" Any ClusterWide Works
        "unpack every compressed batch and check its records as Kafka does; false does so only where its header cannot be true";
    "log.esker.durability" String "sync" OneOf(&["sync", "os"]) ClusterWide Works
        "when a record counts as written: synced to disk (sync) or handed to the system (os); transactions and internal topics are synced in any case";
    "esker.hot.tail.bytes" Long "33554432" AtLeast(0) ReadOnly Works "bytes of the newest records all partitions together keep in memory; one byte in 32 of less than 1 GiB of memory when not set";
    "esker.journal.bytes" Long "1073741824" AtLeast(2097152) ReadOnly Works "bytes of one directory's journal before appends wait for a checkpoint";
    "esker.scrub.bytes.per.second" Long "4194304" AtLeast(0) ReadOnly Works
        "pace at which closed segments of each directory are read again to find rot, once a week, and more slowly while it has other things to do; 0 for never";
    "esker.journal.piece.bytes" Long "67108864" AtLeast(1048576) ReadOnly Works "size of one journal file; files are written once and reused";
};
