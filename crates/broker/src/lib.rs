//! The broker: doors, operations, and the loops that drive what the lower crates decide.
//!
//! [`Broker::start`] recovers the log directories, opens the listeners and starts the loops on the given [`Env`]; the real one
//! runs them as threads, the simulated one takes turns.
//!
//! # Order of locks
//!
//! A thread that holds a lock of one line takes only locks of later lines, and no second one of the same line:
//!
//! 1. `plan` of the metadata log, `applying` of the catalog;
//! 2. `wishes`, `asked` and `preferred` of the moves, `begun` of the places;
//! 3. the locks of `partition`, in their own order;
//! 4. mailboxes (`posts`, `orders`, `state` of the calls, `mail`, `heard`, `queue` of the readers) and counts (`crowd`, `committed`, `software`, `errors`, `throttle`,
//!    `telemetry`, `producer_ids`, `failure`). Each is taken for a few instructions.
//!
//! The order holds because news come up as values: what a change of the metadata leads to is collected under `plan` and carried out when it is
//! free again. Orders for the worker of the quorum are put into its mailbox under `plan`, so that they come in the order of the steps. The
//! disk may be waited for under `applying`, where partitions open and are deleted, and never under another lock of the broker.

mod asker;
mod budget;
mod calls;
mod committer;
mod complaints;
mod control;
mod coordinate;
mod dir_choice;
mod error;
mod error_outcomes;
// `loop` is a keyword, so the folder cannot name its module.
#[path = "loop/mod.rs"]
mod event_loop;
mod ids;
mod kafka;
mod mail;
mod meters;
pub mod metrics;
mod mover;
mod moves;
mod net;
mod node;
mod ops;
mod passwords;
mod peers;
mod pending_moves;
mod placement;
mod quorum;
mod reads;
mod replica_status;
mod replication;
pub mod settings;
mod shared;
mod start;
mod telemetry;
mod topics;

pub use control::{BootError, Unfit};
pub use error_outcomes::{INDEFINITE, leaves_unknown};
pub use kafka::Carried;
pub use log::journal::Damage;
pub use meters::Held;
pub use metrics::{Form, Process, Watch};
pub use partition::{InMemory, OpenError, unnamed_loss};
pub use peers::Ceilings;
pub use replica_status::Replica;
pub use start::{Broker, Shares, StartError, Survivor, SurvivorError, accept_loss};
