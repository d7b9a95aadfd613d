//! Appends and trims of a partition that wait for its next directory.
//!
//! Entries that wait count as bytes to be written: past the bound of those the shards stop reading sockets.

use model::Offset;

use crate::dir::backlog::Backlog;
use crate::dir::queue::Push;

pub(crate) struct Pause {
    /// The log end when the pause began.
    at: Offset,
    held: Vec<Push>,
    /// Index of the trim among the held entries.
    trim: Option<usize>,
    bytes: usize,
}

impl Pause {
    pub(crate) fn new(at: Offset) -> Pause {
        Pause {
            at,
            held: Vec::new(),
            trim: None,
            bytes: 0,
        }
    }

    pub(crate) fn at(&self) -> Offset {
        self.at
    }

    /// Trims that wait: none or one.
    pub(crate) fn trims_count(&self) -> usize {
        usize::from(self.trim.is_some())
    }

    /// Keeps an entry for later. Returns true if it was merged into a trim that was held before.
    pub(crate) fn hold(&mut self, backlog: &Backlog, push: Push) -> bool {
        if push.is_trim {
            if let Some(held) = self.trim {
                self.held[held].entry = push.entry;
                return true;
            }
            self.trim = Some(self.held.len());
        }
        self.bytes += push.held();
        backlog.hold(push.held());
        self.held.push(push);
        false
    }

    /// Hands each entry that waited to `enqueue`. They were counted in `backlog`.
    pub(crate) fn release(self, backlog: &Backlog, enqueue: impl FnMut(Push)) {
        self.held.into_iter().for_each(enqueue);
        backlog.remove(self.bytes);
    }
}
