//! DeleteRecords: the start of a log moves up, durable before the operation is done (KIP-107).
//!
//! Refuses topics of the broker itself and those that are compacted and never deleted: their oldest records may be the newest
//! of their keys.

use std::time::Duration;

use model::Ticket;
use model::{Instant, Offset};
use partition::{Partition, TrimError};
use wire::{ErrorCode, Uuid};

use super::guard::{Closed, Opened};
use super::leaders::{Away, TrimCall, Trims};
use super::{Desk, Step};
use crate::asker::Asker;
use crate::peers::Answer;
use crate::topics::Absent;
use security::authorize::Operation;

/// A partition whose records below an offset are deleted.
pub(crate) struct Target {
    /// Place in [`Trim::topics`].
    pub(crate) topic: u32,
    pub(crate) index: i32,
    /// None: up to the high watermark.
    pub(crate) to: Option<Offset>,
}

pub(crate) struct Trim {
    pub(crate) topics: Vec<String>,
    pub(crate) targets: Vec<Target>,
    /// How long the asker wants to wait.
    pub(crate) patience: Duration,
}

#[derive(Debug)]
pub(crate) enum TrimRefusal {
    Absent(Absent),
    Unauthorised,
    /// Written by the broker alone.
    Internal,
    /// Compacted, and nothing else deletes there.
    Compacted,
    Trim(TrimError),
    /// By its leader, which is another broker.
    Refused(ErrorCode),
    /// It may or may not have moved after a restart.
    Lost(ErrorCode),
    /// It may move later.
    TimedOut,
}

pub(crate) struct Trimmed {
    pub(crate) topic: u32,
    pub(crate) index: i32,
    /// The new start of the log.
    pub(crate) result: Result<Offset, TrimRefusal>,
    waits: bool,
}

/// A trim whose commits are under way.
pub(crate) struct Trimming {
    pub(crate) topics: Vec<String>,
    pub(crate) trimmed: Vec<Trimmed>,
    open: usize,
    /// Leaders that have not answered.
    calls: Vec<TrimCall>,
    until: Instant,
}

/// Asks each partition; `ticket` makes the ticket of a target by its number.
pub(crate) fn begin(
    desk: &mut Desk,
    asker: &Asker,
    request: Trim,
    ticket: impl Fn(u32) -> Ticket,
) -> Step<Trimming, Trimming> {
    let topics = desk.topics();
    let mut trimming = Trimming {
        trimmed: Vec::with_capacity(request.targets.len()),
        open: 0,
        calls: Vec::new(),
        until: desk.now.plus(request.patience),
        topics: request.topics,
    };
    let mut away = Trims::default();
    for (number, target) in (0..).zip(request.targets) {
        let name = &trimming.topics[target.topic as usize];
        let by_name = (Uuid::ZERO, name.as_str());
        let topic = Opened::find(&topics, asker, Operation::Delete, by_name);
        let known = topic.ok().map(|topic| topic.get(Operation::Delete));
        let leader = known.and_then(|topic| desk.leader_elsewhere(topic, target.index));
        if let (Some(leader), Some(topic)) = (leader, known) {
            away.put(leader, Away::new(number, topic, target.index), target.to);
            trimming.open += 1;
            trimming.trimmed.push(Trimmed {
                topic: target.topic,
                index: target.index,
                result: Err(TrimRefusal::TimedOut),
                waits: true,
            });
            continue;
        }
        let partition = topic.map_err(TrimRefusal::from).and_then(|topic| {
            let partition = topic.partition(target.index);
            partition.map_err(TrimRefusal::Absent)
        });
        let result =
            partition.and_then(|partition| trim(name, partition, target.to, ticket(number)));
        let waits = result.is_ok();
        trimming.open += usize::from(waits);
        trimming.trimmed.push(Trimmed {
            topic: target.topic,
            index: target.index,
            result,
            waits,
        });
    }
    trimming.calls = away.send(desk, request.patience, ticket);
    if trimming.open == 0 {
        Step::Done(trimming)
    } else {
        Step::Parked(trimming)
    }
}

impl From<Closed> for TrimRefusal {
    fn from(closed: Closed) -> TrimRefusal {
        match closed {
            Closed::Unauthorised => TrimRefusal::Unauthorised,
            Closed::UnknownName | Closed::UnknownId => TrimRefusal::Absent(Absent::Unknown),
        }
    }
}

fn trim(
    topic: &str,
    partition: Opened<'_, Partition>,
    to: Option<Offset>,
    ticket: Ticket,
) -> Result<Offset, TrimRefusal> {
    let partition = partition.get(Operation::Delete);
    check(topic, partition)?;
    partition.trim(to, ticket).map_err(TrimRefusal::Trim)
}

/// Of what is there, in the order of Kafka. A policy of neither keeps everything and lets its owner delete.
fn check(topic: &str, partition: &Partition) -> Result<(), TrimRefusal> {
    if meta::name::is_internal(topic) {
        return Err(TrimRefusal::Internal);
    }
    let policy = partition.config().cleanup_policy;
    if policy.compact && !policy.delete {
        return Err(TrimRefusal::Compacted);
    }
    Ok(())
}

impl Trimming {
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn is_done(&self) -> bool {
        self.open == 0
    }

    pub(crate) fn on_news(&mut self, ticket: Ticket, code: ErrorCode) {
        let one = self.trimmed.get_mut(ticket.part as usize);
        if let Some(one) = one.filter(|one| one.waits) {
            one.waits = false;
            self.open -= 1;
            if code != ErrorCode::None {
                one.result = Err(TrimRefusal::Lost(code));
            }
        }
    }

    /// A leader that was called has answered, or has not.
    pub(crate) fn on_replied(&mut self, ticket: Ticket, answer: Option<Answer>) {
        let mut calls = self.calls.extract_if(.., |call| call.is_under(ticket.part));
        let Some(call) = calls.next() else {
            return;
        };
        drop(calls);
        let was_answered = answer.is_some();
        for (number, result) in call.read(answer) {
            let one = self.trimmed.get_mut(number as usize);
            let Some(one) = one.filter(|one| one.waits) else {
                continue;
            };
            one.waits = false;
            self.open -= 1;
            one.result = match result {
                Ok(start) => Ok(start),
                Err(code) if was_answered => Err(TrimRefusal::Refused(code)),
                Err(code) => Err(TrimRefusal::Lost(code)),
            };
        }
    }

    /// Its time is up. What it trimmed may still be committed, and is gone then.
    pub(crate) fn time_out(&mut self) {
        for one in self.trimmed.iter_mut().filter(|one| one.waits) {
            one.waits = false;
            one.result = Err(TrimRefusal::TimedOut);
        }
        self.open = 0;
    }
}
