//! Settings of one topic's logs, typed, with Kafka's names and defaults.
//!
//! Shared as `Arc<LogConfig>` and replaced whole when a setting changes; whoever is in the middle of something finishes with
//! the settings it started with. Does not parse: that is `config`'s part.

use wire::records::{Caps, Compression, TimestampType};

/// When a batch counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After a sync of the disk.
    #[default]
    Sync,
    /// When it is in the page cache (what Kafka calls written).
    Os,
}

/// The broker's treatment of the batches of producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TopicCompression {
    /// Keeps what the producer chose.
    #[default]
    Producer,
    /// Compresses anew whatever comes in another codec.
    As(Compression),
}

/// `cleanup.policy`; neither means that everything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanup {
    pub delete: bool,
    pub compact: bool,
}

/// How long, and how much of, a log is kept; `None` is without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Retention {
    pub ms: Option<i64>,
    /// Per partition.
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// At most `i32::MAX`: positions in the index are 32 bits wide.
    pub segment_bytes: u64,
    pub segment_ms: i64,
    pub segment_jitter_ms: i64,
    /// Size of an offset index that makes its segment full.
    pub segment_index_bytes: u64,
    pub index_interval_bytes: u64,
    pub preallocate: bool,
    /// `None` keeps for ever.
    pub retention_ms: Option<i64>,
    /// Per partition; `None` is without bound.
    pub retention_bytes: Option<u64>,
    /// How much of what is tiered stays in local files; `None` where the topic does not tier.
    pub local_retention: Option<Retention>,
    pub file_delete_delay_ms: i64,
    pub cleanup_policy: Cleanup,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub max_compaction_lag_ms: i64,
    pub min_cleanable_dirty_ratio: f64,
    pub max_message_bytes: u64,
    /// Largest record of a compressed batch, wherever one is unpacked to be checked, compacted or looked through for times.
    pub max_decompressed_message_bytes: i32,
    pub message_timestamp_type: TimestampType,
    /// How far a record's own time may lie before and after ours.
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_after_max_ms: i64,
    pub compression: TopicCompression,
    /// Every compressed batch of a client is unpacked and its records are checked, as those of the others are.
    pub verifies_compressed: bool,
    pub unclean_leader_election: bool,
    /// Replicas that must be in sync for `acks=all`.
    pub in_sync_replicas_min: usize,
    /// Kept for tools that read it back; `durability` decides.
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub durability: Durability,
    /// Appends go on when a volume is full but for its reserve: the metadata, without which nothing could be deleted.
    pub may_use_reserve: bool,
}

impl LogConfig {
    /// What a compressed batch may become.
    #[must_use]
    pub fn caps(&self) -> Caps {
        Caps {
            record_bytes_max: self.max_decompressed_message_bytes,
            ..Caps::default()
        }
    }

    /// Age at which a segment is closed. One that must be compacted in time must be closed in time.
    #[must_use]
    pub fn roll_ms(&self) -> i64 {
        if self.cleanup_policy.compact && self.max_compaction_lag_ms > 0 {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }
}

const DAY_MS: i64 = 24 * 3600 * 1000;

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            preallocate: false,
            retention_ms: Some(7 * DAY_MS),
            retention_bytes: None,
            local_retention: None,
            file_delete_delay_ms: 60_000,
            cleanup_policy: Cleanup {
                delete: true,
                compact: false,
            },
            delete_retention_ms: DAY_MS,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            max_message_bytes: 1_048_588,
            max_decompressed_message_bytes: i32::MAX - 8,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: 3_600_000,
            compression: TopicCompression::Producer,
            verifies_compressed: false,
            unclean_leader_election: false,
            in_sync_replicas_min: 1,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            durability: Durability::Sync,
            may_use_reserve: false,
        }
    }
}
