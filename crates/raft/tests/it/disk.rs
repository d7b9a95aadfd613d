//! The lasting part of a node of the scripts, and what is written to it.

use std::collections::BTreeMap;

use model::Offset;
use raft::{SnapshotFacts, SnapshotId};
use wire::records::Batch;

/// A fact that the machine must not forget.
#[derive(Clone)]
pub(crate) enum Kept {
    Vote(raft::Election),
    Cluster(String),
}

/// The lasting part of a node.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) batches: Vec<Batch>,
    pub(crate) start: Option<SnapshotId>,
    pub(crate) snapshots: BTreeMap<SnapshotId, SnapshotFacts>,
    pub(crate) vote: Option<raft::Election>,
    pub(crate) cluster: Option<String>,
}

#[derive(Clone)]
pub(crate) enum Write {
    Append(Batch),
    Cut(Offset),
    Restart(SnapshotId),
}

/// Performs a write; returns the log end behind it.
pub(crate) fn apply(batches: &mut Vec<Batch>, write: &Write) -> Offset {
    match write {
        Write::Append(batch) => {
            batches.push(batch.clone());
            batch.next_offset()
        }
        Write::Cut(to) => {
            batches.retain(|batch| batch.next_offset() <= *to);
            *to
        }
        Write::Restart(at) => {
            batches.clear();
            at.end
        }
    }
}
