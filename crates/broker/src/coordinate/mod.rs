//! Drivers of the coordinators: they load a partition of an internal topic into its machine, bring requests to it, write what it
//! decides, and send its answers when that is durable.
//!
//! Each coordinator lives on one shard, which the number of its partition names; requests that arrive on another are posted
//! there, and answers are posted back. Before each commit everything that they have not written yet is. Invariant: an answer leaves only when everything its coordinator had written before
//! it is committed, so that nothing a client was told can be forgotten. A coordinator lives where its partition is led: it is loaded when
//! the leadership comes to this broker and resigns when that goes, or comes anew, which is another leader epoch. None does before the
//! controller counts this broker in: the metadata are as new as its registration then.

mod coordinator;
pub(crate) mod coordinators;
mod machine;
mod mark;
mod marking;
mod peers;
pub(crate) mod question;
mod remote;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;

use coord::{Caller, Moment, group, txn};
use model::{Instant, Ticket};
use partition::Warrant;
use wire::ErrorCode;

use coordinator::{Coordinator, Progress};
use machine::Machine;
pub(crate) use machine::txn_settings;
use question::{Answered, Asked, Question, Said};
use topics::KnownTopics;

use crate::inboxes::Post;
use crate::inboxes::{Redeemed, ShardId};
use crate::ops::Desk;
use crate::topics::{Topic, Topics};

/// Log bytes replayed in one turn: other connections are served between two slices of a long load.
const LOAD_BYTES_PER_TURN: usize = 1 << 20;

impl Desk {
    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.wall,
        }
    }

    fn coordinator_shard(&self, partition: i32) -> ShardId {
        let count = self.shared.mail.inboxes.shards_count().max(1);
        ShardId((partition.unsigned_abs() as usize % count) as u16)
    }

    /// Brings a question to the shard of its coordinator.
    pub(crate) fn send_question(&mut self, asked: Asked) {
        let Some(asked) = self.keep_question(asked) else {
            return;
        };
        let owner = self.coordinator_shard(asked.partition);
        if owner == self.id {
            self.on_question(asked);
        } else {
            self.shared
                .mail
                .inboxes
                .post(owner, Post::Asked(Box::new(asked)));
        }
    }

    pub(crate) fn on_question(&mut self, asked: Asked) {
        self.refresh_coordinators();
        let at = self.moment();
        let topics = KnownTopics(self.shared.catalog.image());
        let (partition, ticket) = (asked.partition, asked.ticket);
        // Another broker may coordinate by now. An answer that needs no record would go out as if nothing had been decided there: an
        // offset that was passed, or the end of an earlier transaction as that of the one that is open. A marker would be written here and
        // once more elsewhere.
        if self.shared.state.is_self_fenced() {
            let code = match asked.question {
                Question::MarkerAt(..) => ErrorCode::NotLeaderOrFollower,
                _ => ErrorCode::NotCoordinator,
            };
            return self.refuse_with(ticket, code);
        }
        match asked.question {
            Question::MarkerAt(place, marker) => self.on_marker(ticket, &place, marker),
            Question::Group(ask) => {
                self.ask_coordinator(partition, ticket, ask, Warrant::None);
            }
            Question::Joining(_) => unreachable!("it is asked as one of a transaction"),
            Question::TxnOffsets(ask, warrant) => {
                self.ask_coordinator(partition, ticket, ask, warrant);
            }
            Question::Txn(ask) => match self.coordinators.transactions.get_mut(&partition) {
                Some(coordinator) => {
                    let none = Warrant::None;
                    let caller = Caller::Ticket(ticket);
                    let progress = coordinator.ask(caller, ask, none, at, &topics);
                    let begun = coordinator.take_begun();
                    let deadline = coordinator.next_deadline();
                    self.coordinators.expect(deadline);
                    begun
                        .into_iter()
                        .chain([progress])
                        .for_each(|progress| self.spread_txn_answers(progress));
                }
                None => self.refuse_question(ticket),
            },
        }
    }

    fn ask_coordinator(
        &mut self,
        partition: i32,
        ticket: Ticket,
        ask: group::Ask,
        warrant: Warrant,
    ) {
        // The request may have come long after the turn began, which had to wait for a disk: a member counts its session from when it asked.
        let at = Moment {
            now: self.now.max(self.shared.env.clock.now()),
            wall: self.wall,
        };
        let topics = KnownTopics(self.shared.catalog.image());
        let Some(coordinator) = self.coordinators.groups.get_mut(&partition) else {
            return self.refuse_question(ticket);
        };
        let progress = coordinator.ask(Caller::Ticket(ticket), ask, warrant, at, &topics);
        self.on_progress(partition, progress);
    }

    /// A coordinator of groups was asked, marked or written for.
    fn on_progress(&mut self, partition: i32, progress: Progress<group::Answer>) {
        let coordinators = &mut self.coordinators;
        if let Some(coordinator) = coordinators.groups.get(&partition) {
            coordinators.is_loading |= coordinator.is_loading();
            if coordinator.has_unwritten() {
                coordinators.unwritten.insert(partition);
            }
            let deadline = coordinator.next_deadline();
            coordinators.expect(deadline);
        }
        self.spread_answers(progress);
    }

    /// Writes what the coordinators decided since the last time.
    pub(crate) fn write_decisions(&mut self) {
        while let Some(partition) = self.coordinators.unwritten.pop_first() {
            let at = self.moment();
            if let Some(coordinator) = self.coordinators.groups.get_mut(&partition) {
                let progress = coordinator.flush(at);
                self.on_progress(partition, progress);
            }
        }
    }

    fn refuse_question(&mut self, ticket: Ticket) {
        self.refuse_with(ticket, ErrorCode::NotCoordinator);
    }

    fn refuse_with(&mut self, ticket: Ticket, code: ErrorCode) {
        self.send_answer(Answered {
            ticket,
            said: Err(code),
            basis: None,
        });
    }

    fn spread_answers(&mut self, progress: Progress<group::Answer>) {
        for (caller, said) in progress.answers {
            let Caller::Ticket(ticket) = caller else {
                unreachable!("groups ask nothing of their driver");
            };
            self.send_answer(Answered {
                ticket,
                said: said.map(Said::Group),
                basis: Some(progress.basis.clone()),
            });
        }
    }

    fn spread_txn_answers(&mut self, progress: Progress<txn::Answer>) {
        for (caller, said) in progress.answers {
            match (caller, said) {
                (_, Ok(txn::Answer::Markers(markers))) => {
                    self.begin_marking(&progress.basis, markers);
                }
                // Nothing was decided, so there is nothing to mark.
                (Caller::Driver, Err(_)) => {}
                (Caller::Driver, Ok(said)) => unreachable!("nobody asked for {said:?}"),
                (Caller::Ticket(ticket), said) => self.send_answer(Answered {
                    ticket,
                    said: said.map(Said::Txn),
                    basis: Some(progress.basis.clone()),
                }),
            }
        }
    }

    fn send_answer(&mut self, answered: Answered) {
        let to = answered.ticket.inbox;
        if self.owns(to) {
            self.answered.push(answered);
        } else {
            let answered = Redeemed::Answered(Box::new(answered));
            self.shared.mail.put(to, answered);
        }
    }

    /// Coordinators follow what is set, and come and go with the partitions of their topics.
    fn refresh_coordinators(&mut self) {
        // A broker that comes back goes through metadata of long ago once more. A coordinator that did so, with a log of today, would
        // take a topic that they do not name yet for one that needs no marker, and one that was deleted then for one that has just gone.
        if !self.shared.state.is_serving() {
            return;
        }
        let settings = self.shared.catalog.config();
        let is_same = |seen: &Arc<group::Settings>| Arc::ptr_eq(seen, &settings.groups);
        if !self.coordinators.settings.as_ref().is_some_and(is_same) {
            let coordinators = &mut self.coordinators;
            for coordinator in coordinators.groups.values_mut() {
                coordinator.set_settings(&settings);
            }
            for coordinator in coordinators.transactions.values_mut() {
                coordinator.set_settings(&settings);
            }
            coordinators.settings = Some(Arc::clone(&settings.groups));
        }
        let topics = self.topics();
        if self.shared.state.is_self_fenced() {
            return self.resign_coordinators(&topics);
        }
        let is_seen = self
            .coordinators
            .seen
            .as_ref()
            .is_some_and(|seen| Arc::ptr_eq(seen, &topics));
        if is_seen {
            return;
        }
        self.write_decisions();
        let mut groups = std::mem::take(&mut self.coordinators.groups);
        self.coordinators.groups = self.kept(&mut groups, topics.named(meta::name::OFFSETS));
        let mut transactions = std::mem::take(&mut self.coordinators.transactions);
        self.coordinators.transactions =
            self.kept(&mut transactions, topics.named(meta::name::TRANSACTIONS));
        self.coordinators.renew_loading();
        if let Some(seen) = self.coordinators.seen.replace(Arc::clone(&topics)) {
            self.forget_topics(&seen, &topics);
        }
        self.resign(groups, transactions);
        self.give_up_errands(&topics);
    }

    /// This broker acts as no leader: members that wait for others are told so, as those are that ask now. Once it acts as one again its
    /// coordinators begin anew, as they do in another leader epoch.
    fn resign_coordinators(&mut self, topics: &Topics) {
        if self.coordinators.seen.take().is_none() {
            return;
        }
        self.write_decisions();
        let groups = std::mem::take(&mut self.coordinators.groups);
        let transactions = std::mem::take(&mut self.coordinators.transactions);
        self.coordinators.renew_loading();
        self.coordinators.renew_earliest();
        self.resign(groups, transactions);
        self.give_up_errands(topics);
    }

    fn resign(
        &mut self,
        groups: BTreeMap<i32, Coordinator<group::Groups>>,
        transactions: BTreeMap<i32, Coordinator<txn::Transactions>>,
    ) {
        for resigned in groups.into_values() {
            self.spread_answers(resigned.resign());
        }
        for resigned in transactions.into_values() {
            let resigned = resigned.resign();
            self.coordinators.drop_markings_of(&resigned.basis);
            self.spread_txn_answers(resigned);
        }
    }

    /// One coordinator for each partition of `topic` that this broker leads and this shard looks after; those there were go on, and what is left in `known` is of
    /// partitions that are gone.
    fn kept<M: Machine>(
        &self,
        known: &mut BTreeMap<i32, Coordinator<M>>,
        topic: Option<&Arc<Topic>>,
    ) -> BTreeMap<i32, Coordinator<M>> {
        let settings = self.shared.catalog.config();
        let mut kept = BTreeMap::new();
        let node = settings.broker.node_id;
        for (partition, epoch) in topic.into_iter().flat_map(|topic| topic.led_by(node)) {
            let index = partition.index.0;
            if self.coordinator_shard(index) != self.id {
                continue;
            }
            let is_same = |known: &Coordinator<M>| known.is_of(partition, epoch);
            let same = if known.get(&index).is_some_and(is_same) {
                known.remove(&index)
            } else {
                None
            };
            let fresh = || Coordinator::new(Arc::clone(partition), epoch, &settings);
            let coordinator = same.unwrap_or_else(fresh);
            kept.insert(index, coordinator);
        }
        kept
    }

    /// Offsets committed for topics that are gone go with them.
    fn forget_topics(&mut self, before: &Topics, after: &Topics) {
        let gone = before.gone(after);
        if gone.is_empty() {
            return;
        }
        let at = self.moment();
        let topics = KnownTopics(self.shared.catalog.image());
        let groups = self.coordinators.groups.iter_mut();
        let progress: Vec<_> = groups
            .map(|(index, coordinator)| (*index, coordinator.on_topics_gone(&gone, at, &topics)))
            .collect();
        for (index, progress) in progress {
            self.on_progress(index, progress);
        }
        self.coordinators.renew_earliest();
    }

    /// Loads what is to be loaded and fires what is due.
    pub(crate) fn turn_coordinators(&mut self) {
        self.refresh_coordinators();
        let at = self.moment();
        if self.coordinators.is_loading {
            self.load_coordinators(at);
        }
        let is_due = |earliest: Instant| earliest <= at.now;
        if self.coordinators.earliest.is_some_and(is_due) {
            self.tick_coordinators(at);
        }
    }

    fn load_coordinators(&mut self, at: Moment) {
        let mut budget = LOAD_BYTES_PER_TURN;
        for coordinator in self.coordinators.groups.values_mut() {
            if budget == 0 {
                break;
            }
            coordinator.load(&mut budget, at);
        }
        let mut begun = Vec::new();
        for coordinator in self.coordinators.transactions.values_mut() {
            if budget == 0 {
                break;
            }
            coordinator.load(&mut budget, at);
            begun.extend(coordinator.take_begun());
        }
        begun
            .into_iter()
            .for_each(|progress| self.spread_txn_answers(progress));
        self.coordinators.renew_loading();
        self.coordinators.renew_earliest();
    }

    fn tick_coordinators(&mut self, at: Moment) {
        let now = at.now;
        let topics = KnownTopics(self.shared.catalog.image());
        let shared = Arc::clone(&self.shared);
        let fresh = || shared.state.take_producer_id();
        let ticked: Vec<_> = due(&mut self.coordinators.groups, now)
            .map(|(index, coordinator)| (*index, coordinator.tick(at, &topics, &fresh)))
            .collect();
        for (index, progress) in ticked {
            self.on_progress(index, progress);
        }
        let ticked: Vec<_> = due(&mut self.coordinators.transactions, now)
            .map(|(_, coordinator)| coordinator.tick(at, &topics, &fresh))
            .collect();
        ticked
            .into_iter()
            .for_each(|progress| self.spread_txn_answers(progress));
        self.coordinators.renew_loading();
        self.coordinators.renew_earliest();
    }
}

fn due<M: Machine>(
    coordinators: &mut BTreeMap<i32, Coordinator<M>>,
    now: Instant,
) -> impl Iterator<Item = (&i32, &mut Coordinator<M>)> {
    coordinators
        .iter_mut()
        .filter(move |(_, coordinator)| coordinator.next_deadline().is_some_and(|at| at <= now))
}

#[cfg(test)]
mod tests;
