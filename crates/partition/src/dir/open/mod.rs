//! Opening a log directory at a start, from its lock to partitions that are ready for work.
//!
//! The steps, in order: `meta_properties` and `recover` lock the directory and read what it is; `log_loader` brings back one log from its
//! files and the journal; `unreadable` and `strays` set aside what cannot be served; `restored` lets the caller of several directories
//! choose; `first_checkpoint` makes all of it durable. `accept_loss` is for an operator whose journal is damaged.

mod accept_loss;
mod error;
mod ever_named;
mod first_checkpoint;
mod lock;
mod log_loader;
mod meta_properties;
mod ownership;
mod recover;
mod recovery;
mod restored;
mod strays;
mod unreadable;

pub use accept_loss::{accept_loss, unnamed_loss};
pub use error::OpenError;
pub use ever_named::EverNamed;
pub use first_checkpoint::Opened;
pub use log_loader::{Extent, Found};
pub use meta_properties::{Identity, identity, name_cluster};
pub use ownership::check_ownership;
pub use recover::MetadataLog;
pub use recovery::Recovery;
pub use restored::Restored;
