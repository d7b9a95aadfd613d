//! The coordinators of one shard, and what is under way for them.
//!
//! Names no desk: a shard owns one of these, and its drivers are in the files beside.

use std::sync::Arc;

use coord::{group, txn};
use model::{InboxId, Instant, Ticket, WaiterKey};

use super::fleet::{AnyFleet, Fleet};
use super::marking::Marking;
use super::remote::Remote;
use crate::mail::inboxes::{Inboxes, ShardId};
use crate::mail::question::Basis;
use crate::meters::lag::Committed;
use crate::net::{Pending, Timers};
use crate::settings::Settings;
use crate::topics::Topics;

/// The coordinators of one shard.
pub(crate) struct Coordinators {
    pub(super) shard: ShardId,
    /// For tickets of their own.
    pub(super) inbox: InboxId,
    pub(super) groups: Fleet<group::Groups>,
    pub(super) transactions: Fleet<txn::Transactions>,
    /// The topics that the coordinators were made from; another pointer means that partitions came or went.
    pub(super) seen: Option<Arc<Topics>>,
    /// The settings that the coordinators go by.
    pub(super) settings: Option<Arc<Settings>>,
    /// Decided transactions whose markers are written.
    pub(super) markings: Pending<Marking>,
    /// Markings that are to be tried again.
    pub(super) retries: Timers,
    /// Questions and markers for other brokers.
    pub(super) remote: Remote,
}

impl Coordinators {
    pub(crate) fn new(shard: ShardId, inboxes: &Inboxes) -> Coordinators {
        Coordinators {
            shard,
            inbox: inboxes.of_coordinators(shard),
            groups: Fleet::new(),
            transactions: Fleet::new(),
            seen: None,
            settings: None,
            markings: Pending::new(),
            retries: Timers::default(),
            remote: Remote::new(),
        }
    }

    /// Offsets that the groups of this shard have committed, `most` rows of it.
    pub(crate) fn committed(&self, most: usize) -> Vec<Committed> {
        let rows = self.groups.active().flat_map(group::Groups::committed);
        let rows = rows.map(|(group, topic, partition, offset)| Committed {
            group: Arc::clone(group),
            topic: Arc::clone(topic),
            partition,
            offset,
        });
        rows.take(most).collect()
    }

    pub(super) fn fleets(&self) -> [&dyn AnyFleet; 2] {
        [&self.groups, &self.transactions]
    }

    /// In the order in which they have their turns.
    pub(super) fn fleets_mut(&mut self) -> [&mut dyn AnyFleet; 2] {
        [&mut self.groups, &mut self.transactions]
    }

    /// When some coordinator needs a turn, or earlier.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.fleets().map(AnyFleet::next_deadline);
        deadlines.into_iter().flatten().min()
    }

    /// True if some coordinator has not read its log to the end.
    pub(crate) fn is_loading(&self) -> bool {
        self.fleets().into_iter().any(AnyFleet::is_loading)
    }

    /// True if some coordinator has decisions that are not written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.fleets().into_iter().any(AnyFleet::has_unwritten)
    }

    /// True if the ticket is one of a marking.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        ticket.inbox == self.inbox
    }

    pub(super) fn ticket(&self, key: WaiterKey, part: u32) -> Ticket {
        Ticket {
            inbox: self.inbox,
            key,
            part,
        }
    }

    pub(super) fn drop_marking(&mut self, waiter: WaiterKey) {
        self.markings.remove(waiter);
    }

    /// Its coordinator resigned: the next one, here or on another broker, reads in its log what is decided.
    pub(super) fn drop_markings_of(&mut self, resigned: &Basis) {
        let is_of = |marking: &Marking| {
            let decided = &marking.decided;
            Arc::ptr_eq(&decided.log, &resigned.log) && decided.epoch == resigned.epoch
        };
        for waiter in self.markings.keys(is_of) {
            self.markings.remove(waiter);
        }
    }

    /// The broker stops: markers that are missing are written after the next start.
    pub(crate) fn drop_markings(&mut self) {
        for waiter in self.markings.keys(|_| true) {
            self.markings.remove(waiter);
        }
    }

    pub(crate) fn markings_count(&self) -> usize {
        self.markings.len()
    }

    pub(crate) fn retries_count(&self) -> usize {
        self.retries.len()
    }

    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let soonest = [self.retries.next(), self.remote.next_deadline()];
        soonest.into_iter().flatten().min()
    }
}
