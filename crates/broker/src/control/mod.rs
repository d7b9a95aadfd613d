//! This node in the quorum that keeps the metadata log, and in the cluster that the metadata describe.
//!
//! The machine of the quorum is stepped under the lock of the metadata plan, by whatever thread has an event for it. Its wishes
//! beyond the log come here as orders, which one worker carries out in their order: it writes the vote file, talks to other nodes,
//! and reports what is synced. The active controller's soft state is in [`office`], this broker's own life in [`lifecycle`].

mod alarms;
pub(crate) mod boot;
mod change_lines;
mod clocks;
mod enrolment;
pub(crate) mod envelope;
pub(crate) mod introduction;
pub(crate) mod life_file;
mod lifecycle;
pub(crate) mod links;
mod log_read;
mod mailbox;
mod membership;
pub(crate) mod office;
mod plan;
mod replay;
mod sight;
pub(crate) mod snapshot_files;
mod taken;
mod tenure;
pub(crate) mod vote_file;
mod wire_form;
mod worker;

pub use boot::BootError;
pub(crate) use enrolment::Enrolment;
pub(crate) use lifecycle::leads_for;
pub(crate) use mailbox::{Mailbox, Order, Outgoing, Question, Recipient};
pub(crate) use membership::{Membership, not_counted_in};
pub(crate) use plan::{Aftermath, Plan, SnapshotTimer};
pub use replay::Unfit;
pub(crate) use replay::replay;
pub(crate) use sight::QuorumSight;
pub(crate) use worker::QuorumWorker;

#[cfg(test)]
mod tests;
