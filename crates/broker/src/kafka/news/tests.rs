//! Requests of each kind whose commit does not come, and what is true when it comes after all.

use std::time::Duration;

use bytes::Bytes;
use env::{Turn, Worker};
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, DescribeGroupsRequest, FindCoordinatorRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Request};

use crate::event_loop::bench::{Bench, batch, encoded};

const TOPIC: &str = "t";
const CREATE: i16 = 4;
const DELETE_RECORDS: i16 = 2;
const ALTER: i16 = 1;
const FIND: i16 = 3;
const INIT: i16 = 3;
const COMMIT: i16 = 8;
const FETCH_OFFSETS: i16 = 5;
const JOIN: i16 = 3;
const DESCRIBE: i16 = 5;

const MS: Duration = Duration::from_millis(1);

fn code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).expect("a known code")
}

/// A bench where `t` has one partition.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.create(TOPIC, 1);
    bench.answer::<CreateTopicsRequest>(CREATE);
    bench
}

impl Bench {
    /// Puts a request that is not answered `before` its time, and is then.
    fn late<R: Request>(&mut self, request: &R, version: i16, after: Duration) -> R::Response {
        self.put(&encoded(request, version));
        self.pass(after - MS);
        assert!(self.answer::<R>(version).is_none(), "it has time");
        self.pass(MS);
        self.answer::<R>(version).expect("its time is up")
    }

    /// Puts a request, commits what it needs, and gets its answer.
    fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.put(&encoded(request, version));
        self.commit();
        self.commit();
        self.answer::<R>(version).expect("an answer")
    }

    fn find(&mut self, key_type: i8) {
        self.ask(&find(key_type), FIND);
    }
}

fn trim(topics: &[&str]) -> DeleteRecordsRequest {
    let topic = |name: &&str| DeleteRecordsTopic {
        name: (*name).to_owned(),
        partitions: vec![DeleteRecordsPartition {
            partition_index: 0,
            offset: -1,
        }],
    };
    DeleteRecordsRequest {
        topics: topics.iter().map(topic).collect(),
        timeout_ms: 1500,
    }
}

fn create(names: &[&str]) -> CreateTopicsRequest {
    let topic = |name: &&str| CreatableTopic {
        name: (*name).to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest {
        topics: names.iter().map(topic).collect(),
        timeout_ms: 2500,
        ..Default::default()
    }
}

fn alter() -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.to_owned(),
            configs: vec![AlterableConfig {
                name: "max.message.bytes".to_owned(),
                config_operation: 0,
                value: Some("77777".to_owned()),
            }],
        }],
        validate_only: false,
    }
}

fn find(key_type: i8) -> FindCoordinatorRequest {
    FindCoordinatorRequest {
        key: "g".to_owned(),
        key_type,
        ..Default::default()
    }
}

fn init(transactional_id: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}

fn commit(offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch_offsets() -> OffsetFetchRequest {
    OffsetFetchRequest {
        group_id: "g".to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.to_owned(),
            partition_indexes: vec![0],
        }]),
        ..Default::default()
    }
}

fn join() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 600_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::new(),
        }],
        ..Default::default()
    }
}

fn produce(bytes: usize) -> ProduceRequest {
    ProduceRequest {
        acks: -1,
        timeout_ms: 1_000_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch(&vec![7; bytes]).into()),
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn a_trim_is_told_after_its_time_which_partitions_still_wait() {
    let mut bench = bench();
    bench.append(TOPIC, b"one");
    let told = bench.late(&trim(&[TOPIC, "n"]), DELETE_RECORDS, 1500 * MS);
    let one = |at: usize| {
        let partition = &told.topics[at].partitions[0];
        (code(partition.error_code), partition.low_watermark)
    };
    assert_eq!(one(0), (ErrorCode::RequestTimedOut, -1));
    assert_eq!(one(1), (ErrorCode::UnknownTopicOrPartition, -1));
    assert_eq!(bench.waiting_count(), 0);
    bench.commit();
    assert_eq!(bench.partition(TOPIC, 0).bounds().log_start.0, 1);
}

/// A batch of an idempotent producer, each time the same.
fn repeated() -> ProduceRequest {
    let mut batch = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), Sequence(0));
    batch.push(Timestamp::NONE, None, Some(b"again"), &[]);
    let mut request = produce(1);
    request.timeout_ms = 1500;
    request.topic_data[0].partition_data[0].records = Some(batch.build().to_bytes().into());
    request
}

#[test]
fn nobody_is_kept_in_mind_whose_time_was_up() {
    let mut bench = bench();
    bench.find(0);
    bench.append(TOPIC, b"one");
    bench.late(&commit(7), COMMIT, 5000 * MS);
    bench.late(&create(&["n"]), CREATE, 2500 * MS);
    for _ in 0..5 {
        bench.late(&repeated(), 9, 1500 * MS);
        bench.late(&trim(&[TOPIC]), DELETE_RECORDS, 1500 * MS);
        bench.late(&fetch_offsets(), FETCH_OFFSETS, 5000 * MS);
        bench.late(&create(&["n"]), CREATE, 2500 * MS);
    }
    assert_eq!(bench.waiting_count(), 1, "the image of the topic");
    assert_eq!(bench.news_count(), 1);
    assert!(
        bench.shard.desk.topics().named("n").is_some(),
        "it is there"
    );
}

#[test]
fn a_produce_whose_client_has_left_waits_no_more() {
    let mut bench = bench();
    bench.put(&encoded(&produce(1), 9));
    bench.pass(MS);
    assert_eq!(bench.waiting_count(), 1);
    bench.leave();
    bench.pass(MS);
    assert_eq!(bench.waiting_count(), 0);
    assert_eq!(bench.news_count(), 0);
    assert_eq!(bench.partition(TOPIC, 0).bounds().high_watermark.0, 1);
}

#[test]
fn a_change_whose_time_is_up_is_made_once_when_it_is_durable() {
    let mut bench = bench();
    // The refusal rests on what is not durable either.
    let told = bench.late(&create(&["n", TOPIC]), CREATE, 2500 * MS);
    for topic in &told.topics {
        assert_eq!(code(topic.error_code), ErrorCode::RequestTimedOut);
        assert!(topic.error_message.is_some());
    }
    assert!(
        bench.shard.desk.topics().named("n").is_none(),
        "it is not shown"
    );
    bench.pass(3600 * 1000 * MS);
    assert_eq!(bench.waiting_count(), 1, "its image waits");
    bench.commit();
    assert_eq!(bench.waiting_count(), 0);
    let id = bench.shard.desk.topics().named("n").map(|topic| topic.id);
    assert!(id.is_some(), "it is there");
    let again = bench.ask(&create(&["n"]), CREATE);
    assert_eq!(
        code(again.topics[0].error_code),
        ErrorCode::TopicAlreadyExists
    );
    let same = bench.shard.desk.topics().named("n").map(|topic| topic.id);
    assert_eq!(same, id);
}

#[test]
fn changes_that_find_no_room_are_made_up_to_a_bound() {
    let mut bench = bench();
    bench.append(TOPIC, b"one");
    bench.fill_disk();
    for _ in 0..6 {
        bench.put(&encoded(&produce(900 << 10), 9));
    }
    bench.commit();
    assert!(
        bench.shard.desk.shared.volumes.dirs()[0].lacks_room(),
        "no journal piece"
    );
    while bench.answer::<ProduceRequest>(9).is_some() {}
    let waiting = bench.waiting_count();
    for number in 0..100 {
        bench.put(&encoded(&create(&[&format!("n{number}")]), CREATE));
    }
    bench.pass(2500 * MS);
    assert_eq!(bench.waiting_count() - waiting, 64, "the others are gone");
}

#[test]
fn a_change_that_names_no_time_has_that_of_a_request() {
    let mut bench = bench();
    let told = bench.late(&alter(), ALTER, 30_000 * MS);
    assert_eq!(
        code(told.responses[0].error_code),
        ErrorCode::RequestTimedOut
    );
    bench.commit();
    let config = bench.partition(TOPIC, 0).config();
    assert_eq!(config.max_message_bytes, 77_777);
}

#[test]
fn what_needs_a_change_first_is_answered_without_it() {
    let mut bench = bench();
    let told = bench.late(&find(0), FIND, 5000 * MS);
    assert_eq!(code(told.error_code), ErrorCode::CoordinatorNotAvailable);
    bench.commit();
    assert_eq!(bench.ask(&find(0), FIND).error_code, 0);

    let told = bench.late(&init(None), INIT, 5000 * MS);
    assert_eq!(code(told.error_code), ErrorCode::CoordinatorLoadInProgress);
    bench.commit();
    assert_eq!(bench.ask(&init(None), INIT).producer_id, 0);
}

#[test]
fn coordinators_answer_after_their_time_and_what_they_wrote_stands() {
    let mut bench = bench();
    bench.find(0);
    let told = bench.late(&commit(7), COMMIT, 5000 * MS);
    let partition = &told.topics[0].partitions[0];
    assert_eq!(
        code(partition.error_code),
        ErrorCode::CoordinatorNotAvailable
    );
    // A reader waits for it as well: it may be shown it.
    let told = bench.late(&fetch_offsets(), FETCH_OFFSETS, 5000 * MS);
    assert_eq!(code(told.error_code), ErrorCode::CoordinatorNotAvailable);
    bench.commit();
    let told = bench.ask(&fetch_offsets(), FETCH_OFFSETS);
    assert_eq!(told.topics[0].partitions[0].committed_offset, 7);

    bench.find(1);
    bench.ask(&init(None), INIT);
    let told = bench.late(&init(Some("x")), INIT, 5000 * MS);
    assert_eq!(code(told.error_code), ErrorCode::CoordinatorNotAvailable);
    bench.commit();
    // The epoch of the one that was not told is passed.
    assert_eq!(bench.ask(&init(Some("x")), INIT).producer_epoch, 1);
}

#[test]
fn each_name_of_a_request_that_waits_counts_as_the_memory_of_its_answer() {
    let mut bench = bench();
    bench.find(0);
    bench.put(&encoded(&commit(7), COMMIT));
    let before = bench.request_bytes();
    let groups = (0..1000).map(|group| group.to_string()).collect();
    let request = DescribeGroupsRequest {
        groups,
        ..Default::default()
    };
    bench.put(&encoded(&request, DESCRIBE));
    assert_eq!(bench.waiting_count(), 2);
    assert!(500_000 < bench.request_bytes() - before);
    bench.leave();
    assert!(bench.request_bytes() < before, "nobody waits any more");
}

#[test]
fn whoever_waits_for_other_members_waits_for_no_disk() {
    let mut bench = bench();
    bench.find(0);
    bench.put(&encoded(&join(), JOIN));
    bench.pass(3600 * 1000 * MS);
    assert!(bench.answer::<JoinGroupRequest>(JOIN).is_none());
    assert_eq!(bench.waiting_count(), 1);
}

#[test]
fn a_shard_that_stops_on_a_full_disk_waits_for_nobody() {
    let mut bench = bench();
    bench.find(0);
    bench.append(TOPIC, b"one");
    bench.fill_disk();
    bench.put(&encoded(&trim(&[TOPIC]), DELETE_RECORDS));
    bench.put(&encoded(&create(&["n"]), CREATE));
    bench.put(&encoded(&create(&["m"]), CREATE));
    bench.put(&encoded(&alter(), ALTER));
    bench.put(&encoded(&find(1), FIND));
    bench.put(&encoded(&commit(7), COMMIT));
    for _ in 0..6 {
        bench.put(&encoded(&produce(900 << 10), 9));
    }
    let waiting = bench.waiting_count();
    assert_eq!(waiting, 12);
    // The answer of one change has left, its image waits.
    bench.pass(2500 * MS);
    bench.shard.desk.shared.lifetime.stop(true);
    assert!(matches!(bench.shard.turn(), Turn::Done));
    let dirs = bench.shard.desk.shared.volumes.dirs();
    assert!(dirs[0].lacks_room(), "the disk is full");
    assert_eq!(bench.waiting_count(), 0);
}
