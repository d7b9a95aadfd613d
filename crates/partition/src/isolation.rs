//! How much of a log a reader wants to see, and of which replicas.

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

/// The part of a partition that a reader is shown, and by which replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub isolation: Isolation,
    /// True if replicas that follow refuse. Otherwise they show what they know to be committed (KIP-392), or all they have.
    pub leader_only: bool,
    /// True to show what the disk has, whatever is in memory or was verified before.
    pub anew: bool,
}

impl Scope {
    /// The view that the leader shows.
    #[must_use]
    pub fn of_leader(isolation: Isolation) -> Scope {
        Scope {
            isolation,
            leader_only: true,
            anew: false,
        }
    }

    /// The view that any replica shows.
    #[must_use]
    pub fn of_any(isolation: Isolation) -> Scope {
        Scope {
            isolation,
            leader_only: false,
            anew: false,
        }
    }

    /// The view of the files of any replica, for a comparison with those of others.
    #[must_use]
    pub fn of_files(isolation: Isolation) -> Scope {
        Scope {
            anew: true,
            ..Scope::of_any(isolation)
        }
    }
}
