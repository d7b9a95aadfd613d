//! The voters, `kraft.version` and the id of the cluster at each offset of the log.
//!
//! Voters count from the moment their record is in the log, committed or not (KIP-853); a cut takes it back. Before any record there
//! are the voters of the settings. The id of the cluster is in each record of an election; it counts once it is committed.

use model::Offset;
use wire::records::Batch;

use crate::control::{self, Control, Unreadable};
use crate::snapshot::{SnapshotFacts, SnapshotId};
use crate::voters::{Replica, VoterSet};

/// Offset of what a bootstrap snapshot says: it lies before the log.
const BEFORE_THE_LOG: Offset = Offset(-1);

/// A change that a batch makes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Voters(VoterSet),
    Version(i16),
    Cluster(String),
}

/// The changes of a batch, and where it makes them.
pub(crate) type Changes = Vec<(Offset, Change)>;

#[derive(Clone, Debug, Default)]
pub struct History {
    fixed: VoterSet,
    voters: Vec<(Offset, VoterSet)>,
    versions: Vec<(Offset, i16)>,
    /// One entry where the log names one cluster, which all logs do.
    clusters: Vec<(Offset, String)>,
}

impl History {
    /// `fixed` are the voters of the settings; none where the log says it.
    #[must_use]
    pub fn new(fixed: VoterSet) -> History {
        History {
            fixed,
            ..History::default()
        }
    }

    /// Takes what a batch of the log changes. Fails without a change if it cannot be read.
    pub fn note(&mut self, batch: &Batch) -> Result<(), Unreadable> {
        let changes = History::read(batch)?;
        self.apply(changes);
        Ok(())
    }

    pub(crate) fn read(batch: &Batch) -> Result<Changes, Unreadable> {
        let mut read = Vec::new();
        for (delta, record) in control::read(batch)? {
            let at = batch.base_offset().advance(i64::from(delta));
            match record {
                Control::Voters(voters) => {
                    let set = VoterSet::from_record(&voters).ok_or(Unreadable)?;
                    read.push((at, Change::Voters(set)));
                }
                Control::Version(version) => {
                    read.push((at, Change::Version(version.k_raft_version)));
                }
                Control::LeaderChange(change) => {
                    read.extend(change.cluster_id.map(|id| (at, Change::Cluster(id))));
                }
                Control::SnapshotHeader(_) | Control::SnapshotFooter(_) => {}
            }
        }
        Ok(read)
    }

    pub(crate) fn apply(&mut self, changes: Changes) {
        for (at, change) in changes {
            match change {
                Change::Voters(set) => self.voters.push((at, set)),
                Change::Version(version) => self.versions.push((at, version)),
                Change::Cluster(id) if self.cluster() == Some(&id) => {}
                Change::Cluster(id) => self.clusters.push((at, id)),
            }
        }
    }

    /// The log starts over at this snapshot.
    pub fn restart(&mut self, id: SnapshotId, facts: &SnapshotFacts) {
        let at = Offset(id.end.0 - 1);
        self.voters = facts.voters.iter().map(|set| (at, set.clone())).collect();
        self.versions = facts.version.iter().map(|version| (at, *version)).collect();
        self.clusters = facts.cluster.iter().map(|id| (at, id.clone())).collect();
    }

    pub(crate) fn cut(&mut self, to: Offset) {
        self.voters.retain(|(at, _)| *at < to);
        self.versions.retain(|(at, _)| *at < to);
        self.clusters.retain(|(at, _)| *at < to);
    }

    /// Forgets what nobody asks for once the log starts at `start`: all but the last entry below.
    pub(crate) fn trim(&mut self, start: Offset) {
        let below = self.voters.partition_point(|(at, _)| *at < start);
        self.voters.drain(..below.saturating_sub(1));
        let below = self.versions.partition_point(|(at, _)| *at < start);
        self.versions.drain(..below.saturating_sub(1));
        let below = self.clusters.partition_point(|(at, _)| *at < start);
        self.clusters.drain(..below.saturating_sub(1));
    }

    #[must_use]
    pub fn voters(&self) -> &VoterSet {
        self.voters.last().map_or(&self.fixed, |(_, set)| set)
    }

    /// True if the newest voters lack `replica`, those before have it, and the newest are not known to be committed.
    #[must_use]
    pub fn is_leaving(&self, replica: Replica, committed: Offset) -> bool {
        let [.., (_, before), (at, newest)] = self.voters.as_slice() else {
            return false;
        };
        !newest.has(replica) && before.has(replica) && *at >= committed
    }

    /// Where the newest voters were written; `None` for those of the settings.
    #[must_use]
    pub fn voters_at(&self) -> Option<Offset> {
        self.voters.last().map(|(at, _)| *at)
    }

    /// True if the newest voters are only known from a bootstrap snapshot.
    #[must_use]
    pub fn is_bootstrap(&self) -> bool {
        self.voters_at() == Some(BEFORE_THE_LOG)
    }

    #[must_use]
    pub fn version(&self) -> i16 {
        self.versions.last().map_or(0, |(_, version)| *version)
    }

    /// The cluster of this log, committed or not; `None` in an empty one, and in one of before there was a record of it.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.clusters.last().map(|(_, id)| id.as_str())
    }

    /// True if voters can be added and removed: `kraft.version` 1.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.version() >= 1
    }

    /// The facts that a snapshot that ends at `end` has to name.
    #[must_use]
    pub fn facts_at(&self, end: Offset) -> SnapshotFacts {
        let voters = self.voters.iter().rev().find(|(at, _)| *at < end);
        let version = self.versions.iter().rev().find(|(at, _)| *at < end);
        let cluster = self.clusters.iter().rev().find(|(at, _)| *at < end);
        SnapshotFacts {
            voters: voters.map(|(_, set)| set.clone()),
            version: version.map(|(_, version)| *version),
            cluster: cluster.map(|(_, id)| id.clone()),
        }
    }
}
