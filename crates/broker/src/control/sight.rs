//! The quorum as this node sees it, for metrics and health.

use model::{BrokerId, LeaderEpoch, Offset};
use raft::Endpoint;

pub(crate) struct QuorumSight {
    /// This node is the active controller.
    pub(crate) is_active: bool,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) leader: Option<(BrokerId, Option<Endpoint>)>,
    /// The leader answers, or is this node.
    pub(crate) hears_leader: bool,
    pub(crate) voters: Vec<BrokerId>,
    /// Voters that were not heard, of which the first election needs each; `None` where a majority is enough.
    pub(crate) missing_at_first: Option<Vec<BrokerId>>,
    /// Known to be committed.
    pub(crate) watermark: Option<Offset>,
    pub(crate) end: Offset,
    /// Of the newest snapshot; 0 before the first.
    pub(crate) snapshot_bytes: u64,
}

impl QuorumSight {
    /// The active controller in words, if this node knows one. It need not have answered.
    pub(crate) fn controller(&self) -> Option<String> {
        let (id, endpoint) = self.leader.as_ref()?;
        Some(match endpoint {
            Some(at) => format!(
                "the active controller, node {id} at {}:{}",
                at.host, at.port
            ),
            None => format!("the active controller, node {id}"),
        })
    }

    /// The same of one that is not heard: it may be gone, with so many voters that no other one is elected.
    pub(crate) fn unheard(&self, silence: &str) -> Option<String> {
        let controller = self.controller().filter(|_| !self.hears_leader)?;
        let need = self.need();
        Some(format!("{controller}, {silence}. If it is gone, {need}"))
    }

    /// Why there may be none. A voter knows the others; a node that joins a cluster asks its bootstrap servers.
    pub(crate) fn no_controller(&self) -> String {
        if self.voters.is_empty() {
            return "no controller has answered at controller.quorum.bootstrap.servers".to_owned();
        }
        format!("no active controller is known: {}", self.need())
    }

    /// The nodes that have to be up for there to be a controller.
    fn need(&self) -> String {
        if self.voters.is_empty() {
            return "one of controller.quorum.bootstrap.servers has to answer".to_owned();
        }
        let (count, voters) = (self.voters.len(), listed(&self.voters));
        if let Some(missing) = &self.missing_at_first {
            // Each may be up and not have asked for a vote yet, or is about to be elected.
            let missing = match missing.as_slice() {
                [] => String::new(),
                missing => format!("; not heard yet: {}", listed(missing)),
            };
            return format!(
                "a new cluster begins once all {count} voters, {voters}, are up together and reach each \
                 other{missing}"
            );
        }
        if let [one] = self.voters.as_slice() {
            return format!("node {one}, the only voter, has to be up and to be reached from here");
        }
        let most = count / 2 + 1;
        // A node that does not vote cannot know whether they have begun.
        let first = match self.end {
            Offset::ZERO if most < count => ", in a new cluster all of them",
            _ => "",
        };
        format!("{most} of the voters {voters} have to be up and to reach each other{first}")
    }
}

fn listed(nodes: &[BrokerId]) -> String {
    let nodes: Vec<String> = nodes.iter().map(BrokerId::to_string).collect();
    nodes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_is_not_heard_is_named_with_those_who_elect_another() {
        let sight = |hears_leader, voters: &[i32]| QuorumSight {
            is_active: false,
            epoch: LeaderEpoch(4),
            leader: Some((BrokerId(2), None)),
            hears_leader,
            voters: voters.iter().map(|id| BrokerId(*id)).collect(),
            missing_at_first: None,
            watermark: None,
            end: Offset(9),
            snapshot_bytes: 0,
        };
        let unheard = |hears, voters| sight(hears, voters).unheard("is silent");
        assert_eq!(unheard(true, &[1, 2, 3]), None);
        assert_eq!(
            unheard(false, &[1, 2, 3]).as_deref(),
            Some(
                "the active controller, node 2, is silent. If it is gone, 2 of the voters 1, 2, 3 have to be up and to reach each other"
            )
        );
        assert_eq!(
            unheard(false, &[]).as_deref(),
            Some(
                "the active controller, node 2, is silent. If it is gone, one of controller.quorum.bootstrap.servers has to answer"
            )
        );
    }

    #[test]
    fn a_new_cluster_waits_for_all_of_its_voters_and_an_old_one_for_a_majority() {
        let nodes = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
        let sight = |missing: Option<&[i32]>, end| QuorumSight {
            is_active: false,
            epoch: LeaderEpoch(0),
            leader: None,
            hears_leader: false,
            voters: nodes(&[1, 2, 3]),
            missing_at_first: missing.map(nodes),
            watermark: None,
            end: Offset(end),
            snapshot_bytes: 0,
        };
        let mut lone = QuorumSight {
            voters: nodes(&[100]),
            ..sight(None, 9)
        };
        assert_eq!(
            lone.no_controller(),
            "no active controller is known: node 100, the only voter, has to be up and to be reached from here"
        );
        lone.voters.clear();
        assert_eq!(
            lone.no_controller(),
            "no controller has answered at controller.quorum.bootstrap.servers"
        );
        let why = |missing, end| sight(missing, end).no_controller();
        let begins = "no active controller is known: a new cluster begins once all 3 voters, 1, 2, 3, are up together and reach each other";
        assert_eq!(
            why(Some(&[2, 3]), 0),
            format!("{begins}; not heard yet: 2, 3")
        );
        assert_eq!(why(Some(&[]), 0), begins);
        let majority = "no active controller is known: 2 of the voters 1, 2, 3 have to be up and to reach each other";
        assert_eq!(why(None, 9), majority);
        assert_eq!(
            why(None, 0),
            format!("{majority}, in a new cluster all of them")
        );
    }
}
