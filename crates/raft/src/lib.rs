//! The quorum of the metadata log: Kafka's Raft as KIP-595, 630, 853, 996 and 1166 define it.
//!
//! One machine: [`Quorum::step`] takes an event and the time, changes itself and returns effects. It does no IO, reads no clock and
//! throws no dice but those its driver seeded. Requests and answers are Kafka's own messages, so either side may be Apache Kafka.
//!
//! Invariants:
//! - at most one leader in an epoch, and a vote is given once in it: no message leaves before the vote file that it rests on is
//!   stored ([`Effect::StoreVote`], [`Event::VoteStored`]), and a candidate counts its own vote only then;
//! - a leader counts itself up to its own synced end, a follower fetches from its synced end, and nothing is committed before a
//!   record of the leader's own epoch is;
//! - no cut goes below what is committed: a leader that asks for one is named ([`Alarm::BelowCommitted`]) and not followed in its epoch;
//! - a replica has the id of one cluster in all its life, and a log names one: requests, votes and records of another are refused;
//! - one change of the voters at a time, and only after the epoch's first record is committed.
//!
//! The driver owes this: it performs effects in their order; it reports [`Event::Synced`] with the life of the log that the append
//! belonged to; it fills in the records of an answer that has a [`Fill`]; it calls [`Quorum::step`] with [`Event::Tick`] once
//! [`Quorum::next_deadline`] has come.

mod calls;
mod change;
mod cluster;
pub mod control;
mod effect;
mod event;
mod history;
mod leadership;
mod log_view;
mod memory;
mod message;
pub mod quorum_state;
mod replicate;
mod shunned;
mod snapshot;
mod state;
mod step;
mod tally;
mod timers;
mod view;
mod vote;
mod voters;

pub use calls::CallId;
pub use change::Lack;
pub use effect::{Alarm, Effect, Fill, Left, Peer, Refusal};
pub use event::{AppendTag, Caller, Event, Failure, Moment, VoteNumber};
pub use history::History;
pub use log_view::{Life, LogView, NotOurs};
pub use message::{Request, Response, TOPIC, TOPIC_ID};
pub use quorum_state::{Election, VoteFile};
pub use snapshot::{Checker, SnapshotFacts, SnapshotFault, SnapshotId};
pub use step::{Boot, Me, Quorum};
pub use timers::Settings;
pub use view::{RoleName, View, VoterView};
pub use voters::{Endpoint, Listener, Replica, VersionRange, Voter, VoterSet};
