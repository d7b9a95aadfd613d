//! Levels of `metadata.version` and of the other features, as Kafka 4.4 has them.
//!
//! Owns which records a level knows, and in which version it writes each. A record is written at the level that is finalized, not
//! at the newest: a node that knows no more than that level has to read it.

use crate::record::Record;

/// The feature that counts versions of the records.
pub const METADATA_VERSION: &str = "metadata.version";
/// With level 1 the quorum's voters are in its log (KIP-853); written to control records alone.
pub const KRAFT_VERSION: &str = "kraft.version";
/// With level 2 each transaction has an epoch of its own, and brokers add the partitions (KIP-890).
pub const TRANSACTION_VERSION: &str = "transaction.version";
/// With level 1 there are groups of the consumer protocol (KIP-848).
pub const GROUP_VERSION: &str = "group.version";
/// With level 1 replicas that left the ISR below its minimum stay eligible to lead (KIP-966).
pub const ELR_VERSION: &str = "eligible.leader.replicas.version";
/// With level 1 there are share groups (KIP-932), with level 2 their dead letter queues.
pub const SHARE_VERSION: &str = "share.version";
/// With level 1 there are groups of the streams protocol (KIP-1071).
pub const STREAMS_VERSION: &str = "streams.version";

/// A level of `metadata.version` that Kafka 4.4 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataVersion(i16);

struct Row {
    name: &'static str,
    /// The level came with a new record or a new field of one.
    changes_records: bool,
}

const fn row(name: &'static str, changes_records: bool) -> Row {
    Row {
        name,
        changes_records,
    }
}

const SAME: bool = false;
const CHANGED: bool = true;

/// From [`MetadataVersion::OLDEST`] on.
const TABLE: [Row; 27] = [
    row("3.3-IV3", CHANGED),
    row("3.4-IV0", CHANGED),
    row("3.5-IV0", SAME),
    row("3.5-IV1", SAME),
    row("3.5-IV2", CHANGED),
    row("3.6-IV0", SAME),
    row("3.6-IV1", CHANGED),
    row("3.6-IV2", CHANGED),
    row("3.7-IV0", CHANGED),
    row("3.7-IV1", SAME),
    row("3.7-IV2", CHANGED),
    row("3.7-IV3", SAME),
    row("3.7-IV4", SAME),
    row("3.8-IV0", SAME),
    row("3.9-IV0", SAME),
    row("4.0-IV0", SAME),
    row("4.0-IV1", CHANGED),
    row("4.0-IV2", SAME),
    row("4.0-IV3", SAME),
    row("4.1-IV0", SAME),
    row("4.1-IV1", SAME),
    row("4.2-IV0", SAME),
    row("4.2-IV1", SAME),
    row("4.3-IV0", CHANGED),
    row("4.4-IV0", SAME),
    row("4.4-IV1", CHANGED),
    row("4.4-IV2", CHANGED),
];

impl MetadataVersion {
    /// Kafka 3.3: the first that has no ZooKeeper.
    pub const OLDEST: MetadataVersion = MetadataVersion(7);
    /// Marks of a migration from ZooKeeper.
    pub const V3_4_IV0: MetadataVersion = MetadataVersion(8);
    /// SCRAM credentials.
    pub const V3_5_IV2: MetadataVersion = MetadataVersion(11);
    /// A shrunk ISR no longer needs a new leader epoch (KAFKA-15021).
    pub const V3_6_IV0: MetadataVersion = MetadataVersion(12);
    /// Metadata transactions (KIP-868).
    pub const V3_6_IV1: MetadataVersion = MetadataVersion(13);
    /// Delegation tokens.
    pub const V3_6_IV2: MetadataVersion = MetadataVersion(14);
    /// Controllers register (KIP-919).
    pub const V3_7_IV0: MetadataVersion = MetadataVersion(15);
    /// Directories of replicas (KIP-858).
    pub const V3_7_IV2: MetadataVersion = MetadataVersion(17);
    /// Voters in the log (KIP-853).
    pub const V3_9_IV0: MetadataVersion = MetadataVersion(21);
    pub const V4_0_IV0: MetadataVersion = MetadataVersion(22);
    /// Eligible leader replicas (KIP-966).
    pub const V4_0_IV1: MetadataVersion = MetadataVersion(23);
    pub const V4_0_IV2: MetadataVersion = MetadataVersion(24);
    pub const V4_1_IV0: MetadataVersion = MetadataVersion(26);
    pub const V4_2_IV0: MetadataVersion = MetadataVersion(28);
    pub const V4_2_IV1: MetadataVersion = MetadataVersion(29);
    /// Cordoned directories (KIP-1066).
    pub const V4_3_IV0: MetadataVersion = MetadataVersion(30);
    /// Share groups with a dead letter queue.
    pub const V4_4_IV0: MetadataVersion = MetadataVersion(31);
    /// Rules of access for ranges of addresses. A rule is a record as before; an older node does not know what its host means.
    pub const V4_4_IV1: MetadataVersion = MetadataVersion(32);
    /// Controllers unregister.
    pub const V4_4_IV2: MetadataVersion = MetadataVersion(33);
    pub const LATEST: MetadataVersion = MetadataVersion::V4_4_IV2;

    #[must_use]
    pub fn from_level(level: i16) -> Option<MetadataVersion> {
        let known = MetadataVersion::OLDEST.0..=MetadataVersion::LATEST.0;
        known.contains(&level).then_some(MetadataVersion(level))
    }

    /// From `4.0-IV1`, or from `4.0` for the last of a release.
    #[must_use]
    pub fn from_name(name: &str) -> Option<MetadataVersion> {
        let is_named = |row: &Row| {
            let rest = row.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let at = TABLE.iter().rposition(is_named)?;
        MetadataVersion::from_level(MetadataVersion::OLDEST.0 + i16::try_from(at).ok()?)
    }

    #[must_use]
    pub const fn level(self) -> i16 {
        self.0
    }

    fn index(self) -> usize {
        usize::try_from(self.0 - MetadataVersion::OLDEST.0).unwrap_or(0)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE[self.index()].name
    }

    /// True if a log written at this level may hold what an `older` one does not know.
    #[must_use]
    pub fn adds_records_to(self, older: MetadataVersion) -> bool {
        let between = TABLE.get(older.index() + 1..=self.index());
        between
            .unwrap_or_default()
            .iter()
            .any(|row| row.changes_records)
    }

    /// The version that this level writes `record` in; `None` where it has no such record.
    #[must_use]
    pub fn record_version(self, record: &Record) -> Option<i16> {
        let since = |first: MetadataVersion| (first <= self).then_some(0);
        match record {
            Record::RegisterBroker(_) => Some(match self {
                _ if MetadataVersion::V4_3_IV0 <= self => 4,
                _ if MetadataVersion::V3_7_IV2 <= self => 3,
                _ if MetadataVersion::V3_4_IV0 <= self => 2,
                _ => 1,
            }),
            Record::Partition(_) | Record::PartitionChange(_) => Some(match self {
                _ if MetadataVersion::V4_0_IV1 <= self => 2,
                _ if MetadataVersion::V3_7_IV2 <= self => 1,
                _ => 0,
            }),
            // Kafka writes the oldest that has what is said.
            Record::BrokerRegistrationChange(change) => {
                if change.cordoned_log_dirs.is_some() {
                    (MetadataVersion::V4_3_IV0 <= self).then_some(3)
                } else if !change.log_dirs.is_empty() {
                    (MetadataVersion::V3_7_IV2 <= self).then_some(2)
                } else {
                    Some(i16::from(change.in_controlled_shutdown != 0))
                }
            }
            Record::ZkMigrationState(_) => since(MetadataVersion::V3_4_IV0),
            Record::UserScramCredential(_) | Record::RemoveUserScramCredential(_) => {
                since(MetadataVersion::V3_5_IV2)
            }
            Record::BeginTransaction(_)
            | Record::EndTransaction(_)
            | Record::AbortTransaction(_) => since(MetadataVersion::V3_6_IV1),
            Record::DelegationToken(_) | Record::RemoveDelegationToken(_) => {
                since(MetadataVersion::V3_6_IV2)
            }
            Record::RegisterController(_) => since(MetadataVersion::V3_7_IV0),
            Record::UnregisterController(_) => since(MetadataVersion::V4_4_IV2),
            Record::ClearElr(_) => since(MetadataVersion::V4_0_IV1),
            Record::Topic(_)
            | Record::RemoveTopic(_)
            | Record::Config(_)
            | Record::FeatureLevel(_)
            | Record::FenceBroker(_)
            | Record::UnfenceBroker(_)
            | Record::UnregisterBroker(_)
            | Record::ProducerIds(_)
            | Record::ClientQuota(_)
            | Record::AccessControlEntry(_)
            | Record::RemoveAccessControlEntry(_)
            | Record::NoOp(_) => Some(0),
        }
    }

    /// `record` without what this level cannot say of it.
    #[must_use]
    pub fn fit(self, record: &Record) -> Record {
        let has_directories = MetadataVersion::V3_7_IV2 <= self;
        let has_eligible = MetadataVersion::V4_0_IV1 <= self;
        let has_cordons = MetadataVersion::V4_3_IV0 <= self;
        let mut record = record.clone();
        match &mut record {
            Record::RegisterBroker(broker) => {
                if !has_directories {
                    broker.log_dirs.clear();
                }
                if !has_cordons {
                    broker.cordoned_log_dirs = None;
                }
                broker.is_migrating_zk_broker &= MetadataVersion::V3_4_IV0 <= self;
            }
            Record::BrokerRegistrationChange(change) => {
                if !has_directories {
                    change.log_dirs.clear();
                }
                if !has_cordons {
                    change.cordoned_log_dirs = None;
                }
            }
            Record::Partition(partition) => {
                if !has_directories {
                    partition.directories.clear();
                }
                if !has_eligible {
                    partition.eligible_leader_replicas = None;
                    partition.last_known_elr = None;
                }
            }
            Record::PartitionChange(change) => {
                if !has_directories {
                    change.directories = None;
                }
                if !has_eligible {
                    change.eligible_leader_replicas = None;
                    change.last_known_elr = None;
                }
            }
            _ => {}
        }
        record
    }
}

/// A level of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureLevel {
    pub level: i16,
    /// A cluster formatted with this `metadata.version` or a later one begins with the level.
    pub since: MetadataVersion,
    /// It cannot be finalized below this `metadata.version`.
    pub needs: MetadataVersion,
}

const fn level(level: i16, since: MetadataVersion, needs: MetadataVersion) -> FeatureLevel {
    FeatureLevel {
        level,
        since,
        needs,
    }
}

/// The features of Kafka 4.4 beside `metadata.version` and their levels above 0, rising.
pub const FEATURE_LEVELS: [(&str, &[FeatureLevel]); 6] = [
    (
        ELR_VERSION,
        &[level(
            1,
            MetadataVersion::V4_1_IV0,
            MetadataVersion::V4_0_IV1,
        )],
    ),
    (
        GROUP_VERSION,
        &[level(1, MetadataVersion::V4_0_IV0, MetadataVersion::OLDEST)],
    ),
    (
        KRAFT_VERSION,
        &[level(1, MetadataVersion::V3_9_IV0, MetadataVersion::OLDEST)],
    ),
    (
        SHARE_VERSION,
        &[
            level(1, MetadataVersion::V4_2_IV0, MetadataVersion::OLDEST),
            level(2, MetadataVersion::V4_4_IV0, MetadataVersion::OLDEST),
        ],
    ),
    (
        STREAMS_VERSION,
        &[level(1, MetadataVersion::V4_2_IV1, MetadataVersion::OLDEST)],
    ),
    (
        TRANSACTION_VERSION,
        &[
            level(1, MetadataVersion::V4_0_IV2, MetadataVersion::OLDEST),
            level(2, MetadataVersion::V4_0_IV2, MetadataVersion::OLDEST),
        ],
    ),
];

/// The level of a feature that a cluster begins with at `version`.
#[must_use]
pub fn initial_level(feature: &str, version: MetadataVersion) -> i16 {
    if feature == METADATA_VERSION {
        return version.level();
    }
    let rows = FEATURE_LEVELS.iter().filter(|(name, _)| *name == feature);
    let levels = rows.flat_map(|(_, levels)| levels.iter());
    let begun = levels.filter(|level| level.since <= version);
    begun.map(|level| level.level).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_only_for_one_that_knows_the_same_records() {
        for (from, to, adds) in [
            ("4.2-IV1", "4.0-IV2", false),
            ("4.2", "4.0-IV1", false),
            ("4.2", "4.0-IV0", true),
            ("4.3", "4.2", true),
            ("3.4", "3.3", true),
            ("4.3", "4.3", false),
            ("4.4-IV0", "4.3", false),
            ("4.4-IV1", "4.4-IV0", true),
            ("4.4", "4.4-IV1", true),
        ] {
            let version = |name| MetadataVersion::from_name(name).expect(name);
            assert_eq!(
                version(from).adds_records_to(version(to)),
                adds,
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn levels_have_the_names_and_numbers_of_kafka() {
        for (level, name) in [
            (7, "3.3-IV3"),
            (13, "3.6-IV1"),
            (17, "3.7-IV2"),
            (23, "4.0-IV1"),
            (29, "4.2-IV1"),
            (30, "4.3-IV0"),
            (33, "4.4-IV2"),
        ] {
            let version = MetadataVersion::from_level(level).expect("known");
            assert_eq!(version.name(), name);
            assert_eq!(MetadataVersion::from_name(name), Some(version));
        }
        let release = |name| MetadataVersion::from_name(name).map(MetadataVersion::level);
        assert_eq!((release("4.0"), release("3.7")), (Some(25), Some(19)));
        assert_eq!(
            (release("4"), release("4.5"), release("")),
            (None, None, None)
        );
        for level in [6, 34, 0, -1] {
            assert_eq!(MetadataVersion::from_level(level), None);
        }
    }

    #[test]
    fn a_cluster_begins_with_the_features_of_its_version() {
        let at = |feature, name| {
            let version = MetadataVersion::from_name(name).expect("known");
            initial_level(feature, version)
        };
        assert_eq!(
            (
                at(TRANSACTION_VERSION, "3.9"),
                at(TRANSACTION_VERSION, "4.0")
            ),
            (0, 2)
        );
        assert_eq!((at(ELR_VERSION, "4.0"), at(ELR_VERSION, "4.1-IV0")), (0, 1));
        assert_eq!(
            (at(SHARE_VERSION, "4.1"), at(STREAMS_VERSION, "4.2")),
            (0, 1)
        );
        assert_eq!((at(SHARE_VERSION, "4.3"), at(SHARE_VERSION, "4.4")), (1, 2));
        assert_eq!(at(METADATA_VERSION, "4.3"), 30);
    }
}
