//! Requests of transactions and to their coordinator.

use wire::any::AnyRequest::{
    AddOffsetsToTxn, AddPartitionsToTxn, DescribeTransactions, EndTxn, InitProducerId,
    ListTransactions, TxnOffsetCommit, WriteTxnMarkers,
};
use wire::messages::*;
use wire::messages::{
    add_partitions_to_txn_request as adding, txn_offset_commit_request as committing,
    write_txn_markers_request as marking,
};

use super::super::scene::{CLASSIC, SIMPLE, Scene, TXN};
use super::{Cases, TOPIC, names, partitions, text};

/// The transaction of the scene, but for one thing that is wrong.
fn impostors(scene: &Scene) -> Vec<(&'static str, String, i64, i16)> {
    let (id, epoch) = (scene.producer_id, scene.producer_epoch);
    let mut all = vec![
        ("another producer", text(TXN), id + 1000, epoch),
        ("a negative producer", text(TXN), -1, epoch),
        ("the lowest producer", text(TXN), i64::MIN, epoch),
        ("the highest producer", text(TXN), i64::MAX, epoch),
        ("a future epoch", text(TXN), id, i16::MAX),
        ("a negative epoch", text(TXN), id, -1),
        ("the lowest epoch", text(TXN), id, i16::MIN),
    ];
    let odd = names().into_iter();
    all.extend(odd.map(|name| ("an unknown id", name, id, epoch)));
    all
}

pub(super) fn init_producer_id(scene: &Scene) -> Cases {
    let of = |id: Option<&str>, timeout, producer_id, producer_epoch| InitProducerIdRequest {
        transactional_id: id.map(text),
        transaction_timeout_ms: timeout,
        producer_id,
        producer_epoch,
        ..Default::default()
    };
    let mut cases: Cases = vec![
        ("no id", InitProducerId(of(None, i32::MIN, -1, -1))),
        ("no id, a producer", InitProducerId(of(None, 1000, 77, 3))),
        ("an empty id", InitProducerId(of(Some(""), 1000, -1, -1))),
        ("no time", InitProducerId(of(Some("i0"), 0, -1, -1))),
        (
            "negative time",
            InitProducerId(of(Some("i1"), i32::MIN, -1, -1)),
        ),
        (
            "more time than is allowed",
            InitProducerId(of(Some("i2"), i32::MAX, -1, -1)),
        ),
        (
            "a producer without an epoch",
            InitProducerId(of(Some(TXN), 1000, scene.producer_id, -1)),
        ),
        (
            "an epoch without a producer",
            InitProducerId(of(Some(TXN), 1000, -1, 4)),
        ),
        (
            "a producer nobody has",
            InitProducerId(of(Some("i3"), 1000, 999, 0)),
        ),
        (
            "two phases",
            InitProducerId(InitProducerIdRequest {
                enable2_pc: true,
                ..of(Some("i4"), 1000, -1, -1)
            }),
        ),
        (
            "a prepared transaction",
            InitProducerId(InitProducerIdRequest {
                keep_prepared_txn: true,
                ..of(Some("i5"), 1000, -1, -1)
            }),
        ),
    ];
    for (name, id, producer, epoch) in impostors(scene) {
        if id == TXN {
            cases.push((name, InitProducerId(of(Some(&id), 1000, producer, epoch))));
        }
    }
    cases.push((
        "a long id",
        InitProducerId(of(Some(&"i".repeat(3000)), 1000, 999, 0)),
    ));
    cases.push((
        "an id of control characters",
        InitProducerId(of(Some("a\0\n"), 1000, 999, 0)),
    ));
    cases
}

pub(super) fn add_partitions_to_txn(scene: &Scene) -> Cases {
    let topic = |name: &str, partitions| adding::AddPartitionsToTxnTopic {
        name: text(name),
        partitions,
    };
    let old = |id: &str, producer, epoch, topics| {
        AddPartitionsToTxn(AddPartitionsToTxnRequest {
            transactions: Vec::new(),
            v3_and_below_transactional_id: text(id),
            v3_and_below_producer_id: producer,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: topics,
        })
    };
    let txn = |id: &str, producer_id, producer_epoch, verify_only, topics| {
        adding::AddPartitionsToTxnTransaction {
            transactional_id: text(id),
            producer_id,
            producer_epoch,
            verify_only,
            topics,
        }
    };
    let new = |transactions| {
        AddPartitionsToTxn(AddPartitionsToTxnRequest {
            transactions,
            ..Default::default()
        })
    };
    let (id, epoch) = (scene.producer_id, scene.producer_epoch);
    let odd = || {
        names()
            .iter()
            .map(|name| topic(name, vec![0]))
            .collect::<Vec<_>>()
    };
    let one = || vec![topic(TOPIC, vec![0])];
    let mut cases = vec![
        ("no topics", old(TXN, id, epoch, Vec::new())),
        ("odd topics", old(TXN, id, epoch, odd())),
        (
            "odd partitions",
            old(TXN, id, epoch, vec![topic(TOPIC, partitions())]),
        ),
        ("no transactions", new(Vec::new())),
        (
            "odd topics of many",
            new(vec![txn(TXN, id, epoch, false, odd())]),
        ),
        (
            "odd partitions of many",
            new(vec![txn(
                TXN,
                id,
                epoch,
                true,
                vec![topic(TOPIC, partitions())],
            )]),
        ),
        (
            "a transaction twice",
            new(vec![
                txn(TXN, id, epoch, true, one()),
                txn(TXN, id, epoch, true, one()),
            ]),
        ),
    ];
    for (name, txn_id, producer, epoch) in impostors(scene) {
        cases.push((name, old(&txn_id, producer, epoch, one())));
        cases.push((name, new(vec![txn(&txn_id, producer, epoch, false, one())])));
        cases.push((name, new(vec![txn(&txn_id, producer, epoch, true, one())])));
    }
    cases
}

pub(super) fn add_offsets_to_txn(scene: &Scene) -> Cases {
    let of = |id: &str, producer_id, producer_epoch, group: &str| {
        AddOffsetsToTxn(AddOffsetsToTxnRequest {
            transactional_id: text(id),
            producer_id,
            producer_epoch,
            group_id: text(group),
        })
    };
    let mut cases: Cases = Vec::new();
    for (name, id, producer, epoch) in impostors(scene) {
        cases.push((name, of(&id, producer, epoch, SIMPLE)));
    }
    for group in names() {
        cases.push((
            "a group",
            of(TXN, scene.producer_id, scene.producer_epoch, &group),
        ));
    }
    cases
}

pub(super) fn end_txn(scene: &Scene) -> Cases {
    let of = |id: &str, producer_id, producer_epoch, committed| {
        EndTxn(EndTxnRequest {
            transactional_id: text(id),
            producer_id,
            producer_epoch,
            committed,
        })
    };
    let mut cases: Cases = Vec::new();
    for (name, id, producer, epoch) in impostors(scene) {
        cases.push((name, of(&id, producer, epoch, true)));
        cases.push((name, of(&id, producer, epoch, false)));
    }
    cases
}

pub(super) fn write_txn_markers(scene: &Scene) -> Cases {
    let topic = |name: &str, partition_indexes| marking::WritableTxnMarkerTopic {
        name: text(name),
        partition_indexes,
    };
    let marker =
        |producer_id, producer_epoch, coordinator_epoch, topics| marking::WritableTxnMarker {
            producer_id,
            producer_epoch,
            transaction_result: true,
            topics,
            coordinator_epoch,
            transaction_version: 0,
        };
    let of = |markers| WriteTxnMarkers(WriteTxnMarkersRequest { markers });
    let one = |producer, epoch, coordinator| {
        of(vec![marker(
            producer,
            epoch,
            coordinator,
            vec![topic(TOPIC, vec![0])],
        )])
    };
    let odd = names().iter().map(|name| topic(name, vec![0])).collect();
    let mut cases = vec![
        ("no markers", of(Vec::new())),
        ("no topics", of(vec![marker(1, 0, 0, Vec::new())])),
        ("odd topics", of(vec![marker(900, 0, 0, odd)])),
        (
            "odd partitions",
            of(vec![marker(901, 0, 0, vec![topic(TOPIC, partitions())])]),
        ),
        (
            "a marker twice",
            of(vec![
                marker(902, 0, 0, vec![topic(TOPIC, vec![0])]),
                marker(902, 0, 0, vec![topic(TOPIC, vec![0])]),
            ]),
        ),
        ("a negative coordinator", one(903, 0, -1)),
        ("a future coordinator", one(904, 0, i32::MAX)),
        ("an older coordinator", one(904, 0, 0)),
        (
            "version 9 of transactions",
            of(vec![marking::WritableTxnMarker {
                transaction_version: 9,
                ..marker(905, 0, 0, vec![topic(TOPIC, vec![0])])
            }]),
        ),
        (
            "version 2 of transactions, the same epoch",
            of(vec![marking::WritableTxnMarker {
                transaction_version: 2,
                ..marker(902, 0, 0, vec![topic(TOPIC, vec![0])])
            }]),
        ),
    ];
    for (name, id, producer, epoch) in impostors(scene) {
        if id == TXN {
            cases.push((name, one(producer, epoch, 0)));
        }
    }
    cases
}

pub(super) fn txn_offset_commit(scene: &Scene) -> Cases {
    let topic = |name: &str, indexes: Vec<i32>, offset| committing::TxnOffsetCommitRequestTopic {
        name: text(name),
        partitions: indexes
            .into_iter()
            .map(
                |partition_index| committing::TxnOffsetCommitRequestPartition {
                    partition_index,
                    committed_offset: offset,
                    ..Default::default()
                },
            )
            .collect(),
        ..Default::default()
    };
    let one = || {
        vec![committing::TxnOffsetCommitRequestTopic {
            topic_id: scene.topic_id,
            ..topic(TOPIC, vec![0], 1)
        }]
    };
    let of = |id: &str, producer_id, producer_epoch, topics| TxnOffsetCommitRequest {
        transactional_id: text(id),
        group_id: text(SIMPLE),
        producer_id,
        producer_epoch,
        topics,
        ..Default::default()
    };
    let own = |topics| of(TXN, scene.producer_id, scene.producer_epoch, topics);
    let odd = names().iter().map(|name| topic(name, vec![0], 1)).collect();
    let mut cases: Cases = vec![
        ("no topics", TxnOffsetCommit(own(Vec::new()))),
        ("odd topics", TxnOffsetCommit(own(odd))),
        (
            "odd partitions",
            TxnOffsetCommit(own(vec![topic(TOPIC, partitions(), 1)])),
        ),
        (
            "a negative offset",
            TxnOffsetCommit(own(vec![topic(TOPIC, vec![0], i64::MIN)])),
        ),
        (
            "a member nobody knows",
            TxnOffsetCommit(TxnOffsetCommitRequest {
                group_id: text(CLASSIC),
                member_id: text("nobody"),
                generation_id_or_member_epoch: scene.generation_id,
                ..own(one())
            }),
        ),
        (
            "a future generation",
            TxnOffsetCommit(TxnOffsetCommitRequest {
                group_id: text(CLASSIC),
                member_id: scene.member_id.clone(),
                generation_id_or_member_epoch: i32::MAX,
                ..own(one())
            }),
        ),
        (
            "an instance nobody knows",
            TxnOffsetCommit(TxnOffsetCommitRequest {
                group_id: text(CLASSIC),
                member_id: scene.member_id.clone(),
                group_instance_id: Some(text("i")),
                generation_id_or_member_epoch: scene.generation_id,
                ..own(one())
            }),
        ),
    ];
    for group in names() {
        cases.push((
            "a group",
            TxnOffsetCommit(TxnOffsetCommitRequest {
                group_id: group,
                ..own(one())
            }),
        ));
    }
    for (name, id, producer, epoch) in impostors(scene) {
        cases.push((name, TxnOffsetCommit(of(&id, producer, epoch, one()))));
    }
    cases
}

pub(super) fn describe_transactions() -> Cases {
    let of =
        |transactional_ids| DescribeTransactions(DescribeTransactionsRequest { transactional_ids });
    vec![("nothing", of(Vec::new())), ("odd ids", of(names()))]
}

pub(super) fn list_transactions() -> Cases {
    let of = |states: &[&str], producers: &[i64], duration_filter, pattern: Option<&str>| {
        ListTransactions(ListTransactionsRequest {
            state_filters: states.iter().map(|state| text(state)).collect(),
            producer_id_filters: producers.to_vec(),
            duration_filter,
            transactional_id_pattern: pattern.map(text),
        })
    };
    let deep = "(".repeat(2000);
    vec![
        ("all", of(&[], &[], -1, None)),
        (
            "odd states",
            of(&["", "none", "ONGOING", "\0"], &[], -1, None),
        ),
        (
            "odd producers",
            of(&[], &[-1, i64::MIN, i64::MAX], -1, None),
        ),
        ("a long duration", of(&[], &[], i64::MAX, None)),
        ("a negative duration", of(&[], &[], i64::MIN, None)),
        ("a broken pattern", of(&[], &[], -1, Some("((("))),
        ("an empty pattern", of(&[], &[], -1, Some(""))),
        ("a pattern of great depth", of(&[], &[], -1, Some(&deep))),
        (
            "a pattern of great size",
            of(&[], &[], -1, Some("(a{1000}){1000}")),
        ),
    ]
}
