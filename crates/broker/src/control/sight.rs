//! The quorum as this node sees it, for metrics and health.

use model::{BrokerId, LeaderEpoch, Offset};
use raft::Endpoint;

pub(crate) struct QuorumSight {
    /// This node is the active controller.
    pub(crate) is_active: bool,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) leader: Option<(BrokerId, Option<Endpoint>)>,
    pub(crate) voters: Vec<BrokerId>,
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
        let voters: Vec<String> = self.voters.iter().map(BrokerId::to_string).collect();
        let most = self.voters.len() / 2 + 1;
        format!(
            "no active controller is known: {most} of the voters {} have to be up and to reach each other",
            voters.join(", ")
        )
    }
}
