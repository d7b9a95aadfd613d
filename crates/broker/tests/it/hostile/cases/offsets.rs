//! Requests about the offsets that groups commit.

use wire::Uuid;
use wire::any::AnyRequest::{OffsetCommit, OffsetDelete, OffsetFetch};
use wire::messages::*;
use wire::messages::{
    offset_commit_request as committing, offset_delete_request as forgetting,
    offset_fetch_request as fetching,
};

use super::super::scene::{CLASSIC, CONSUMER, CONSUMER_MEMBER, SIMPLE, Scene};
use super::groups::groups;
use super::{Cases, TOPIC, names, partitions, text};

pub(super) fn offset_commit(scene: &Scene) -> Cases {
    let partition = |partition_index, committed_offset| committing::OffsetCommitRequestPartition {
        partition_index,
        committed_offset,
        ..Default::default()
    };
    let topic = |name: &str, partitions| committing::OffsetCommitRequestTopic {
        name: text(name),
        topic_id: Uuid::ZERO,
        partitions,
    };
    let by_id = |topic_id, partitions| committing::OffsetCommitRequestTopic {
        topic_id,
        ..topic("", partitions)
    };
    let of = |group_id: &str, member_id: &str, epoch, topics| OffsetCommitRequest {
        group_id: text(group_id),
        generation_id_or_member_epoch: epoch,
        member_id: text(member_id),
        topics,
        ..Default::default()
    };
    let one = || vec![topic(TOPIC, vec![partition(0, 1)])];
    let one_by_id = || vec![by_id(scene.topic_id, vec![partition(0, 1)])];
    let odd = || {
        partitions()
            .into_iter()
            .map(|index| partition(index, 1))
            .collect::<Vec<_>>()
    };
    let offsets = [-1, -2, i64::MIN, i64::MAX].map(|offset| partition(0, offset));
    let noted = |note: String| committing::OffsetCommitRequestPartition {
        committed_metadata: Some(note),
        committed_leader_epoch: i32::MAX,
        ..partition(0, 1)
    };
    let mut cases: Cases = vec![
        ("no topics", OffsetCommit(of("o", "", -1, Vec::new()))),
        (
            "odd topics",
            OffsetCommit(of(
                "o",
                "",
                -1,
                names()
                    .iter()
                    .map(|name| topic(name, vec![partition(0, 1)]))
                    .collect(),
            )),
        ),
        (
            "odd ids",
            OffsetCommit(of(
                "o",
                "",
                -1,
                [Uuid::ZERO, Uuid([0xff; 16]), scene.topic_id]
                    .map(|id| by_id(id, odd()))
                    .to_vec(),
            )),
        ),
        (
            "odd partitions",
            OffsetCommit(of("o", "", -1, vec![topic(TOPIC, odd())])),
        ),
        (
            "odd offsets",
            OffsetCommit(of("o", "", -1, vec![topic(TOPIC, offsets.to_vec())])),
        ),
        (
            "long notes",
            OffsetCommit(of(
                "o",
                "",
                -1,
                vec![topic(
                    TOPIC,
                    vec![noted("n".repeat(5000)), noted(text("\0"))],
                )],
            )),
        ),
        (
            "a long time to keep",
            OffsetCommit(OffsetCommitRequest {
                retention_time_ms: i64::MIN,
                ..of("o", "", -1, one())
            }),
        ),
        (
            "a member without a generation",
            OffsetCommit(of(CLASSIC, &scene.member_id, -1, one())),
        ),
        (
            "a generation without a member",
            OffsetCommit(of(CLASSIC, "", scene.generation_id, one())),
        ),
        (
            "a member nobody knows",
            OffsetCommit(of(CLASSIC, "nobody", scene.generation_id, one())),
        ),
        (
            "a future generation",
            OffsetCommit(of(CLASSIC, &scene.member_id, i32::MAX, one())),
        ),
        (
            "a negative generation",
            OffsetCommit(of(CLASSIC, &scene.member_id, -2, one())),
        ),
        (
            "an instance nobody knows",
            OffsetCommit(OffsetCommitRequest {
                group_instance_id: Some(text("i")),
                ..of(CLASSIC, &scene.member_id, scene.generation_id, one())
            }),
        ),
        (
            "a generation of no group",
            OffsetCommit(of("none", "nobody", 3, one())),
        ),
        (
            "a simple consumer in a group with members",
            OffsetCommit(of(CLASSIC, "", -1, one())),
        ),
    ];
    for epoch in [-1, 0, 2, i32::MAX, -2] {
        cases.push((
            "a consumer's epoch",
            OffsetCommit(of(CONSUMER, CONSUMER_MEMBER, epoch, one())),
        ));
        cases.push((
            "a consumer's epoch, by id",
            OffsetCommit(of(CONSUMER, CONSUMER_MEMBER, epoch, one_by_id())),
        ));
    }
    cases.push((
        "a consumer nobody knows",
        OffsetCommit(of(CONSUMER, "nobody", 1, one())),
    ));
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", OffsetCommit(of(name, "", -1, one())))),
    );
    cases
}

pub(super) fn offset_fetch(scene: &Scene) -> Cases {
    let one = |group: &str, topics: Option<Vec<&str>>| {
        let topic = |name: &str| fetching::OffsetFetchRequestTopic {
            name: text(name),
            partition_indexes: partitions(),
        };
        OffsetFetchRequest {
            group_id: text(group),
            topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            ..Default::default()
        }
    };
    let topic = |name: &str, topic_id| fetching::OffsetFetchRequestTopics {
        name: text(name),
        topic_id,
        partition_indexes: partitions(),
    };
    let group =
        |group: &str, member: Option<&str>, epoch, topics| fetching::OffsetFetchRequestGroup {
            group_id: text(group),
            member_id: member.map(text),
            member_epoch: epoch,
            topics,
        };
    let many = |groups| {
        OffsetFetch(OffsetFetchRequest {
            groups,
            ..Default::default()
        })
    };
    let named = || {
        Some(
            names()
                .iter()
                .map(|name| topic(name, Uuid::ZERO))
                .collect::<Vec<_>>(),
        )
    };
    let by_id = || {
        Some(
            [Uuid::ZERO, Uuid([0xff; 16]), scene.topic_id]
                .map(|id| topic("", id))
                .to_vec(),
        )
    };
    let of_each = |name: &String| group(name, None, -1, None);
    let mut cases: Cases = vec![
        ("all of an unknown group", OffsetFetch(one("none", None))),
        ("no topics", OffsetFetch(one(SIMPLE, Some(Vec::new())))),
        (
            "odd topics",
            OffsetFetch(one(SIMPLE, Some(vec![TOPIC, "none", "", "a/b", TOPIC]))),
        ),
        (
            "stable ones",
            OffsetFetch(OffsetFetchRequest {
                require_stable: true,
                ..one(SIMPLE, Some(vec![TOPIC]))
            }),
        ),
        ("no groups", many(Vec::new())),
        ("odd groups", many(groups().iter().map(of_each).collect())),
        (
            "odd topics of many",
            many(vec![
                group(SIMPLE, None, -1, named()),
                group(CLASSIC, None, -1, named()),
            ]),
        ),
        ("odd ids", many(vec![group(SIMPLE, None, -1, by_id())])),
        (
            "odd members",
            many(vec![
                group(CLASSIC, Some("nobody"), 1, Some(Vec::new())),
                group(CLASSIC, Some(&scene.member_id), i32::MAX, Some(Vec::new())),
                group(SIMPLE, Some(""), 0, Some(Vec::new())),
                group("none", Some("nobody"), 5, Some(Vec::new())),
            ]),
        ),
        (
            "odd consumers",
            many(vec![
                group(CONSUMER, Some("nobody"), 1, Some(Vec::new())),
                group(CONSUMER, Some(CONSUMER_MEMBER), i32::MAX, Some(Vec::new())),
                group(CONSUMER, Some(CONSUMER_MEMBER), 0, Some(Vec::new())),
                group(CONSUMER, Some(CONSUMER_MEMBER), -2, Some(Vec::new())),
                group(CONSUMER, Some(""), 1, Some(Vec::new())),
                group(CONSUMER, None, 1, Some(Vec::new())),
            ]),
        ),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", OffsetFetch(one(name, Some(vec![TOPIC]))))),
    );
    cases
}

pub(super) fn offset_delete() -> Cases {
    let topic = |name: &str, partitions: Vec<i32>| forgetting::OffsetDeleteRequestTopic {
        name: text(name),
        partitions: partitions
            .into_iter()
            .map(|partition_index| forgetting::OffsetDeleteRequestPartition { partition_index })
            .collect(),
    };
    let of = |group_id: &str, topics| {
        OffsetDelete(OffsetDeleteRequest {
            group_id: text(group_id),
            topics,
        })
    };
    let odd = || {
        names()
            .iter()
            .map(|name| topic(name, partitions()))
            .collect::<Vec<_>>()
    };
    let mut cases: Cases = vec![("nothing", of(SIMPLE, Vec::new()))];
    cases.extend(groups().iter().map(|name| ("a group", of(name, odd()))));
    cases
}
