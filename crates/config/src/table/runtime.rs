//! Settings that steer the JVM broker alone; each is named in a warning.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "alter.config.policy.class.name" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "background.threads" Int "10" AtLeast(1) ClusterWide Meaningless "There is no pool of background threads";
    "client.quota.callback.class" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "config.providers" List "" Items ClusterWide Meaningless "Values are taken as they stand in the file";
    "create.topic.policy.class.name" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "delete.records.purgatory.purge.interval.requests" Int "1" Any ReadOnly Meaningless
        "Finished waits are removed at once";
    "fetch.purgatory.purge.interval.requests" Int "1000" Any ReadOnly Meaningless "Finished waits are removed at once";
    "kafka.metrics.polling.interval.secs" Int "10" AtLeast(1) ReadOnly Meaningless
        "Metrics reporters of the JVM cannot be loaded: esker.http.listen serves metrics";
    "kafka.metrics.reporters" List "" Items ReadOnly Meaningless "Metrics reporters of the JVM cannot be loaded: esker.http.listen serves metrics";
    "metric.reporters" List "org.apache.kafka.common.metrics.JmxReporter" Items ClusterWide Meaningless
        "Metrics reporters of the JVM cannot be loaded: esker.http.listen serves metrics";
    "metrics.num.samples" Int "2" AtLeast(1) ReadOnly Meaningless "Metrics are counted, not sampled: esker.http.listen serves them";
    "metrics.recording.level" String "INFO" Any ReadOnly Meaningless "Metrics are counted, not sampled: esker.http.listen serves them";
    "metrics.sample.window.ms" Long "30000" AtLeast(1) ReadOnly Meaningless "Metrics are counted, not sampled: esker.http.listen serves them";
    "producer.purgatory.purge.interval.requests" Int "1000" Any ReadOnly Meaningless "Finished waits are removed at once";
    "share.fetch.purgatory.purge.interval.requests" Int "1000" Any ReadOnly Meaningless
        "Finished waits are removed at once";
};
