//! The id of the cluster: one for each log, chosen by the leader that begins the log (`docs/decisions/cluster-id.md`).
//!
//! Voters of a new list have no id. The first leader, which a majority elected, puts a random one into the record of its election, and
//! each later leader repeats the one of its log. So it is agreed on as every record is: it is cut where a majority does not have it, and two
//! halves of one list never commit two. A replica takes the id that is committed, or the word of a node that has it, stores it once, and
//! carries it in each request from then on. It never takes another.
//!
//! A replica with an id refuses requests, votes and records of another cluster, and names the node that they are from. A leader is
//! active only when a majority of the voters carries the id: no node of another cluster can lead without one that refuses it.

use std::collections::BTreeMap;
use std::time::Duration;

use model::lineage::EpochEnd;
use model::{BrokerId, Instant, Offset};

use crate::calls::Target;
use crate::effect::{Alarm, Effect};
use crate::event::{Moment, VoteNumber};
use crate::history::{Change, Changes};
use crate::state::Role;
use crate::step::Quorum;

/// A node of another cluster is named once in so long.
const NAMED_EVERY: Duration = Duration::from_secs(60);
/// Nodes that are remembered as named. Beyond it a peer makes up ids, and all of them are forgotten.
const STRANGERS_MAX: usize = 100;

/// A longer id is none.
const CLUSTER_BYTES_MAX: usize = 255;

/// The way of this replica to the id of its cluster.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// The write of the id, if this process learned it.
    stored_by: VoteNumber,
    /// The id of a voter that has one and an empty log, as this one has: the cluster begins with that.
    offered: Option<String>,
    /// Nodes of other clusters, and when each was named.
    strangers: BTreeMap<Option<BrokerId>, Instant>,
}

/// True if an id that came from elsewhere may be a line of a file of properties. Kafka writes 22 letters, and takes others.
fn is_sound(cluster: &str) -> bool {
    (1..=CLUSTER_BYTES_MAX).contains(&cluster.len())
        && cluster.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Quorum {
    /// The id of the cluster, once this replica has it for good.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.me.cluster.as_deref()
    }

    /// True if this is the id of another cluster than that of this replica.
    pub(crate) fn is_other(&self, cluster: &str) -> bool {
        // An id that is in the log alone refuses nobody: it may be cut, and those that have the other one are right then.
        self.cluster().is_some_and(|ours| ours != cluster)
    }

    /// True if a request of `node` with this id, or without any, may be of this cluster.
    pub(crate) fn is_of_this_cluster(
        &mut self,
        at: Moment,
        node: Option<BrokerId>,
        cluster: Option<&str>,
    ) -> bool {
        let other = cluster.filter(|cluster| self.is_other(cluster));
        if let Some(theirs) = other {
            self.meet_stranger(at.now, node, theirs);
        }
        other.is_none()
    }

    /// The cluster that these changes are of, if it is another one.
    pub(crate) fn other_cluster(&self, changes: &Changes) -> Option<String> {
        changes.iter().find_map(|(_, change)| match change {
            Change::Cluster(id) if self.is_other(id) => Some(id.clone()),
            Change::Cluster(_) | Change::Voters(_) | Change::Version(_) => None,
        })
    }

    /// The leader that this replica follows sent what is of another cluster. It may have been elected by voters that knew of none.
    pub(crate) fn meet_leader_of_other(&mut self, at: Moment, theirs: &str) {
        let leader = self.election.leader;
        self.meet_stranger(at.now, leader, theirs);
        if let Some(leader) = leader {
            let pause = self.settings.fetch_timeout / 4;
            self.calls.rest(Target::Node(leader), at.now, pause);
        }
    }

    fn meet_stranger(&mut self, now: Instant, node: Option<BrokerId>, theirs: &str) {
        let ours = self.cluster().unwrap_or_default().to_owned();
        let node = node.filter(|node| 0 <= node.0);
        let strangers = &mut self.naming.strangers;
        if strangers
            .get(&node)
            .is_some_and(|named| now < named.plus(NAMED_EVERY))
        {
            return;
        }
        if strangers.len() >= STRANGERS_MAX {
            strangers.clear();
        }
        strangers.insert(node, now);
        let theirs = theirs.chars().take(CLUSTER_BYTES_MAX).collect();
        self.effects
            .push(Effect::Alarm(Alarm::OtherCluster { node, ours, theirs }));
    }

    /// The id that the record of this leader's election has. None in a log that began without: a voter has it, and says so.
    pub(crate) fn cluster_to_name(&self) -> Option<String> {
        let known = self.cluster().or(self.history.cluster());
        let is_first = self.log.end() == Offset::ZERO;
        let first = || {
            let offered = self.naming.offered.as_ref();
            offered.unwrap_or(&self.me.proposal).clone()
        };
        let known = known.map(str::to_owned);
        known.or_else(|| is_first.then(first))
    }

    /// A voter asks for a vote, with a log that ends like `last`. True if it could begin a cluster beside the one that this replica is of.
    ///
    /// Voters have an id (1) and empty logs (2), as after a start of before that elected nobody. One without an id would be elected by them
    /// and choose another (3). So one of those that have it leads, and a voter without learns from their requests which it is.
    pub(crate) fn would_begin_another(
        &mut self,
        candidate: BrokerId,
        cluster: Option<&str>,
        last: EpochEnd,
    ) -> bool {
        if last.end != Offset::ZERO {
            return false;
        }
        let is_voter = self.history.voters().get(candidate).is_some();
        let offered = cluster.filter(|cluster| is_voter && is_sound(cluster));
        if let Some(offered) = offered.filter(|_| self.naming.offered.is_none()) {
            self.naming.offered = Some(offered.to_owned());
        }
        cluster.is_none() && self.me.cluster.is_some()
    }

    /// A node that has the id for good has said which it is.
    pub(crate) fn learn_cluster(&mut self, cluster: Option<&str>) {
        if let Some(cluster) = cluster
            && self.me.cluster.is_none()
        {
            self.take_cluster(cluster.to_owned());
        }
    }

    /// A voter fetches from this leader, whose log began before there were records of clusters and whose directory was emptied since.
    pub(crate) fn hear_cluster_of_voter(&mut self, voter: BrokerId, cluster: Option<&str>) {
        let is_voter = self.history.voters().get(voter).is_some();
        if self.is_leader() && is_voter && self.history.cluster().is_none() {
            self.learn_cluster(cluster);
        }
    }

    /// Takes the id that the committed log has, if none is known.
    pub(crate) fn take_committed_cluster(&mut self) {
        if self.me.cluster.is_some() || self.history.cluster().is_none() {
            return;
        }
        let committed = self.watermark.unwrap_or_default().min(self.log.durable());
        if let Some(cluster) = self.history.facts_at(committed).cluster {
            self.take_cluster(cluster);
        }
    }

    fn take_cluster(&mut self, cluster: String) {
        if !is_sound(&cluster) {
            return;
        }
        self.me.cluster = Some(cluster.clone());
        self.naming.stored_by = self.store_cluster(cluster);
    }

    /// Counts the voters that have the id for good.
    pub(crate) fn settle(&mut self) {
        let me = self.me.replica.id;
        let has_it = self.me.cluster.is_some() && self.is_stored(self.naming.stored_by);
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let voters = leader.voters.values();
        let have_it = voters.filter(|voter| voter.has_cluster || voter.replica.id == me);
        leader.is_settled |= has_it && leader.voters.len() / 2 < have_it.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_from_elsewhere_is_one_line_of_a_file() {
        assert!(is_sound("MkU3OEVBNTcwNTJENDM2Qk"));
        assert!(is_sound("kafka-cluster.1"));
        let long = "i".repeat(256);
        for id in ["", "a b", "a\nnode.id=2", "a\r", "\u{e9}", "\0", &long] {
            assert!(!is_sound(id), "{id:?}");
        }
    }
}
