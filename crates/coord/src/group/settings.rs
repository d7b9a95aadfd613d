//! The settings of groups for operators, as Kafka names them.
//!
//! Plain numbers: the driver fills them from its configuration, defaults are Kafka's.

use std::collections::BTreeMap;

use super::consumer;

/// Settings of groups of both protocols and of committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `group.min.session.timeout.ms`
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`
    pub session_timeout_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`: a new group waits for more members before its first generation.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub members_max: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `offset.metadata.max.bytes`; counted as Kafka does, in UTF-16 units.
    pub offset_metadata_max: usize,
    /// `group.consumer.*`
    pub consumer: consumer::Settings,
    /// The settings of groups with settings of their own (GROUP resources).
    pub own_consumer: BTreeMap<String, consumer::Settings>,
}

impl Settings {
    /// The settings that hold for the consumer group `id`.
    #[must_use]
    pub fn consumer_of(&self, id: &str) -> &consumer::Settings {
        self.own_consumer.get(id).unwrap_or(&self.consumer)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            members_max: i32::MAX as usize,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            offset_metadata_max: 4_096,
            consumer: consumer::Settings::default(),
            own_consumer: BTreeMap::new(),
        }
    }
}
