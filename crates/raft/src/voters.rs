//! Voters: which replicas elect the leader and count for the watermark.
//!
//! A voter is a node and its directory: a node that comes back with an empty disk is another replica, and has no vote until it is
//! added. Without KIP-853 (`kraft.version` 0) directories are not known, and the node alone is meant.

use std::collections::BTreeMap;
use std::fmt;

use model::BrokerId;
use wire::Uuid;
use wire::messages::VotersRecord;
use wire::messages::voters_record as record;

/// A replica of the log. The directory is zero where it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    pub id: BrokerId,
    pub directory: Uuid,
}

impl Replica {
    /// True if `other` may be this one: same node, and the same directory where ours is known.
    #[must_use]
    pub fn accepts(self, other: Replica) -> bool {
        self.id == other.id && (self.directory.is_zero() || self.directory == other.directory)
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if self.directory.is_zero() {
            return Ok(());
        }
        write!(f, "-{}", self.directory)
    }
}

/// An address that can be dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// An address of a voter, by the name of its listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    pub name: String,
    pub endpoint: Endpoint,
}

/// Versions of `kraft.version` that a replica can work with, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionRange {
    pub min: i16,
    pub max: i16,
}

impl VersionRange {
    #[must_use]
    pub fn has(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    pub replica: Replica,
    pub listeners: Vec<Listener>,
    pub versions: VersionRange,
}

impl Voter {
    #[must_use]
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        let found = self.listeners.iter().find(|at| at.name == listener);
        found.map(|at| &at.endpoint)
    }

    /// Where it is dialled: at this listener, or at the one that it has.
    pub(crate) fn reached_at(&self, listener: &str) -> Option<Endpoint> {
        let any = || self.listeners.first().map(|at| &at.endpoint);
        self.endpoint(listener).or_else(any).cloned()
    }

    /// True if both say the same of the same replica, in whatever order.
    fn is_same(&self, other: &Voter) -> bool {
        let sorted = |voter: &Voter| {
            let mut listeners = voter.listeners.clone();
            listeners.sort();
            listeners
        };
        self.replica == other.replica
            && self.versions == other.versions
            && sorted(self) == sorted(other)
    }
}

/// A set of voters, at most one replica of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterSet {
    voters: BTreeMap<BrokerId, Voter>,
}

impl VoterSet {
    #[must_use]
    pub fn of(voters: impl IntoIterator<Item = Voter>) -> VoterSet {
        let voters = voters.into_iter();
        VoterSet {
            voters: voters.map(|voter| (voter.replica.id, voter)).collect(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.values()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.voters.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty()
    }

    #[must_use]
    pub fn get(&self, id: BrokerId) -> Option<&Voter> {
        self.voters.get(&id)
    }

    #[must_use]
    pub fn has(&self, replica: Replica) -> bool {
        self.get(replica.id)
            .is_some_and(|voter| voter.replica.accepts(replica))
    }

    #[must_use]
    pub fn is_only(&self, replica: Replica) -> bool {
        self.len() == 1 && self.has(replica)
    }

    /// True if others can dial `voter`: it has an address under a name that all of these use, or under `listener` where there is none.
    #[must_use]
    pub fn can_dial(&self, voter: &Voter, listener: &str) -> bool {
        let others = || self.iter().filter(|other| !other.listeners.is_empty());
        let is_common = |name: &str| others().all(|other| other.endpoint(name).is_some());
        let mut names = others().flat_map(|other| &other.listeners);
        let have_common = names.any(|at| is_common(&at.name));
        let is_wanted = |name: &str| {
            if have_common {
                is_common(name)
            } else {
                name == listener
            }
        };
        let is_address = |at: &Listener| !at.endpoint.host.is_empty() && at.endpoint.port != 0;
        let mut listeners = voter.listeners.iter();
        listeners.any(|at| is_wanted(&at.name) && is_address(at))
    }

    /// True if this voter's listeners or versions are written differently here.
    #[must_use]
    pub fn is_outdated(&self, voter: &Voter) -> bool {
        self.get(voter.replica.id)
            .is_some_and(|known| known.replica.accepts(voter.replica) && !known.is_same(voter))
    }

    /// The set with `voter` in it; `None` if the node has a replica there already.
    #[must_use]
    pub fn adding(&self, voter: Voter) -> Option<VoterSet> {
        let mut set = self.clone();
        let old = set.voters.insert(voter.replica.id, voter);
        old.is_none().then_some(set)
    }

    /// The set without `replica`; `None` if it is not in it, or is the last one.
    #[must_use]
    pub fn removing(&self, replica: Replica) -> Option<VoterSet> {
        let is_there = self
            .get(replica.id)
            .is_some_and(|known| known.replica == replica);
        if !is_there || self.len() == 1 {
            return None;
        }
        let mut set = self.clone();
        set.voters.remove(&replica.id);
        Some(set)
    }

    /// The set with what `voter` says of itself; `None` if it is none.
    #[must_use]
    pub fn updating(&self, voter: Voter) -> Option<VoterSet> {
        if !self.has(voter.replica) {
            return None;
        }
        let mut set = self.clone();
        set.voters.insert(voter.replica.id, voter);
        Some(set)
    }

    /// As [`VoterSet::updating`], whatever directory was known before.
    #[must_use]
    pub fn updating_node(&self, voter: Voter) -> Option<VoterSet> {
        let mut set = self.clone();
        let old = set.voters.insert(voter.replica.id, voter);
        old.is_some().then_some(set)
    }

    /// True if every majority of one set meets every majority of the other: at most one voter is removed and one added.
    #[must_use]
    pub fn overlaps(&self, other: &VoterSet) -> bool {
        let lacks = |a: &VoterSet, b: &VoterSet| {
            let gone = a.iter().filter(|voter| {
                b.get(voter.replica.id)
                    .is_none_or(|theirs| theirs.replica != voter.replica)
            });
            gone.count()
        };
        lacks(self, other) <= 1 && lacks(other, self) <= 1
    }

    #[must_use]
    pub fn to_record(&self) -> VotersRecord {
        let voters = self.iter().map(|voter| record::Voter {
            voter_id: voter.replica.id.0,
            voter_directory_id: voter.replica.directory,
            endpoints: voter
                .listeners
                .iter()
                .map(|at| record::Endpoint {
                    name: at.name.clone(),
                    host: at.endpoint.host.clone(),
                    port: at.endpoint.port,
                })
                .collect(),
            k_raft_version_feature: record::KRaftVersionFeature {
                min_supported_version: voter.versions.min,
                max_supported_version: voter.versions.max,
            },
        });
        VotersRecord {
            version: 0,
            voters: voters.collect(),
        }
    }

    /// `None` for a set that nobody could elect from: empty, a node twice, or a negative id.
    #[must_use]
    pub fn from_record(record: &VotersRecord) -> Option<VoterSet> {
        let mut set = VoterSet::default();
        for voter in &record.voters {
            let listeners = voter.endpoints.iter().map(|at| Listener {
                name: at.name.clone(),
                endpoint: Endpoint {
                    host: at.host.clone(),
                    port: at.port,
                },
            });
            let voter = Voter {
                replica: Replica {
                    id: BrokerId(voter.voter_id),
                    directory: voter.voter_directory_id,
                },
                listeners: listeners.collect(),
                versions: VersionRange {
                    min: voter.k_raft_version_feature.min_supported_version,
                    max: voter.k_raft_version_feature.max_supported_version,
                },
            };
            if voter.replica.id.0 < 0 {
                return None;
            }
            set = set.adding(voter)?;
        }
        (!set.is_empty()).then_some(set)
    }
}

impl fmt::Display for VoterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, voter) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", voter.replica)?;
        }
        Ok(())
    }
}
