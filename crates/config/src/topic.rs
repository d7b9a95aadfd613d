//! The settings of one topic, typed: its overrides on top of what the broker gives.
//!
//! Owns their meaning as numbers. Overrides are checked by [`Broker::check_topic`] before they are written; resolving one that
//! does not fit takes the default instead, so it never fails.

use crate::broker::Broker;
use crate::layers::{Layers, Overrides};
use crate::table;
use crate::value::{self, Value, ValueError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Timestamps are the producer's (`CreateTime`).
    Producer,
    /// Timestamps are the broker's (`LogAppendTime`).
    Broker,
}

/// When a record counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to disk.
    Sync,
    /// Written to the operating system.
    Os,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    pub cleanup_delete: bool,
    pub cleanup_compact: bool,
    /// `None`: batches stay as the producer compressed them.
    pub compression: Option<Codec>,
    pub gzip_level: i32,
    pub lz4_level: i32,
    pub zstd_level: i32,
    pub delete_retention_ms: i64,
    pub file_delete_delay_ms: i64,
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub index_interval_bytes: i32,
    pub max_compaction_lag_ms: i64,
    pub max_decompressed_message_bytes: i32,
    pub max_message_bytes: i32,
    pub timestamp_after_max_ms: i64,
    pub timestamp_before_max_ms: i64,
    pub timestamps: Clock,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub preallocate: bool,
    /// `None`: no bound.
    pub retention_bytes: Option<u64>,
    /// `None`: records never expire.
    pub retention_ms: Option<i64>,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election: bool,
    pub min_insync_replicas: i32,
    pub durability: Durability,
    /// Compressed batches are unpacked and checked.
    pub verifies_compressed: bool,
}

impl Topic {
    /// The settings of a topic with `overrides` on `broker`.
    #[must_use]
    pub fn resolve(overrides: &Overrides, broker: &Broker) -> Topic {
        if overrides.is_empty() {
            Topic::clone(&broker.topic)
        } else {
            Reader {
                overrides,
                layers: &broker.layers,
            }
            .topic()
        }
    }

    pub(crate) fn defaults(layers: &Layers) -> Topic {
        Reader {
            overrides: &Overrides::new(),
            layers,
        }
        .topic()
    }
}

impl Broker {
    /// Checks a topic's overrides: names first, then values, then values against each other.
    pub fn check_topic(&self, overrides: &Overrides) -> Result<(), ValueError> {
        value::check_each(
            overrides,
            |name| table::topic_setting(name).map(|topic| &topic.setting),
            |name| ValueError::UnknownTopicSetting { name },
        )?;
        let topic = Topic::resolve(overrides, self);
        if topic.max_compaction_lag_ms < topic.min_compaction_lag_ms {
            return Err(ValueError::CompactionLag {
                min: topic.min_compaction_lag_ms,
                max: topic.max_compaction_lag_ms,
            });
        }
        if overrides
            .get("remote.storage.enable")
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        {
            return Err(ValueError::NoTier);
        }
        Ok(())
    }
}

struct Reader<'a> {
    overrides: &'a Overrides,
    layers: &'a Layers,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        effective(self.overrides, self.layers, name)
    }

    fn long(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.long(name)).unwrap_or(i32::MAX)
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    fn text(&self, name: &str) -> String {
        self.value(name)
            .map(|value| value::canonical(&value))
            .unwrap_or_default()
    }

    fn topic(&self) -> Topic {
        let policy = self.text("cleanup.policy");
        Topic {
            cleanup_delete: policy.split(',').any(|item| item == "delete"),
            cleanup_compact: policy.split(',').any(|item| item == "compact"),
            compression: match self.text("compression.type").as_str() {
                "uncompressed" => Some(Codec::None),
                "gzip" => Some(Codec::Gzip),
                "snappy" => Some(Codec::Snappy),
                "lz4" => Some(Codec::Lz4),
                "zstd" => Some(Codec::Zstd),
                _ => None,
            },
            gzip_level: self.int("compression.gzip.level"),
            lz4_level: self.int("compression.lz4.level"),
            zstd_level: self.int("compression.zstd.level"),
            delete_retention_ms: self.long("delete.retention.ms"),
            file_delete_delay_ms: self.long("file.delete.delay.ms"),
            flush_messages: self.long("flush.messages"),
            flush_ms: self.long("flush.ms"),
            index_interval_bytes: self.int("index.interval.bytes"),
            max_compaction_lag_ms: self.long("max.compaction.lag.ms"),
            max_decompressed_message_bytes: self.int("max.decompressed.message.bytes"),
            max_message_bytes: self.int("max.message.bytes"),
            timestamp_after_max_ms: self.long("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: self.long("message.timestamp.before.max.ms"),
            timestamps: if self.text("message.timestamp.type") == "LogAppendTime" {
                Clock::Broker
            } else {
                Clock::Producer
            },
            min_cleanable_dirty_ratio: match self.value("min.cleanable.dirty.ratio") {
                Some(Value::Double(ratio)) => ratio,
                _ => 0.5,
            },
            min_compaction_lag_ms: self.long("min.compaction.lag.ms"),
            preallocate: self.flag("preallocate"),
            retention_bytes: u64::try_from(self.long("retention.bytes")).ok(),
            retention_ms: Some(self.long("retention.ms")).filter(|ms| 0 <= *ms),
            segment_bytes: self.int("segment.bytes"),
            segment_index_bytes: self.int("segment.index.bytes"),
            segment_jitter_ms: self.long("segment.jitter.ms"),
            segment_ms: self.long("segment.ms"),
            unclean_leader_election: self.flag("unclean.leader.election.enable"),
            min_insync_replicas: self.int("min.insync.replicas"),
            durability: if self.text("esker.durability") == "os" {
                Durability::Os
            } else {
                Durability::Sync
            },
            verifies_compressed: self.flag("esker.compressed.verify"),
        }
    }
}

/// The winning value of a topic setting.
pub(crate) fn effective(overrides: &Overrides, layers: &Layers, name: &str) -> Option<Value> {
    let topic = table::topic_setting(name)?;
    let own = overrides
        .get(name)
        .and_then(|text| value::check(&topic.setting, text).ok());
    let default = || {
        topic
            .setting
            .default
            .and_then(|text| value::check(&topic.setting, text).ok())
    };
    own.or_else(|| layers.topic_default(topic.synonyms))
        .or_else(default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{broker, overrides};

    #[test]
    fn defaults_are_those_of_kafka_4_3() {
        let topic = Topic::resolve(&Overrides::new(), &broker(""));
        assert!(
            topic.cleanup_delete
                && !topic.cleanup_compact
                && !topic.preallocate
                && !topic.unclean_leader_election
        );
        assert_eq!(topic.compression, None);
        assert_eq!(topic.retention_ms, Some(604_800_000));
        assert_eq!(topic.retention_bytes, None);
        assert_eq!(
            (topic.segment_bytes, topic.segment_ms),
            (1 << 30, 604_800_000)
        );
        assert_eq!((topic.flush_messages, topic.flush_ms), (i64::MAX, i64::MAX));
        assert_eq!(
            (topic.max_message_bytes, topic.index_interval_bytes),
            (1_048_588, 4096)
        );
        assert_eq!(
            (topic.timestamp_before_max_ms, topic.timestamp_after_max_ms),
            (i64::MAX, 3_600_000)
        );
        assert_eq!(topic.durability, Durability::Sync);
    }

    #[test]
    fn milliseconds_beat_minutes_and_minutes_beat_hours() {
        let retention = |text: &str| Topic::resolve(&Overrides::new(), &broker(text)).retention_ms;
        assert_eq!(retention("log.retention.hours=1"), Some(3_600_000));
        assert_eq!(
            retention("log.retention.hours=1\nlog.retention.minutes=1"),
            Some(60_000)
        );
        assert_eq!(
            retention("log.retention.minutes=1\nlog.retention.ms=7"),
            Some(7)
        );
        assert_eq!(retention("log.retention.hours=-1"), None);
        assert_eq!(
            retention("log.retention.ms=-1\nlog.retention.hours=2"),
            None
        );
    }

    #[test]
    fn an_unset_flush_time_is_the_time_between_looks() {
        let topic = Topic::resolve(
            &Overrides::new(),
            &broker("log.flush.scheduler.interval.ms=50"),
        );
        assert_eq!(topic.flush_ms, 50);
    }

    #[test]
    fn overrides_beat_the_broker() {
        let broker =
            broker("log.retention.ms=5\nlog.cleanup.policy=compact\nlog.esker.durability=os");
        let topic = Topic::resolve(
            &overrides(&[
                ("retention.ms", "9"),
                ("cleanup.policy", ""),
                ("compression.type", "zstd"),
            ]),
            &broker,
        );
        assert_eq!(topic.retention_ms, Some(9));
        assert!(!topic.cleanup_delete && !topic.cleanup_compact);
        assert_eq!(topic.compression, Some(Codec::Zstd));
        assert_eq!(topic.durability, Durability::Os);
        let verifies = |text, own: &[(&str, &str)]| {
            let broker = crate::fixture::broker(text);
            Topic::resolve(&overrides(own), &broker).verifies_compressed
        };
        assert!(!verifies("", &[]));
        assert!(verifies("log.esker.compressed.verify=true", &[]));
        assert!(verifies("", &[("esker.compressed.verify", "true")]));
    }

    #[test]
    fn names_are_checked_before_values_and_values_before_their_relations() {
        let broker = broker("");
        let says = |pairs: &[(&str, &str)]| {
            broker
                .check_topic(&overrides(pairs))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            says(&[("retention.ms", "q"), ("x.y", "1")]),
            "Unknown topic config name: x.y"
        );
        assert_eq!(
            says(&[
                ("min.compaction.lag.ms", "10"),
                ("max.compaction.lag.ms", "5")
            ]),
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
        );
        assert_eq!(
            says(&[("remote.storage.enable", "true")]),
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        );
        assert_eq!(
            broker.check_topic(&overrides(&[
                ("retention.bytes", "-5"),
                ("esker.durability", "os")
            ])),
            Ok(())
        );
    }
}
