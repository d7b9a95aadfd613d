//! A disk that fills up under requests that wait for it: each is answered in bounded time, the broker comes down when it is asked to,
//! and what was acknowledged is there at the next start.

use std::ops::RangeInclusive;
use std::time::Duration;

use broker::Broker;
use env::sim::{Faults, Machine};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, FindCoordinatorRequest,
    IncrementalAlterConfigsRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
};
use wire::records::BatchBuilder;

use crate::client::{Client, NONE, creation};
use crate::small_broker::start;

const SETTINGS: &[(&str, &str)] = &[
    ("message.max.bytes", "8388608"),
    ("offset.metadata.max.bytes", "30000"),
];

const TIMED_OUT: i16 = 7;
const NOT_AVAILABLE: i16 = 15;
const EXISTS: i16 = 36;

/// So many with as much metadata are more than all pieces of the journal.
const PARTITIONS: i32 = 110;
const METADATA_BYTES: usize = 30_000;

/// Offsets that a group has committed, and that it waits for.
const ACKNOWLEDGED: i64 = 1;
const WAITING: i64 = 2;

const COMMIT: i16 = 8;
const FETCH_OFFSETS: i16 = 5;
const DELETE_RECORDS: i16 = 2;
const CREATE: i16 = 5;
const ALTER: i16 = 1;
const FIND: i16 = 3;
const PRODUCE: i16 = 9;

/// The time that an answer may take: that of the request, and what passes between two looks at those that wait.
const PATIENCE_MS: u32 = 36_000;

fn commit(offset: i64, metadata_bytes: usize) -> OffsetCommitRequest {
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: offset,
        committed_metadata: Some("m".repeat(metadata_bytes)),
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch_offsets() -> OffsetFetchRequest {
    OffsetFetchRequest {
        group_id: "g".to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: "t".to_owned(),
            partition_indexes: vec![0],
        }]),
        ..Default::default()
    }
}

fn trim() -> DeleteRecordsRequest {
    DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "t".to_owned(),
            partitions: vec![DeleteRecordsPartition {
                partition_index: 0,
                offset: -1,
            }],
        }],
        timeout_ms: 1000,
    }
}

fn alter() -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "t".to_owned(),
            configs: vec![AlterableConfig {
                name: "retention.ms".to_owned(),
                config_operation: 0,
                value: Some("86400000".to_owned()),
            }],
        }],
        validate_only: false,
    }
}

fn find_transactions() -> FindCoordinatorRequest {
    FindCoordinatorRequest {
        key: "x".to_owned(),
        key_type: 1,
        ..Default::default()
    }
}

fn produce() -> ProduceRequest {
    let mut batch = BatchBuilder::new();
    batch.push(model::Timestamp::NONE, None, Some(b"one"), &[]);
    ProduceRequest {
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "t".to_owned(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch.build().to_bytes().into()),
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A broker whose journal finds no room for what requests wait for.
struct Full<'a> {
    broker: Broker,
    commit: Client<&'a Machine>,
    fetch: Client<&'a Machine>,
    trim: Client<&'a Machine>,
    create: Client<&'a Machine>,
    alter: Client<&'a Machine>,
    find: Client<&'a Machine>,
}

fn fill(machine: &Machine) -> Full<'_> {
    let broker = start(machine, SETTINGS);
    let client = Client::of(machine);
    client.create("t", PARTITIONS);
    client.find_coordinator("g");
    let produced = client.ask(&produce(), PRODUCE);
    assert_eq!(
        produced.responses[0].partition_responses[0].error_code,
        NONE
    );
    let told = client.ask(&commit(ACKNOWLEDGED, 1), COMMIT);
    assert_eq!(told.topics[0].partitions[0].error_code, NONE);
    client.run(Duration::from_secs(3));
    let taken = machine.disk_taken();
    machine.faults(|faults| faults.disk_bytes = taken);
    let commits = Client::of(machine);
    commits.send(&commit(WAITING, METADATA_BYTES), COMMIT);
    let early = commits.answer::<OffsetCommitRequest>(COMMIT, 100);
    assert!(early.is_none(), "there is no room for it in the journal");
    let full = Full {
        broker,
        commit: commits,
        fetch: Client::of(machine),
        trim: Client::of(machine),
        create: Client::of(machine),
        alter: Client::of(machine),
        find: Client::of(machine),
    };
    full.fetch.send(&fetch_offsets(), FETCH_OFFSETS);
    full.trim.send(&trim(), DELETE_RECORDS);
    full.create.send(&creation("n", 1), CREATE);
    full.alter.send(&alter(), ALTER);
    full.find.send(&find_transactions(), FIND);
    full
}

impl Full<'_> {
    fn assert_all_are_told(&self) {
        let told = self.commit.answer::<OffsetCommitRequest>(COMMIT, 11_000);
        let told = told.expect("the commit is answered");
        assert_eq!(told.topics[0].partitions[0].error_code, NOT_AVAILABLE);
        let told = self
            .fetch
            .answer::<OffsetFetchRequest>(FETCH_OFFSETS, 11_000);
        let told = told.expect("the question for offsets is answered");
        assert_eq!(told.error_code, NOT_AVAILABLE);
        let told = self.find.answer::<FindCoordinatorRequest>(FIND, 11_000);
        assert_eq!(
            told.expect("the search is answered").error_code,
            NOT_AVAILABLE
        );
        let told = self
            .trim
            .answer::<DeleteRecordsRequest>(DELETE_RECORDS, 11_000);
        let told = told.expect("the trim is answered");
        assert_eq!(told.topics[0].partitions[0].error_code, TIMED_OUT);
        let told = self.create.answer::<CreateTopicsRequest>(CREATE, 11_000);
        let told = told.expect("the creation is answered");
        assert_eq!(told.topics[0].error_code, TIMED_OUT);
        let told = self
            .alter
            .answer::<IncrementalAlterConfigsRequest>(ALTER, PATIENCE_MS);
        let told = told.expect("the change is answered");
        assert_eq!(told.responses[0].error_code, TIMED_OUT);
    }
}

fn stop(machine: &Machine, broker: Broker) {
    broker.stop();
    let is_down = machine.run_until(Duration::from_secs(60), |machine| {
        machine.workers_count() == 0
    });
    assert!(is_down, "{}", machine.describe_workers());
}

/// The acknowledged records that a start after it finds.
fn assert_nothing_is_lost(machine: &Machine, known: RangeInclusive<i64>) {
    machine.faults(|faults| faults.disk_bytes = 1 << 40);
    let broker = start(machine, SETTINGS);
    let client = Client::of(machine);
    client.find_coordinator("g");
    let told = client.ask(&fetch_offsets(), FETCH_OFFSETS);
    let committed = told.topics[0].partitions[0].committed_offset;
    assert!(known.contains(&committed), "{committed} is committed");
    let created = client.ask(&creation("n", 1), CREATE).topics[0].error_code;
    assert!([NONE, EXISTS].contains(&created), "{created}");
    stop(machine, broker);
}

#[test]
fn everyone_who_waits_for_a_full_disk_is_told_so_and_what_they_asked_for_is_done_when_there_is_room()
 {
    let machine = Machine::new(1, Faults::default());
    let full = fill(&machine);
    full.assert_all_are_told();
    machine.faults(|faults| faults.disk_bytes = 1 << 40);
    let client = Client::of(&machine);
    client.run(Duration::from_secs(10));
    let told = client.ask(&fetch_offsets(), FETCH_OFFSETS);
    let committed = told.topics[0].partitions[0].committed_offset;
    assert_eq!(committed, WAITING);
    let created = client.ask(&creation("n", 1), CREATE).topics[0].error_code;
    assert_eq!(created, EXISTS);
    stop(&machine, full.broker);
    assert_nothing_is_lost(&machine, WAITING..=WAITING);
}

#[test]
fn a_broker_that_is_stopped_while_they_wait_comes_down() {
    for are_told in [false, true] {
        let machine = Machine::new(2, Faults::default());
        let full = fill(&machine);
        if are_told {
            full.assert_all_are_told();
        }
        stop(&machine, full.broker);
        assert_nothing_is_lost(&machine, ACKNOWLEDGED..=WAITING);
    }
}
