//! The broker: doors, operations, and the loops that drive what the lower crates decide.
//!
//! [`Broker::start`] recovers the log directories, opens the listeners and starts the loops on the given [`Env`]; the real one
//! runs them as threads, the simulated one takes turns.

mod committer;
mod complaints;
mod connection_counts;
mod control;
mod coordinate;
mod dir_choice;
mod error;
mod error_outcomes;
// `loop` is a keyword, so the folder cannot name its module.
#[path = "loop/mod.rs"]
mod event_loop;
mod ids;
mod inboxes;
mod kafka;
mod memory_use;
mod metadata;
pub mod metrics;
mod mover;
mod moves;
mod ops;
mod pending_moves;
mod place;
mod reads;
mod replication;
pub mod settings;
mod shared;
mod standing;
mod start;
mod telemetry;
mod topics;

pub use control::{BootError, Unfit};
pub use error_outcomes::{INDEFINITE, leaves_unknown};
pub use log::journal::Damage;
pub use memory_use::Held;
pub use metrics::{Form, Process, Watch};
pub use partition::{InMemory, OpenError, unnamed_loss};
pub use standing::Replica;
pub use start::{Broker, Shares, StartError, Survivor, SurvivorError, accept_loss};
