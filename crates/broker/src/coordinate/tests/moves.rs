//! Coordinators come and go with the leadership of their partitions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wire::ErrorCode;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    DescribeTransactionsRequest, EndTxnRequest, FindCoordinatorRequest, HeartbeatRequest,
    JoinGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
};

use super::super::fleet::AnyFleet;
use super::pair::*;
use crate::event_loop::bench::encoded;

fn code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).expect("a known code")
}

fn commit(offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: GROUP.to_owned(),
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

fn committed(pair: &mut Pair, at: usize, offset: i64) -> ErrorCode {
    let response = pair.ask::<OffsetCommitRequest>(at, &commit(offset), 8);
    code(response.topics[0].partitions[0].error_code)
}

fn fetched(pair: &mut Pair, at: usize) -> Result<i64, ErrorCode> {
    let request = OffsetFetchRequest {
        group_id: GROUP.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.to_owned(),
            partition_indexes: vec![0],
        }]),
        ..Default::default()
    };
    let response = pair.ask::<OffsetFetchRequest>(at, &request, 5);
    match code(response.error_code) {
        ErrorCode::None => Ok(response.topics[0].partitions[0].committed_offset),
        code => Err(code),
    }
}

fn join() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "h".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(&[0; 10]),
        }],
        ..Default::default()
    }
}

#[test]
fn a_group_is_looked_after_by_the_leader_of_its_partition_alone() {
    let mut pair = Pair::new();
    let elsewhere = ErrorCode::NotCoordinator;
    assert_eq!(committed(&mut pair, FIRST, 1), elsewhere);
    assert_eq!(fetched(&mut pair, FIRST), Err(elsewhere));
    assert_eq!(committed(&mut pair, SECOND, 1), ErrorCode::None);
    assert_eq!(fetched(&mut pair, SECOND), Ok(1));
    let beat = HeartbeatRequest {
        group_id: GROUP.to_owned(),
        ..Default::default()
    };
    let told = pair.ask::<HeartbeatRequest>(FIRST, &beat, 4).error_code;
    assert_eq!(code(told), elsewhere);
    for at in [FIRST, SECOND] {
        let list = ListGroupsRequest::default();
        let listed = pair.ask::<ListGroupsRequest>(at, &list, 4);
        assert_eq!(listed.error_code, 0);
        assert_eq!(listed.groups.len(), usize::from(at == SECOND));
        let find = FindCoordinatorRequest {
            key: GROUP.to_owned(),
            ..Default::default()
        };
        let found = pair.ask::<FindCoordinatorRequest>(at, &find, 3);
        assert_eq!(found.node_id, broker_id(SECOND), "both know");
    }
}

#[test]
fn members_that_wait_are_sent_on_when_the_leadership_goes_and_what_is_committed_is_there_when_it_returns()
 {
    let mut pair = Pair::new();
    assert_eq!(committed(&mut pair, SECOND, 1), ErrorCode::None);
    pair.put(SECOND, &join(), 3);
    assert!(
        pair.answer::<JoinGroupRequest>(SECOND, 3).is_none(),
        "the first rebalance waits for others"
    );
    pair.publish(&[groups_led_by(broker_id(FIRST))]);
    pair.run();
    let joined = pair.answer::<JoinGroupRequest>(SECOND, 3);
    let told = joined.expect("it waits no more").error_code;
    assert_eq!(code(told), ErrorCode::NotCoordinator);
    assert_eq!(committed(&mut pair, SECOND, 2), ErrorCode::NotCoordinator);
    assert_eq!(fetched(&mut pair, FIRST), Ok(-1), "a log of its own");

    pair.publish(&[groups_led_by(broker_id(SECOND))]);
    pair.run();
    assert_eq!(fetched(&mut pair, SECOND), Ok(1));
    assert_eq!(committed(&mut pair, FIRST, 2), ErrorCode::NotCoordinator);
}

#[test]
fn a_coordinator_begins_anew_in_each_leader_epoch() {
    let mut pair = Pair::new();
    assert_eq!(committed(&mut pair, SECOND, 1), ErrorCode::None);
    pair.put(SECOND, &join(), 3);
    assert!(pair.answer::<JoinGroupRequest>(SECOND, 3).is_none());
    // Away and back before it looks.
    let away = groups_led_by(broker_id(FIRST));
    pair.publish(&[away, groups_led_by(broker_id(SECOND))]);
    pair.run();
    let joined = pair.answer::<JoinGroupRequest>(SECOND, 3);
    let told = joined.expect("of the earlier epoch").error_code;
    assert_eq!(code(told), ErrorCode::NotCoordinator);
    assert_eq!(fetched(&mut pair, SECOND), Ok(1));
    assert_eq!(committed(&mut pair, SECOND, 2), ErrorCode::None);
    assert_eq!(fetched(&mut pair, SECOND), Ok(2));
}

#[test]
fn a_decision_that_is_not_written_when_the_leadership_goes_is_refused() {
    let mut pair = Pair::new();
    assert_eq!(committed(&mut pair, SECOND, 1), ErrorCode::None);
    let bench = &mut pair.benches[SECOND];
    bench.receive(&encoded(&commit(2), 8));
    pair.publish(&[groups_led_by(broker_id(FIRST))]);
    pair.run();
    let response = pair.answer::<OffsetCommitRequest>(SECOND, 8);
    let told = response.expect("it is not committed").topics[0].partitions[0].error_code;
    assert_eq!(code(told), ErrorCode::NotCoordinator);
    pair.publish(&[groups_led_by(broker_id(SECOND))]);
    pair.run();
    assert_eq!(fetched(&mut pair, SECOND), Ok(1));
}

#[test]
fn the_next_coordinator_of_a_transaction_writes_the_markers_that_the_last_one_did_not() {
    let mut pair = Pair::new();
    let producer = pair.init();
    pair.put(SECOND, &produce(producer, 0, 0, 1), 12);
    assert!(pair.answer::<ProduceRequest>(SECOND, 12).is_some());
    pair.net = Net::Down;
    let end = EndTxnRequest {
        transactional_id: ID.to_owned(),
        producer_id: producer,
        committed: true,
        ..Default::default()
    };
    assert_eq!(pair.ask::<EndTxnRequest>(FIRST, &end, 5).error_code, 0);
    pair.publish(&[txns_led_by(broker_id(SECOND))]);
    pair.run();
    let markings = pair.benches[FIRST].shard.coordinators.markings_count();
    assert_eq!(markings, 0, "another one's affair");
    pair.net = Net::Works;
    pair.pass(Duration::from_secs(1));
    let open = pair.benches[SECOND].partition(TOPIC, 1).bounds();
    assert_eq!((open.last_stable.0, open.log_end.0), (0, 1));

    pair.publish(&[txns_led_by(broker_id(FIRST))]);
    pair.run();
    let ended = pair.benches[SECOND].partition(TOPIC, 1);
    let bounds = ended.bounds();
    assert_eq!((bounds.last_stable.0, bounds.log_end.0), (2, 2));
    let epoch = ended.producers(|all| all.sorted()[0].1.coordinator_epoch);
    assert_eq!(epoch, 2, "that of its leader");
    let describe = DescribeTransactionsRequest {
        transactional_ids: vec![ID.to_owned()],
    };
    let told = pair.ask::<DescribeTransactionsRequest>(FIRST, &describe, 0);
    assert_eq!(
        told.transaction_states[0].transaction_state,
        "CompleteCommit"
    );
}

#[test]
fn nothing_is_coordinated_before_the_controller_counts_this_broker_in() {
    let mut pair = Pair::new();
    let count = |pair: &Pair, at: usize| {
        let coordinators = &pair.benches[at].shard.coordinators;
        coordinators
            .fleets()
            .map(AnyFleet::count)
            .iter()
            .sum::<usize>()
    };
    let shared = |pair: &Pair, at: usize| Arc::clone(&pair.benches[at].shard.desk.shared);
    for at in [FIRST, SECOND] {
        shared(&pair, at).state.await_serving();
    }
    pair.run();
    pair.publish(&[topic_is_deleted()]);
    pair.run();
    for at in [FIRST, SECOND] {
        assert_eq!(count(&pair, at), 0);
        shared(&pair, at).state.set_serving(model::Instant(0));
    }
    pair.run();
    assert_eq!([FIRST, SECOND].map(|at| count(&pair, at)), [1, 1]);
}
