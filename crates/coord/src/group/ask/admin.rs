//! Descriptions and lists of groups, for tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use model::PartitionIndex;
use wire::Uuid;

use super::Client;
use crate::group::{ClassicState, consumer};

/// Of a group of the classic protocol; others are not found.
#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    pub group_id: String,
}

/// Of a group of the consumer protocol; others are not found.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescribe {
    pub group_id: String,
}

/// Shared: a client may send as many names as it likes, and every coordinator is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    pub states: Arc<Filter>,
    pub types: Arc<Filter>,
}

/// Removes a group without members, and its offsets.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub group_id: String,
}

/// Names that pass, in any case; all do where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(BTreeSet<String>);

impl FromIterator<String> for Filter {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let lower = |mut name: String| {
            name.make_ascii_lowercase();
            name
        };
        Filter(names.into_iter().map(lower).collect())
    }
}

impl Filter {
    /// In lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(in crate::group) fn passes(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(&name.to_ascii_lowercase())
    }
}

/// The state of a group of either protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    Classic(ClassicState),
    Consumer(consumer::ConsumerState),
}

impl GroupState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Classic(state) => state.name(),
            GroupState::Consumer(state) => state.name(),
        }
    }

    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            GroupState::Classic(_) => Kind::Classic,
            GroupState::Consumer(_) => Kind::Consumer,
        }
    }
}

/// The protocol of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Classic,
    Consumer,
}

impl Kind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Classic => "classic",
            Kind::Consumer => "consumer",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub group_id: String,
    pub state: GroupState,
    /// Absent where the group never had a member.
    pub protocol_type: Option<String>,
}

/// A group of the classic protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub state: ClassicState,
    pub protocol_type: Option<String>,
    /// Absent between two generations.
    pub protocol: Option<String>,
    pub members: Vec<DescribedMember>,
    /// Why the group left its last generation, while this process remembers it.
    pub last_rebalance: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client: Client,
    pub metadata: Bytes,
    pub assignment: Bytes,
}

/// A group of the consumer protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescribed {
    pub state: consumer::ConsumerState,
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub assignor: &'static str,
    pub members: Vec<ConsumerDescribedMember>,
    /// Why the group left its last epoch, while this process remembers it.
    pub last_rebalance: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescribedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub member_epoch: i32,
    pub client: Client,
    pub topic_names: Vec<String>,
    pub pattern: Option<String>,
    pub assignment: Vec<NamedPartitions>,
    pub target: Vec<NamedPartitions>,
    /// The protocol that the member speaks.
    pub kind: Kind,
}

/// Partitions of one topic, which has both an id and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPartitions {
    pub topic_id: Uuid,
    pub topic_name: String,
    pub partitions: Vec<PartitionIndex>,
}
