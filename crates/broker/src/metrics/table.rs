//! The one table of metrics: name, kind, labels, meaning. The unit is the end of the name.
//!
//! The pages that a scrape gets, `docs/metrics.md`, and the checks of dashboards and alert rules all read it. A name that was
//! released stays.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Goes up until the process ends.
    Counter,
    /// Durations by size.
    Histogram,
}

impl Kind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// In the order in which a sample gives their values.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    /// The unit of a value, as the name ends.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        if name.ends_with("_bytes") {
            "bytes"
        } else if name.ends_with("_seconds") {
            "seconds"
        } else {
            ""
        }
    }
}

macro_rules! metrics {
    ($($constant:ident $name:literal $kind:ident [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Metric = Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every metric, in the order of a page.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD "esker_build_info" Gauge ["version"] "1, with the version of the broker";
    STARTED "process_start_time_seconds" Gauge [] "when the process began, in seconds since 1970";
    READY "esker_ready" Gauge [] "1 while the node serves clients, 0 while /readyz says why it does not";
    RESIDENT "process_resident_memory_bytes" Gauge [] "memory of the process";
    CPU "process_cpu_seconds_total" Counter [] "processor time of the process";
    FILES "process_open_fds" Gauge [] "files and sockets that are open";
    FILES_MAX "process_max_fds" Gauge [] "files and sockets that may be open";

    CONNECTIONS "esker_connections" Gauge [] "connections that are open";
    CONNECTIONS_MAX "esker_connections_max" Gauge []
        "connections that may be open: max.connections, or fewer where the limit of open files leaves no room for so many";
    OPENED "esker_connections_opened_total" Counter [] "connections that were accepted";
    CLOSED "esker_connections_closed_total" Counter [] "connections that ended, whoever ended them";
    LOGINS "esker_logins_total" Counter [] "logins that succeeded, of users and of nodes, those of connections that log in again among them";
    REFUSED "esker_connections_refused_total" Counter ["reason"]
        "connections that the broker turned away or cut off: per_ip (max.connections.per.ip), places (max.connections, in a cluster), garbage (bytes that are no request), version (not served), memory (requests are short of it), login (not let in, or not in time)";
    REFUSED_LOGINS "esker_logins_refused_total" Counter ["reason"]
        "logins that failed: unexpected (requests before a login), expired (a session without a new login), mechanism (not enabled, or another one than before), principal (another name than the login's), malformed, replay (the nonce or the binding of another login), credentials (no such user, or a wrong password), node (no proof of the cluster's secret)";
    CLIENTS "esker_client_connections" Gauge ["software", "version"]
        "open connections by the software that clients name; the 100 first kinds, others are software other";

    REQUESTS "esker_requests_total" Counter ["api"] "requests that were answered, by API";
    REQUEST_ERRORS "esker_request_errors_total" Counter ["api", "error"]
        "error codes in answers, by API and by Kafka's name of the error; one answer may have many";
    REQUEST_TIME "esker_request_duration_seconds" Histogram ["api"]
        "from the begin of a request's handling to its answer; a Fetch waits for records as long as its client wants";
    RECEIVED "esker_request_received_bytes_total" Counter ["api"] "bytes of requests";
    SENT "esker_request_sent_bytes_total" Counter ["api"] "bytes of answers";
    WAITING "esker_requests_waiting" Gauge [] "requests that wait for a disk, for records or for members of a group";
    FETCH_SESSIONS "esker_fetch_sessions" Gauge [] "fetch sessions that are remembered";
    PAUSES "esker_read_pauses_total" Counter []
        "times that records were left in their sockets because a log directory was overloaded: how producers are throttled";

    TOPICS "esker_topics" Gauge [] "topics";
    PARTITIONS "esker_partitions" Gauge [] "partitions with a replica on this broker (Kafka: PartitionCount)";
    PARTITIONS_OFFLINE "esker_partitions_offline" Gauge [] "of these, the ones that are neither read nor written (OfflineReplicaCount)";
    TOPIC_PARTITIONS "esker_topic_partitions" Gauge ["topic"] "partitions of a topic that this broker leads";
    TOPIC_OFFLINE "esker_topic_partitions_offline" Gauge ["topic"] "replicas of a topic on this broker that are neither read nor written";
    TOPIC_OFFSETS "esker_topic_log_end_offsets" Gauge ["topic"]
        "sum of the log ends of a topic's partitions that this broker leads: summed over brokers its rate is that of the records written";
    TOPIC_SIZE "esker_topic_size_bytes" Gauge ["topic"]
        "bytes of a topic's partitions that this broker leads, on disk, and in memory before they are there";
    TOPIC_APPENDED "esker_topic_appended_bytes_total" Counter ["topic"]
        "bytes of batches that this broker wrote to a topic as a leader (BytesInPerSec)";
    TOPIC_FETCHED "esker_topic_fetched_bytes_total" Counter ["topic"]
        "bytes of batches of a topic that this broker gave to clients; other brokers do not count (BytesOutPerSec)";

    LED "esker_partitions_led" Gauge [] "partitions that this broker leads (Kafka: LeaderCount)";
    PREFERRED "esker_partitions_preferred" Gauge []
        "partitions whose preferred leader, the first of their replicas, is this broker: as many as it leads when all are balanced";
    UNSERVED "esker_partitions_unserved" Gauge []
        "partitions that this broker leads by the metadata and does not serve: it acts as no leader, or their directory is offline";
    UNDER_REPLICATED "esker_partitions_under_replicated" Gauge []
        "partitions led here with fewer replicas in sync than they have, those that a reassignment adds not counted (UnderReplicatedPartitions)";
    BELOW_MIN_ISR "esker_partitions_below_min_isr" Gauge []
        "partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused (UnderMinIsrPartitionCount)";
    AT_MIN_ISR "esker_partitions_at_min_isr" Gauge []
        "partitions led here with just as many replicas in sync as min.insync.replicas (AtMinIsrPartitionCount)";
    ISR_SHRINKS "esker_isr_shrinks_total" Counter []
        "times that a replica fell out of the ISR of a partition led here, also when its broker was fenced (IsrShrinksPerSec)";
    ISR_GROWS "esker_isr_grows_total" Counter [] "times that a replica came into the ISR of a partition led here (IsrExpandsPerSec)";
    FOLLOWER_LAG "esker_follower_lag_records" Gauge ["follower"]
        "offsets of partitions led here that the replicas of another broker have not synced, summed (compare ReplicaFetcherManager MaxLag)";
    FOLLOWER_LAG_TIME "esker_follower_lag_seconds" Gauge ["follower"]
        "how long ago a replica of another broker had all of a partition led here, of the replica where that is longest; 0 where all have everything";
    REPLICATED_OUT "esker_replication_sent_bytes_total" Counter [] "bytes of batches that followers were sent (ReplicationBytesOutPerSec)";
    REPLICATED_IN "esker_replication_received_bytes_total" Counter []
        "bytes of batches that came from leaders and were appended (ReplicationBytesInPerSec)";
    REASSIGNING "esker_partitions_reassigning" Gauge [] "partitions led here whose replicas are being moved (ReassigningPartitions)";
    REASSIGNMENT_STALLED "esker_reassignment_stalled_seconds" Gauge []
        "the longest time for which a replica that is to come to a partition led here has synced nothing new; 0 where none is to come";
    THROTTLED "esker_replicas_throttled" Gauge ["side"]
        "replicas on this broker whose replication a rate holds back: leader (what is sent), follower (what is fetched)";

    CLUSTER_BROKERS "esker_cluster_brokers" Gauge [] "registered brokers, as far as this node knows, fenced ones too";
    CLUSTER_FENCED "esker_cluster_brokers_fenced" Gauge [] "of these, the ones that the controller takes for dead (FencedBrokerCount)";
    CLUSTER_PARTITIONS "esker_cluster_partitions" Gauge [] "partitions of the cluster (GlobalPartitionCount)";
    CLUSTER_LEADERLESS "esker_cluster_partitions_without_leader" Gauge []
        "of these, the ones that nobody leads (OfflinePartitionsCount)";
    CLUSTER_NOT_PREFERRED "esker_cluster_partitions_not_preferred" Gauge []
        "of these, the ones whose preferred replica does not lead (PreferredReplicaImbalanceCount)";
    ACTIVE_CONTROLLER "esker_active_controller" Gauge [] "1 on the node that is the active controller (ActiveControllerCount)";
    QUORUM_LEADER "esker_quorum_leader" Gauge [] "the node that leads the metadata log, as this node hears it; -1 while it hears none (current-leader)";
    QUORUM_EPOCH "esker_quorum_epoch" Gauge [] "the epoch of that leader: it rises with each election (current-epoch)";
    QUORUM_VOTERS "esker_quorum_voters" Gauge [] "voters of the metadata log (number-of-voters)";
    ELECTIONS "esker_leader_elections_total" Counter []
        "leaders of partitions that this node elected as the active controller (LeaderElectionRateAndTimeMs)";
    ELECTIONS_UNCLEAN "esker_leader_elections_unclean_total" Counter []
        "of these, replicas that may lack committed records (UncleanLeaderElectionsPerSec)";
    METADATA_END "esker_metadata_log_end_offset" Gauge [] "the end of the metadata log here (log-end-offset)";
    METADATA_LAG "esker_metadata_lag_records" Gauge [] "records that are known to be committed and that this node does not act on yet";
    METADATA_LAG_TIME "esker_metadata_lag_seconds" Gauge []
        "the age of the newest metadata that this node acts on, by the clocks of controller and node; 0 on the active controller, a lone node, and a node that has none yet (last-applied-record-lag-ms)";
    SNAPSHOT_AGE "esker_metadata_snapshot_age_seconds" Gauge []
        "since this node wrote or fetched a snapshot of the metadata, or since its start (LatestSnapshotGeneratedAgeMs)";
    SNAPSHOT_SIZE "esker_metadata_snapshot_bytes" Gauge [] "size of the newest snapshot of the metadata; 0 before the first (LatestSnapshotGeneratedBytes)";
    SNAPSHOT_FAILS "esker_metadata_snapshot_failing_seconds" Gauge []
        "for how long this node has not been able to write a snapshot of the metadata; 0 while it is";

    GROUPS "esker_groups" Gauge [] "groups with committed offsets";
    GROUP_LAG "esker_group_lag_records" Gauge ["group", "topic"]
        "offsets between what a group has committed and the high watermark, over a topic's partitions; never below the log start";
    GROUP_LAG_TIME "esker_group_lag_seconds" Gauge ["group", "topic"]
        "how long ago the oldest record came that a group has not committed, of the partition where that is longest; as exact as scrapes are frequent, and no longer than scrapes go back";

    DIR_ONLINE "esker_log_dir_online" Gauge ["dir"] "1 while a log directory is read and written";
    DIR_FULL "esker_log_dir_full" Gauge ["dir"] "1 while appends are refused because the volume is (almost) full";
    DIR_FREE "esker_log_dir_free_bytes" Gauge ["dir"] "bytes left on the volume";
    DIR_TOTAL "esker_log_dir_total_bytes" Gauge ["dir"] "bytes of the volume";
    ROUNDS "esker_journal_rounds_total" Counter ["dir"] "group commits: rounds that were written to the journal";
    ROUND_BYTES "esker_journal_written_bytes_total" Counter ["dir"] "bytes of these rounds";
    COMMIT_TIME "esker_journal_commit_duration_seconds" Histogram ["dir"] "from a round's write to the end of its sync";
    JOURNAL_LIVE "esker_journal_live_bytes" Gauge ["dir"] "bytes of the journal that a start would replay";
    CHECKPOINTS "esker_checkpoints_total" Counter ["dir"] "checkpoints that were written";
    CHECKPOINT_AGE "esker_checkpoint_age_seconds" Gauge ["dir"] "since the last checkpoint, or the start";
    UNWRITTEN "esker_unwritten_bytes" Gauge ["dir"] "durable batches that are not in segment files yet";
    COMPACTIONS "esker_compactions_total" Counter ["dir"] "passes of compaction that came to their end";
    COMPACTED "esker_compaction_moved_bytes_total" Counter ["dir"] "bytes that compaction read and wrote";
    ROT_FOUND "esker_rot_found_total" Counter ["dir"] "damaged places of segment files that readers or the scrub met; one may count more than once";
    ROT_REPAIRED "esker_rot_repaired_total" Counter ["dir"] "damaged places that were written over with what another replica has";
    ROT_UNREPAIRED "esker_rot_unrepaired" Gauge ["dir"] "damaged places that no replica in sync has well, as far as that was found out in the last ten minutes: their readers are refused";

    MEMORY_LIMIT "esker_memory_limit_bytes" Gauge [] "memory that the process may count on: of its control group or of the machine";
    MEMORY_BUDGET "esker_memory_budget_bytes" Gauge ["budget"]
        "bound of each use of memory: requests, answers, tail (newest records), unwritten (not yet in segment files), compaction";
    MEMORY_USED "esker_memory_used_bytes" Gauge ["budget"] "what is used of each budget";
}

const HEAD: &str = "# Metrics

`/metrics` on `esker.http.listen` (127.0.0.1:9644 unless set) serves these as Prometheus text, or as OpenMetrics to a client that
accepts that; `esker.otlp.endpoint` has them pushed to an OpenTelemetry collector under the same names. Written from the table in `crates/broker/src/metrics/table.rs`: `UPDATE=1 cargo test -p broker metrics` writes it anew.
Names stay; in brackets is the name of Kafka's metric with the same meaning. What begins with `esker_cluster` is the whole cluster as this node knows it: take the
largest over the nodes that are ready. Topics and groups beyond `esker.metrics.topics.max` are added up as `(other)`.

| metric | kind | labels | meaning |
|---|---|---|---|
";

/// The text of `docs/metrics.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for metric in METRICS {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        // Writing to a String does not fail.
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let mut names = BTreeSet::new();
        for metric in METRICS {
            let name = metric.name;
            assert!(names.insert(name), "{name} stands twice");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{name}");
            let is_time = name.ends_with("_duration_seconds");
            assert_eq!(is_time, metric.kind == Kind::Histogram, "{name}");
            assert!(!metric.help.is_empty() && !metric.help.contains(['\n', '\\', '|']));
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a page of the repository, not a file of the broker
    fn the_page_of_metrics_is_written_from_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, markdown()).expect("docs can be written");
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/metrics.md is stale: run UPDATE=1 cargo test -p broker metrics"
        );
    }

    /// Every name that a dashboard or an alert rule asks for is one that a page has.
    #[test]
    #[allow(clippy::disallowed_methods)] // files of the repository, not of the broker
    fn dashboards_and_alerts_name_metrics_of_the_table() {
        let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
        let mut asked = BTreeSet::new();
        for (folder, end) in [("grafana", ".json"), ("prometheus", ".yml")] {
            let entries = std::fs::read_dir(ops.join(folder)).expect("ops is there");
            for entry in entries {
                let path = entry.expect("an entry").path();
                if !path.to_string_lossy().ends_with(end) {
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("text");
                let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let words = text.split(|letter| !is_of_name(letter));
                let named =
                    words.filter(|word| word.starts_with("esker_") || word.starts_with("process_"));
                asked.extend(named.map(str::to_owned));
            }
        }
        for name in &asked {
            let is_known = METRICS.iter().any(|metric| {
                let rest = name.strip_prefix(metric.name);
                match metric.kind {
                    Kind::Histogram => matches!(rest, Some("_bucket" | "_sum" | "_count")),
                    Kind::Gauge | Kind::Counter => rest == Some(""),
                }
            });
            assert!(is_known, "{name}");
        }
        let unseen: Vec<_> = METRICS
            .iter()
            .filter(|metric| !asked.iter().any(|name| name.starts_with(metric.name)))
            .collect();
        assert!(unseen.is_empty(), "no dashboard shows {unseen:?}");
    }
}
