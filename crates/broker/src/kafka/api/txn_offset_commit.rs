//! TxnOffsetCommit: how far a group has read, told as part of a transaction. Since version 5 the offsets join the transaction by
//! this very request (KIP-890); before, the coordinator is asked whether they did.

use std::sync::Arc;

use coord::group;
use coord::txn::{Answer, Ask, Producer};
use partition::{Guard, Partition, Warrant};
use wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use wire::{ApiKey, ErrorCode};

use super::error;
use super::txn::{BROKER_ADDS, producer, unexpected};
use crate::coordinate::{Question, Said, Told};
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients know TRANSACTION_ABORTABLE, and the first that adds the offsets itself.
const ABORTABLE_VERSION: i16 = 4;
const ADDING_VERSION: i16 = 5;

/// A commit on its way: what is known, what is refused already, and in whose log it goes.
struct Commit {
    request: TxnOffsetCommitRequest,
    refused: Vec<TxnOffsetCommitResponseTopic>,
    log: Arc<Partition>,
    producer: Producer,
}

impl Shard {
    pub(crate) fn on_txn_offset_commit(
        &mut self,
        address: &Address,
        mut request: TxnOffsetCommitRequest,
    ) -> Outcome {
        let topics = self.topics();
        let partition = self.group_partition(&request.group_id);
        let offsets = topics.named(meta::name::OFFSETS);
        let Some(log) = offsets.and_then(|topic| topic.partition(partition)) else {
            let code = ErrorCode::CoordinatorNotAvailable;
            let refused = refuse_all(&request.topics, code);
            return self.answer_txn_commit(address, refused, Vec::new());
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
        if request.topics.is_empty() && !refused.is_empty() {
            return self.answer_txn_commit(address, refused, Vec::new());
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
            Ok(None) => return self.commit_in_txn(address, commit, Warrant::None),
            Err(error) => {
                let told = refuse_all(&commit.request.topics, error::producer(&error));
                return self.answer_txn_commit(address, told, commit.refused);
            }
        };
        let transactional_id = commit.request.transactional_id.clone();
        let places = vec![(meta::name::OFFSETS.to_owned(), partition)];
        let ask = match address.version >= ADDING_VERSION {
            true => Ask::Add {
                transactional_id,
                producer: commit.producer,
                places,
                version: BROKER_ADDS,
                may_wait: true,
            },
            false if !self.verifies_txns() => {
                commit.log.end_verification(id, guard);
                return self.commit_in_txn(address, commit, Warrant::Waived);
            }
            false => Ask::Verify {
                transactional_id,
                producer: commit.producer,
                places,
            },
        };
        self.ask_txn(address, ask, move |shard, address, told| {
            shard.on_txn_commit_verified(address, commit, guard, told)
        })
    }

    fn on_txn_commit_verified(
        &mut self,
        address: &Address,
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
            return self.commit_in_txn(address, commit, Warrant::Verified(guard));
        };
        commit.log.end_verification(commit.producer.id, guard);
        let code = match code {
            ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
            ErrorCode::TransactionAbortable if address.version < ABORTABLE_VERSION => {
                ErrorCode::InvalidTxnState
            }
            ErrorCode::ConcurrentTransactions if address.version < ADDING_VERSION => {
                ErrorCode::CoordinatorLoadInProgress
            }
            code => code,
        };
        let told = refuse_all(&commit.request.topics, code);
        self.answer_txn_commit(address, told, commit.refused)
    }

    fn commit_in_txn(&mut self, address: &Address, commit: Commit, warrant: Warrant) -> Outcome {
        let Commit {
            request,
            refused,
            log,
            producer,
        } = commit;
        let asked = request.topics.clone();
        let ask = group::Ask::TxnCommit(request);
        let questions = vec![(log.index.0, Question::TxnOffsets(ask, warrant))];
        self.ask_all(
            address,
            questions,
            move |shard, address, told: Vec<Told>| {
                if let Warrant::Verified(guard) = warrant {
                    log.end_verification(producer.id, guard);
                }
                let told = told.into_iter().next();
                let told = match told
                    .unwrap_or(Err(ErrorCode::NotCoordinator))
                    .map(Said::group)
                {
                    Ok(group::Answer::TxnCommit(response)) => response.topics,
                    other => refuse_all(&asked, super::group::unexpected(other)),
                };
                shard.answer_txn_commit(address, told, refused)
            },
        )
    }

    fn answer_txn_commit(
        &mut self,
        address: &Address,
        mut topics: Vec<TxnOffsetCommitResponseTopic>,
        refused: Vec<TxnOffsetCommitResponseTopic>,
    ) -> Outcome {
        topics.extend(refused);
        let response = TxnOffsetCommitResponse {
            topics,
            ..Default::default()
        };
        self.reply(address, ApiKey::TxnOffsetCommit, &response)
    }
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
