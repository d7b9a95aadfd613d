//! TxnOffsetCommit: how far a group has read, told as part of a transaction. Since version 5 the offsets join the transaction by
//! this very request (KIP-890); before, the coordinator is asked whether they did.

use std::sync::Arc;

use coord::group;
use coord::group::ask::{CommitPartition, CommitTopic, TopicKey, TxnCommit};
use coord::txn::{Answer, Ask, EPOCH_PER_TXN, Producer};
use model::{LeaderEpoch, Offset, PartitionIndex};
use partition::{Guard, Partition, Warrant};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::group::code;
use super::txn::producer;
use crate::coordinate::{Question, Said, Told};
use crate::error;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::ops::txns::unexpected;

/// First version whose clients know what to do while a coordinator is loaded (KAFKA-7296), the first whose clients know
/// TRANSACTION_ABORTABLE, and the first that adds the offsets itself.
const LOADING_VERSION: i16 = 2;
const ABORTABLE_VERSION: i16 = 4;
const ADDING_VERSION: i16 = 5;

/// A commit on its way: what is known, what is refused already, and in whose log it goes.
struct Commit {
    request: TxnOffsetCommitRequest,
    refused: Vec<TxnOffsetCommitResponseTopic>,
    log: Arc<Partition>,
    producer: Producer,
}

pub(crate) fn on_txn_offset_commit(
    call: &mut Call<'_>,
    mut request: TxnOffsetCommitRequest,
) -> Outcome {
    let topics = call.desk.topics();
    let partition = call.desk.group_partition(&request.group_id);
    let offsets = topics.named(meta::name::OFFSETS);
    let Some(log) = offsets.and_then(|topic| topic.partition(partition)) else {
        let code = ErrorCode::CoordinatorNotAvailable;
        let refused = refuse_all(&request.topics, code);
        return answer_txn_commit(call, refused, Vec::new());
    };
    let is_there = |name: &str, index: i32| {
        let topic = topics.named(name);
        topic.is_some_and(|topic| topic.partition(index).is_some())
    };
    let mut refused = Vec::new();
    request.topics.retain_mut(|topic| {
        let name = topic.name.clone();
        let absent = topic
            .partitions
            .extract_if(.., |asked| !is_there(&name, asked.partition_index));
        let absent = TxnOffsetCommitRequestTopic {
            partitions: absent.collect(),
            name,
        };
        if !absent.partitions.is_empty() {
            refused.push(refuse(&absent, ErrorCode::UnknownTopicOrPartition));
        }
        !topic.partitions.is_empty()
    });
    if request.topics.is_empty() {
        return answer_txn_commit(call, refused, Vec::new());
    }
    let commit = Commit {
        producer: producer(request.producer_id, request.producer_epoch),
        log: Arc::clone(log),
        refused,
        request,
    };
    let Producer { id, epoch } = commit.producer;
    let guard = match commit.log.begin_verification(id, epoch, None) {
        Ok(Some(guard)) => guard,
        Ok(None) => return commit_in_txn(call, commit, Warrant::None),
        Err(error) => {
            let told = refuse_all(&commit.request.topics, error::producer(&error));
            return answer_txn_commit(call, told, commit.refused);
        }
    };
    let transactional_id = commit.request.transactional_id.clone();
    let places = vec![(meta::name::OFFSETS.to_owned(), partition)];
    let ask = match call.version() >= ADDING_VERSION {
        true => Ask::Add {
            transactional_id,
            producer: commit.producer,
            places,
            version: EPOCH_PER_TXN,
            may_wait: true,
        },
        false if !call.desk.verifies_txns() => {
            commit.log.end_verification(id, guard);
            return commit_in_txn(call, commit, Warrant::Waived);
        }
        false => Ask::Verify {
            transactional_id,
            producer: commit.producer,
            places,
        },
    };
    let question = Ok(call.desk.txn_question(ask));
    call.ask_txn(question, move |call, told| {
        on_txn_commit_verified(call, commit, guard, told)
    })
}

fn on_txn_commit_verified(
    call: &mut Call<'_>,
    commit: Commit,
    guard: Guard,
    told: Result<Answer, ErrorCode>,
) -> Outcome {
    let verified = match told {
        Ok(Answer::Add(added)) => added,
        Ok(Answer::Verify(verified)) => verified.into_iter().collect(),
        other => Err(unexpected(other)),
    };
    let Err(code) = verified else {
        return commit_in_txn(call, commit, Warrant::Verified(guard));
    };
    commit.log.end_verification(commit.producer.id, guard);
    let code = match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if call.version() < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::ConcurrentTransactions if call.version() < ADDING_VERSION => {
            ErrorCode::CoordinatorLoadInProgress
        }
        code => code,
    };
    let told = refuse_all(&commit.request.topics, code);
    answer_txn_commit(call, told, commit.refused)
}

fn commit_in_txn(call: &mut Call<'_>, commit: Commit, warrant: Warrant) -> Outcome {
    let Commit {
        request,
        refused,
        log,
        producer,
    } = commit;
    let unanswered = refuse_all(&request.topics, ErrorCode::None);
    let ask = group::Ask::TxnCommit(ask(request, producer));
    let questions = vec![(log.index.0, Question::TxnOffsets(ask, warrant))];
    call.ask_all(questions, move |call, told: Vec<Told>| {
        if let Warrant::Verified(guard) = warrant {
            log.end_verification(producer.id, guard);
        }
        let told = told.into_iter().next();
        let told = told.unwrap_or(Err(ErrorCode::NotCoordinator));
        let topics = answered(told.map(Said::group), unanswered);
        answer_txn_commit(call, topics, refused)
    })
}

fn answer_txn_commit(
    call: &mut Call<'_>,
    mut topics: Vec<TxnOffsetCommitResponseTopic>,
    refused: Vec<TxnOffsetCommitResponseTopic>,
) -> Outcome {
    topics.extend(refused);
    if call.version() < LOADING_VERSION {
        let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        for partition in partitions {
            if partition.error_code == ErrorCode::CoordinatorLoadInProgress.code() {
                partition.error_code = ErrorCode::CoordinatorNotAvailable.code();
            }
        }
    }
    let response = TxnOffsetCommitResponse {
        topics,
        ..Default::default()
    };
    call.reply(ApiKey::TxnOffsetCommit, &response)
}

fn ask(request: TxnOffsetCommitRequest, producer: Producer) -> TxnCommit {
    let partition = |asked: TxnOffsetCommitRequestPartition| CommitPartition {
        index: PartitionIndex(asked.partition_index),
        offset: Offset(asked.committed_offset),
        leader_epoch: LeaderEpoch(asked.committed_leader_epoch),
        metadata: asked.committed_metadata.unwrap_or_default(),
    };
    let topic = |topic: TxnOffsetCommitRequestTopic| CommitTopic {
        topic: TopicKey::Name(topic.name),
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    TxnCommit {
        group_id: request.group_id,
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
        producer,
        topics: request.topics.into_iter().map(topic).collect(),
    }
}

fn answered(
    told: Result<group::Answer, ErrorCode>,
    mut topics: Vec<TxnOffsetCommitResponseTopic>,
) -> Vec<TxnOffsetCommitResponseTopic> {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    match told {
        Ok(group::Answer::TxnCommit(results)) => partitions
            .zip(results)
            .for_each(|(partition, result)| partition.error_code = code(result)),
        other => {
            let code = super::group::unexpected(other).code();
            partitions.for_each(|partition| partition.error_code = code);
        }
    }
    topics
}

fn refuse_all(
    topics: &[TxnOffsetCommitRequestTopic],
    code: ErrorCode,
) -> Vec<TxnOffsetCommitResponseTopic> {
    topics.iter().map(|topic| refuse(topic, code)).collect()
}

fn refuse(topic: &TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic {
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use wire::Request;
    use wire::messages::{
        AddOffsetsToTxnRequest, CreateTopicsRequest, EndTxnRequest, FindCoordinatorRequest,
        InitProducerIdRequest,
    };

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
        });
        TxnOffsetCommitRequest {
            transactional_id: ID.to_owned(),
            group_id: GROUP.to_owned(),
            producer_id,
            generation_id: -1,
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
    fn a_commit_of_nothing_begins_no_transaction() {
        let (mut bench, producer_id) = bench();
        let nothing = commit(producer_id, &[]);
        bench.put(&encoded(&nothing, ADDING_VERSION));
        let answered = bench.answer::<TxnOffsetCommitRequest>(ADDING_VERSION);
        assert_eq!(answered.map(|response| response.topics), Some(Vec::new()));
    }
}
