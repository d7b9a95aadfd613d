//! The questions of an operator: topics, settings, offsets, groups, log directories, transactions, users and their rights.
//!
//! Each operation is a method of [`Client`](crate::Client), retried while the cluster says "not now".

mod acls;
mod configs;
mod describe;
mod groups;
mod offsets;
mod quorum;
mod replicas;
mod topics;
mod transactions;
mod users;

pub use acls::{PatternFilter, RuleFilter};
pub use configs::{Change, Resource, Setting, SettingSource};
pub use describe::{ActiveProducer, BrokerInfo, ClusterInfo, Identity, LogDir, Stored};
pub(crate) use groups::Committer;
pub use groups::{Committed, GroupInfo, GroupMember, ListedGroup, Part};
pub use offsets::{Found, OffsetSpec};
pub use quorum::{QuorumInfo, QuorumSight, ReplicaInfo, VoterAddress, VoterKey};
pub use replicas::{PartitionInfo, ReplicaEnds, ReplicaReader};
pub use topics::{Created, NewTopic};
pub use transactions::{DescribedTransaction, ListedTransaction};
pub use users::UserInfo;
