//! The settings the loops read, taken once from the settings table: numbers with units, no names.

mod txns;

use std::sync::Arc;
use std::time::Duration;

use coord::group::consumer::assignor::Assignor;
use coord::group::consumer::{self, Bounded, Migration};
use log::config::{Cleanup, Durability, LogConfig, TopicCompression};
use meta::Image;
use meta::decide::register_broker::TRANSACTION_VERSION;
use partition::{CleanerSettings, DirSettings};
use security::authorize::Operation;
use wire::records::{Codec, Compression, TimestampType};

pub(crate) use txns::txn_settings;

use crate::asker::Asker;
use crate::asker::access::Resource;

#[derive(Clone, Debug)]
pub struct Settings {
    pub broker: Arc<config::Broker>,
    pub(crate) frame_bytes_max: i32,
    pub(crate) fetch_bytes_max: usize,
    pub(crate) fetch_session_slots: usize,
    pub(crate) request_bytes_max: usize,
    /// Names, partitions and whatever else one request may list.
    pub(crate) elements_max: usize,
    /// Topics, and groups, with metrics of their own.
    pub(crate) metrics_topics_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) connections_per_ip_max: usize,
    /// Of the listener that brokers use among themselves, where clients have another.
    pub(crate) protected_ports: Vec<u16>,
    pub(crate) connection_idle_max: Duration,
    /// Bytes of the metadata log between two snapshots, at most.
    pub(crate) snapshot_bytes_max: u64,
    /// The same is snapshotted after so long; zero: never for that.
    pub(crate) snapshot_interval: Duration,
    /// An active controller that writes nothing for so long writes that; zero: never.
    pub(crate) metadata_idle_max: Duration,
    /// How long a change of the metadata whose request names no time may take to become durable.
    pub(crate) request_wait_max: Duration,
    /// How long what a coordinator wrote for a request may take to become durable.
    pub(crate) coordinator_wait_max: Duration,
    pub(crate) groups: Arc<coord::group::Settings>,
    /// `group.coordinator.rebalance.protocols` names the one of KIP-848.
    pub(crate) has_consumer_protocol: bool,
    /// The level that the cluster has agreed on.
    pub(crate) transaction_version: i16,
}

/// Ten years: an idle limit that is switched off.
const NO_IDLE_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Settings {
    /// True if the asker is another node: it has proved that, or may act for the cluster by a rule, or none need to prove it.
    pub(crate) fn trusts(&self, asker: &Asker) -> bool {
        let may = || {
            let is_asked = asker.authority.is_some();
            is_asked && asker.may(Operation::ClusterAction, Resource::CLUSTER)
        };
        asker.principal.is_node() || self.broker.quorum.is_insecure || may()
    }

    /// Of a broker, of the groups that have settings of their own, and of what the cluster has agreed on.
    pub(crate) fn new(broker: config::Broker, image: &Image) -> Settings {
        let mut groups = group_settings(&broker);
        let own = image.group_overrides().map(|(id, overrides)| {
            let settings = groups.consumer.for_group(&own_consumer_settings(overrides));
            (id.to_owned(), settings)
        });
        groups.own_consumer = own.collect();
        let milliseconds = |name: &str| {
            let ms = broker.number(name).unwrap_or_default();
            Duration::from_millis(u64::try_from(ms).unwrap_or_default())
        };
        Settings {
            frame_bytes_max: i32::try_from(broker.request_bytes_max).unwrap_or(i32::MAX),
            fetch_bytes_max: broker.fetch_bytes_max,
            fetch_session_slots: broker.fetch_sessions_max,
            request_bytes_max: usize::try_from(broker.queued_bytes_max).unwrap_or(usize::MAX),
            elements_max: elements_max(broker.memory.limit),
            metrics_topics_max: broker
                .number("esker.metrics.topics.max")
                .and_then(|most| usize::try_from(most).ok())
                .unwrap_or_default(),
            connections_max: broker.connections_max,
            connections_per_ip_max: broker.connections_per_ip_max,
            protected_ports: protected_ports(&broker),
            connection_idle_max: broker.connection_idle_max.unwrap_or(NO_IDLE_LIMIT),
            snapshot_bytes_max: broker
                .number("metadata.log.max.record.bytes.between.snapshots")
                .and_then(|most| u64::try_from(most).ok())
                .unwrap_or(u64::MAX),
            snapshot_interval: milliseconds("metadata.log.max.snapshot.interval.ms"),
            metadata_idle_max: milliseconds("metadata.max.idle.interval.ms"),
            request_wait_max: milliseconds("request.timeout.ms"),
            coordinator_wait_max: milliseconds("offsets.commit.timeout.ms"),
            groups: Arc::new(groups),
            has_consumer_protocol: broker
                .text("group.coordinator.rebalance.protocols")
                .is_some_and(|protocols| protocols.split(',').any(|name| name == "consumer")),
            transaction_version: image.feature(TRANSACTION_VERSION),
            broker: Arc::new(broker),
        }
    }

    pub(crate) fn cleaner(&self) -> CleanerSettings {
        let cleaner = &self.broker.cleaner;
        CleanerSettings {
            is_enabled: cleaner.is_enabled,
            threads: cleaner.threads,
            backoff: cleaner.backoff,
            map_bytes: cleaner.dedupe_bytes,
            map_load: cleaner.load_factor,
            bytes_per_second: cleaner.bytes_per_second,
        }
    }

    /// The settings of each log directory.
    pub(crate) fn dir(&self) -> DirSettings {
        let piece = self.broker.journal_piece_bytes;
        // These bound all directories together.
        let dirs = self.broker.log_dirs.len().max(1);
        let hot_tail_bytes = usize::try_from(self.broker.hot_tail_bytes).unwrap_or(usize::MAX);
        DirSettings {
            journal_piece_bytes: piece,
            journal_first_piece_bytes: piece.min(FIRST_PIECE_BYTES),
            checkpoint_bytes: (self.broker.journal_bytes / 4).max(piece.min(FIRST_PIECE_BYTES)),
            hot_tail_bytes: hot_tail_bytes / dirs,
            scrub_bytes_per_second: self.broker.scrub_bytes_per_second,
            unwritten_bytes_max: usize::try_from(self.broker.memory.unwritten)
                .unwrap_or(usize::MAX)
                / dirs,
            reserve_bytes: RESERVE_BYTES,
            segment_files_open_max: (self.broker.segment_files_max / dirs).max(1),
            retention_check: self.broker.retention_check_interval,
            producer_expiration_ms: i64::try_from(self.broker.producer_id_expiration.as_millis())
                .unwrap_or(i64::MAX),
            producer_expiration_check: self.broker.producer_id_expiration_check,
        }
    }
}

/// Names, partitions and whatever else one request may list. With its question and its part of the answer a name of one byte takes
/// up to 700, so these are some 180 MiB; a large cluster has fewer partitions. Where memory is little, what they take is a 16th of
/// it at most. A request that lists more closes its connection.
pub(crate) const ELEMENTS_MAX: usize = 1 << 18;
const ELEMENT_BYTES: u64 = 700;
const ELEMENTS_SHARE: u64 = 16;

fn elements_max(memory: u64) -> usize {
    if memory == 0 {
        return ELEMENTS_MAX;
    }
    let most = usize::try_from(memory / ELEMENTS_SHARE / ELEMENT_BYTES);
    most.unwrap_or(ELEMENTS_MAX).min(ELEMENTS_MAX)
}

/// Of the listeners that nodes use among themselves: `inter.broker.listener.name`, or the one named after
/// `security.inter.broker.protocol`, where clients have another, and that of controllers. None where clients have none at all.
fn protected_ports(broker: &config::Broker) -> Vec<u16> {
    let inside = broker
        .text("inter.broker.listener.name")
        .or_else(|| broker.text("security.inter.broker.protocol"))
        .map(|name| name.to_uppercase());
    let has_others = 1 < broker.listeners.len();
    let is_inside = |door: &&config::Listener| has_others && Some(&door.name) == inside.as_ref();
    let inside = broker.listeners.iter().filter(is_inside);
    let controllers = broker.quorum.controller_listener.iter();
    let controllers = controllers.filter(|_| !broker.listeners.is_empty());
    inside.chain(controllers).map(|door| door.port).collect()
}

/// The settings of group coordinators.
fn group_settings(broker: &config::Broker) -> coord::group::Settings {
    let standard = coord::group::Settings::default();
    let number = |name: &str, standard: i64| broker.number(name).unwrap_or(standard);
    let int = |name: &str, standard: i32| {
        i32::try_from(number(name, i64::from(standard))).unwrap_or(standard)
    };
    let size = |name: &str, standard: usize| usize::try_from(number(name, -1)).unwrap_or(standard);
    let retention = number(
        "offsets.retention.minutes",
        standard.offsets_retention_ms / 60_000,
    );
    coord::group::Settings {
        session_timeout_ms_min: int(
            "group.min.session.timeout.ms",
            standard.session_timeout_ms_min,
        ),
        session_timeout_ms_max: int(
            "group.max.session.timeout.ms",
            standard.session_timeout_ms_max,
        ),
        initial_rebalance_delay_ms: int(
            "group.initial.rebalance.delay.ms",
            standard.initial_rebalance_delay_ms,
        ),
        members_max: size("group.max.size", standard.members_max),
        offsets_retention_ms: retention.saturating_mul(60_000),
        offsets_retention_check_interval_ms: number(
            "offsets.retention.check.interval.ms",
            standard.offsets_retention_check_interval_ms,
        ),
        offset_metadata_max: size("offset.metadata.max.bytes", standard.offset_metadata_max),
        consumer: consumer_settings(broker, standard.consumer),
        own_consumer: standard.own_consumer,
    }
}

/// A group's own settings among those of KIP-848 groups.
fn own_consumer_settings(overrides: &config::Overrides) -> consumer::Overrides {
    let int = |name: &str| {
        let number = config::group_number(overrides, name)?;
        i32::try_from(number).ok()
    };
    consumer::Overrides {
        session_timeout_ms: int("consumer.session.timeout.ms"),
        heartbeat_interval_ms: int("consumer.heartbeat.interval.ms"),
        assignment_interval_ms: int("consumer.assignment.interval.ms"),
    }
}

/// The settings of KIP-848 groups (`group.consumer.*`).
fn consumer_settings(broker: &config::Broker, standard: consumer::Settings) -> consumer::Settings {
    let int = |name: &str, standard: i32| {
        let number = broker.number(&format!("group.consumer.{name}"));
        number
            .and_then(|number| i32::try_from(number).ok())
            .unwrap_or(standard)
    };
    let bounded = |name: &str, standard: Bounded| Bounded {
        value: int(name, standard.value),
        min: int(&format!("min.{name}"), standard.min),
        max: int(&format!("max.{name}"), standard.max),
    };
    let size = |name: &str, standard: usize| {
        let number = broker.number(name);
        number
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(standard)
    };
    let assignors: Vec<Assignor> = broker
        .text("group.consumer.assignors")
        .unwrap_or_default()
        .split(',')
        .filter_map(|name| Assignor::named(name.trim()))
        .collect();
    let migration = broker.text("group.consumer.migration.policy");
    consumer::Settings {
        session_timeout_ms: bounded("session.timeout.ms", standard.session_timeout_ms),
        heartbeat_interval_ms: bounded("heartbeat.interval.ms", standard.heartbeat_interval_ms),
        moving_interval_ms_min: broker
            .given_number("group.consumer.min.heartbeat.interval.ms")
            .and_then(|number| i32::try_from(number).ok())
            .unwrap_or(standard.moving_interval_ms_min),
        assignment_interval_ms: bounded("assignment.interval.ms", standard.assignment_interval_ms),
        members_max: size("group.consumer.max.size", standard.members_max),
        assignors: if assignors.is_empty() {
            standard.assignors
        } else {
            assignors
        },
        migration: match migration
            .map(|policy| policy.to_ascii_lowercase())
            .as_deref()
        {
            Some("disabled") => Migration::Disabled,
            Some("upgrade") => Migration::Upgrade,
            Some("downgrade") => Migration::Downgrade,
            _ => Migration::Bidirectional,
        },
        classic_members_max: size("group.max.size", standard.classic_members_max),
    }
}

/// Small enough to be zeroed within milliseconds at the first start.
const FIRST_PIECE_BYTES: u64 = 16 << 20;
/// Left free on a volume for checkpoints, indexes and metadata.
const RESERVE_BYTES: u64 = 64 << 20;

/// The settings of the log of topic `name`. Whatever a setting says, what the broker keeps for itself is synced: groups and
/// transactions rest on it, also those of topics that are not relaxed.
pub(crate) fn log_config_of(
    name: &str,
    overrides: &config::Overrides,
    broker: &config::Broker,
) -> Arc<LogConfig> {
    let mut config = log_config(&config::Topic::resolve(overrides, broker));
    if meta::name::is_internal(name) {
        config.durability = Durability::Sync;
    }
    Arc::new(config)
}

pub(crate) fn log_config(topic: &config::Topic) -> LogConfig {
    let bytes = |number: i32| u64::try_from(number).unwrap_or(0);
    LogConfig {
        segment_bytes: bytes(topic.segment_bytes),
        segment_ms: topic.segment_ms,
        segment_jitter_ms: topic.segment_jitter_ms,
        segment_index_bytes: bytes(topic.segment_index_bytes),
        index_interval_bytes: bytes(topic.index_interval_bytes),
        preallocate: topic.preallocate,
        retention_ms: topic.retention_ms,
        retention_bytes: topic.retention_bytes,
        // No topic tiers as yet.
        local_retention: None,
        file_delete_delay_ms: topic.file_delete_delay_ms,
        cleanup_policy: Cleanup {
            delete: topic.cleanup_delete,
            compact: topic.cleanup_compact,
        },
        delete_retention_ms: topic.delete_retention_ms,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        min_cleanable_dirty_ratio: topic.min_cleanable_dirty_ratio,
        max_message_bytes: bytes(topic.max_message_bytes),
        max_decompressed_message_bytes: topic.max_decompressed_message_bytes,
        message_timestamp_type: match topic.timestamps {
            config::Clock::Producer => TimestampType::CreateTime,
            config::Clock::Broker => TimestampType::LogAppendTime,
        },
        message_timestamp_before_max_ms: topic.timestamp_before_max_ms,
        message_timestamp_after_max_ms: topic.timestamp_after_max_ms,
        compression: topic
            .compression
            .map_or(TopicCompression::Producer, |codec| {
                TopicCompression::As(compression(codec, topic))
            }),
        unclean_leader_election: topic.unclean_leader_election,
        in_sync_replicas_min: usize::try_from(topic.min_insync_replicas).unwrap_or(1),
        flush_messages: topic.flush_messages,
        flush_ms: topic.flush_ms,
        verifies_compressed: topic.verifies_compressed,
        durability: match topic.durability {
            config::Durability::Sync => Durability::Sync,
            config::Durability::Os => Durability::Os,
        },
        may_use_reserve: false,
    }
}

fn compression(codec: config::Codec, topic: &config::Topic) -> Compression {
    let (codec, level) = match codec {
        config::Codec::None => (Codec::None, None),
        config::Codec::Gzip => (Codec::Gzip, Some(topic.gzip_level)),
        config::Codec::Snappy => (Codec::Snappy, None),
        config::Codec::Lz4 => (Codec::Lz4, Some(topic.lz4_level)),
        config::Codec::Zstd => (Codec::Zstd, Some(topic.zstd_level)),
    };
    Compression { codec, level }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = config::Settings::default();
        for (name, value) in pairs {
            settings.put(name, value).expect("a known setting");
        }
        let machine = config::Machine {
            cores: 2,
            memory_bytes: 0,
            descriptors: 20_000,
        };
        let broker = config::Broker::new(settings, machine).expect("settings that fit each other");
        Settings::new(broker, &Image::default())
    }

    #[test]
    fn directories_share_what_is_bounded_for_all_partitions_together() {
        let dir = |log_dirs: &str| {
            settings(&[("log.dirs", log_dirs), ("esker.hot.tail.bytes", "4000000")]).dir()
        };
        let (one, four) = (dir("/a"), dir("/a,/b,/c,/d"));
        assert_eq!(one.hot_tail_bytes, 4_000_000);
        assert_eq!(four.hot_tail_bytes, 1_000_000);
        assert!(4 <= one.segment_files_open_max);
        assert_eq!(four.segment_files_open_max, one.segment_files_open_max / 4);
    }

    #[test]
    fn settings_of_groups_arrive_under_their_names_and_in_their_units() {
        let set = settings(&[
            ("group.max.size", "11"),
            ("group.min.session.timeout.ms", "12"),
            ("group.max.session.timeout.ms", "13000"),
            ("group.initial.rebalance.delay.ms", "14"),
            ("offsets.retention.minutes", "15"),
            ("offsets.retention.check.interval.ms", "16"),
            ("offset.metadata.max.bytes", "17"),
        ]);
        let groups = &*set.groups;
        assert_eq!(groups.members_max, 11);
        assert_eq!(groups.consumer.classic_members_max, 11);
        assert_eq!(groups.session_timeout_ms_min, 12);
        assert_eq!(groups.session_timeout_ms_max, 13_000);
        assert_eq!(groups.initial_rebalance_delay_ms, 14);
        assert_eq!(groups.offsets_retention_ms, 15 * 60 * 1000);
        assert_eq!(groups.offsets_retention_check_interval_ms, 16);
        assert_eq!(groups.offset_metadata_max, 17);
    }

    #[test]
    fn settings_of_consumer_groups_arrive_under_their_names_and_in_their_units() {
        let set = settings(&[
            ("group.consumer.max.size", "21"),
            ("group.consumer.assignors", "range, uniform"),
            ("group.consumer.session.timeout.ms", "46000"),
            ("group.consumer.min.session.timeout.ms", "45001"),
            ("group.consumer.max.session.timeout.ms", "60001"),
            ("group.consumer.heartbeat.interval.ms", "5002"),
            ("group.consumer.min.heartbeat.interval.ms", "5001"),
            ("group.consumer.max.heartbeat.interval.ms", "15001"),
            ("group.consumer.assignment.interval.ms", "1002"),
            ("group.consumer.min.assignment.interval.ms", "1"),
            ("group.consumer.max.assignment.interval.ms", "15002"),
        ]);
        let consumer = &set.groups.consumer;
        let bounded = |bounded: &Bounded| (bounded.min, bounded.value, bounded.max);
        assert_eq!(consumer.members_max, 21);
        assert_eq!(consumer.assignors, [Assignor::Range, Assignor::Uniform]);
        assert_eq!(
            bounded(&consumer.session_timeout_ms),
            (45_001, 46_000, 60_001)
        );
        assert_eq!(
            bounded(&consumer.heartbeat_interval_ms),
            (5_001, 5_002, 15_001)
        );
        assert_eq!(consumer.moving_interval_ms_min, 5_001);
        assert_eq!(
            bounded(&consumer.assignment_interval_ms),
            (1, 1_002, 15_002)
        );
    }

    #[test]
    fn the_policy_of_migration_and_the_protocols_arrive_by_name() {
        for (policy, wanted) in [
            ("DISABLED", Migration::Disabled),
            ("upgrade", Migration::Upgrade),
            ("Downgrade", Migration::Downgrade),
            ("bidirectional", Migration::Bidirectional),
        ] {
            let set = settings(&[("group.consumer.migration.policy", policy)]);
            assert_eq!(set.groups.consumer.migration, wanted, "{policy}");
        }
        for (protocols, has_consumer) in [
            ("classic", false),
            ("classic,consumer", true),
            ("classic, consumer", true),
            ("consumer", true),
            ("classic,streams", false),
        ] {
            let set = settings(&[("group.coordinator.rebalance.protocols", protocols)]);
            assert_eq!(set.has_consumer_protocol, has_consumer, "{protocols}");
        }
    }

    /// The settings when nothing is set: Kafka's defaults, in the units that the coordinator counts in.
    #[test]
    fn settings_that_nobody_set_are_those_of_kafka() {
        let set = settings(&[]);
        let groups = &*set.groups;
        assert_eq!(groups.members_max, i32::MAX as usize);
        assert_eq!(groups.offsets_retention_ms, 7 * 24 * 3600 * 1000);
        assert_eq!(groups.offsets_retention_check_interval_ms, 600_000);
        assert_eq!(groups.consumer.members_max, i32::MAX as usize);
        assert_eq!(groups.consumer.migration, Migration::Bidirectional);
        assert!(set.has_consumer_protocol);
    }

    #[test]
    fn what_the_broker_keeps_for_itself_is_synced_whatever_a_setting_says() {
        let relaxed = settings(&[("log.esker.durability", "os")]);
        let own = config::Overrides::from([("esker.durability".to_owned(), "os".to_owned())]);
        for overrides in [&config::Overrides::default(), &own] {
            let durability = |name| log_config_of(name, overrides, &relaxed.broker).durability;
            assert_eq!(durability("orders"), Durability::Os);
            for name in [meta::name::OFFSETS, meta::name::TRANSACTIONS] {
                assert_eq!(durability(name), Durability::Sync, "{name}");
            }
        }
    }
}
