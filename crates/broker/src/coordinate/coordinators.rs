//! The coordinators of one shard, and what is under way for them.
//!
//! Names no desk: a desk owns one of these, and its drivers are in the files beside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coord::{group, txn};
use model::{InboxId, Instant, Ticket, WaiterKey};

use super::coordinator::Coordinator;
use super::marking::Marking;
use super::question::Basis;
use super::remote::Remote;
use crate::meters::lag::Committed;
use crate::net::{Pending, Timers};
use crate::topics::Topics;

/// The coordinators of one shard.
pub(crate) struct Coordinators {
    pub(super) inbox: InboxId,
    pub(super) groups: BTreeMap<i32, Coordinator<group::Groups>>,
    pub(super) transactions: BTreeMap<i32, Coordinator<txn::Transactions>>,
    /// No coordinator wants to be looked at before. May be early, never late: a turn of the shard asks this instead of each of
    /// up to a hundred coordinators.
    pub(super) earliest: Option<Instant>,
    pub(super) is_loading: bool,
    /// Partitions whose groups have decided something that is not written.
    pub(super) unwritten: BTreeSet<i32>,
    /// The topics that the coordinators were made from; another pointer means that partitions came or went.
    pub(super) seen: Option<Arc<Topics>>,
    /// The settings that they go by.
    pub(super) settings: Option<Arc<group::Settings>>,
    /// Decided transactions whose markers are written.
    pub(super) markings: Pending<Marking>,
    /// Markings that are to be tried again.
    pub(super) retries: Timers,
    /// Questions and markers for other brokers.
    pub(super) remote: Remote,
}

impl Coordinators {
    /// `inbox` is for tickets of their own.
    pub(crate) fn new(inbox: InboxId) -> Coordinators {
        Coordinators {
            inbox,
            groups: BTreeMap::new(),
            transactions: BTreeMap::new(),
            earliest: None,
            is_loading: false,
            unwritten: BTreeSet::new(),
            seen: None,
            settings: None,
            markings: Pending::new(),
            retries: Timers::default(),
            remote: Remote::new(),
        }
    }

    pub(crate) fn inbox(&self) -> InboxId {
        self.inbox
    }

    /// Offsets that the groups of this shard have committed, `most` rows of it.
    pub(crate) fn committed(&self, most: usize) -> Vec<Committed> {
        let loaded = (self.groups.values()).filter_map(Coordinator::active);
        let rows = loaded.flat_map(group::Groups::committed);
        let rows = rows.map(|(group, topic, partition, offset)| Committed {
            group: Arc::clone(group),
            topic: Arc::clone(topic),
            partition,
            offset,
        });
        rows.take(most).collect()
    }

    /// When one of them wants to be looked at, or earlier.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Some coordinator has not read its log to the end.
    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Some coordinator has decided what is not written yet.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// A coordinator was asked, loaded or marked: its deadline may have come nearer.
    pub(super) fn expect(&mut self, deadline: Option<Instant>) {
        self.earliest = [self.earliest, deadline].into_iter().flatten().min();
    }

    /// Asks each of them, so that deadlines that moved away do not wake the shard again.
    pub(super) fn renew_earliest(&mut self) {
        let groups = self.groups.values().filter_map(Coordinator::next_deadline);
        let transactions = self.transactions.values();
        self.earliest = groups
            .chain(transactions.filter_map(Coordinator::next_deadline))
            .min();
    }

    pub(super) fn renew_loading(&mut self) {
        self.is_loading = self.groups.values().any(Coordinator::is_loading)
            || self.transactions.values().any(Coordinator::is_loading);
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
