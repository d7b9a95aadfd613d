//! Produce: batches are appended to their partitions, and the operation is done when they are as safe as was asked.
//!
//! Transactional batches that would open their transaction in a partition are verified by its coordinator first (see
//! [`super::verify`]). What is appended may be committed although the operation was told that its time is up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::producer::Origin as Writer;
use model::Ticket;
use model::{BrokerId, Instant, Offset, Timestamp};
use partition::{AppendError, Appended, Moment, Partition, ReceiveBuffer, Warrant};
use wire::records::{Batch, BatchError, Codec, Source as From};
use wire::{ErrorCode, Uuid};

use super::guard::{Closed, Opened};
use super::leaders::{self, Away, Batches, ProduceCall};
use super::verify::{self, Verifying};
use super::{Desk, Step, Tickets};
use crate::asker::access::Resource;
use crate::asker::{Asker, Origin};
use crate::mail::question::{Answered, Reach};
use crate::peers::Answer;
use crate::topics::{Absent, Topic};
use security::authorize::Operation;

/// When the asker hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    /// Never.
    None,
    /// When the leader has it durably.
    Leader,
    /// When every in-sync replica has it durably, of which there must be the minimum.
    All,
}

impl Acks {
    fn with(self, ticket: Ticket) -> partition::Acks {
        match self {
            Acks::None => partition::Acks::None,
            Acks::Leader => partition::Acks::Leader(ticket),
            Acks::All => partition::Acks::All(Some(ticket)),
        }
    }
}

/// How partitions join the transaction of the batches (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    /// This request adds them.
    Adds,
    /// The client has added them; the coordinator is asked if it has.
    Verifies,
}

pub(crate) struct Produce {
    pub(crate) acks: Acks,
    /// How long the asker wants to wait.
    pub(crate) patience: Duration,
    pub(crate) transactional_id: Option<String>,
    pub(crate) joining: Joining,
    /// Clients that cannot read zstd may not write it (KIP-110).
    pub(crate) knows_zstd: bool,
    /// Id, zero where topics are named, and name, empty where they have ids.
    pub(crate) topics: Vec<(Uuid, String)>,
    pub(crate) batches: Vec<BatchFor>,
}

/// One batch, for one partition.
pub(crate) struct BatchFor {
    /// Place in [`Produce::topics`].
    pub(crate) topic: u32,
    pub(crate) index: i32,
    pub(crate) records: Bytes,
}

/// Where a batch came to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) base_offset: Offset,
    pub(crate) append_time: Timestamp,
    pub(crate) log_start: Offset,
}

#[derive(Debug)]
pub(crate) enum ProduceError {
    UnknownTopic,
    UnknownId,
    Absent(Absent),
    Unauthorised,
    /// Written by the broker alone.
    Internal {
        topic: Arc<str>,
    },
    /// The coordinator of the transaction did not let it in.
    Unverified(ErrorCode),
    Append(AppendError),
    /// By its leader, which is another broker.
    Refused(ErrorCode),
    /// It may or may not be committed later, by another leader or after a restart.
    Lost(ErrorCode),
    /// It may be committed later.
    TimedOut,
}

impl std::convert::From<Closed> for ProduceError {
    fn from(closed: Closed) -> ProduceError {
        match closed {
            Closed::Unauthorised => ProduceError::Unauthorised,
            Closed::UnknownName => ProduceError::UnknownTopic,
            Closed::UnknownId => ProduceError::UnknownId,
        }
    }
}

pub(crate) struct PartitionProduced {
    /// Place in [`Produced::topics`].
    pub(crate) topic: u32,
    pub(crate) index: i32,
    pub(crate) result: Result<Placed, ProduceError>,
    waits: bool,
}

/// One answer for each batch, in their order.
pub(crate) struct Produced {
    pub(crate) acks: Acks,
    pub(crate) topics: Vec<(Uuid, String)>,
    pub(crate) answers: Vec<PartitionProduced>,
}

/// Why a request is refused whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Transactional batches in a request without a transactional id.
    NoTransactionalId,
    /// Transactional batches of several producers.
    SeveralProducers,
    Unauthorised,
}

/// A produce that waits.
pub(crate) enum Producing {
    Verifying(Box<Verifying>),
    Committing(Committing),
}

/// Batches that are appended, here or by other leaders, and not all committed.
pub(crate) struct Committing {
    produced: Produced,
    open: usize,
    /// Leaders that have not answered.
    calls: Vec<ProduceCall>,
    until: Instant,
}

pub(crate) fn begin(
    desk: &mut Desk,
    asker: &Asker,
    request: Produce,
    origin: Origin<'_>,
    tickets: Tickets<'_>,
) -> Result<Step<Producing, Produced>, (Refusal, Produce)> {
    // An idempotent producer may name a transactional id, and does nothing with it.
    let id = request.transactional_id.as_deref();
    let id = id.filter(|_| verify::is_transactional(&request));
    let resource = id.map(Resource::transactional_id);
    let granted = resource.map(|resource| asker.grant(Operation::Write, resource));
    match granted.transpose() {
        Ok(_) => verify::begin(desk, asker, request, origin, tickets),
        Err(_) => Err((Refusal::Unauthorised, request)),
    }
}

/// Appends the batches; `warrant` says what each may do about its transaction.
pub(super) fn append_all(
    desk: &mut Desk,
    asker: &Asker,
    request: Produce,
    mut origin: Origin<'_>,
    tickets: Tickets<'_>,
    warrant: impl Fn(usize) -> Result<Warrant, ErrorCode>,
) -> Step<Producing, Produced> {
    let mut committing = Committing {
        produced: Produced {
            acks: request.acks,
            topics: request.topics,
            answers: Vec::with_capacity(request.batches.len()),
        },
        open: 0,
        calls: Vec::new(),
        until: desk.now.plus(request.patience),
    };
    let mut away = Batches::default();
    for (number, batch) in request.batches.into_iter().enumerate() {
        let (id, name) = &committing.produced.topics[batch.topic as usize];
        if desk.reach == Reach::Cluster
            && let Some((leader, to)) = elsewhere(desk, asker, (*id, name), number, batch.index)
        {
            away.put(leader, to, batch.records);
            committing.open += 1;
            committing.produced.answers.push(PartitionProduced {
                topic: batch.topic,
                index: batch.index,
                result: Err(ProduceError::TimedOut),
                waits: true,
            });
            continue;
        }
        let terms = Terms {
            warrant: warrant(number),
            acks: request.acks.with(tickets(number as u32)),
            knows_zstd: request.knows_zstd,
        };
        let result = append_one(desk, asker, (*id, name), &batch, &mut origin, terms);
        let waits = result.as_ref().is_ok_and(|appended| appended.waits);
        committing.open += usize::from(waits);
        committing.produced.answers.push(PartitionProduced {
            topic: batch.topic,
            index: batch.index,
            result: result.map(|appended| Placed {
                base_offset: appended.base_offset,
                append_time: appended.append_time,
                log_start: appended.log_start,
            }),
            waits,
        });
    }
    let terms = leaders::Terms {
        transactional_id: request.transactional_id,
        adds: request.joining == Joining::Adds,
        all: request.acks == Acks::All,
        patience: request.patience,
    };
    committing.calls = away.send(desk, &terms, tickets);
    if committing.open == 0 {
        Step::Done(committing.produced)
    } else {
        Step::Parked(Producing::Committing(committing))
    }
}

/// The leader on another broker that is called for a batch, where the asker may write it.
fn elsewhere(
    desk: &mut Desk,
    asker: &Asker,
    (id, name): (Uuid, &str),
    number: usize,
    index: i32,
) -> Option<(BrokerId, Away)> {
    let topics = desk.topics();
    let opened = Opened::find(&topics, asker, Operation::Write, (id, name)).ok()?;
    let topic = opened.get(Operation::Write);
    let leader = desk.leader_elsewhere(topic, index)?;
    let is_taken = !meta::name::is_internal(&topic.name);
    is_taken.then(|| (leader, Away::new(number as u32, topic, index)))
}

/// On what terms a batch is appended.
struct Terms {
    /// The leave to do something about a transaction, or the reason against it.
    warrant: Result<Warrant, ErrorCode>,
    acks: partition::Acks,
    knows_zstd: bool,
}

fn append_one(
    desk: &mut Desk,
    asker: &Asker,
    (id, name): (Uuid, &str),
    batch: &BatchFor,
    origin: &mut Origin<'_>,
    terms: Terms,
) -> Result<Appended, ProduceError> {
    let topics = desk.topics();
    let topic: Opened<'_, Topic> = Opened::find(&topics, asker, Operation::Write, (id, name))?;
    let partition = topic.partition(batch.index);
    let partition = partition.map_err(ProduceError::Absent)?;
    if meta::name::is_internal(topic.name()) {
        let topic = Arc::clone(topic.name());
        return Err(ProduceError::Internal { topic });
    }
    let warrant = terms.warrant.map_err(ProduceError::Unverified)?;
    let knows_zstd = terms.knows_zstd;
    append(
        desk,
        partition,
        &batch.records,
        origin,
        Admitted {
            warrant,
            acks: terms.acks,
            knows_zstd,
        },
    )
    .map_err(ProduceError::Append)
}

struct Admitted {
    warrant: Warrant,
    acks: partition::Acks,
    knows_zstd: bool,
}

fn append(
    desk: &Desk,
    partition: Opened<'_, Partition>,
    records: &Bytes,
    origin: &mut Origin<'_>,
    admitted: Admitted,
) -> Result<Appended, AppendError> {
    let partition = partition.get(Operation::Write);
    let mut batches = Batch::cut(records, From::Produce);
    let Some(mut batch) = batches.next().transpose()? else {
        return Err(AppendError::Count { batches: 0 });
    };
    // Since version 3 a produce request carries exactly one batch per partition (KIP-98).
    if !batches.rest().is_empty() {
        return Err(AppendError::Count { batches: 2 });
    }
    if !admitted.knows_zstd && batch.attributes().codec() == Some(Codec::Zstd) {
        let id = Codec::Zstd as u8;
        return Err(BatchError::UnknownCodec { id }.into());
    }
    let mut unknown = ReceiveBuffer::new(usize::MAX);
    let source = origin.source.as_deref_mut().unwrap_or(&mut unknown);
    let placed = source.place(partition.dir().id, std::slice::from_mut(&mut batch));
    let moment = Moment {
        now: desk.now,
        wall: desk.wall,
        stamp: origin.stamp,
    };
    if desk.shared.state.is_self_fenced() {
        return Err(partition.refuse(&batch, &moment));
    }
    let Admitted { warrant, acks, .. } = admitted;
    let appended = partition.append_as(batch, Writer::Client, warrant, acks, moment)?;
    if !appended.is_duplicate {
        source.on_kept(placed, appended.is_as_received);
    }
    Ok(appended)
}

impl Producing {
    /// When it is done though what it waits for is not durable.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self {
            Producing::Verifying(verifying) => verifying.asking.until(),
            Producing::Committing(committing) => Some(committing.until),
        }
    }

    /// Questions to a coordinator that are under way: later requests of the connection must not overtake it.
    pub(crate) fn questions(&self) -> usize {
        match self {
            Producing::Verifying(verifying) => verifying.asking.questions(),
            Producing::Committing(_) => 0,
        }
    }

    /// The coordinator has spoken.
    pub(crate) fn on_answer(&mut self, desk: &Desk, answered: Answered) {
        if let Producing::Verifying(verifying) = self {
            verifying.asking.on_answer(desk, answered);
        }
    }

    /// One batch is committed, or will not be in this process; or the coordinator's answer is durable.
    pub(crate) fn on_news(&mut self, ticket: Ticket, code: ErrorCode) {
        match self {
            Producing::Verifying(verifying) => verifying.asking.on_news(ticket, code),
            Producing::Committing(committing) => {
                let answer = committing.produced.answers.get_mut(ticket.part as usize);
                if let Some(answer) = answer.filter(|answer| answer.waits) {
                    answer.waits = false;
                    committing.open -= 1;
                    if code != ErrorCode::None {
                        answer.result = Err(ProduceError::Lost(code));
                    }
                }
            }
        }
    }

    /// A leader that was called has answered, or has not.
    pub(crate) fn on_replied(&mut self, ticket: Ticket, answer: Option<Answer>) {
        let Producing::Committing(committing) = self else {
            return;
        };
        let mut calls = committing
            .calls
            .extract_if(.., |call| call.is_under(ticket.part));
        let Some(call) = calls.next() else {
            return;
        };
        drop(calls);
        let was_answered = answer.is_some();
        for (number, result) in call.read(answer) {
            let part = committing.produced.answers.get_mut(number as usize);
            let Some(part) = part.filter(|part| part.waits) else {
                continue;
            };
            part.waits = false;
            committing.open -= 1;
            part.result = match result {
                Ok((base_offset, append_time, log_start)) => Ok(Placed {
                    base_offset,
                    append_time,
                    log_start,
                }),
                Err(code) if was_answered => Err(ProduceError::Refused(code)),
                Err(code) => Err(ProduceError::Lost(code)),
            };
        }
    }

    /// Its time is up. What it appended may still be committed; a producer that sends it again is then told where it is.
    pub(crate) fn time_out(&mut self) {
        match self {
            Producing::Verifying(verifying) => verifying.asking.time_out(),
            Producing::Committing(committing) => {
                let answers = committing.produced.answers.iter_mut();
                for answer in answers.filter(|answer| answer.waits) {
                    answer.waits = false;
                    answer.result = Err(ProduceError::TimedOut);
                }
                committing.open = 0;
            }
        }
    }

    /// True if it goes on without further news.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Producing::Verifying(verifying) => verifying.asking.is_done(),
            Producing::Committing(committing) => committing.open == 0,
        }
    }

    /// Goes on once it is ready: appends what was verified, or is done.
    pub(crate) fn go_on(
        self,
        desk: &mut Desk,
        asker: &Asker,
        origin: Origin<'_>,
        tickets: Tickets<'_>,
    ) -> Step<Producing, Produced> {
        match self {
            Producing::Verifying(verifying) => verifying.go_on(desk, asker, origin, tickets),
            Producing::Committing(committing) => Step::Done(committing.produced),
        }
    }
}

impl Produced {
    pub(crate) fn has_failed(&self) -> bool {
        self.answers.iter().any(|answer| answer.result.is_err())
    }
}
