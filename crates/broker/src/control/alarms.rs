//! Troubles of the quorum in words: what happened, and what an operator does about it.

use std::path::Path;

use model::LeaderEpoch;
use raft::{Alarm, Left};
use wire::{ApiKey, ErrorCode};

fn node(id: Option<model::BrokerId>) -> String {
    id.map_or("no node".to_owned(), |id| format!("node {id}"))
}

/// The end of this node's leadership as the active controller.
pub(super) fn leadership_ended(epoch: LeaderEpoch, why: Left) -> String {
    let why = match why {
        Left::Led {
            epoch,
            by: Some(by),
        } => format!("node {by} leads in epoch {epoch}"),
        Left::Led { epoch, by: None } => format!("other voters are in epoch {epoch}"),
        Left::Opposed { epoch, candidate } => format!(
            "node {candidate} stands for election in epoch {epoch}, as it did not hear this one"
        ),
        Left::Unheard { time } => format!(
            "no majority of the voters was heard for {} s",
            time.as_secs_f64()
        ),
        Left::Resigned => "it hands its leadership over".to_owned(),
    };
    format!("this node is no longer the active controller of epoch {epoch}: {why}")
}

/// True if nobody has to do anything for what was lost or damaged to be there again.
pub(super) fn heals(alarm: &Alarm) -> bool {
    matches!(
        alarm,
        Alarm::WentBack { .. } | Alarm::SnapshotDamaged { .. } | Alarm::BadBatch { .. }
    )
}

/// `cluster_id` is that of this node, empty where it has none yet.
pub(super) fn text(alarm: &Alarm, log_dir: &Path, cluster_id: &str) -> String {
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
            node(*known),
        ),
        Alarm::IdTaken { id, directory } => format!(
            "two processes run as node {id} of this cluster{}: each node needs a node.id of its own. Stop one of them and give it another, with \
             a directory that is empty",
            directory.map_or(String::new(), |other| format!(
                ", one of them with the directory of id {other}"
            )),
        ),
        Alarm::Unelected { id, epoch } => format!(
            "other voters take node {id} for the leader of epoch {epoch}, and this process, which goes by that id, was not elected: another one \
             has the same node.id, or a majority of the voters is down. Compare node.id of all nodes, and start those that are down",
        ),
        Alarm::WentBack { replica, from, to } => format!(
            "node {} had acknowledged the metadata up to {from} and fetches them from {to}: its directory was emptied, or is an older copy of \
             itself. It gets what it lacks; keep the directories of the other voters until `esker cluster quorum` shows it without lag",
            replica.id,
        ),
        Alarm::Emptied => format!(
            "a voter asks this one for its vote, and {dir} is empty: what this node voted before, if it did, is forgotten. It votes once it has \
             the metadata of a leader that the other voters elect; start those that are down, each with its directory",
        ),
        Alarm::SnapshotDamaged { id, leader } => format!(
            "snapshot {id} of the metadata came damaged and is fetched again; if it stays so, the file of {} is damaged, and a restart of that \
             node has another one lead",
            node(*leader),
        ),
        Alarm::BadBatch { at } => format!(
            "the leader sent metadata at offset {at} that do not continue the log of this node, or are damaged; they are asked for again"
        ),
        Alarm::Refused {
            peer,
            request,
            error,
        } => format!(
            "{} refuses {request:?} of this node with {error:?}: {}",
            peer.map_or("another node".to_owned(), |id| format!("node {id}")),
            why_refused(*request, *error, cluster_id),
        ),
        Alarm::OtherCluster {
            node: id,
            ours,
            theirs,
        } => format!(
            "{} acts as a part of this cluster, {ours}, and is of cluster {theirs}: it is refused, and changes nothing here. Its directory is of \
             a former cluster at these addresses, or its settings name the addresses of another one. Stop it and start it with an empty \
             directory, or with the addresses of its own cluster; cluster.id in meta.properties says which a directory is of",
            id.map_or("another node".to_owned(), |id| format!("node {id}")),
            theirs = model::printable(theirs),
        ),
        Alarm::BelowCommitted {
            leader,
            epoch,
            to,
            committed,
        } => format!(
            "node {leader} leads the metadata in epoch {epoch} and lacks what is committed: its log ends with ours at {to}, and {committed} is \
             committed here. It is not followed, and this node keeps its log. Node {leader} was started without the other voters, or its \
             directory is an older copy of itself: stop it, keep its directory aside, and start it with an empty one. If several nodes \
             are named so, compare all voters by `esker cluster quorum` before anything is removed"
        ),
    }
}

fn why_refused(request: ApiKey, error: ErrorCode, cluster_id: &str) -> String {
    let text = match (request, error) {
        (_, ErrorCode::InconsistentClusterId) => {
            return format!(
                "it is of another cluster than this node, whose directory is of cluster {cluster_id}. Compare cluster.id in meta.properties \
                 of both, and the addresses of the voters: a directory of a former cluster is no part of the one that has its addresses now. To \
                 join that one, start this node with an empty directory"
            );
        }
        (ApiKey::UpdateRaftVoter, _) => {
            "the address or the versions of this voter do not go with the voters. Name its listener in controller.listener.names as the \
             other voters name theirs; the voters stay as they are meanwhile"
        }
        _ => {
            "it is of a newer version, or takes this node for another one. Compare the addresses of the voters and the versions"
        }
    };
    text.to_owned()
}
