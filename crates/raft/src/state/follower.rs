//! Follower: fetches from the leader, one request at a time, from its own synced end.

use std::time::Duration;

use model::{Instant, Offset};

use super::Role;
use crate::calls::Target;
use crate::event::Moment;
use crate::snapshot::SnapshotId;
use crate::step::Quorum;
use crate::timers::sooner;

#[derive(Debug)]
pub(crate) struct Follower {
    /// A voter that hears nothing of its leader until then stands for election.
    pub(crate) fetch_deadline: Instant,
    /// True once the leader answered in this epoch: it is there, and pre-votes are refused.
    pub(crate) has_fetched: bool,
    /// When to look whether the leader's idea of this voter is right.
    pub(crate) update_deadline: Instant,
    /// True once this voter has described itself to a leader without `kraft.version` 1.
    pub(crate) has_updated: bool,
    pub(crate) download: Option<Download>,
    /// The leader's end at this replica's first empty fetch, kept while the replica is not counted as a voter.
    pub(crate) confirms_behind: Option<Offset>,
    /// Connections to the leader that were refused or ended since it answered last.
    pub(crate) losses: u8,
}

/// So many lost connections in a row are the end of the leader's process: a living one takes the next.
const LOSSES_MAX: u8 = 3;

/// A snapshot on its way here.
#[derive(Clone, Debug)]
pub(crate) struct Download {
    pub(crate) id: SnapshotId,
    pub(crate) position: u64,
    /// All bytes are here, and the driver verifies them.
    pub(crate) is_complete: bool,
}

impl Follower {
    pub(crate) fn new(now: Instant, fetch_timeout: Duration) -> Follower {
        Follower {
            fetch_deadline: now.plus(fetch_timeout),
            has_fetched: false,
            update_deadline: now.plus(fetch_timeout),
            has_updated: false,
            download: None,
            confirms_behind: None,
            losses: 0,
        }
    }

    /// The leader answered.
    pub(crate) fn hear(&mut self, now: Instant, fetch_timeout: Duration) {
        self.fetch_deadline = now.plus(fetch_timeout);
        self.has_fetched = true;
        self.losses = 0;
    }
}

impl Quorum {
    /// True while this replica cannot ask for its own disk's sake. The leader's silence then says nothing of the leader.
    fn is_busy(&self, state: &Follower) -> bool {
        !self.log.is_synced() || state.download.as_ref().is_some_and(|d| d.is_complete)
    }

    /// A connection to the leader was refused, or it ended. A process that died is not waited for as one that is silent: the pauses
    /// between the attempts, and as much again, keep voters apart that notice it together.
    pub(crate) fn on_leader_lost(&mut self, at: Moment) {
        let wait = self.jitter.stretch(self.settings.retry_backoff * 2);
        if let Role::Follower(state) = &mut self.role {
            state.losses = state.losses.saturating_add(1);
            if LOSSES_MAX <= state.losses {
                state.fetch_deadline = state.fetch_deadline.min(at.now.plus(wait));
            }
        }
    }

    pub(super) fn follower_deadline(&self, state: &Follower) -> Option<Instant> {
        let is_voter = self.may_stand();
        let fetch = (is_voter && !self.is_busy(state)).then_some(state.fetch_deadline);
        let is_update_due = is_voter || self.settings.joins;
        // While a call is under way, or a peer rests, the end of that comes first.
        let update = (is_update_due && self.calls.is_idle()).then_some(state.update_deadline);
        sooner(fetch, update)
    }

    pub(super) fn turn_follower(&mut self, at: Moment) -> bool {
        let Role::Follower(state) = &self.role else {
            return false;
        };
        let is_voter = self.may_stand();
        if is_voter && !self.is_busy(state) && state.fetch_deadline <= at.now {
            self.become_prospective(at);
            return true;
        }
        let is_due = state.update_deadline <= at.now;
        let Some(leader) = self.election.leader.map(Target::Node) else {
            return false;
        };
        if self.calls.is_resting(leader) {
            // The leader does not answer: others may know a newer one.
            if !self.is_busy(state) {
                self.fetch_from_anyone(at);
            }
            return false;
        }
        if self.calls.is_any_waiting() {
            return false;
        }
        if is_due && self.is_change_wanted() {
            self.send_change(at, leader);
            self.put_off_update(at.now);
            return false;
        }
        if is_due {
            self.put_off_update(at.now);
        }
        self.fetch_from_leader(at, leader);
        false
    }

    fn put_off_update(&mut self, now: Instant) {
        if let Role::Follower(state) = &mut self.role {
            state.update_deadline = now.plus(self.settings.fetch_timeout);
        }
    }

    fn fetch_from_leader(&mut self, at: Moment, leader: Target) {
        let Role::Follower(state) = &self.role else {
            return;
        };
        let Some(peer) = self.peer(leader) else {
            return;
        };
        match state.download.clone() {
            Some(download) if !download.is_complete => {
                self.send_fetch_snapshot(at, leader, peer, &download);
            }
            None if self.log.is_synced() => self.send_fetch(at, leader),
            Some(_) | None => {}
        }
    }
}
