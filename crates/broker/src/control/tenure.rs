//! The soft state of an active controller: it begins anew with each of them.

use std::time::Duration;

use meta::Trouble;
use meta::sessions::Sessions;
use model::{Instant, LeaderEpoch};

use super::change_lines::ChangeLines;
use super::clocks::Clocks;
use super::taken::Taken;

/// So many voters make a cluster of several, whose new ones begin with eligible leaders.
pub(super) const VOTERS_OF_SEVERAL: usize = 3;

/// The state of an active controller that is in no log.
pub(crate) struct Office {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) sessions: Sessions,
    /// Directories that brokers call full or slow.
    pub(super) trouble: Trouble,
    pub(super) taken: Taken,
    /// Sessions are not looked at before.
    pub(super) pause: Option<Instant>,
    /// When leaders are looked at that are not the preferred ones; never where that is not wanted.
    pub(super) balance_at: Option<Instant>,
    /// When partitions without leader are looked at that `unclean.leader.election.enable` gives one.
    pub(super) unclean_at: Option<Instant>,
    pub(super) idle: Idle,
    pub(super) lines: ChangeLines,
    pub(super) clocks: Clocks,
    /// When it is tried again to raise `eligible.leader.replicas.version`; `None` where nothing asks for it.
    pub(super) raise_elr_at: Option<Instant>,
}

/// A log to which nothing is written for so long gets a record that says nothing: replicas that are cut off show by their lag, and what
/// is counted in the log's time goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    /// `None`: never.
    every: Option<Duration>,
    at: Option<Instant>,
}

impl Idle {
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Idle {
        let every = every.filter(|every| !every.is_zero());
        let at = every.map(|every| now.plus(every));
        Idle { every, at }
    }

    /// When the record is due, unless something else is written before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Something was written, or could not be.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.at = self.every.map(|every| now.plus(every));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_record_is_due_when_nothing_was_written_for_the_interval() {
        let at = |ms| Instant(0).plus(Duration::from_millis(ms));
        let mut idle = Idle::new(Some(Duration::from_millis(500)), at(0));
        assert_eq!(idle.deadline(), Some(at(500)));
        idle.put_off(at(400));
        assert_eq!(idle.deadline(), Some(at(900)));
        for every in [None, Some(Duration::ZERO)] {
            let mut never = Idle::new(every, at(0));
            never.put_off(at(1));
            assert_eq!(never.deadline(), None);
        }
    }
}
