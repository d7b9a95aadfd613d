//! TxnOffsetCommit: how far a group has read, told as part of a transaction. Since version 5 the offsets join the transaction by
//! this very request (KIP-890); before, the coordinator is asked whether they did.

use coord::group::ask::{CommitPartition, CommitTopic, TopicKey, TxnCommit};
use model::{LeaderEpoch, Offset, PartitionIndex, Ticket};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::producer;
use crate::asker::Asker;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::asking::Awaiting;
use crate::ops::produce::Joining;
use crate::ops::txn_offsets::{self, Committed, Committing, Refusal, TxnOffsets};
use crate::ops::{Desk, Step, Tickets};

/// First version whose clients know what to do while a coordinator is loaded (KAFKA-7296), the first whose clients know
/// TRANSACTION_ABORTABLE, the first that adds the offsets itself, and the first that names topics by their ids and knows the refusals
/// of groups with member epochs (KIP-1319).
const LOADING_VERSION: i16 = 2;
const ABORTABLE_VERSION: i16 = 4;
const ADDING_VERSION: i16 = 5;
const IDS_VERSION: i16 = 6;

pub(crate) fn on_txn_offset_commit(
    call: &mut Call<'_>,
    request: TxnOffsetCommitRequest,
) -> Outcome {
    let unanswered = request.topics.iter().map(unanswered).collect();
    let request = offsets(request, call.version());
    let first = call.ticket();
    let tickets = |part| Ticket { part, ..first };
    let finish = |call: &mut Call<'_>, results| respond(call, results, unanswered);
    match txn_offsets::begin(call.desk, &call.asker, request, &tickets) {
        Step::Done(results) => finish(call, results),
        Step::Dropped => Outcome::Close,
        Step::Parked(Committing::Writing(Awaiting { asking, read })) => {
            call.park_asking(asking, |call, told| finish(call, read.read(told)))
        }
        Step::Parked(Committing::Verifying(asking, verifying)) => {
            call.park_asking(asking, move |call, told| {
                let go_on = |desk: &mut Desk, _: &Asker, told, tickets: Tickets<'_>| {
                    verifying.go_on(desk, told, tickets)
                };
                call.carry_out(go_on, told, finish)
            })
        }
    }
}

/// The answer for a topic, without results.
fn unanswered(topic: &TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic {
    let partition = |asked: &TxnOffsetCommitRequestPartition| TxnOffsetCommitResponsePartition {
        partition_index: asked.partition_index,
        error_code: 0,
    };
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn offsets(request: TxnOffsetCommitRequest, version: i16) -> TxnOffsets {
    let topic = |topic: TxnOffsetCommitRequestTopic| CommitTopic {
        topic: if version >= IDS_VERSION {
            TopicKey::Id(topic.topic_id)
        } else {
            TopicKey::Name(topic.name)
        },
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    TxnOffsets {
        transactional_id: request.transactional_id,
        joining: if version >= ADDING_VERSION {
            Joining::Adds
        } else {
            Joining::Verifies
        },
        commit: TxnCommit {
            group_id: request.group_id,
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            generation: request.generation_id_or_member_epoch,
            knows_member_epochs: version >= IDS_VERSION,
            producer: producer(request.producer_id, request.producer_epoch),
            topics: request.topics.into_iter().map(topic).collect(),
        },
    }
}

fn partition(asked: TxnOffsetCommitRequestPartition) -> CommitPartition {
    CommitPartition {
        index: PartitionIndex(asked.partition_index),
        offset: Offset(asked.committed_offset),
        leader_epoch: LeaderEpoch(asked.committed_leader_epoch),
        metadata: asked.committed_metadata.unwrap_or_default(),
    }
}

fn respond(
    call: &mut Call<'_>,
    committed: Committed,
    topics: Vec<TxnOffsetCommitResponseTopic>,
) -> Outcome {
    let topics = match committed {
        Ok(results) => answered(results, topics, call.version()),
        Err(code) => refuse_all(topics, known(code, call.version())),
    };
    let response = TxnOffsetCommitResponse {
        topics,
        ..Default::default()
    };
    call.reply(ApiKey::TxnOffsetCommit, &response)
}

fn refuse_all(
    mut topics: Vec<TxnOffsetCommitResponseTopic>,
    code: ErrorCode,
) -> Vec<TxnOffsetCommitResponseTopic> {
    for partition in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.error_code = code.code();
    }
    topics
}

/// Partitions of which no coordinator heard come behind all others.
fn answered(
    results: Vec<Result<(), Refusal>>,
    mut topics: Vec<TxnOffsetCommitResponseTopic>,
    version: i16,
) -> Vec<TxnOffsetCommitResponseTopic> {
    let mut results = results.into_iter();
    let mut refused = Vec::new();
    topics.retain_mut(|topic| {
        let mut unasked = Vec::new();
        topic.partitions.retain_mut(|partition| {
            let (code, was_asked) = match results.next() {
                Some(Ok(())) => (ErrorCode::None, true),
                Some(Err(Refusal::Coordinator(code))) => (known(code, version), true),
                Some(Err(Refusal::Unauthorised)) => (ErrorCode::TopicAuthorizationFailed, false),
                Some(Err(Refusal::Unknown)) => (ErrorCode::UnknownTopicOrPartition, false),
                Some(Err(Refusal::UnknownId)) => (ErrorCode::UnknownTopicId, false),
                None => (ErrorCode::UnknownServerError, false),
            };
            partition.error_code = code.code();
            if !was_asked {
                unasked.push(partition.clone());
            }
            was_asked
        });
        if !unasked.is_empty() {
            refused.push(TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: unasked,
            });
        }
        !topic.partitions.is_empty()
    });
    topics.extend(refused);
    topics
}

/// The code that clients of a version know for a refusal.
fn known(code: ErrorCode, version: i16) -> ErrorCode {
    let code = match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::ConcurrentTransactions if version < ADDING_VERSION => {
            ErrorCode::CoordinatorLoadInProgress
        }
        code => code,
    };
    match code {
        ErrorCode::CoordinatorLoadInProgress if version < LOADING_VERSION => {
            ErrorCode::CoordinatorNotAvailable
        }
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::{
        AddOffsetsToTxnRequest, CreateTopicsRequest, EndTxnRequest, FindCoordinatorRequest,
        InitProducerIdRequest,
    };
    use wire::{Request, Uuid};

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    const ID: &str = "x";
    const GROUP: &str = "g";

    fn ask<R: Request>(bench: &mut Bench, request: &R, version: i16) -> R::Response {
        bench.put(&encoded(request, version));
        bench.commit();
        bench.answer::<R>(version).expect("an answer")
    }

    /// A broker with coordinators for both, and a producer with a transactional id.
    fn bench() -> (Bench, i64) {
        let mut bench = Bench::new();
        bench.create("t", 1);
        bench.answer::<CreateTopicsRequest>(4);
        for (key_type, key) in [(0, GROUP), (1, ID)] {
            let find = FindCoordinatorRequest {
                key: key.to_owned(),
                key_type,
                ..Default::default()
            };
            assert_eq!(ask(&mut bench, &find, 3).error_code, 0);
        }
        let init = InitProducerIdRequest {
            transactional_id: Some(ID.to_owned()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        };
        bench.put(&encoded(&init, 3));
        let begun = loop {
            bench.commit();
            if let Some(begun) = bench.answer::<InitProducerIdRequest>(3) {
                break begun;
            }
        };
        assert_eq!((begun.error_code, begun.producer_epoch), (0, 0));
        (bench, begun.producer_id)
    }

    fn commit(producer_id: i64, topics: &[&str]) -> TxnOffsetCommitRequest {
        let topics = topics.iter().map(|name| TxnOffsetCommitRequestTopic {
            name: (*name).to_owned(),
            partitions: vec![TxnOffsetCommitRequestPartition::default()],
            ..Default::default()
        });
        TxnOffsetCommitRequest {
            transactional_id: ID.to_owned(),
            group_id: GROUP.to_owned(),
            producer_id,
            generation_id_or_member_epoch: -1,
            topics: topics.collect(),
            ..Default::default()
        }
    }

    #[test]
    fn clients_that_know_no_loading_coordinator_are_told_that_there_is_none() {
        let (mut bench, producer_id) = bench();
        let add = AddOffsetsToTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id,
            group_id: GROUP.to_owned(),
            ..Default::default()
        };
        assert_eq!(ask(&mut bench, &add, 0).error_code, 0);
        let end = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id,
            committed: true,
            ..Default::default()
        };
        // Decided, and not marked: nothing is durable.
        bench.put(&encoded(&end, 1));
        let told = [
            (0, ErrorCode::CoordinatorNotAvailable),
            (1, ErrorCode::CoordinatorNotAvailable),
            (2, ErrorCode::CoordinatorLoadInProgress),
        ];
        for (version, _) in told {
            bench.put(&encoded(&commit(producer_id, &["t"]), version));
        }
        bench.commit();
        assert!(bench.answer::<EndTxnRequest>(1).is_some());
        for (version, code) in told {
            let response = bench.answer::<TxnOffsetCommitRequest>(version);
            let topics = response.expect("it was decided").topics;
            assert_eq!(topics[0].partitions[0].error_code, code.code());
        }
    }

    #[test]
    fn partitions_that_no_coordinator_heard_of_come_last() {
        let topic = |name: &str, partitions: &[(i32, ErrorCode)]| TxnOffsetCommitResponseTopic {
            name: name.to_owned(),
            partitions: (partitions.iter())
                .map(
                    |&(partition_index, code)| TxnOffsetCommitResponsePartition {
                        partition_index,
                        error_code: code.code(),
                    },
                )
                .collect(),
            ..Default::default()
        };
        let none = ErrorCode::None;
        let asked = vec![
            topic("t", &[(9, none), (0, none)]),
            topic("u", &[(0, none)]),
        ];
        let illegal = ErrorCode::IllegalGeneration;
        let results = vec![Err(Refusal::Unknown), Ok(()), Err(illegal.into())];
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let told = [
            topic("t", &[(0, none)]),
            topic("u", &[(0, illegal)]),
            topic("t", &[(9, unknown)]),
        ];
        assert_eq!(answered(results, asked, ADDING_VERSION), told);
    }

    #[test]
    fn topics_are_named_by_their_ids_in_the_last_version() {
        let (mut bench, producer_id) = bench();
        let image = bench.shard.desk.shared.catalog.image();
        let known = image.topic("t").expect("created").id;
        let of = |topic_id, partition_index, generation| {
            let mut request = commit(producer_id, &["t"]);
            request.generation_id_or_member_epoch = generation;
            request.topics[0].topic_id = topic_id;
            request.topics[0].partitions[0].partition_index = partition_index;
            request
        };
        let (id, none) = (ErrorCode::UnknownTopicId, ErrorCode::None);
        for (topic_id, index, generation, code) in [
            (Uuid::ZERO, 0, -1, id),
            (Uuid([9; 16]), 0, -1, id),
            (known, 7, -1, ErrorCode::UnknownTopicOrPartition),
            (known, 0, 3, ErrorCode::GroupIdNotFound),
            (known, 0, -1, none),
        ] {
            let request = of(topic_id, index, generation);
            let told = ask(&mut bench, &request, IDS_VERSION).topics;
            assert_eq!((told.len(), told[0].topic_id), (1, topic_id));
            assert_eq!(told[0].partitions[0].error_code, code.code(), "{request:?}");
        }
        let mut before = of(Uuid::ZERO, 0, 3);
        before.group_id = "h".to_owned();
        let told = ask(&mut bench, &before, ADDING_VERSION).topics;
        let illegal = ErrorCode::IllegalGeneration.code();
        assert_eq!(told[0].partitions[0].error_code, illegal);
    }

    #[test]
    fn a_commit_of_nothing_begins_no_transaction() {
        let (mut bench, producer_id) = bench();
        let nothing = commit(producer_id, &[]);
        bench.put(&encoded(&nothing, ADDING_VERSION));
        let answered = bench.answer::<TxnOffsetCommitRequest>(ADDING_VERSION);
        assert_eq!(answered.map(|response| response.topics), Some(Vec::new()));
    }
}
