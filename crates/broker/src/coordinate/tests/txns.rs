//! Transactions whose coordinator is on one broker and whose partitions are on two.

use wire::ErrorCode;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
    OffsetFetchRequest, ProduceRequest, TxnOffsetCommitRequest,
};

use super::pair::*;
use crate::event_loop::bench::encoded;

/// Versions of the clients of today, which add nothing themselves.
const PRODUCE: i16 = 12;
const COMMIT: i16 = 5;
const END: i16 = 5;

fn code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).expect("a known code")
}

fn produced(pair: &mut Pair, at: usize, version: i16) -> Option<ErrorCode> {
    let response = pair.answer::<ProduceRequest>(at, version)?;
    let told = response.responses[0].partition_responses[0].error_code;
    Some(code(told))
}

/// Produces to both partitions, and has both join.
fn produce_to_both(pair: &mut Pair, producer: i64) {
    for (at, index) in [(FIRST, 0), (SECOND, 1)] {
        pair.put(at, &produce(producer, 0, 0, index), PRODUCE);
        assert_eq!(produced(pair, at, PRODUCE), Some(ErrorCode::None));
    }
}

fn commit_offsets(producer_id: i64) -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        transactional_id: ID.to_owned(),
        group_id: GROUP.to_owned(),
        producer_id,
        generation_id_or_member_epoch: -1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![TxnOffsetCommitRequestPartition {
                committed_offset: 5,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn end(producer_id: i64) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: ID.to_owned(),
        producer_id,
        committed: true,
        ..Default::default()
    }
}

fn committed(pair: &mut Pair) -> i64 {
    let request = OffsetFetchRequest {
        group_id: GROUP.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.to_owned(),
            partition_indexes: vec![0],
        }]),
        ..Default::default()
    };
    let response = pair.ask::<OffsetFetchRequest>(SECOND, &request, 5);
    assert_eq!(response.error_code, 0);
    response.topics[0].partitions[0].committed_offset
}

fn state(pair: &mut Pair) -> String {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![ID.to_owned()],
    };
    let response = pair.ask::<DescribeTransactionsRequest>(FIRST, &request, 0);
    response.transaction_states[0].transaction_state.clone()
}

/// Offsets that readers of committed records see to, and the end.
fn ends(pair: &mut Pair, at: usize, index: i32) -> (i64, i64) {
    let bounds = pair.benches[at].partition(TOPIC, index).bounds();
    (bounds.last_stable.0, bounds.log_end.0)
}

#[test]
fn a_transaction_ends_in_the_partitions_and_groups_of_other_brokers() {
    let mut pair = Pair::new();
    let producer = pair.init();
    produce_to_both(&mut pair, producer);
    assert_eq!(
        pair.carried,
        (0, 1),
        "the other partition joined by one request"
    );
    let response = pair.ask::<TxnOffsetCommitRequest>(SECOND, &commit_offsets(producer), COMMIT);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(&mut pair), -1, "the transaction is open");
    assert_eq!(state(&mut pair), "Ongoing");
    assert_eq!(ends(&mut pair, SECOND, 1), (0, 1));

    let ended = pair.ask::<EndTxnRequest>(FIRST, &end(producer), END);
    assert_eq!((ended.error_code, ended.producer_epoch), (0, 1));
    assert_eq!(state(&mut pair), "CompleteCommit");
    assert_eq!(ends(&mut pair, FIRST, 0), (2, 2));
    assert_eq!(ends(&mut pair, SECOND, 1), (2, 2));
    assert_eq!(committed(&mut pair), 5);
    assert_eq!(pair.carried, (1, 2), "its markers went together");
}

#[test]
fn a_decision_is_waited_for_again_after_its_leader_was_silent_for_a_moment() {
    let mut pair = Pair::new();
    let producer = pair.init();
    produce_to_both(&mut pair, producer);
    // The other replica has not followed: the decision is not committed.
    pair.publish(&[txns_in_sync(&[1, 2])]);
    pair.put(FIRST, &end(producer), END);
    assert!(pair.answer::<EndTxnRequest>(FIRST, END).is_none());
    // Another shard saw that the controller was not heard, and has those answered that wait; the coordinator stays.
    let log = pair.benches[FIRST].partition(meta::name::TRANSACTIONS, 0);
    log.release_waiting(&mut pair.benches[FIRST].shard.desk.news);
    pair.run();
    let refused = pair.answer::<EndTxnRequest>(FIRST, END).expect("an answer");
    assert_eq!(code(refused.error_code), ErrorCode::NotCoordinator);

    pair.pass(RETRY);
    assert_eq!(ends(&mut pair, FIRST, 0), (0, 1), "it is not committed yet");
    pair.publish(&[txns_in_sync(&[1])]);
    pair.run();
    assert_eq!(state(&mut pair), "CompleteCommit");
    assert_eq!(ends(&mut pair, FIRST, 0), (2, 2));
    assert_eq!(ends(&mut pair, SECOND, 1), (2, 2));
}

#[test]
fn markers_are_written_until_the_other_broker_has_them() {
    let mut pair = Pair::new();
    let producer = pair.init();
    produce_to_both(&mut pair, producer);
    pair.net = Net::Down;
    let ended = pair.ask::<EndTxnRequest>(FIRST, &end(producer), END);
    assert_eq!(ended.error_code, 0, "it is decided");
    for _ in 0..3 {
        pair.pass(RETRY);
        assert_eq!(state(&mut pair), "PrepareCommit");
    }
    assert_eq!(ends(&mut pair, FIRST, 0), (2, 2), "that has its own");
    assert_eq!(ends(&mut pair, SECOND, 1), (0, 1));
    pair.net = Net::Works;
    pair.pass(RETRY);
    assert_eq!(state(&mut pair), "CompleteCommit");
    assert_eq!(ends(&mut pair, SECOND, 1), (2, 2));
}

#[test]
fn a_partition_without_a_leader_waits_for_its_marker_and_a_deleted_one_needs_none() {
    for is_deleted in [false, true] {
        let mut pair = Pair::new();
        let producer = pair.init();
        produce_to_both(&mut pair, producer);
        pair.net = Net::Down;
        pair.ask::<EndTxnRequest>(FIRST, &end(producer), END);
        pair.publish(&[data_led_by(1, -1)]);
        pair.net = Net::Works;
        for _ in 0..2 {
            pair.pass(RETRY);
            assert_eq!(state(&mut pair), "PrepareCommit", "it will come back");
        }
        let next = if is_deleted {
            topic_is_deleted()
        } else {
            data_led_by(1, broker_id(FIRST))
        };
        pair.publish(&[next]);
        pair.pass(RETRY);
        assert_eq!(state(&mut pair), "CompleteCommit");
        assert_eq!(pair.carried.0, 0, "the first broker leads it now");
    }
}

#[test]
fn a_marker_for_a_leader_that_is_gone_goes_to_the_next_though_no_answer_came() {
    let mut pair = Pair::new();
    let producer = pair.init();
    produce_to_both(&mut pair, producer);
    let bench = &mut pair.benches[FIRST];
    bench.put(&encoded(&end(producer), END));
    bench.commit();
    bench.commit();
    let errands = bench.shard.coordinating().take_errands();
    assert_eq!(errands.len(), 1, "it never comes back");
    pair.publish(&[data_led_by(1, broker_id(FIRST))]);
    pair.run();
    let ended = pair.answer::<EndTxnRequest>(FIRST, END);
    assert_eq!(ended.expect("it was decided").error_code, 0);
    assert_eq!(state(&mut pair), "PrepareCommit");
    pair.pass(RETRY);
    assert_eq!(state(&mut pair), "CompleteCommit");
    // It comes back after all, and means nothing any more.
    let late = errands.into_iter().next().expect("the one");
    pair.benches[FIRST]
        .shard
        .coordinating()
        .on_replied(late.key, None);
    pair.run();
    assert_eq!(state(&mut pair), "CompleteCommit");
}

#[test]
fn the_leader_of_a_partition_asks_the_coordinator_whether_it_joined() {
    const OLD: i16 = 11;
    let mut pair = Pair::new();
    let producer = pair.init();
    pair.put(SECOND, &produce(producer, 0, 0, 1), OLD);
    assert_eq!(
        produced(&mut pair, SECOND, OLD),
        Some(ErrorCode::TransactionAbortable)
    );
    let add = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: ID.to_owned(),
        v3_and_below_producer_id: producer,
        v3_and_below_topics: vec![AddPartitionsToTxnTopic {
            name: TOPIC.to_owned(),
            partitions: vec![1],
        }],
        ..Default::default()
    };
    // Only the coordinator itself is asked by clients.
    let refused = pair.ask::<AddPartitionsToTxnRequest>(SECOND, &add, 3);
    let told = &refused.results_by_topic_v3_and_below[0].results_by_partition[0];
    assert_eq!(code(told.partition_error_code), ErrorCode::NotCoordinator);
    let added = pair.ask::<AddPartitionsToTxnRequest>(FIRST, &add, 3);
    let told = &added.results_by_topic_v3_and_below[0].results_by_partition[0];
    assert_eq!(told.partition_error_code, 0);
    pair.net = Net::Down;
    pair.put(SECOND, &produce(producer, 0, 0, 1), OLD);
    let told = produced(&mut pair, SECOND, OLD);
    assert_eq!(told, Some(ErrorCode::NotEnoughReplicas), "it comes again");
    pair.net = Net::Works;
    pair.put(SECOND, &produce(producer, 0, 0, 1), OLD);
    assert_eq!(produced(&mut pair, SECOND, OLD), Some(ErrorCode::None));
}

#[test]
fn the_coordinator_of_a_group_is_asked_for_its_offsets_and_that_of_the_transaction_for_the_rest() {
    let mut pair = Pair::new();
    let producer = pair.init();
    let refused = pair.ask::<TxnOffsetCommitRequest>(FIRST, &commit_offsets(producer), COMMIT);
    let told = refused.topics[0].partitions[0].error_code;
    assert_eq!(code(told), ErrorCode::NotCoordinator);
    let add = AddOffsetsToTxnRequest {
        transactional_id: ID.to_owned(),
        producer_id: producer,
        group_id: GROUP.to_owned(),
        ..Default::default()
    };
    let refused = pair.ask::<AddOffsetsToTxnRequest>(SECOND, &add, 3);
    assert_eq!(code(refused.error_code), ErrorCode::NotCoordinator);
    assert_eq!(
        pair.ask::<AddOffsetsToTxnRequest>(FIRST, &add, 3)
            .error_code,
        0
    );
    let response = pair.ask::<TxnOffsetCommitRequest>(SECOND, &commit_offsets(producer), 3);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    let ended = pair.ask::<EndTxnRequest>(FIRST, &end(producer), 4);
    assert_eq!(ended.error_code, 0);
    assert_eq!(committed(&mut pair), 5);
}
