//! Questions about transactions as Kafka's requests to the broker that coordinates, and the answers of that. Those of leaders of
//! partitions travel together: see [`super::messages`].

use coord::Question as _;
use coord::txn::{Add, Ask, Describe, Described, EPOCH_PER_TXN, End, Init, Producer, TxnState};
use model::{ProducerEpoch, ProducerId, Timestamp};
use wire::ErrorCode;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::describe_transactions_response::TransactionState;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse,
};

use super::groups::check;
use super::messages::by_topic;
use crate::error::of_code;
use crate::mail::question::Said;
use crate::peers::{Answer, Typed, UpTo};

/// The newest version in which the client adds partitions itself, and the newest that leaves a producer its epoch.
const ADD_BY_CLIENT: i16 = 3;
const END_WITHOUT_EPOCH: i16 = 4;
const NO_EPOCH: i16 = -1;

/// The facts that the answer to a question is read with.
#[derive(Debug)]
pub(super) enum Reading {
    Init,
    Add,
    /// With the producer, where its epoch stays.
    End(Option<Producer>),
    Describe,
}

/// The request that asks this; none for what only a coordinator asks itself.
pub(super) fn request(asked: Ask) -> Option<(Typed, Reading)> {
    Some(match asked {
        Ask::Init(Init {
            transactional_id,
            timeout_ms,
            expected,
            // The coordinator has ids of its own.
            fresh: _,
        }) => {
            let request = InitProducerIdRequest {
                transactional_id: Some(transactional_id),
                transaction_timeout_ms: timeout_ms,
                producer_id: expected.map_or(ProducerId::NONE, |known| known.id).0,
                producer_epoch: expected.map_or(NO_EPOCH, |known| known.epoch.0),
                ..Default::default()
            };
            (Typed::new(request), Reading::Init)
        }
        Ask::Add(Add {
            transactional_id,
            producer,
            places,
            ..
        }) => {
            let topics = by_topic(places.iter()).into_iter();
            let topics = topics.map(|(name, partitions)| AddPartitionsToTxnTopic {
                name: name.to_owned(),
                partitions,
            });
            let request = AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: transactional_id,
                v3_and_below_producer_id: producer.id.0,
                v3_and_below_producer_epoch: producer.epoch.0,
                v3_and_below_topics: topics.collect(),
                ..Default::default()
            };
            (Typed::new(UpTo(request, ADD_BY_CLIENT)), Reading::Add)
        }
        Ask::End(End {
            transactional_id,
            producer,
            committed,
            version,
            fresh: _,
        }) => {
            let request = EndTxnRequest {
                transactional_id,
                producer_id: producer.id.0,
                producer_epoch: producer.epoch.0,
                committed,
            };
            let stays = version < EPOCH_PER_TXN;
            let newest = if stays { END_WITHOUT_EPOCH } else { i16::MAX };
            let reading = Reading::End(Some(producer).filter(|_| stays));
            (Typed::new(UpTo(request, newest)), reading)
        }
        Ask::Describe(Describe { transactional_id }) => {
            let request = DescribeTransactionsRequest {
                transactional_ids: vec![transactional_id],
            };
            (Typed::new(request), Reading::Describe)
        }
        Ask::Verify(_) | Ask::Marked(_) | Ask::List(_) => return None,
    })
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
    }
}

impl Reading {
    /// The answer to the question, or the refusal of the coordinator.
    pub(super) fn read(self, answer: Answer) -> Result<Said, ErrorCode> {
        const GARBAGE: ErrorCode = ErrorCode::UnknownServerError;
        let said = match self {
            Reading::Init => {
                let response: InitProducerIdResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                let begun = producer(response.producer_id, response.producer_epoch);
                Init::any_answer(Ok(begun))
            }
            Reading::Add => {
                let response: AddPartitionsToTxnResponse = answer.read().ok_or(GARBAGE)?;
                let topics = response.results_by_topic_v3_and_below.iter();
                let codes = topics.flat_map(|topic| &topic.results_by_partition);
                let refused = codes.filter_map(|of| check(of.partition_error_code).err());
                // All of them are added, or none: the others say only that nothing was attempted.
                let why = refused.min_by_key(|code| *code == ErrorCode::OperationNotAttempted);
                Add::any_answer(why.map_or(Ok(()), Err))
            }
            Reading::End(stays) => {
                let response: EndTxnResponse = answer.read().ok_or(GARBAGE)?;
                check(response.error_code)?;
                let next = producer(response.producer_id, response.producer_epoch);
                End::any_answer(Ok(stays.unwrap_or(next)))
            }
            Reading::Describe => {
                let response: DescribeTransactionsResponse = answer.read().ok_or(GARBAGE)?;
                let state = response.transaction_states.into_iter().next();
                Describe::any_answer(described(state.ok_or(GARBAGE)?)?)
            }
        };
        Ok(Said::Txn(said))
    }
}

fn described(state: TransactionState) -> Result<Option<Described>, ErrorCode> {
    match of_code(state.error_code) {
        ErrorCode::None => {}
        ErrorCode::TransactionalIdNotFound => return Ok(None),
        code => return Err(code),
    }
    let known = TxnState::named(&state.transaction_state);
    let topics = state.topics.into_iter();
    let places = topics.flat_map(|topic| {
        let name = topic.topic;
        let indexes = topic.partitions.into_iter();
        indexes.map(move |index| (name.clone(), index))
    });
    Ok(Some(Described {
        transactional_id: state.transactional_id,
        state: known.ok_or(ErrorCode::UnknownServerError)?,
        producer: producer(state.producer_id, state.producer_epoch),
        timeout_ms: state.transaction_timeout_ms,
        start: Timestamp(state.transaction_start_time_ms),
        places: places.collect(),
    }))
}
