//! Between the two halves of a start: what each directory has is known, and nothing of it is removed yet.
//!
//! The caller that opens several directories decides here which of them a partition lives in, because the metadata may be older than a move
//! and name one that has less of it, or nothing. Invariant: the files of a partition are removed only where another directory has all of
//! it; what may be more than a copy is set aside. Does not decide, and knows of no other directory.

use std::io;
use std::sync::Arc;

use env::Bell;
use log::journal::Replayed;
use wire::Uuid;

use super::error::OpenError;
use super::first_checkpoint::Opened;
use super::log_loader::Extent;
use super::recovery::Recovery;
use crate::dir::durable::Key;

/// A locked directory whose journal is replayed.
pub struct Restored {
    pub(super) recovery: Recovery,
    pub(super) replayed: Replayed,
}

impl Restored {
    /// The id that the metadata know this directory by.
    pub fn id(&self) -> Uuid {
        self.recovery.id()
    }

    /// The logs that are here.
    pub fn extents(&self) -> impl Iterator<Item = (Key, Extent)> {
        let logs = self.recovery.logs.iter();
        logs.map(|(key, log)| (*key, log.extent()))
    }

    /// A partition lives in another directory, which has all of it: its files here are removed.
    pub fn leave(&mut self, key: Key) {
        self.recovery.logs.remove(&key);
    }

    /// A partition lives in another directory, and what is here may be more than a copy: it is kept for an operator.
    pub fn set_aside(&mut self, key: Key) {
        let logs = &mut self.recovery.logs;
        match logs.get(&key) {
            None => {}
            // Files that cannot be read stay where they are, and so does what the checkpoint says of them.
            Some(log) if log.unread.is_some() && !log.is_missing => {}
            Some(log) if log.has_records() => {
                if let Some(log) = logs.remove(&key) {
                    self.recovery.keep_other(key, log);
                }
            }
            Some(_) => self.leave(key),
        }
    }

    /// Makes all that is here durable. Partitions that the metadata once named and that nobody looked up were deleted, and their files are
    /// removed; those that the metadata never named are set aside.
    pub fn finish(self, bell: Arc<dyn Bell>) -> Result<Opened, OpenError> {
        let mut recovery = self.recovery;
        recovery.sync_rescued()?;
        recovery.give_up_unreadable()?;
        if let Some(log) = recovery.logs.values().find(|log| log.is_missing) {
            return Err(OpenError::Io {
                path: log.path.clone(),
                error: io::ErrorKind::NotFound.into(),
            });
        }
        recovery.store_strays()?;
        recovery.clear_unclaimed()?;
        recovery.take_first_checkpoint(self.replayed, bell)
    }
}
