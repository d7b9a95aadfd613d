//! How much of transactions a reader wants to see.

/// The records that a reader wants to see (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Everything below the high watermark.
    #[default]
    Uncommitted,
    /// No open transaction. Comes with the aborted ones, so that the reader can drop their records.
    Committed,
    /// Everything to the log end: another replica, which is to have what is not committed yet.
    Log,
}
