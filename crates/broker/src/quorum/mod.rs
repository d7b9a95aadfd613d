//! The worker of the quorum: raft's time, the vote file, and this node's life in its cluster.

mod controller_registration;
mod membership;
mod snapshot_writer;
mod worker;

pub(crate) use controller_registration::ControllerRegistration;
pub(crate) use membership::{Membership, not_counted_in};
pub(crate) use worker::QuorumWorker;
