//! Deadlines of members. Soft: they begin anew after a restart.

use std::collections::{BTreeMap, BTreeSet};

use model::Instant;

/// The reason why a member is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// To be heard of at all.
    Session,
    /// To give up partitions, before it leaves the epoch.
    Revocation { epoch: i32 },
    /// A classic member: to join again.
    Join,
    /// A classic member that joined: to fetch its assignment.
    Sync,
}

impl Wait {
    /// One deadline of each kind for a member.
    fn kind(self) -> u8 {
        match self {
            Wait::Session => 0,
            Wait::Revocation { .. } => 1,
            Wait::Join => 2,
            Wait::Sync => 3,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    deadlines: BTreeMap<(String, u8), (Instant, Wait)>,
    order: BTreeSet<(Instant, String, u8)>,
}

impl Timers {
    /// Puts the deadline in the place of an earlier one of its kind.
    pub(super) fn set(&mut self, member: &str, wait: Wait, at: Instant) {
        let key = (member.to_owned(), wait.kind());
        if let Some((before, _)) = self.deadlines.insert(key.clone(), (at, wait)) {
            if before == at {
                return;
            }
            self.order.remove(&(before, key.0.clone(), key.1));
        }
        self.order.insert((at, key.0, key.1));
    }

    /// Leaves an earlier deadline of its kind as it is.
    pub(super) fn set_if_absent(&mut self, member: &str, wait: Wait, at: Instant) {
        if !self.has(member, wait) {
            self.set(member, wait, at);
        }
    }

    pub(super) fn has(&self, member: &str, wait: Wait) -> bool {
        (self.deadlines).contains_key(&(member.to_owned(), wait.kind()))
    }

    pub(super) fn cancel(&mut self, member: &str, wait: Wait) {
        let key = (member.to_owned(), wait.kind());
        if let Some((at, _)) = self.deadlines.remove(&key) {
            self.order.remove(&(at, key.0, key.1));
        }
    }

    pub(super) fn forget(&mut self, member: &str) {
        for wait in [
            Wait::Session,
            Wait::Revocation { epoch: 0 },
            Wait::Join,
            Wait::Sync,
        ] {
            self.cancel(member, wait);
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, ..)| *at)
    }

    /// The waits that are due, earliest first.
    pub(super) fn due(&self, now: Instant) -> Vec<(String, Wait)> {
        (self.order.iter())
            .take_while(|(at, ..)| *at <= now)
            .filter_map(|(_, member, kind)| {
                let (_, wait) = self.deadlines.get(&(member.clone(), *kind))?;
                Some((member.clone(), *wait))
            })
            .collect()
    }
}
