//! Troubles of the quorum in words: what happened, and what an operator does about it.

use std::path::Path;

use raft::{Alarm, Halt};

fn node(id: Option<model::BrokerId>) -> String {
    id.map_or("no node".to_owned(), |id| format!("node {id}"))
}

pub(super) fn text(alarm: Alarm, log_dir: &Path) -> String {
    let dir = log_dir.display();
    match alarm {
        Alarm::VoteLost => format!(
            "the vote of this node in {dir} is damaged, lost or older than the metadata log: it follows and does not vote, so that it \
             cannot vote twice. Restore {} and {} from a copy of the directory; or, while the other voters are a majority, stop this \
             node, empty the directory and start it anew",
            raft::quorum_state::FILE_NAME,
            raft::quorum_state::CHECK_NAME,
        ),
        Alarm::TwoLeaders { epoch, known, told } => format!(
            "node {told} is named as the leader of epoch {epoch}, and {} is known to be: two nodes have the same node.id, or a voter \
             lost its vote. Compare node.id of all nodes",
            node(known),
        ),
        Alarm::SnapshotDamaged { id } => {
            format!("snapshot {id} of the metadata came damaged; it is fetched again")
        }
        Alarm::BadBatch { at } => format!(
            "the leader sent metadata at offset {at} that do not continue the log of this node, or are damaged; they are asked for again"
        ),
        Alarm::Refused { peer } => format!(
            "{} refuses this node: it is of another cluster, or of a newer version. Compare cluster.id in meta.properties of both \
             directories, and the addresses in controller.quorum.voters",
            peer.map_or("another node".to_owned(), |id| format!("node {id}")),
        ),
    }
}

pub(super) fn why_halted(why: Halt) -> String {
    match why {
        Halt::CutBelowCommitted { to, committed } => format!(
            "the leader of the metadata asks to cut the log at {to}, below {committed}, which is committed: a voter was rolled back to an \
             older copy of its directory. Compare the voters by `esker cluster quorum` before anything is removed"
        ),
        Halt::SnapshotBelowCommitted { snapshot } => format!(
            "the leader of the metadata offers snapshot {snapshot}, which lacks what is committed here: a voter was rolled back to an older \
             copy of its directory. Compare the voters by `esker cluster quorum` before anything is removed"
        ),
    }
}
