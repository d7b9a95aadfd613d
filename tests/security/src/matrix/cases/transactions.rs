//! Transactions of producers that no broker knows.

use wire::any::AnyRequest;
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
    InitProducerIdRequest, ListTransactionsRequest, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
    add_partitions_to_txn_request as partitions, txn_offset_commit_request as commit,
    write_txn_markers_request as markers,
};
use wire::{ApiKey, Uuid};

use super::Target::{
    self, Absent, All, ById, Cluster, Fresh, Ghost, Other, OtherById, Several, There,
};
use super::{NAMES, Row, Scene, noted, row};

const ONE: &[Target] = &[There, Absent, Other];
const STRAY: i64 = 4_000_000;

pub(crate) fn init_producer_id(transactional_id: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: transactional_id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    }
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(ApiKey::InitProducerId, &[There, Other, Fresh], |s| {
            Some(AnyRequest::InitProducerId(init_producer_id(Some(
                &s.name(),
            ))))
        }),
        noted(ApiKey::InitProducerId, "idempotent", &[Cluster], |_| {
            Some(AnyRequest::InitProducerId(init_producer_id(None)))
        }),
        row(ApiKey::AddPartitionsToTxn, ONE, |s| {
            Some(added(s, &s.name(), vec!["there".to_owned()]))
        }),
        noted(ApiKey::AddPartitionsToTxn, "topics", NAMES, |s| {
            Some(added(s, "there", s.names()))
        }),
        row(ApiKey::AddOffsetsToTxn, ONE, |s| {
            Some(offsets(&s.name(), "there"))
        }),
        noted(ApiKey::AddOffsetsToTxn, "groups", ONE, |s| {
            Some(offsets("there", &s.name()))
        }),
        row(ApiKey::TxnOffsetCommit, ONE, |s| {
            Some(committed(&s.name(), "there", there(s)))
        }),
        noted(ApiKey::TxnOffsetCommit, "groups", ONE, |s| {
            Some(committed("there", &s.name(), there(s)))
        }),
        noted(
            ApiKey::TxnOffsetCommit,
            "topics",
            &[There, Absent, Other, Several, ById, OtherById, Ghost],
            |s| Some(committed("there", "there", s.topics(6)?)),
        ),
        row(ApiKey::EndTxn, ONE, |s| {
            Some(AnyRequest::EndTxn(EndTxnRequest {
                transactional_id: s.name(),
                producer_id: STRAY,
                producer_epoch: 0,
                committed: true,
            }))
        }),
        row(ApiKey::DescribeTransactions, NAMES, |s| {
            Some(AnyRequest::DescribeTransactions(
                DescribeTransactionsRequest {
                    transactional_ids: s.names(),
                },
            ))
        }),
        // Topics that the asker may not see are left out.
        row(
            ApiKey::DescribeTransactions,
            &[Target::MadeTransaction],
            |s| {
                Some(AnyRequest::DescribeTransactions(
                    DescribeTransactionsRequest {
                        transactional_ids: s.names(),
                    },
                ))
            },
        ),
        row(ApiKey::ListTransactions, &[All], |_| {
            Some(AnyRequest::ListTransactions(
                ListTransactionsRequest::default(),
            ))
        }),
        // To a partition that is not there: a marker of a transaction that never was would lie in the log.
        row(ApiKey::WriteTxnMarkers, &[Absent], |s| {
            Some(AnyRequest::WriteTxnMarkers(WriteTxnMarkersRequest {
                markers: vec![markers::WritableTxnMarker {
                    producer_id: STRAY,
                    topics: vec![markers::WritableTxnMarkerTopic {
                        name: s.name(),
                        partition_indexes: vec![0],
                    }],
                    ..Default::default()
                }],
            }))
        }),
    ]
}

fn there(s: &Scene) -> Vec<(String, Uuid)> {
    match s.version {
        6.. => vec![(String::new(), s.there_id)],
        _ => vec![("there".to_owned(), Uuid::ZERO)],
    }
}

fn added(s: &Scene, transactional_id: &str, topics: Vec<String>) -> AnyRequest {
    let id = transactional_id.to_owned();
    let topics = topics.into_iter();
    let topics: Vec<_> = topics
        .map(|name| partitions::AddPartitionsToTxnTopic {
            name,
            partitions: vec![0],
        })
        .collect();
    AnyRequest::AddPartitionsToTxn(if s.version < 4 {
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id,
            v3_and_below_producer_id: STRAY,
            v3_and_below_topics: topics,
            ..Default::default()
        }
    } else {
        AddPartitionsToTxnRequest {
            transactions: vec![partitions::AddPartitionsToTxnTransaction {
                transactional_id: id,
                producer_id: STRAY,
                verify_only: true,
                topics,
                ..Default::default()
            }],
            ..Default::default()
        }
    })
}

fn offsets(transactional_id: &str, group_id: &str) -> AnyRequest {
    AnyRequest::AddOffsetsToTxn(AddOffsetsToTxnRequest {
        transactional_id: transactional_id.to_owned(),
        producer_id: STRAY,
        producer_epoch: 0,
        group_id: group_id.to_owned(),
    })
}

fn committed(transactional_id: &str, group_id: &str, topics: Vec<(String, Uuid)>) -> AnyRequest {
    AnyRequest::TxnOffsetCommit(TxnOffsetCommitRequest {
        transactional_id: transactional_id.to_owned(),
        group_id: group_id.to_owned(),
        producer_id: STRAY,
        topics: topics
            .into_iter()
            .map(|(name, topic_id)| commit::TxnOffsetCommitRequestTopic {
                name,
                topic_id,
                partitions: vec![commit::TxnOffsetCommitRequestPartition::default()],
            })
            .collect(),
        ..Default::default()
    })
}
