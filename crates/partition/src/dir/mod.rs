//! A log directory: its journal, the partitions that live in it, and the loops that see to its files.
//!
//! `log_dir` makes entries of logs durable and knows nothing of partitions; `residents` owns those that live here; `writer` brings
//! them to segment files, `cleaner` compacts these; `open` is how a start finds all of it, `move` how a partition gets elsewhere.
//!
//! # Order of locks
//!
//! A thread that holds a lock of one line takes only locks of later lines, and no second one of the same line:
//!
//! 1. `telling` of a directory, `cleaning` of a partition's files, `place` of an arrival;
//! 2. `partitions` of the residents, `derived` of a partition's files;
//! 3. `state` of a partition;
//! 4. `queue`, `flights`, `logs`, `point`, `volume_sync` and the backlog's list of a directory, `guests`, `arrivals`, `doomed` and
//!    `leaving` of the residents, and what the cleaners share. Each is taken for a few instructions.
//!
//! `journal` stands apart: appends and reads never ask for it, and its holder takes `queue`, `flights` and the spare pieces alone.
//! The locks of `log` come after `cleaning`, `place` and `derived`: a store's `files`, its `tail`, a segment's `txns`, `detached`, then
//! `heads` or `inner`, then the ring of the file pool and a handle in it. None of them is taken under `state`.
//!
//! The order holds because calls go down and news come up as values: `telling` reaches `state`, `state` reaches `queue`, and nothing
//! below calls back. A walk over the partitions works on a copy of the list, but for two that take each `state` under it on purpose: a
//! move that settles, and a checkpoint that notes what is closed. The disk is waited for under the first line, `derived`, `journal` and
//! the locks of `log`, and never under `partitions`, `state` or a lock of the last line, so no append or read waits for it.

mod announce;
pub(crate) mod backlog;
mod build;
mod cleaner;
mod counters;
pub(crate) mod damages;
pub(crate) mod durable;
mod flight;
pub mod linger;
pub(crate) mod log_dir;
pub(crate) mod r#move;
pub(crate) mod names;
mod open;
mod pieces;
pub(crate) mod queue;
mod residents;
mod rows;
mod settings;
mod slowness;
mod syncer;
mod writer;

pub use announce::Announce;
pub use cleaner::{Cleaner, CleanerSettings, Cleaning};
pub use counters::{Counters, Done};
pub use damages::{Damage, DamageStage};
pub use durable::{Durable, Key, NeverDurable, Reached};
pub use flight::Flight;
pub use linger::{Stamp, Wait};
pub use log_dir::{Begun, Commit, LogDir};
pub use r#move::{Move, MoveError, MoveStep, Moved};
pub use open::{
    EverNamed, Extent, Found, Identity, MetadataLog, OpenError, Opened, Recovery, Restored,
    accept_loss, check_ownership, identity, name_cluster, unnamed_loss,
};
pub use pieces::PieceMaker;
pub use queue::{Push, Slot};
pub use residents::{InMemory, Residents};
pub use settings::DirSettings;
pub use syncer::Syncer;
pub use writer::SegmentWriter;
