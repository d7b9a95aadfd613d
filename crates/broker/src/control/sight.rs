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
    /// The active controller in words, if this node knows one.
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

    /// Why there may be none. A voter knows the others; a node that joins a cluster asks its bootstrap servers.
    pub(crate) fn no_controller(&self) -> String {
        if self.voters.is_empty() {
            return "no controller has answered at controller.quorum.bootstrap.servers".to_owned();
        }
        let (count, voters) = (self.voters.len(), listed(&self.voters));
        if let Some(missing) = &self.missing_at_first {
            // Each may be up and not have asked for a vote yet, or is about to be elected.
            let missing = match missing.as_slice() {
                [] => String::new(),
                missing => format!("; not heard yet: {}", listed(missing)),
            };
            return format!(
                "no active controller is known: a new cluster begins once all {count} voters, {voters}, are up together and reach each \
                 other{missing}"
            );
        }
        if let [one] = self.voters.as_slice() {
            return format!(
                "no active controller is known: node {one}, the only voter, has to be up and to be reached from here"
            );
        }
        let most = count / 2 + 1;
        // A node that does not vote cannot know whether they have begun.
        let first = match self.end {
            Offset::ZERO if most < count => ", in a new cluster all of them",
            _ => "",
        };
        format!(
            "no active controller is known: {most} of the voters {voters} have to be up and to reach each other{first}"
        )
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
