//! The coordinators of one internal topic on one shard: a fleet has one for each partition that this broker leads and the shard looks
//! after.
//!
//! Owns the coordinators, the time at which one of them needs a turn, and the list of those with unwritten decisions. Does not send:
//! answers and effects are put into an [`Output`], which the desk hands on. Every kind of machine has a fleet of its own, and all of
//! them are driven through [`AnyFleet`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coord::{Moment, Reply, Topics as KnownTopics, txn};
use model::{BrokerId, Instant, Ticket};
use partition::{Marker, Warrant};
use wire::ErrorCode;

use super::coordinator::Coordinator;
use super::machine::{Effect, Machine};
use crate::mail::inboxes::ShardId;
use crate::mail::question::{Answered, Basis, Said};
use crate::settings::Settings;
use crate::topics::Topics;

/// Answers and effects of coordinators, for the desk that drives them.
#[derive(Default)]
pub(super) struct Output {
    pub(super) answers: Vec<Answered>,
    /// Each with the log that must be committed first.
    pub(super) effects: Vec<(Basis, Effect)>,
    /// Logs of coordinators that have resigned.
    pub(super) resigned: Vec<Basis>,
}

impl Output {
    /// The answer rests on everything that `basis` holds by now.
    pub(super) fn answer(&mut self, reply: Reply<impl Into<Said>>, basis: &Basis) {
        let (ticket, answer) = reply.into_parts();
        self.answers.push(Answered {
            ticket,
            said: Ok(answer.into()),
            basis: Some(basis.clone()),
        });
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, code: ErrorCode) {
        self.answers.push(Answered {
            ticket,
            said: Err(match code {
                // Clients know nothing of the batches of this log.
                ErrorCode::MessageTooLarge => ErrorCode::UnknownServerError,
                code => code,
            }),
            basis: None,
        });
    }
}

/// One of the shards of this broker, and what it looks after.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    pub(super) node: BrokerId,
    pub(super) shard: ShardId,
    pub(super) shards: usize,
}

impl Seat {
    /// The shard that looks after a partition of any internal topic.
    pub(super) fn owner(self, partition: i32) -> ShardId {
        ShardId::home(partition, self.shards)
    }
}

/// A fleet of any kind of machine.
pub(super) trait AnyFleet {
    fn set_settings(&mut self, settings: &Arc<Settings>);
    /// Adds and removes coordinators so that there is one for each partition that `seat` looks after, and lets those resign that are not
    /// needed. Nothing may be unwritten.
    fn renew(&mut self, seat: Seat, topics: &Topics, settings: &Arc<Settings>, output: &mut Output);
    /// Lets all coordinators resign. Nothing may be unwritten.
    fn resign(&mut self, output: &mut Output);
    /// Replays at most `budget` bytes of the logs that are being loaded.
    fn load(&mut self, budget: &mut usize, at: Moment, output: &mut Output);
    /// Does what is due.
    fn tick(
        &mut self,
        at: Moment,
        topics: &dyn KnownTopics,
        fresh: txn::Fresh<'_>,
        output: &mut Output,
    );
    /// Topics were deleted.
    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn KnownTopics,
        output: &mut Output,
    );
    /// Writes what was decided since the last time.
    fn write(&mut self, at: Moment, output: &mut Output);
    /// When a coordinator needs a turn, or earlier.
    fn next_deadline(&self) -> Option<Instant>;
    /// True if some coordinator has not read its log to the end.
    fn is_loading(&self) -> bool;
    /// True if some coordinator has decisions that are not written.
    fn has_unwritten(&self) -> bool;
    #[cfg(test)]
    fn count(&self) -> usize;
}

/// A question to the machine of a partition.
pub(super) struct Asked<M: Machine> {
    pub(super) partition: i32,
    pub(super) ticket: Ticket,
    pub(super) ask: M::Ask,
    /// The permission of its records, should they belong to a transaction.
    pub(super) warrant: Warrant,
}

impl<M: Machine> Asked<M> {
    pub(super) fn plain(partition: i32, ticket: Ticket, ask: M::Ask) -> Asked<M> {
        Asked {
            partition,
            ticket,
            ask,
            warrant: Warrant::None,
        }
    }
}

pub(super) struct Fleet<M: Machine> {
    members: BTreeMap<i32, Coordinator<M>>,
    /// No coordinator needs a turn before. May be early, never late: a turn of the shard asks this instead of each of up to a
    /// hundred coordinators.
    earliest: Option<Instant>,
    is_loading: bool,
    /// Partitions whose coordinators have unwritten decisions.
    unwritten: BTreeSet<i32>,
}

impl<M: Machine> Fleet<M> {
    pub(super) fn new() -> Fleet<M> {
        Fleet {
            members: BTreeMap::new(),
            earliest: None,
            is_loading: false,
            unwritten: BTreeSet::new(),
        }
    }

    /// The machines that have read their logs to the end.
    pub(super) fn active(&self) -> impl Iterator<Item = &M> {
        self.members.values().filter_map(Coordinator::active)
    }

    pub(super) fn ask(
        &mut self,
        asked: Asked<M>,
        at: Moment,
        topics: &dyn KnownTopics,
        output: &mut Output,
    ) {
        let partition = asked.partition;
        let Some(coordinator) = self.members.get_mut(&partition) else {
            return output.refuse(asked.ticket, ErrorCode::NotCoordinator);
        };
        coordinator.ask(asked, at, topics, output);
        self.note(partition);
    }

    /// Appends the marker of a transaction that has records in the log of `partition`. Nothing may be unwritten.
    pub(super) fn mark(
        &mut self,
        partition: i32,
        marker: Marker,
        at: Moment,
        output: &mut Output,
    ) -> Result<(), ErrorCode> {
        let coordinator = self.members.get_mut(&partition);
        let coordinator = coordinator.ok_or(ErrorCode::NotCoordinator)?;
        let marked = coordinator.mark(marker, at, output);
        self.note(partition);
        marked
    }

    /// After a coordinator was asked or marked, or has written: its deadline may have come nearer.
    fn note(&mut self, partition: i32) {
        let Some(coordinator) = self.members.get(&partition) else {
            return;
        };
        self.is_loading |= coordinator.is_loading();
        if coordinator.has_unwritten() {
            self.unwritten.insert(partition);
        }
        let deadline = coordinator.next_deadline();
        self.earliest = [self.earliest, deadline].into_iter().flatten().min();
    }

    /// Looks at every coordinator, so that deadlines that moved away do not wake the shard again.
    fn note_all(&mut self) {
        self.is_loading = self.members.values().any(Coordinator::is_loading);
        let deadlines = self.members.values().filter_map(Coordinator::next_deadline);
        self.earliest = deadlines.min();
    }
}

impl<M: Machine> AnyFleet for Fleet<M> {
    fn set_settings(&mut self, settings: &Arc<Settings>) {
        for coordinator in self.members.values_mut() {
            coordinator.set_settings(settings);
        }
    }

    fn renew(
        &mut self,
        seat: Seat,
        topics: &Topics,
        settings: &Arc<Settings>,
        output: &mut Output,
    ) {
        let mut known = std::mem::take(&mut self.members);
        let topic = topics.named(M::TOPIC).into_iter();
        for (log, epoch) in topic.flat_map(|topic| topic.led_by(seat.node)) {
            let index = log.index.0;
            if seat.owner(index) != seat.shard {
                continue;
            }
            let same = known.remove(&index);
            let coordinator = match same {
                Some(same) if same.is_of(log, epoch) => same,
                other => {
                    if let Some(other) = other {
                        other.resign(output);
                    }
                    Coordinator::new(Arc::clone(log), epoch, settings)
                }
            };
            self.members.insert(index, coordinator);
        }
        for coordinator in known.into_values() {
            coordinator.resign(output);
        }
        self.note_all();
    }

    fn resign(&mut self, output: &mut Output) {
        for coordinator in std::mem::take(&mut self.members).into_values() {
            coordinator.resign(output);
        }
        self.note_all();
    }

    fn load(&mut self, budget: &mut usize, at: Moment, output: &mut Output) {
        if !self.is_loading {
            return;
        }
        for coordinator in self.members.values_mut() {
            if *budget == 0 {
                break;
            }
            coordinator.load(budget, at, output);
        }
        self.note_all();
    }

    fn tick(
        &mut self,
        at: Moment,
        topics: &dyn KnownTopics,
        fresh: txn::Fresh<'_>,
        output: &mut Output,
    ) {
        let is_due = |deadline: Instant| deadline <= at.now;
        if !self.earliest.is_some_and(is_due) {
            return;
        }
        for (partition, coordinator) in &mut self.members {
            if coordinator.next_deadline().is_some_and(is_due) {
                coordinator.tick(at, topics, fresh, output);
                if coordinator.has_unwritten() {
                    self.unwritten.insert(*partition);
                }
            }
        }
        self.note_all();
    }

    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn KnownTopics,
        output: &mut Output,
    ) {
        for (partition, coordinator) in &mut self.members {
            coordinator.on_topics_gone(gone, at, topics, output);
            if coordinator.has_unwritten() {
                self.unwritten.insert(*partition);
            }
        }
        self.note_all();
    }

    fn write(&mut self, at: Moment, output: &mut Output) {
        while let Some(partition) = self.unwritten.pop_first() {
            if let Some(coordinator) = self.members.get_mut(&partition) {
                coordinator.flush(at, output);
                self.note(partition);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    fn is_loading(&self) -> bool {
        self.is_loading
    }

    fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use model::{InboxId, WaiterKey};

    use super::*;

    #[test]
    fn records_too_large_for_the_log_are_the_servers_own_trouble() {
        let ticket = Ticket {
            inbox: InboxId(0),
            key: WaiterKey(1),
            part: 0,
        };
        for (code, told) in [
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            let mut output = Output::default();
            output.refuse(ticket, code);
            let [answered] = output.answers.as_slice() else {
                panic!("one question was refused")
            };
            assert_eq!(answered.said.as_ref().err(), Some(&told));
        }
    }
}
