//! This node in the quorum that keeps the metadata log: its only voter, until there is a quorum of several.
//!
//! The machine of the quorum is stepped under the lock of the metadata plan, by whatever thread has an event for it. Its wishes
//! beyond the log come here as orders, which one worker carries out: it writes the vote file, and reports what is synced.

mod mailbox;
mod plan;
mod replay;
mod vote_file;
mod worker;

pub(crate) use mailbox::Mailbox;
pub(crate) use plan::{Aftermath, Plan};
pub use replay::Unfit;
pub(crate) use replay::replay;
pub(crate) use vote_file::load as load_vote;
pub(crate) use worker::QuorumWorker;

#[cfg(test)]
mod tests;
