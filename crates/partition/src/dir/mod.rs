//! A log directory: its journal, the partitions that live in it, and the loops that see to its files.
//!
//! `log_dir` makes entries of logs durable and knows nothing of partitions; `residents` owns those that live here; `writer` brings
//! them to segment files, `cleaner` compacts these; `open` is how a start finds all of it, `move` how a partition gets elsewhere.

mod announce;
pub(crate) mod backlog;
mod build;
mod cleaner;
pub(crate) mod durable;
mod flight;
pub mod linger;
pub(crate) mod log_dir;
pub(crate) mod r#move;
mod names;
mod open;
mod pieces;
pub(crate) mod queue;
mod residents;
mod rows;
mod settings;
mod syncer;
mod writer;

pub use announce::Announce;
pub use cleaner::{Cleaner, CleanerSettings, Cleaning};
pub use durable::{Durable, Key, NeverDurable, Reached};
pub use flight::Flight;
pub use linger::{Stamp, Wait};
pub use log_dir::{Begun, Commit, LogDir};
pub use r#move::{Move, MoveError, MoveStep, Moved};
pub use open::{
    Extent, Found, Identity, OpenError, Opened, Recovery, Restored, Told, accept_loss, unnamed_loss,
};
pub use pieces::PieceMaker;
pub use queue::{Push, Slot};
pub use residents::{InMemory, Residents};
pub use settings::DirSettings;
pub use syncer::Syncer;
pub use writer::SegmentWriter;
