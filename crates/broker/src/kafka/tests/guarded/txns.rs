//! Producers and transactions.

use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::*;

use super::*;
use crate::asker::Asker;
use crate::ops::txns::{self, Init, InitProducer};
use security::Principal;

const ID: &str = "x";
const NOT_ATTEMPTED: i16 = 55;

type Ask = fn(&mut Bench, &str) -> i16;

fn init(transactional_id: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}

fn add(topics: &[&str]) -> AddPartitionsToTxnRequest {
    let topic = |name: &&str| AddPartitionsToTxnTopic {
        name: (*name).to_owned(),
        partitions: vec![0],
    };
    AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: ID.to_owned(),
        v3_and_below_topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

fn added(bench: &mut Bench, user: &str, topics: &[&str]) -> Vec<(String, i16)> {
    let told = bench.ask_as(user, &add(topics), 3);
    let told = told.results_by_topic_v3_and_below.into_iter();
    told.map(|of| (of.name, of.results_by_partition[0].partition_error_code))
        .collect()
}

fn offsets() -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        transactional_id: ID.to_owned(),
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![TxnOffsetCommitRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Name, right, whether Describe alone is enough, and the code for the transactional id.
const APIS: &[(&str, &str, bool, Ask)] = &[
    ("FindCoordinator", "Describe", true, |bench, user| {
        let request = FindCoordinatorRequest {
            coordinator_keys: vec![ID.to_owned()],
            key_type: 1,
            ..Default::default()
        };
        bench.ask_as(user, &request, 4).coordinators[0].error_code
    }),
    ("InitProducerId", "Write", false, |bench, user| {
        bench.ask_as(user, &init(Some(ID)), 4).error_code
    }),
    ("AddPartitionsToTxn", "Write", false, |bench, user| {
        added(bench, user, &[TOPIC])[0].1
    }),
    ("AddOffsetsToTxn", "Write", false, |bench, user| {
        let request = AddOffsetsToTxnRequest {
            transactional_id: ID.to_owned(),
            group_id: "g".to_owned(),
            ..Default::default()
        };
        bench.ask_as(user, &request, 3).error_code
    }),
    ("TxnOffsetCommit", "Write", false, |bench, user| {
        let told = bench.ask_as(user, &offsets(), 3);
        told.topics[0].partitions[0].error_code
    }),
    ("EndTxn", "Write", false, |bench, user| {
        let request = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_epoch: i16::MAX - 1,
            ..Default::default()
        };
        bench.ask_as(user, &request, 5).error_code
    }),
    ("DescribeTransactions", "Describe", true, |bench, user| {
        let request = DescribeTransactionsRequest {
            transactional_ids: vec![ID.to_owned()],
        };
        bench.ask_as(user, &request, 0).transaction_states[0].error_code
    }),
];

#[test]
fn a_transactional_id_is_for_those_who_may() {
    for (api, operation, describe_is_enough, ask) in APIS {
        let right = (*operation, "TransactionalId", ID);
        let told = outcomes(right, coordinating, |bench, user| {
            ask(bench, user) == ID_DENIED
        });
        let want = [false, false, !describe_is_enough, true, true];
        assert_eq!(told, want, "{api}");
    }
}

#[test]
fn an_idempotent_producer_may_write_on_the_cluster_or_to_any_topic() {
    let code = |rules: &[&str]| {
        coordinating(rules)
            .ask_as("alice", &init(None), 4)
            .error_code
    };
    let any = "alice allow Write Topic any*";
    assert_eq!(code(&[]), CLUSTER_DENIED);
    assert_eq!(
        code(&["alice allow IdempotentWrite Cluster kafka-cluster"]),
        0
    );
    assert_eq!(code(&[any]), 0);
    assert_eq!(code(&[any, "alice deny Write Topic an*"]), CLUSTER_DENIED);
    assert_eq!(code(&["alice allow Read Topic t"]), CLUSTER_DENIED);
    // A last identity that is no whole one is no business of those who may not.
    let unsound = InitProducerIdRequest {
        producer_id: 7,
        ..init(None)
    };
    let told = |user| coordinating(&[]).ask_as(user, &unsound, 4).error_code;
    assert_eq!((told("boss"), told("alice")), (42, CLUSTER_DENIED));
}

#[test]
fn two_phases_need_a_right_of_their_own() {
    let refused = |rules: &[&str]| {
        let mut bench = coordinating(rules);
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        let asker = Asker {
            principal: Principal::user("alice"),
            authority: bench.shard.desk.shared.catalog.authority(),
            ..Asker::anonymous(here, here)
        };
        let request = InitProducer {
            transactional_id: Some(ID.to_owned()),
            timeout_ms: 60_000,
            in_two_phases: true,
            is_sound: true,
            expected: None,
        };
        let init = txns::init(&mut bench.shard.desk, &asker, request);
        matches!(init, Init::Refused(code) if code.code() == ID_DENIED)
    };
    let writes = "alice allow Write TransactionalId x";
    assert!(refused(&[writes]));
    assert!(!refused(&[
        writes,
        "alice allow TwoPhaseCommit TransactionalId x"
    ]));
}

#[test]
fn one_topic_that_may_not_be_written_keeps_all_out_of_the_transaction() {
    let mut bench = coordinating(&[
        "alice allow Write TransactionalId x",
        "alice allow Write Topic t",
        "alice allow Write Topic __consumer_offsets",
    ]);
    let named = |name: &str, code| (name.to_owned(), code);
    let mut told = |topics: &[&str]| added(&mut bench, "alice", topics);
    let want = [named(TOPIC, NOT_ATTEMPTED), named(OTHER, TOPIC_DENIED)];
    assert_eq!(told(&[TOPIC, OTHER]), want);
    let hidden = [named(TOPIC, NOT_ATTEMPTED), named(MISSING, TOPIC_DENIED)];
    assert_eq!(told(&[TOPIC, MISSING]), hidden, "there or not");
    let internal = "__consumer_offsets";
    assert_eq!(told(&[internal]), [named(internal, TOPIC_DENIED)]);
}

#[test]
fn a_missing_group_or_topic_right_is_named_after_that_of_the_transaction() {
    let code = |rules: &[&str]| {
        let told = coordinating(rules).ask_as("alice", &offsets(), 3);
        told.topics[0].partitions[0].error_code
    };
    let writes = "alice allow Write TransactionalId x";
    let reads = "alice allow Read Group g";
    assert_eq!(code(&[reads]), ID_DENIED);
    assert_eq!(code(&[writes]), GROUP_DENIED);
    assert_eq!(code(&[writes, reads]), TOPIC_DENIED);
    let of_offsets = |rules: &[&str]| {
        let request = AddOffsetsToTxnRequest {
            transactional_id: ID.to_owned(),
            group_id: "g".to_owned(),
            ..Default::default()
        };
        coordinating(rules).ask_as("alice", &request, 3).error_code
    };
    assert_eq!(of_offsets(&[]), ID_DENIED);
    assert_eq!(of_offsets(&[writes]), GROUP_DENIED);
}

#[test]
fn transactions_are_listed_and_their_topics_shown_to_those_who_may_see_them() {
    let mut bench = coordinating(&["alice allow Describe TransactionalId x"]);
    for id in [ID, "y"] {
        let told = bench.ask_as("boss", &init(Some(id)), 4);
        assert_eq!(told.error_code, 0);
        if id == ID {
            let begin = AddPartitionsToTxnRequest {
                v3_and_below_producer_id: told.producer_id,
                v3_and_below_producer_epoch: told.producer_epoch,
                ..add(&[TOPIC])
            };
            let begun = bench
                .ask_as("boss", &begin, 3)
                .results_by_topic_v3_and_below;
            assert_eq!(begun[0].results_by_partition[0].partition_error_code, 0);
        }
    }
    let listed = |bench: &mut Bench, user| {
        let told = bench.ask_as(user, &ListTransactionsRequest::default(), 1);
        told.transaction_states.len()
    };
    assert_eq!(
        (listed(&mut bench, "boss"), listed(&mut bench, "alice")),
        (2, 1)
    );
    assert_eq!(listed(&mut bench, "stranger"), 0);
    let describe = DescribeTransactionsRequest {
        transactional_ids: vec![ID.to_owned(), "y".to_owned()],
    };
    let told = bench.ask_as("alice", &describe, 0).transaction_states;
    let shown: Vec<_> = told
        .iter()
        .map(|of| (of.error_code, of.topics.len()))
        .collect();
    assert_eq!(shown, [(0, 0), (ID_DENIED, 0)], "its topic is hidden");
    bench.add_rule("alice allow Describe Topic t");
    let told = bench.ask_as("alice", &describe, 0).transaction_states;
    assert_eq!(told[0].topics.len(), 1);
}
