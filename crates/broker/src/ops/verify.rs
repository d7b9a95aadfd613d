//! Transactional batches of a produce: their coordinator is asked before they are appended (KIP-890).
//!
//! Either the produce itself adds its partitions to the transaction, or the client did and the coordinator is asked if that is so.
//! Partitions where the transaction is open already ask nobody.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use coord::txn::{Add, EPOCH_PER_TXN, Producer, TxnPartition, Verify};
use model::{ProducerEpoch, ProducerId, Sequence};
use partition::{Guard, Partition, Warrant};
use wire::ErrorCode;

use super::asking::{Asking, only};
use super::guard::Opened;
use super::produce::{Joining, Produce, Produced, Producing, Refusal, append_all};
use super::query::{Joined, LeaderJoin};
use super::txns::join_question;
use super::{Desk, Step, Tickets};
use crate::asker::Asker;
use crate::asker::Origin;
use crate::error;
use crate::mail::question::Join;
use security::authorize::Operation;

/// The warrant of each batch by its number, or the reason why it has none; batches not named need none.
#[derive(Default)]
struct Warrants {
    of: HashMap<usize, Result<Warrant, ErrorCode>>,
    held: Vec<(Arc<Partition>, Guard)>,
    producer: Option<Producer>,
}

impl Warrants {
    fn of(&self, number: usize) -> Result<Warrant, ErrorCode> {
        self.of.get(&number).copied().unwrap_or(Ok(Warrant::None))
    }

    fn release(self) {
        for (partition, guard) in self.held {
            if let Some(Producer { id, .. }) = self.producer {
                partition.end_verification(id, guard);
            }
        }
    }
}

/// A produce whose coordinator is asked.
pub(crate) struct Verifying {
    pub(super) asking: Asking<LeaderJoin>,
    request: Produce,
    warrants: Warrants,
    /// Numbers of the batches that the question is about.
    numbers: Vec<usize>,
}

/// A batch that would open its transaction in a partition: its number, the partition's name, and the guard under which to ask, or
/// the error of the producer.
struct Unopened {
    number: usize,
    place: TxnPartition,
    partition: Arc<Partition>,
    guard: Result<Guard, ErrorCode>,
}

pub(super) fn begin(
    desk: &mut Desk,
    asker: &Asker,
    request: Produce,
    origin: Origin<'_>,
    tickets: Tickets<'_>,
) -> Result<Step<Producing, Produced>, (Refusal, Produce)> {
    let producer = match transactional_producer(&request) {
        Ok(producer) => producer,
        Err(refusal) => return Err((refusal, request)),
    };
    let (Some(producer), Some(transactional_id)) = (producer, &request.transactional_id) else {
        let none = |_| Ok(Warrant::None);
        return Ok(append_all(desk, asker, request, origin, tickets, none));
    };
    let mut warrants = Warrants {
        producer: Some(producer),
        ..Warrants::default()
    };
    let adds = request.joining == Joining::Adds;
    let waives = !adds && !desk.verifies_txns();
    let (mut numbers, mut places) = (Vec::new(), Vec::new());
    for unopened in unopened(desk, asker, &request, producer) {
        let number = unopened.number;
        let guard = match unopened.guard {
            Ok(guard) => guard,
            Err(code) => {
                warrants.of.insert(number, Err(code));
                continue;
            }
        };
        let warrant = if adds {
            Warrant::Added(guard)
        } else if waives {
            Warrant::Waived
        } else {
            Warrant::Verified(guard)
        };
        warrants.of.insert(number, Ok(warrant));
        warrants.held.push((unopened.partition, guard));
        numbers.push(number);
        places.push(unopened.place);
    }
    if places.is_empty() || waives {
        let step = append_all(desk, asker, request, origin, tickets, |number| {
            warrants.of(number)
        });
        warrants.release();
        return Ok(step);
    }
    if desk.is_stopping {
        return Ok(Step::Dropped);
    }
    let transactional_id = transactional_id.clone();
    let join = if adds {
        Join::Add(Add {
            transactional_id,
            producer,
            places,
            version: EPOCH_PER_TXN,
            may_wait: true,
        })
    } else {
        Join::Verify(Verify {
            transactional_id,
            producer,
            places,
        })
    };
    let question = join_question(desk, join);
    Ok(Step::Parked(Producing::Verifying(Box::new(Verifying {
        asking: Asking::begin(desk, vec![question], tickets),
        request,
        warrants,
        numbers,
    }))))
}

impl Verifying {
    pub(super) fn go_on(
        self: Box<Self>,
        desk: &mut Desk,
        asker: &Asker,
        origin: Origin<'_>,
        tickets: Tickets<'_>,
    ) -> Step<Producing, Produced> {
        let Verifying {
            asking,
            request,
            mut warrants,
            numbers,
        } = *self;
        let joined = only(asking.into_told()).unwrap_or_else(|code| Joined::All(Err(code)));
        for (at, number) in numbers.into_iter().enumerate() {
            if let Err(code) = joined.of(at) {
                warrants.of.insert(number, Err(code));
            }
        }
        let step = append_all(desk, asker, request, origin, tickets, |number| {
            warrants.of(number)
        });
        warrants.release();
        step
    }
}

/// The batches whose partitions have no open transaction of the producer. Those that the asker may not write join none.
fn unopened(
    desk: &mut Desk,
    asker: &Asker,
    request: &Produce,
    producer: Producer,
) -> Vec<Unopened> {
    let mut unopened = Vec::new();
    let topics = desk.topics();
    for (number, batch) in request.batches.iter().enumerate() {
        let (id, name) = &request.topics[batch.topic as usize];
        let topic = Opened::find(&topics, asker, Operation::Write, (*id, name)).ok();
        let partition = topic.and_then(|topic| topic.partition(batch.index).ok());
        // A partition that is not here is refused by name, as without a transaction.
        let (Some(topic), Some(partition)) = (topic, partition) else {
            continue;
        };
        let partition = partition.get(Operation::Write);
        let Some((_, first)) = transactional(&batch.records) else {
            continue;
        };
        let Producer { id, epoch } = producer;
        let begun = partition.begin_verification(id, epoch, Some(first));
        if let Some(guard) = begun.map_err(|error| error::producer(&error)).transpose() {
            unopened.push(Unopened {
                number,
                place: (topic.name().as_ref().to_owned(), batch.index),
                partition: Arc::clone(partition),
                guard,
            });
        }
    }
    unopened
}

impl Desk {
    pub(crate) fn verifies_txns(&self) -> bool {
        let broker = &self.shared.catalog.config().broker;
        broker.flag("transaction.partition.verification.enable")
    }
}

/// True if any of the batches is part of a transaction.
pub(super) fn is_transactional(request: &Produce) -> bool {
    let mut all = request.batches.iter();
    all.any(|batch| transactional(&batch.records).is_some())
}

/// The one producer of the transactional batches, if there are any.
fn transactional_producer(request: &Produce) -> Result<Option<Producer>, Refusal> {
    let mut known = None;
    let all = request.batches.iter();
    for (producer, _) in all.filter_map(|batch| transactional(&batch.records)) {
        if request.transactional_id.is_none() {
            return Err(Refusal::NoTransactionalId);
        }
        if known.is_some_and(|known| known != producer) {
            return Err(Refusal::SeveralProducers);
        }
        known = Some(producer);
    }
    Ok(known)
}

/// The producer of a transactional batch; what is no whole batch is refused where it is read.
fn transactional(bytes: &Bytes) -> Option<(Producer, Sequence)> {
    const TRANSACTIONAL: i16 = 1 << 4;
    let attributes = i16::from_be_bytes(*bytes.get(21..)?.first_chunk()?);
    let id = i64::from_be_bytes(*bytes.get(43..)?.first_chunk()?);
    let epoch = i16::from_be_bytes(*bytes.get(51..)?.first_chunk()?);
    let first = i32::from_be_bytes(*bytes.get(53..)?.first_chunk()?);
    let producer = Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
    };
    (attributes & TRANSACTIONAL != 0).then_some((producer, Sequence(first)))
}
