//! Transactional batches of a produce request: their coordinator is asked before they are appended (KIP-890).
//!
//! Since version 12 the request itself adds its partitions to the transaction; before, the client did, and the coordinator is
//! asked whether it is so. The connection is not read meanwhile: what follows on it must not overtake the batches. Partitions
//! where the transaction is open already ask nobody.

use std::collections::HashMap;
use std::sync::Arc;

use coord::txn::{Answer, Ask, Place, Producer};
use model::Sequence;
use partition::{Guard, Partition, Warrant};
use wire::messages::ProduceRequest;
use wire::{ErrorCode, Records};

use super::error;
use super::txn::{BROKER_ADDS, producer, unexpected};
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients know TRANSACTION_ABORTABLE, and the first that adds its partitions itself.
const ABORTABLE_VERSION: i16 = 11;
const ADDING_VERSION: i16 = 12;

/// What the batch of each partition (by topic and partition place in the request) may do; those not named need no warrant.
#[derive(Default)]
pub(crate) struct Warrants {
    of: HashMap<(usize, usize), Result<Warrant, ErrorCode>>,
    held: Vec<(Arc<Partition>, Guard)>,
    producer: Option<Producer>,
}

impl Warrants {
    pub(crate) fn of(&self, place: (usize, usize)) -> Result<Warrant, ErrorCode> {
        self.of.get(&place).copied().unwrap_or(Ok(Warrant::None))
    }

    /// Gives the guards back.
    pub(crate) fn release(self) {
        for (partition, guard) in self.held {
            if let Some(Producer { id, .. }) = self.producer {
                partition.end_verification(id, guard);
            }
        }
    }
}

/// A batch that would open its transaction in a partition: place in the request, name and number, and the guard under which to
/// ask, or why nobody need be asked.
type Unopened = (
    (usize, usize),
    Place,
    Arc<Partition>,
    Result<Guard, ErrorCode>,
);

impl Shard {
    pub(crate) fn warrant(&mut self, address: &Address, request: ProduceRequest) -> Outcome {
        let producer = match transactional_producer(&request) {
            Ok(producer) => producer,
            Err(code) => return self.refuse_produce(address, &request, code),
        };
        let mut warrants = Warrants {
            producer,
            ..Warrants::default()
        };
        let (Some(producer), Some(transactional_id)) = (producer, &request.transactional_id) else {
            return self.produce(address, request, warrants);
        };
        let adds = address.version >= ADDING_VERSION;
        let waives = !adds && !self.verifies_txns();
        let mut places = Vec::new();
        for (at, place, partition, guard) in self.unopened(&request, producer) {
            let guard = match guard {
                Ok(guard) => guard,
                Err(code) => {
                    warrants.of.insert(at, Err(code));
                    continue;
                }
            };
            let warrant = match adds {
                true => Warrant::Added(guard),
                false if waives => Warrant::Waived,
                false => Warrant::Verified(guard),
            };
            warrants.of.insert(at, Ok(warrant));
            warrants.held.push((partition, guard));
            places.push((at, place));
        }
        if places.is_empty() || waives {
            return self.produce(address, request, warrants);
        }
        let asked: Vec<Place> = places.iter().map(|(_, place)| place.clone()).collect();
        let transactional_id = transactional_id.clone();
        let ask = match adds {
            true => Ask::Add {
                transactional_id,
                producer,
                places: asked,
                version: BROKER_ADDS,
                may_wait: true,
            },
            false => Ask::Verify {
                transactional_id,
                producer,
                places: asked,
            },
        };
        self.hold(address);
        self.ask_txn(address, ask, move |shard, address, told| {
            shard.unhold(address);
            let verified = match told {
                Ok(Answer::Add(added)) => vec![added; places.len()],
                Ok(Answer::Verify(verified)) => verified,
                other => vec![Err(unexpected(other)); places.len()],
            };
            for ((at, _), verified) in places.iter().zip(verified) {
                if let Err(code) = verified {
                    warrants.of.insert(*at, Err(refusal(code, address.version)));
                }
            }
            shard.produce(address, request, warrants)
        })
    }

    fn unopened(&mut self, request: &ProduceRequest, producer: Producer) -> Vec<Unopened> {
        let mut unopened = Vec::new();
        let topics = self.topics();
        for (topic_at, asked) in request.topic_data.iter().enumerate() {
            for (at, data) in asked.partition_data.iter().enumerate() {
                let topic = topics.find(asked.topic_id, &asked.name);
                let partition = topic.and_then(|topic| topic.partition(data.index));
                // What does not exist is refused by name, as without a transaction.
                let (Some(topic), Some(partition)) = (topic, partition) else {
                    continue;
                };
                let Some((_, first)) = transactional(&data.records) else {
                    continue;
                };
                let Producer { id, epoch } = producer;
                let begun = partition.begin_verification(id, epoch, Some(first));
                if let Some(guard) = begun.map_err(|error| error::producer(&error)).transpose() {
                    let place = (topic.name.as_ref().to_owned(), data.index);
                    unopened.push(((topic_at, at), place, Arc::clone(partition), guard));
                }
            }
        }
        unopened
    }

    /// `transaction.partition.verification.enable`
    pub(crate) fn verifies_txns(&self) -> bool {
        let broker = &self.shared.config().broker;
        broker.flag("transaction.partition.verification.enable")
    }
}

/// The one producer of the transactional batches, if there are any.
fn transactional_producer(request: &ProduceRequest) -> Result<Option<Producer>, ErrorCode> {
    let mut known = None;
    let all = request
        .topic_data
        .iter()
        .flat_map(|topic| &topic.partition_data);
    for (producer, _) in all.filter_map(|data| transactional(&data.records)) {
        if request.transactional_id.is_none() {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if known.is_some_and(|known| known != producer) {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        known = Some(producer);
    }
    Ok(known)
}

/// The producer of a transactional batch; what is no whole batch is refused where it is read.
fn transactional(records: &Option<Records>) -> Option<(Producer, Sequence)> {
    const TRANSACTIONAL: i16 = 1 << 4;
    let Some(Records::Bytes(bytes)) = records else {
        return None;
    };
    let attributes = i16::from_be_bytes(*bytes.get(21..)?.first_chunk()?);
    let id = i64::from_be_bytes(*bytes.get(43..)?.first_chunk()?);
    let epoch = i16::from_be_bytes(*bytes.get(51..)?.first_chunk()?);
    let first = i32::from_be_bytes(*bytes.get(53..)?.first_chunk()?);
    (attributes & TRANSACTIONAL != 0).then(|| (producer(id, epoch), Sequence(first)))
}

/// What a client of this version makes of a coordinator's refusal.
fn refusal(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::ConcurrentTransactions if version >= ADDING_VERSION => code,
        // Nothing was appended: the client tries again.
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        code => code,
    }
}
