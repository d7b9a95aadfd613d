//! Requests about the records of partitions.

use wire::Uuid;
use wire::any::AnyRequest::{
    DeleteRecords, DescribeProducers, Fetch, ListOffsets, OffsetForLeaderEpoch,
};
use wire::messages::*;
use wire::messages::{
    delete_records_request as trim, describe_producers_request as producers,
    fetch_request as fetching, list_offsets_request as listing,
    offset_for_leader_epoch_request as epochs,
};

use super::super::scene::Scene;
use super::{Cases, TOPIC, names, partitions, text};

fn wanted(partition: i32) -> fetching::FetchPartition {
    fetching::FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    }
}

fn fetched(name: &str, partitions: Vec<fetching::FetchPartition>) -> fetching::FetchTopic {
    fetching::FetchTopic {
        topic: text(name),
        topic_id: Uuid::ZERO,
        partitions,
    }
}

pub(super) fn fetch(scene: &Scene) -> Cases {
    let of = |topics| FetchRequest {
        topics,
        ..Default::default()
    };
    let one = |partition| of(vec![fetched(TOPIC, vec![partition])]);
    let id = |topic_id, partitions| fetching::FetchTopic {
        topic_id,
        ..fetched("", partitions)
    };
    let by_id = |partition| of(vec![id(scene.topic_id, vec![partition])]);
    let odd: Vec<_> = partitions().into_iter().map(wanted).collect();
    let offsets = [-1, i64::MIN, 4, i64::MAX, 3].map(|fetch_offset| fetching::FetchPartition {
        fetch_offset,
        ..wanted(0)
    });
    let leader_epochs =
        [-2, 7, i32::MIN, i32::MAX].map(|current_leader_epoch| fetching::FetchPartition {
            current_leader_epoch,
            ..wanted(0)
        });
    let last_epochs = [-2, 7, i32::MAX].map(|last_fetched_epoch| fetching::FetchPartition {
        last_fetched_epoch,
        ..wanted(0)
    });
    let sizes = [-1, 0, 1, i32::MIN].map(|partition_max_bytes| fetching::FetchPartition {
        partition_max_bytes,
        ..wanted(0)
    });
    let session = |session_id, session_epoch| FetchRequest {
        session_id,
        session_epoch,
        ..one(wanted(0))
    };
    // Records of coordinators hold times, which differ from run to run; a fetch behind their end returns none.
    let by_name = |name: &String| {
        let fetch_offset = if name.starts_with("__") { i64::MAX } else { 0 };
        fetched(
            name,
            vec![fetching::FetchPartition {
                fetch_offset,
                ..wanted(0)
            }],
        )
    };
    let mut cases: Cases = vec![
        ("nothing", Fetch(of(Vec::new()))),
        (
            "odd topics",
            Fetch(of(names().iter().map(by_name).collect())),
        ),
        (
            "odd partitions",
            Fetch(of(vec![fetched(TOPIC, odd.clone())])),
        ),
        (
            "odd ids",
            Fetch(of([Uuid::ZERO, Uuid([0xff; 16]), scene.topic_id]
                .map(|topic| id(topic, odd.clone()))
                .to_vec())),
        ),
        ("a session nobody opened", Fetch(session(1234, 1))),
        (
            "a session of a negative number",
            Fetch(session(i32::MIN, 5)),
        ),
        ("a session of a negative epoch", Fetch(session(0, -7))),
        ("a new session", Fetch(session(0, 0))),
        (
            "a new session in place of one nobody opened",
            Fetch(session(99, 0)),
        ),
        (
            "more bytes wanted than can be sent",
            Fetch(FetchRequest {
                max_bytes: -1,
                min_bytes: i32::MAX,
                ..one(wanted(0))
            }),
        ),
        (
            "no patience",
            Fetch(FetchRequest {
                max_wait_ms: i32::MIN,
                min_bytes: -1,
                ..one(wanted(1))
            }),
        ),
        (
            "isolation 9",
            Fetch(FetchRequest {
                isolation_level: 9,
                ..one(wanted(0))
            }),
        ),
        (
            "isolation -1",
            Fetch(FetchRequest {
                isolation_level: -1,
                ..one(wanted(1))
            }),
        ),
        (
            "a replica nobody knows",
            Fetch(FetchRequest {
                replica_id: 7,
                ..one(wanted(0))
            }),
        ),
        (
            "this very replica",
            Fetch(FetchRequest {
                replica_id: 1,
                ..one(wanted(0))
            }),
        ),
        (
            "replica -9",
            Fetch(FetchRequest {
                replica_id: -9,
                ..one(wanted(0))
            }),
        ),
        (
            "a replica state",
            Fetch(FetchRequest {
                replica_state: fetching::ReplicaState {
                    replica_id: 7,
                    replica_epoch: 3,
                },
                ..by_id(wanted(0))
            }),
        ),
        (
            "another cluster",
            Fetch(FetchRequest {
                cluster_id: Some(text("other")),
                ..by_id(wanted(0))
            }),
        ),
        (
            "a rack of control characters",
            Fetch(FetchRequest {
                rack_id: text("\0\n"),
                ..one(wanted(0))
            }),
        ),
        (
            "topics forgotten that nobody asked for",
            Fetch(FetchRequest {
                forgotten_topics_data: vec![fetching::ForgottenTopic {
                    topic: text("none"),
                    topic_id: Uuid::ZERO,
                    partitions: partitions(),
                }],
                ..one(wanted(0))
            }),
        ),
    ];
    for (by_name, by_ids, variants) in [
        ("odd offsets", "odd offsets, by id", offsets.to_vec()),
        (
            "odd leader epochs",
            "odd leader epochs, by id",
            leader_epochs.to_vec(),
        ),
        (
            "odd epochs of the last record",
            "odd epochs of the last record, by id",
            last_epochs.to_vec(),
        ),
        ("odd sizes", "odd sizes, by id", sizes.to_vec()),
    ] {
        // One topic for each: of a partition that stands twice in one topic the last wins.
        let each = |partition: &fetching::FetchPartition| fetched(TOPIC, vec![partition.clone()]);
        cases.push((by_name, Fetch(of(variants.iter().map(each).collect()))));
        let each =
            |partition: &fetching::FetchPartition| id(scene.topic_id, vec![partition.clone()]);
        cases.push((by_ids, Fetch(of(variants.iter().map(each).collect()))));
        let last = variants.into_iter().next();
        cases.extend(last.map(|partition| ("the first of these alone", Fetch(by_id(partition)))));
    }
    for partition in offsets {
        cases.push(("one odd offset", Fetch(one(partition.clone()))));
        cases.push(("one odd offset, by id", Fetch(by_id(partition))));
    }
    for partition in leader_epochs {
        cases.push(("one odd leader epoch", Fetch(one(partition.clone()))));
        cases.push(("one odd leader epoch, by id", Fetch(by_id(partition))));
    }
    cases
}

pub(super) fn list_offsets() -> Cases {
    let partition =
        |partition_index, current_leader_epoch, timestamp| listing::ListOffsetsPartition {
            partition_index,
            current_leader_epoch,
            timestamp,
        };
    let topic = |name: &str, partitions| listing::ListOffsetsTopic {
        name: text(name),
        partitions,
    };
    let of = |topics| ListOffsetsRequest {
        replica_id: -1,
        topics,
        timeout_ms: 1000,
        ..Default::default()
    };
    let one = |epoch, time| of(vec![topic(TOPIC, vec![partition(0, epoch, time)])]);
    let by_name = |name: &String| topic(name, vec![partition(0, -1, -1)]);
    let odd = || {
        partitions()
            .into_iter()
            .map(|index| partition(index, -1, -1))
            .collect()
    };
    let mut cases: Cases = vec![
        ("nothing", ListOffsets(of(Vec::new()))),
        (
            "odd topics",
            ListOffsets(of(names().iter().map(by_name).collect())),
        ),
        ("odd partitions", ListOffsets(of(vec![topic(TOPIC, odd())]))),
        (
            "a replica",
            ListOffsets(ListOffsetsRequest {
                replica_id: 7,
                ..one(-1, -1)
            }),
        ),
        (
            "a debugger",
            ListOffsets(ListOffsetsRequest {
                replica_id: -2,
                ..one(-1, -1)
            }),
        ),
        (
            "isolation 9",
            ListOffsets(ListOffsetsRequest {
                isolation_level: 9,
                ..one(-1, -1)
            }),
        ),
        (
            "no time",
            ListOffsets(ListOffsetsRequest {
                timeout_ms: i32::MIN,
                ..one(-1, 0)
            }),
        ),
    ];
    for time in [
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        i64::MIN,
        0,
        1_700_000_000_001,
        i64::MAX,
    ] {
        cases.push(("a time", ListOffsets(one(-1, time))));
    }
    for epoch in [7, i32::MAX, -2, i32::MIN] {
        cases.push(("an epoch", ListOffsets(one(epoch, -1))));
    }
    cases
}

pub(super) fn offset_for_leader_epoch() -> Cases {
    let partition =
        |partition, current_leader_epoch, leader_epoch| epochs::OffsetForLeaderPartition {
            partition,
            current_leader_epoch,
            leader_epoch,
        };
    let topic = |name: &str, partitions| epochs::OffsetForLeaderTopic {
        topic: text(name),
        partitions,
    };
    let of = |topics| {
        OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics,
        })
    };
    let by_name = |name: &String| topic(name, vec![partition(0, -1, 0)]);
    let odd = || {
        partitions()
            .into_iter()
            .map(|index| partition(index, -1, 0))
            .collect()
    };
    let asked = [-1, -2, i32::MIN, 7, i32::MAX].map(|epoch| partition(0, -1, epoch));
    let current = [7, -2, i32::MAX].map(|epoch| partition(0, epoch, 0));
    vec![
        ("nothing", of(Vec::new())),
        ("odd topics", of(names().iter().map(by_name).collect())),
        ("odd partitions", of(vec![topic(TOPIC, odd())])),
        ("odd epochs", of(vec![topic(TOPIC, asked.to_vec())])),
        (
            "odd current epochs",
            of(vec![topic(TOPIC, current.to_vec())]),
        ),
        (
            "a replica",
            OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
                replica_id: 7,
                topics: vec![topic(TOPIC, vec![partition(0, -1, 0)])],
            }),
        ),
    ]
}

pub(super) fn delete_records() -> Cases {
    let partition = |partition_index, offset| trim::DeleteRecordsPartition {
        partition_index,
        offset,
    };
    let topic = |name: &str, partitions| trim::DeleteRecordsTopic {
        name: text(name),
        partitions,
    };
    let of = |timeout_ms, topics| DeleteRecords(DeleteRecordsRequest { topics, timeout_ms });
    let by_name = |name: &String| topic(name, vec![partition(1, 0)]);
    let odd = || {
        partitions()
            .into_iter()
            .map(|index| partition(index, 0))
            .collect()
    };
    let mut cases = vec![
        ("nothing", of(1000, Vec::new())),
        (
            "odd topics",
            of(1000, names().iter().map(by_name).collect()),
        ),
        ("odd partitions", of(1000, vec![topic(TOPIC, odd())])),
        (
            "no time",
            of(i32::MIN, vec![topic(TOPIC, vec![partition(0, 0)])]),
        ),
    ];
    for offset in [-2, i64::MIN, 4, i64::MAX, 1, 0, -1] {
        cases.push((
            "an offset",
            of(1000, vec![topic(TOPIC, vec![partition(0, offset)])]),
        ));
    }
    cases
}

pub(super) fn describe_producers() -> Cases {
    let topic = |name: &str, partition_indexes| producers::TopicRequest {
        name: text(name),
        partition_indexes,
    };
    let of = |topics| DescribeProducers(DescribeProducersRequest { topics });
    vec![
        ("nothing", of(Vec::new())),
        (
            "odd topics",
            of(names().iter().map(|name| topic(name, vec![0])).collect()),
        ),
        (
            "odd partitions",
            of(vec![
                topic(TOPIC, partitions()),
                topic("none", partitions()),
            ]),
        ),
    ]
}
