//! The state of the broker before the hostile frames: topics, records, groups with members, a transaction.

use bytes::Bytes;
use model::Timestamp;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    AddPartitionsToTxnRequest, ConsumerGroupHeartbeatRequest, CreateTopicsRequest,
    FindCoordinatorRequest, InitProducerIdRequest, JoinGroupRequest, OffsetCommitRequest,
    ProduceRequest, SyncGroupRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Uuid};

use super::hall::Hall;

/// A topic of two partitions; the first has three records.
pub(crate) const TOPIC: &str = "t";
/// A simple consumer committed offsets as this group.
pub(crate) const SIMPLE: &str = "simple";
/// A group of the classic protocol with one member.
pub(crate) const CLASSIC: &str = "classic";
/// A group of the consumer protocol with one member.
pub(crate) const CONSUMER: &str = "consumer";
pub(crate) const CONSUMER_MEMBER: &str = "consumer-member";
/// An open transaction that has the second partition.
pub(crate) const TXN: &str = "txn";
const NONE: i16 = 0;
const BUSY: [ErrorCode; 3] = [
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::NotCoordinator,
];

pub(crate) struct Scene {
    pub(crate) topic_id: Uuid,
    pub(crate) member_id: String,
    pub(crate) generation_id: i32,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
}

/// Records of fixed times.
pub(crate) fn records(values: &[&str]) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for (number, value) in (0..).zip(values) {
        let time = Timestamp(1_700_000_000_000 + number);
        builder.push(time, None, Some(value.as_bytes()), &[]);
    }
    builder
}

/// Repeats a request while its coordinator is not there yet.
fn patiently<T>(mut ask: impl FnMut() -> T, code: impl Fn(&T) -> i16) -> T {
    for _ in 0..1000 {
        let answer = ask();
        let code = ErrorCode::try_from(code(&answer)).expect("a code");
        if !BUSY.contains(&code) {
            assert_eq!(code, ErrorCode::None);
            return answer;
        }
    }
    panic!("no coordinator");
}

impl Scene {
    pub(crate) fn set(hall: &Hall) -> Scene {
        let topic = CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 10_000,
            ..Default::default()
        };
        let created = hall.call(&request, 7);
        assert_eq!(created.topics[0].error_code, NONE);
        produce(hall);
        for (key, key_type) in [(SIMPLE, 0), (TXN, 1)] {
            let request = FindCoordinatorRequest {
                key_type,
                coordinator_keys: vec![key.to_owned()],
                ..Default::default()
            };
            patiently(
                || hall.call(&request, 6),
                |answer| answer.coordinators[0].error_code,
            );
        }
        commit(hall);
        let (member_id, generation_id) = join_classic(hall);
        join_consumer(hall);
        let (producer_id, producer_epoch) = begin_txn(hall);
        Scene {
            topic_id: created.topics[0].topic_id,
            member_id,
            generation_id,
            producer_id,
            producer_epoch,
        }
    }
}

fn produce(hall: &Hall) {
    let batch = records(&["a", "b", "c"]).build().to_bytes();
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch.into()),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = hall.call(&request, 9);
    let answer = &answer.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, answer.base_offset), (NONE, 0));
}

fn commit(hall: &Hall) {
    let partition = OffsetCommitRequestPartition {
        partition_index: 0,
        committed_offset: 2,
        committed_leader_epoch: 0,
        committed_metadata: Some("note".to_owned()),
    };
    let request = OffsetCommitRequest {
        group_id: SIMPLE.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    };
    patiently(
        || hall.call(&request, 9),
        |answer| answer.topics[0].partitions[0].error_code,
    );
}

/// The id of the member and the generation.
fn join_classic(hall: &Hall) -> (String, i32) {
    let protocol = JoinGroupRequestProtocol {
        name: "range".to_owned(),
        metadata: Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0"),
    };
    let request = JoinGroupRequest {
        group_id: CLASSIC.to_owned(),
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    };
    // Version 3 needs no id before it joins.
    let joined = patiently(|| hall.call(&request, 3), |answer| answer.error_code);
    let request = SyncGroupRequest {
        group_id: CLASSIC.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    assert_eq!(hall.call(&request, 3).error_code, NONE);
    (joined.member_id, joined.generation_id)
}

fn join_consumer(hall: &Hall) {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: CONSUMER.to_owned(),
        member_id: CONSUMER_MEMBER.to_owned(),
        member_epoch: 0,
        rebalance_timeout_ms: 1_800_000,
        subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    patiently(|| hall.call(&request, 1), |answer| answer.error_code);
}

/// Producer id and epoch.
fn begin_txn(hall: &Hall) -> (i64, i16) {
    let request = InitProducerIdRequest {
        transactional_id: Some(TXN.to_owned()),
        transaction_timeout_ms: 3_600_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let init = patiently(|| hall.call(&request, 4), |answer| answer.error_code);
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: TXN.to_owned(),
        v3_and_below_producer_id: init.producer_id,
        v3_and_below_producer_epoch: init.producer_epoch,
        v3_and_below_topics: vec![AddPartitionsToTxnTopic {
            name: TOPIC.to_owned(),
            partitions: vec![1],
        }],
        ..Default::default()
    };
    let added = patiently(
        || hall.call(&request, 3),
        |answer| {
            answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        },
    );
    drop(added);
    (init.producer_id, init.producer_epoch)
}
