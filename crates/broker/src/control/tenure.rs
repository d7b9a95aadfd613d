//! The soft state of an active controller: it begins anew with each of them.

use meta::Trouble;
use meta::sessions::Sessions;
use model::{Instant, LeaderEpoch};

/// The state of an active controller that is in no log.
pub(crate) struct Office {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) sessions: Sessions,
    /// Directories that brokers call full or slow.
    pub(super) trouble: Trouble,
    /// Sessions are not looked at before.
    pub(super) pause: Option<Instant>,
    /// When leaders are looked at that are not the preferred ones; never where that is not wanted.
    pub(super) balance_at: Option<Instant>,
}
