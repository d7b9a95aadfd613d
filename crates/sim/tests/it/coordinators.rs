//! Coordinators of groups behind the Kafka door: what is said of what their log cannot take, and to whom they leave.

use std::borrow::Borrow;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Faults, Machine};
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::{
    DeleteTopicsRequest, FetchRequest, FindCoordinatorRequest, JoinGroupRequest,
    OffsetCommitRequest,
};

use crate::client::{Client, NONE};
use crate::small_broker::start;

const SERVER: i16 = -1;
const METADATA_TOO_LARGE: i16 = 12;
const NOT_COORDINATOR: i16 = 16;
const MIXED_SESSION: i16 = 106;

impl<M: Borrow<Machine>> Client<M> {
    /// Makes `__consumer_offsets`, the first time.
    pub(crate) fn find_coordinator(&self, group: &str) {
        let request = FindCoordinatorRequest {
            key: group.to_owned(),
            ..Default::default()
        };
        while self.ask(&request, 3).error_code != NONE {
            self.run(Duration::from_millis(10));
        }
    }

    /// The codes of a commit of as much metadata to each of so many partitions.
    fn commit(&self, partitions: i32, metadata_bytes: usize) -> Vec<i16> {
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 1,
            committed_metadata: Some("m".repeat(metadata_bytes)),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g".to_owned(),
            generation_id_or_member_epoch: -1,
            topics: vec![OffsetCommitRequestTopic {
                name: "t".to_owned(),
                partitions: (0..partitions).map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.ask(&request, 8);
        let told = answer.topics[0].partitions.iter();
        told.map(|partition| partition.error_code).collect()
    }
}

fn join(group: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.to_owned(),
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

#[test]
fn a_commit_too_large_for_its_log_is_the_servers_trouble_and_metadata_too_large_is_the_clients() {
    let machine = Machine::new(1, Faults::default());
    let _broker = start(&machine, &[]);
    let client = Client::of(&machine);
    client.create("t", 300);
    client.find_coordinator("g");
    assert_eq!(client.commit(1, 4096), [NONE]);
    assert_eq!(client.commit(2, 4097), [METADATA_TOO_LARGE; 2]);
    assert_eq!(client.commit(300, 4096), [SERVER; 300], "1.2 MB in a batch");
    assert_eq!(client.commit(300, 8), [NONE; 300]);
}

#[test]
fn whoever_waits_for_a_group_is_told_when_the_log_of_its_coordinator_is_deleted() {
    let machine = Machine::new(1, Faults::default());
    let _broker = start(&machine, &[("group.initial.rebalance.delay.ms", "600000")]);
    let client = Client::of(&machine);
    let groups = ["a", "b", "c", "d"];
    client.find_coordinator(groups[0]);
    let members = groups.map(|group| {
        let member = Client::of(&machine);
        member.send(&join(group), 3);
        member
    });
    for member in &members {
        let early = member.answer::<JoinGroupRequest>(3, 100);
        assert!(early.is_none(), "others may come for ten minutes");
    }
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some("__consumer_offsets".to_owned()),
            ..Default::default()
        }],
        timeout_ms: 1000,
        ..Default::default()
    };
    assert_eq!(client.ask(&request, 6).responses[0].error_code, NONE);
    for member in members {
        let told = member.answer::<JoinGroupRequest>(3, 1000);
        assert_eq!(told.map(|told| told.error_code), Some(NOT_COORDINATOR));
    }
}

/// Found by seed 6 of `ledger`: what was asked behind it is answered already, and the client would take that for the answer to the
/// first.
#[test]
fn a_stop_that_drops_a_request_sends_no_answer_to_what_came_behind_it() {
    let machine = Machine::new(1, Faults::default());
    let broker = start(&machine, &[("group.initial.rebalance.delay.ms", "600000")]);
    let member = Client::of(&machine);
    member.find_coordinator("g");
    member.send(&join("g"), 3);
    member.send(&FindCoordinatorRequest::default(), 3);
    member.run(Duration::from_millis(100));
    broker.stop();
    assert!(machine.run_until(Duration::from_secs(10), |machine| {
        machine.workers_count() == 0
    }));
    assert!(member.answer::<FindCoordinatorRequest>(3, 10).is_none());
}

#[test]
fn a_fetch_session_of_names_takes_no_ids() {
    let machine = Machine::new(1, Faults::default());
    let _broker = start(&machine, &[]);
    let client = Client::of(&machine);
    client.create("t", 1);
    let fetch = |session_id, session_epoch, topics: &[&str]| FetchRequest {
        max_bytes: 1 << 20,
        session_id,
        session_epoch,
        topics: (topics.iter())
            .map(|topic| FetchTopic {
                topic: (*topic).to_owned(),
                partitions: vec![FetchPartition::default()],
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let id = client.ask(&fetch(0, 0, &["t"]), 12).session_id;
    assert_ne!(id, 0);
    let mixed = client.ask(&fetch(id, 1, &[]), 13);
    assert_eq!(mixed.error_code, MIXED_SESSION);
    assert_eq!(client.ask(&fetch(id, 1, &[]), 12).error_code, NONE);
}
