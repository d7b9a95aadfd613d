//! The broker: doors, operations, and the loops that drive what the lower crates decide.
//!
//! [`Broker::start`] recovers the log directories, opens the listeners and starts the loops on the given [`Env`]; the real one
//! runs them as threads, the simulated one takes turns.

mod committer;
mod control;
mod coordinate;
mod crowd;
mod error;
// `loop` is a keyword, so the folder cannot name its module.
#[path = "loop/mod.rs"]
mod event_loop;
mod held;
mod ids;
mod inboxes;
mod kafka;
mod metadata;
mod mover;
mod moves;
mod ops;
mod place;
mod promises;
mod reads;
pub mod settings;
mod shared;
mod start;
mod telemetry;
mod topics;
mod whereabouts;
mod wishes;

pub use control::Unfit;
pub use held::Held;
pub use log::journal::Damage;
pub use partition::{InMemory, OpenError, accept_loss, unnamed_loss};
pub use promises::{INDEFINITE, leaves_unknown};
pub use start::{Broker, StartError};
