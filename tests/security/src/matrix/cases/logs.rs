//! Records: to write them, to read them, to find and to delete them.

use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::any::AnyRequest;
use wire::messages::{
    DeleteRecordsRequest, DescribeProducersRequest, FetchRequest, ListOffsetsRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, delete_records_request as delete,
    describe_producers_request as producers, fetch_request as fetch,
    list_offsets_request as offsets, offset_for_leader_epoch_request as epochs,
    produce_request as write,
};
use wire::records::BatchBuilder;
use wire::{ApiKey, Records, Uuid};

use super::Target::{Absent, ById, Ghost, Other, OtherById, Several, There};
use super::{NAMES, Row, Scene, noted, row};

/// Fixed: the broker is to answer the same each time.
const TIME: Timestamp = Timestamp(1_700_000_000_000);
/// A producer id that no broker gave out.
const STRAY: i64 = 4_000_000;
const OF_ALL: &[super::Target] = &[There, Absent, Other, Several, ById, OtherById, Ghost];

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(ApiKey::Produce, OF_ALL, |s| produced(s, None)),
        noted(
            ApiKey::Produce,
            "transactional",
            &[There, Absent, Other, ById],
            |s| produced(s, Some(s.target)),
        ),
        row(ApiKey::Fetch, OF_ALL, |s| fetched(s, -1)),
        noted(ApiKey::Fetch, "follower", OF_ALL, |s| fetched(s, 7)),
        row(ApiKey::ListOffsets, NAMES, |s| {
            Some(AnyRequest::ListOffsets(ListOffsetsRequest {
                replica_id: -1,
                topics: s
                    .names()
                    .into_iter()
                    .map(|name| offsets::ListOffsetsTopic {
                        name,
                        partitions: vec![offsets::ListOffsetsPartition {
                            timestamp: -1,
                            ..Default::default()
                        }],
                    })
                    .collect(),
                ..Default::default()
            }))
        }),
        row(ApiKey::OffsetForLeaderEpoch, NAMES, |s| {
            Some(AnyRequest::OffsetForLeaderEpoch(
                OffsetForLeaderEpochRequest {
                    replica_id: if s.version >= 3 { -1 } else { -2 },
                    topics: s
                        .names()
                        .into_iter()
                        .map(|topic| epochs::OffsetForLeaderTopic {
                            topic,
                            partitions: vec![epochs::OffsetForLeaderPartition {
                                current_leader_epoch: -1,
                                ..Default::default()
                            }],
                        })
                        .collect(),
                },
            ))
        }),
        row(ApiKey::DescribeProducers, NAMES, |s| {
            Some(AnyRequest::DescribeProducers(DescribeProducersRequest {
                topics: s
                    .names()
                    .into_iter()
                    .map(|name| producers::TopicRequest {
                        name,
                        partition_indexes: vec![0],
                    })
                    .collect(),
            }))
        }),
        // Nothing lies below offset 0.
        row(ApiKey::DeleteRecords, NAMES, |s| {
            Some(AnyRequest::DeleteRecords(DeleteRecordsRequest {
                timeout_ms: 5_000,
                topics: s
                    .names()
                    .into_iter()
                    .map(|name| delete::DeleteRecordsTopic {
                        name,
                        partitions: vec![delete::DeleteRecordsPartition::default()],
                    })
                    .collect(),
            }))
        }),
    ]
}

/// One record, plain or of a transaction that nobody began.
fn batch(is_transactional: bool) -> Bytes {
    let mut builder = BatchBuilder::new();
    if is_transactional {
        builder = builder
            .producer(ProducerId(STRAY), ProducerEpoch(0), Sequence(0))
            .transactional();
    }
    builder.push(TIME, Some(b"key"), Some(b"value"), &[]);
    let batch = builder.build();
    [&batch.head()[..], batch.body()].concat().into()
}

/// To partition 1, but what is found at the beginning, which is in partition 0.
pub(crate) fn produce(
    name: &str,
    topic_id: Uuid,
    index: i32,
    transactional_id: Option<String>,
) -> ProduceRequest {
    let records = batch(transactional_id.is_some());
    ProduceRequest {
        transactional_id,
        acks: -1,
        timeout_ms: 5_000,
        topic_data: vec![topic_data(name, topic_id, index, records)],
    }
}

fn topic_data(name: &str, topic_id: Uuid, index: i32, records: Bytes) -> write::TopicProduceData {
    write::TopicProduceData {
        name: name.to_owned(),
        topic_id,
        partition_data: vec![write::PartitionProduceData {
            index,
            records: Some(Records::Bytes(records)),
        }],
    }
}

fn produced(s: &Scene, transaction: Option<super::Target>) -> Option<AnyRequest> {
    let topics = s.topics(13)?;
    let transactional_id = transaction.map(|target| match target {
        Absent | Other => s.name(),
        _ => "there".to_owned(),
    });
    let records = batch(transactional_id.is_some());
    Some(AnyRequest::Produce(ProduceRequest {
        transactional_id,
        acks: -1,
        timeout_ms: 5_000,
        topic_data: topics
            .into_iter()
            .map(|(name, id)| topic_data(&name, id, 1, records.clone()))
            .collect(),
    }))
}

fn fetched(s: &Scene, replica: i32) -> Option<AnyRequest> {
    let topics = s.topics(13)?;
    let mut request = FetchRequest {
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: topics
            .into_iter()
            .map(|(topic, topic_id)| fetch::FetchTopic {
                topic,
                topic_id,
                partitions: vec![fetch::FetchPartition {
                    current_leader_epoch: -1,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
            })
            .collect(),
        ..FetchRequest::default()
    };
    if s.version >= 15 {
        request.replica_state.replica_id = replica;
    } else {
        request.replica_id = replica;
    }
    Some(AnyRequest::Fetch(request))
}
