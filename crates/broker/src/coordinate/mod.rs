//! Drivers of the coordinators: they load a partition of an internal topic into its machine, bring requests to it, write what it
//! decides, and send its answers when that is durable.
//!
//! Each coordinator lives on one shard, which the number of its partition names; requests that arrive on another are posted
//! there, and answers are posted back. Before each commit everything that they have not written yet is. Invariant: an answer leaves only when everything its coordinator had written before
//! it is committed, so that nothing a client was told can be forgotten. A coordinator lives where its partition is led: it is loaded when
//! the leadership comes to this broker and resigns when that goes, or comes anew, which is another leader epoch. None does before the
//! controller counts this broker in: the metadata are as new as its registration then.

mod coordinator;
mod coordinators;
mod fleet;
mod machine;
mod mark;
mod marking;
mod peers;
mod remote;
mod topics;

use std::sync::Arc;

use coord::{Moment, txn};
use model::{InboxId, Ticket};
use wire::ErrorCode;

pub(crate) use coordinators::Coordinators;
use fleet::{AnyFleet, Output, Seat};
use machine::Effect;
use topics::KnownTopics;

use crate::mail::inboxes::{Post, Redeemed};
use crate::mail::question::{Answered, Asked, Question, Reach};
use crate::ops::Desk;
use crate::topics::Topics;

/// Log bytes replayed in one turn: other connections are served between two slices of a long load.
const LOAD_BYTES_PER_TURN: usize = 1 << 20;

/// The coordinators of a shard, and the desk at which they are driven.
pub(crate) struct Coordinating<'a> {
    pub(crate) desk: &'a mut Desk,
    pub(crate) coordinators: &'a mut Coordinators,
}

impl Coordinating<'_> {
    fn moment(&self) -> Moment {
        Moment {
            now: self.desk.now,
            wall: self.desk.wall,
        }
    }

    fn seat(&self) -> Seat {
        Seat {
            node: self.desk.shared.catalog.config().broker.node_id,
            shard: self.coordinators.shard,
            shards: self.desk.shared.mail.inboxes.shards_count(),
        }
    }

    /// True if what is put into the inbox comes to this shard.
    pub(crate) fn owns(&self, inbox: InboxId) -> bool {
        inbox == self.desk.inbox || inbox == self.coordinators.inbox
    }

    /// Brings a question, of this shard or one that was posted here, to its coordinator: to the shard of that, or to another broker.
    pub(crate) fn send(&mut self, asked: Asked) {
        let asked = match asked.reach {
            Reach::ThisBroker => asked,
            Reach::Cluster => match self.send_abroad(asked) {
                Some(ours) => ours,
                None => return,
            },
        };
        let owner = self.seat().owner(asked.partition);
        if owner == self.coordinators.shard {
            self.on_question(asked);
        } else {
            let inboxes = &self.desk.shared.mail.inboxes;
            inboxes.post(owner, Post::Asked(Box::new(asked)));
        }
    }

    fn on_question(&mut self, asked: Asked) {
        self.refresh_coordinators();
        let Asked {
            partition,
            ticket,
            question,
            reach: _,
        } = asked;
        // Another broker may coordinate by now. An answer that needs no record would go out as if nothing had been decided there: an
        // offset that was passed, or the end of an earlier transaction as that of the one that is open. A marker would be written here and
        // once more elsewhere.
        if self.desk.shared.state.is_self_fenced() {
            let code = match question {
                Question::MarkerAt(..) => ErrorCode::NotLeaderOrFollower,
                _ => ErrorCode::NotCoordinator,
            };
            return self.refuse_with(ticket, code);
        }
        // The request may have come long after the turn began, which had to wait for a disk: a member counts its session from when it asked.
        let at = Moment {
            now: self.desk.now.max(self.desk.shared.env.clock.now()),
            wall: self.desk.wall,
        };
        let mut output = Output::default();
        let topics = KnownTopics(self.desk.shared.catalog.image());
        match question {
            Question::MarkerAt(place, marker) => return self.on_marker(ticket, &place, marker),
            Question::Txn(ask) => {
                let fleet = &mut self.coordinators.transactions;
                let asked = fleet::Asked::plain(partition, ticket, ask);
                fleet.ask(asked, at, &topics, &mut output);
            }
            Question::Group(ask) => {
                let fleet = &mut self.coordinators.groups;
                let asked = fleet::Asked::plain(partition, ticket, ask);
                fleet.ask(asked, at, &topics, &mut output);
            }
            Question::TxnOffsets(ask, warrant) => {
                let fleet = &mut self.coordinators.groups;
                let asked = fleet::Asked {
                    warrant,
                    ..fleet::Asked::plain(partition, ticket, ask)
                };
                fleet.ask(asked, at, &topics, &mut output);
            }
        }
        self.on_output(output);
    }

    /// Writes what the coordinators decided since the last time.
    pub(crate) fn write_decisions(&mut self) {
        if self.coordinators.has_unwritten() {
            let at = self.moment();
            self.drive(|fleet, output| fleet.write(at, output));
        }
    }

    /// Drives each fleet in turn, and hands on what comes of it.
    fn drive(&mut self, mut drive: impl FnMut(&mut dyn AnyFleet, &mut Output)) {
        let mut output = Output::default();
        for fleet in self.coordinators.fleets_mut() {
            drive(fleet, &mut output);
        }
        self.on_output(output);
    }

    fn on_output(&mut self, output: Output) {
        for log in &output.resigned {
            self.coordinators.drop_markings_of(log);
        }
        for answered in output.answers {
            self.send_answer(answered);
        }
        for (decided, effect) in output.effects {
            match effect {
                Effect::Mark(markers) => self.begin_marking(&decided, markers),
            }
        }
    }

    fn refuse_with(&mut self, ticket: Ticket, code: ErrorCode) {
        self.send_answer(Answered {
            ticket,
            said: Err(code),
            basis: None,
        });
    }

    fn send_answer(&mut self, answered: Answered) {
        let to = answered.ticket.inbox;
        if self.owns(to) {
            self.desk.answered.push(answered);
        } else {
            let answered = Redeemed::Answered(Box::new(answered));
            self.desk.shared.mail.put(to, answered);
        }
    }

    /// Coordinators follow what is set, and come and go with the partitions of their topics.
    fn refresh_coordinators(&mut self) {
        // A broker that comes back goes through metadata of long ago once more. A coordinator that did so, with a log of today, would
        // take a topic that they do not name yet for one that needs no marker, and one that was deleted then for one that has just gone.
        if !self.desk.shared.state.is_serving() {
            return;
        }
        let settings = self.desk.shared.catalog.config();
        let known = self.coordinators.settings.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, &settings)) {
            for fleet in self.coordinators.fleets_mut() {
                fleet.set_settings(&settings);
            }
            self.coordinators.settings = Some(Arc::clone(&settings));
        }
        let topics = self.desk.topics();
        if self.desk.shared.state.is_self_fenced() {
            return self.resign_coordinators(&topics);
        }
        let seen = self.coordinators.seen.as_ref();
        if seen.is_some_and(|seen| Arc::ptr_eq(seen, &topics)) {
            return;
        }
        self.write_decisions();
        let seat = self.seat();
        let before = self.coordinators.seen.replace(Arc::clone(&topics));
        let gone = before.map_or_else(Vec::new, |before| before.gone(&topics));
        let at = self.moment();
        let known = KnownTopics(self.desk.shared.catalog.image());
        self.drive(|fleet, output| {
            fleet.renew(seat, &topics, &settings, output);
            // Offsets committed for topics that are gone go with them.
            if !gone.is_empty() {
                fleet.on_topics_gone(&gone, at, &known, output);
            }
        });
        self.give_up_errands(&topics);
    }

    /// This broker acts as no leader: members that wait for others are refused, as those are that ask now. Once it acts as one again its
    /// coordinators begin anew, as they do in another leader epoch.
    fn resign_coordinators(&mut self, topics: &Topics) {
        if self.coordinators.seen.take().is_none() {
            return;
        }
        self.write_decisions();
        self.drive(|fleet, output| fleet.resign(output));
        self.give_up_errands(topics);
    }

    /// Loads what is to be loaded and does what is due.
    pub(crate) fn turn(&mut self) {
        self.refresh_coordinators();
        let at = self.moment();
        if self.coordinators.is_loading() {
            let mut budget = LOAD_BYTES_PER_TURN;
            self.drive(|fleet, output| fleet.load(&mut budget, at, output));
        }
        let deadline = self.coordinators.next_deadline();
        if deadline.is_some_and(|deadline| deadline <= at.now) {
            let topics = KnownTopics(self.desk.shared.catalog.image());
            let shared = Arc::clone(&self.desk.shared);
            let fresh: txn::Fresh<'_> = &|| shared.state.take_producer_id();
            self.drive(|fleet, output| fleet.tick(at, &topics, fresh, output));
        }
    }
}

#[cfg(test)]
mod tests;
