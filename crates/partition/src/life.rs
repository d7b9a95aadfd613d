//! The lives of a log: each cut or restart gives it another number.

/// Counts the cuts and restarts of a log in this process. A round that was queued in an older life says nothing of what was appended
/// since: its sync began beside a cut, and the same offsets may hold other records now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u64);

impl Life {
    #[must_use]
    pub(crate) fn next(self) -> Life {
        Life(self.0 + 1)
    }
}
