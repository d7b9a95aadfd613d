//! Settings that Kafka takes but does not list; taken here so that a file with one still starts the broker.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "controller.performance.always.log.threshold.ms" Long "2000" AtLeast(0) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "controller.performance.sample.period.ms" Long "60000" AtLeast(100) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "group.consumer.regex.refresh.interval.ms" Int "600000" AtLeast(10000) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "group.share.initialize.retry.interval.ms" Int "30000" AtLeast(1) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "group.share.persister.class.name" String "org.apache.kafka.server.share.persister.DefaultStatePersister" Any ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "internal.metadata.delete.delay.millis" Long "60000" Any ReadOnly Meaningless "Not for users, not even in Kafka";
    "internal.metadata.log.segment.bytes" Int - Any ReadOnly Meaningless "Not for users, not even in Kafka";
    "internal.metadata.max.batch.size.in.bytes" Int "8388608" Any ReadOnly Meaningless "Not for users, not even in Kafka";
    "log.initial.task.delay.ms" Long "30000" AtLeast(0) ReadOnly Meaningless "Not for users, not even in Kafka";
    "producer.id.expiration.check.interval.ms" Int "600000" AtLeast(1) ReadOnly Works
        "milliseconds between two looks for producers to forget";
    "remote.log.index.file.cache.ttl.ms" Long "900000" AtLeast(-1) ReadOnly Meaningless "Not for users, not even in Kafka";
    "remote.log.manager.task.retry.backoff.max.ms" Long "30000" AtLeast(1) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "remote.log.manager.task.retry.backoff.ms" Long "500" AtLeast(1) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "remote.log.manager.task.retry.jitter" Double "0.2" Share(0.5) ReadOnly Meaningless "Not for users, not even in Kafka";
    "server.max.startup.time.ms" Long "9223372036854775807" AtLeast(0) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "share.coordinator.cold.partition.snapshot.interval.ms" Int "300000" AtLeast(1) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "share.coordinator.state.topic.prune.interval.ms" Int "300000" AtLeast(1) ReadOnly Meaningless
        "Not for users, not even in Kafka";
    "unclean.leader.election.interval.ms" Long "300000" AtLeast(1) ReadOnly Works
        "milliseconds between two looks for partitions without leader that unclean.leader.election.enable gives one";
    "unstable.api.versions.enable" Boolean "false" Any ReadOnly Meaningless "Not for users, not even in Kafka";
    "unstable.feature.versions.enable" Boolean "false" Any ReadOnly Meaningless "Not for users, not even in Kafka";
};
