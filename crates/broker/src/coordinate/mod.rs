//! Drivers of the coordinators: they load a partition of an internal topic into its machine, bring requests to it, write what it
//! decides, and send its answers when that is durable.
//!
//! Each coordinator lives on one shard, which the number of its partition names; requests that arrive on another are posted
//! there, and answers are posted back. Invariant: an answer leaves only when everything its coordinator had written before
//! it is committed, so that nothing a client was told can be forgotten.

mod asking;
mod coordinator;
mod machine;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;

use coord::{Caller, Moment, group};
use model::Instant;
use partition::{Partition, ShardId, Ticket, WaiterKey};
use wire::ErrorCode;

pub(crate) use asking::{Asking, Told};
use coordinator::{Coordinator, Progress};
use topics::KnownTopics;

use crate::shard::Shard;
use crate::shared::Post;
use crate::topics::{Topic, Topics};

/// Log bytes replayed in one turn: other connections are served between two slices of a long load.
const LOAD_BYTES_PER_TURN: usize = 1 << 20;

/// Something for the machine of one partition.
pub(crate) enum Question {
    Group(group::Ask),
}

/// What a machine said.
#[derive(Debug)]
pub(crate) enum Said {
    Group(group::Answer),
}

/// A question on its way to the shard of its coordinator.
pub(crate) struct Asked {
    pub(crate) partition: i32,
    pub(crate) caller: Caller,
    pub(crate) question: Question,
}

/// An answer on its way back. It may leave when the `log` is durable up to where it ends now.
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) said: Result<Said, ErrorCode>,
    pub(crate) log: Option<Arc<Partition>>,
}

/// The coordinators of one shard.
#[derive(Default)]
pub(crate) struct Coordinators {
    groups: BTreeMap<i32, Coordinator<group::Groups>>,
    /// What the coordinators were made from; another pointer means that partitions came or went.
    seen: Option<Arc<Topics>>,
}

impl Coordinators {
    fn is_loading(&self) -> bool {
        self.groups.values().any(Coordinator::is_loading)
    }

    /// When one of them wants to be looked at.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.groups
            .values()
            .filter_map(Coordinator::next_deadline)
            .min()
    }
}

/// A waiter and the place of the answer in its request, as the machines carry it.
fn caller(ticket: Ticket) -> Caller {
    let WaiterKey {
        shard,
        slot,
        generation,
    } = ticket.waiter;
    Caller(
        u128::from(shard.0) << 96
            | u128::from(slot) << 64
            | u128::from(generation) << 32
            | u128::from(ticket.index),
    )
}

fn ticket(caller: Caller) -> Ticket {
    // Each cast takes the bits that `caller` put there.
    Ticket {
        waiter: WaiterKey {
            shard: ShardId((caller.0 >> 96) as u16),
            slot: (caller.0 >> 64) as u32,
            generation: (caller.0 >> 32) as u32,
        },
        index: caller.0 as u32,
    }
}

impl Shard {
    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.wall,
        }
    }

    fn coordinator_shard(&self, partition: i32) -> ShardId {
        let count = self.shared.shards_count().max(1);
        ShardId((partition.unsigned_abs() as usize % count) as u16)
    }

    /// Brings a question to the shard of its coordinator.
    fn send_question(&mut self, asked: Asked) {
        let owner = self.coordinator_shard(asked.partition);
        if owner == self.id {
            self.on_question(asked);
        } else {
            self.shared.post(owner, Post::Asked(Box::new(asked)));
        }
    }

    pub(crate) fn on_question(&mut self, asked: Asked) {
        self.refresh_coordinators();
        let at = self.moment();
        let topics = KnownTopics(self.shared.metadata.image());
        let Some(coordinator) = self.coordinators.groups.get_mut(&asked.partition) else {
            return self.send_answer(Answered {
                ticket: ticket(asked.caller),
                said: Err(ErrorCode::NotCoordinator),
                log: None,
            });
        };
        let Question::Group(ask) = asked.question;
        let progress = coordinator.ask(asked.caller, ask, at, &topics);
        self.spread_answers(progress);
    }

    fn spread_answers(&mut self, progress: Progress<group::Answer>) {
        for (caller, said) in progress.answers {
            self.send_answer(Answered {
                ticket: ticket(caller),
                said: said.map(Said::Group),
                log: Some(Arc::clone(&progress.log)),
            });
        }
    }

    fn send_answer(&mut self, answered: Answered) {
        let to = answered.ticket.waiter.shard;
        if to == self.id {
            self.on_answer(answered);
        } else {
            self.shared.post(to, Post::Answered(Box::new(answered)));
        }
    }

    /// Coordinators come and go with the partitions of their topics.
    fn refresh_coordinators(&mut self) {
        let topics = self.topics();
        let is_seen = self
            .coordinators
            .seen
            .as_ref()
            .is_some_and(|seen| Arc::ptr_eq(seen, &topics));
        if is_seen {
            return;
        }
        let settings = self.shared.config();
        let offsets: Option<Arc<Topic>> = topics.named(meta::name::OFFSETS).cloned();
        let partitions = offsets.iter().flat_map(|topic| &topic.partitions);
        let mut groups = std::mem::take(&mut self.coordinators.groups);
        let mut kept = BTreeMap::new();
        for partition in partitions {
            let index = partition.index.0;
            if self.coordinator_shard(index) != self.id {
                continue;
            }
            let known = groups
                .remove(&index)
                .filter(|known| Arc::ptr_eq(&known.log, partition));
            let coordinator =
                known.unwrap_or_else(|| Coordinator::new(Arc::clone(partition), &settings));
            kept.insert(index, coordinator);
        }
        self.coordinators.groups = kept;
        if let Some(seen) = self.coordinators.seen.replace(Arc::clone(&topics)) {
            self.forget_topics(&seen, &topics);
        }
    }

    /// What was committed for topics that are gone goes with them.
    fn forget_topics(&mut self, before: &Topics, after: &Topics) {
        let gone: Vec<String> = before
            .sorted()
            .iter()
            .filter(|topic| after.named(&topic.name).is_none())
            .map(|topic| topic.name.as_ref().to_owned())
            .collect();
        if gone.is_empty() {
            return;
        }
        let at = self.moment();
        let topics = KnownTopics(self.shared.metadata.image());
        for coordinator in self.coordinators.groups.values_mut() {
            // Nobody waits for this.
            coordinator.on_topics_gone(&gone, at, &topics);
        }
    }

    /// Loads what is to be loaded and fires what is due; true when there is more to load.
    pub(crate) fn turn_coordinators(&mut self) -> bool {
        self.refresh_coordinators();
        let at = self.moment();
        let mut budget = LOAD_BYTES_PER_TURN;
        for coordinator in self.coordinators.groups.values_mut() {
            if budget == 0 {
                break;
            }
            coordinator.load(&mut budget, at);
        }
        if self
            .coordinators
            .next_deadline()
            .is_some_and(|at| at <= self.now)
        {
            let topics = KnownTopics(self.shared.metadata.image());
            let now = self.now;
            let due: Vec<Progress<group::Answer>> = self
                .coordinators
                .groups
                .values_mut()
                .filter(|coordinator| coordinator.next_deadline().is_some_and(|at| at <= now))
                .map(|coordinator| coordinator.tick(at, &topics))
                .collect();
            due.into_iter()
                .for_each(|progress| self.spread_answers(progress));
        }
        self.coordinators.is_loading()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_names_its_waiter_and_place() {
        let asked = Ticket {
            waiter: WaiterKey {
                shard: ShardId(u16::MAX),
                slot: 0x0123_4567,
                generation: u32::MAX,
            },
            index: 0x89ab_cdef,
        };
        assert_eq!(ticket(caller(asked)), asked);
    }
}
