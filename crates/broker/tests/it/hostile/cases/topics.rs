//! Requests that name, make and remove topics.

use wire::Uuid;
use wire::any::AnyRequest::{
    CreatePartitions, CreateTopics, DeleteTopics, DescribeTopicPartitions, Metadata,
};
use wire::messages::*;
use wire::messages::{
    create_partitions_request as growing, create_topics_request as making,
    delete_topics_request as removing, describe_topic_partitions_request as describing,
    metadata_request as naming,
};

use super::{Cases, TOPIC, names, text};

pub(super) fn metadata() -> Cases {
    let of = |topics: Option<Vec<(Uuid, Option<String>)>>, allow_auto_topic_creation| {
        let topic = |(topic_id, name)| naming::MetadataRequestTopic { topic_id, name };
        MetadataRequest {
            topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            allow_auto_topic_creation,
            ..Default::default()
        }
    };
    let named = |names: Vec<String>| {
        Some(
            names
                .into_iter()
                .map(|name| (Uuid::ZERO, Some(name)))
                .collect(),
        )
    };
    let ids = Some(vec![
        (Uuid([0xff; 16]), None),
        (Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), None),
    ]);
    let both = Some(vec![(Uuid([0xff; 16]), Some(text(TOPIC)))]);
    let neither = Some(vec![(Uuid::ZERO, None)]);
    let all = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..of(named(vec![text(TOPIC), text("none")]), false)
    };
    vec![
        ("all topics", Metadata(of(None, true))),
        ("no topics", Metadata(of(Some(Vec::new()), true))),
        ("odd topics", Metadata(of(named(names()), false))),
        (
            "odd topics that may be made",
            Metadata(of(named(names()), true)),
        ),
        (
            "an unknown topic that may be made",
            Metadata(of(named(vec![text("made")]), true)),
        ),
        ("unknown ids", Metadata(of(ids, false))),
        ("an id and a name", Metadata(of(both, false))),
        ("neither id nor name", Metadata(of(neither, false))),
        ("operations", Metadata(all)),
    ]
}

pub(super) fn describe_topic_partitions() -> Cases {
    let of = |names: Vec<String>, limit, cursor: Option<(&str, i32)>| {
        let topic = |name| describing::TopicRequest { name };
        let cursor = cursor.map(|(name, partition_index)| describing::Cursor {
            topic_name: text(name),
            partition_index,
        });
        DescribeTopicPartitions(DescribeTopicPartitionsRequest {
            topics: names.into_iter().map(topic).collect(),
            response_partition_limit: limit,
            cursor,
        })
    };
    vec![
        ("all", of(Vec::new(), 2000, None)),
        ("odd topics", of(names(), 2000, None)),
        ("no room", of(names(), 0, None)),
        ("negative room", of(names(), i32::MIN, None)),
        ("room for one", of(vec![text(TOPIC)], 1, None)),
        (
            "a cursor of an unknown topic",
            of(vec![text(TOPIC)], 10, Some(("none", 0))),
        ),
        (
            "a cursor of an empty name",
            of(vec![text(TOPIC)], 10, Some(("", 0))),
        ),
        (
            "a negative cursor",
            of(vec![text(TOPIC)], 10, Some((TOPIC, -1))),
        ),
        (
            "a cursor behind the end",
            of(vec![text(TOPIC)], 10, Some((TOPIC, i32::MAX))),
        ),
    ]
}

fn creation(name: &str, num_partitions: i32, replication_factor: i16) -> making::CreatableTopic {
    making::CreatableTopic {
        name: text(name),
        num_partitions,
        replication_factor,
        ..Default::default()
    }
}

pub(super) fn create_topics() -> Cases {
    let of = |topics| CreateTopicsRequest {
        topics,
        timeout_ms: 1000,
        validate_only: false,
    };
    let odd: Vec<_> = names().iter().map(|name| creation(name, 1, 1)).collect();
    let counts =
        [0, -2, i32::MIN, i32::MAX].map(|count| creation(&format!("count{count}"), count, 1));
    let factors = [0, -2, 2, i16::MIN, i16::MAX]
        .map(|factor| creation(&format!("factor{factor}"), 1, factor));
    let assigned = |name: &str, count, assignments: &[(i32, &[i32])]| {
        let assignment =
            |(partition_index, broker_ids): &(i32, &[i32])| making::CreatableReplicaAssignment {
                partition_index: *partition_index,
                broker_ids: broker_ids.to_vec(),
            };
        making::CreatableTopic {
            assignments: assignments.iter().map(assignment).collect(),
            ..creation(name, count, -1)
        }
    };
    let configured = |name: &str, pairs: &[(&str, Option<&str>)]| making::CreatableTopic {
        configs: pairs
            .iter()
            .map(|(name, value)| making::CreatableTopicConfig {
                name: text(name),
                value: value.map(text),
            })
            .collect(),
        ..creation(name, 1, 1)
    };
    vec![
        ("nothing", CreateTopics(of(Vec::new()))),
        ("odd names", CreateTopics(of(odd.clone()))),
        (
            "odd names, validated",
            CreateTopics(CreateTopicsRequest {
                validate_only: true,
                ..of(odd)
            }),
        ),
        ("odd counts", CreateTopics(of(counts.to_vec()))),
        ("odd factors", CreateTopics(of(factors.to_vec()))),
        (
            "names that collide",
            CreateTopics(of(vec![creation("a.b", 1, 1), creation("a_b", 1, 1)])),
        ),
        (
            "no time",
            CreateTopics(CreateTopicsRequest {
                timeout_ms: i32::MIN,
                ..of(vec![creation("late", 1, 1)])
            }),
        ),
        (
            "odd assignments",
            CreateTopics(of(vec![
                assigned("unknown", -1, &[(0, &[7])]),
                assigned("negative", -1, &[(-1, &[1])]),
                assigned("gap", -1, &[(5, &[1])]),
                assigned("twice", -1, &[(0, &[1]), (0, &[1])]),
                assigned("itself", -1, &[(0, &[1, 1])]),
                assigned("empty", -1, &[(0, &[])]),
                assigned("both", 3, &[(0, &[1])]),
            ])),
        ),
        (
            "odd settings",
            CreateTopics(of(vec![
                configured("setting", &[("none", Some("1"))]),
                configured("null", &[("retention.ms", None)]),
                configured("text", &[("retention.ms", Some("soon"))]),
                configured("low", &[("segment.bytes", Some("-5"))]),
                configured(
                    "pair",
                    &[("retention.ms", Some("1")), ("retention.ms", Some("2"))],
                ),
                configured("policy", &[("cleanup.policy", Some("burn"))]),
                configured("replicas", &[("min.insync.replicas", Some("0"))]),
                configured("bare", &[("", Some(""))]),
            ])),
        ),
    ]
}

pub(super) fn delete_topics() -> Cases {
    let of = |states: Vec<(Option<String>, Uuid)>| {
        let state = |(name, topic_id)| removing::DeleteTopicState { name, topic_id };
        DeleteTopicsRequest {
            topics: states.into_iter().map(state).collect(),
            topic_names: Vec::new(),
            timeout_ms: 1000,
        }
    };
    // The topic of the scene goes last: what comes behind it is asked of a topic that is gone.
    let odd: Vec<String> = names().into_iter().filter(|name| name != TOPIC).collect();
    let states = odd
        .iter()
        .map(|name| (Some(name.clone()), Uuid::ZERO))
        .collect();
    let listed = |topic_names| DeleteTopicsRequest {
        topic_names,
        ..of(Vec::new())
    };
    vec![
        ("nothing", DeleteTopics(of(Vec::new()))),
        ("odd names", DeleteTopics(of(states))),
        ("odd names, listed", DeleteTopics(listed(odd))),
        (
            "unknown ids",
            DeleteTopics(of(vec![(None, Uuid([0xff; 16])), (None, Uuid::ZERO)])),
        ),
        (
            "a name and an id",
            DeleteTopics(of(vec![(Some(text(TOPIC)), Uuid([0xff; 16]))])),
        ),
        (
            "a name twice",
            DeleteTopics(of(vec![
                (Some(text(TOPIC)), Uuid::ZERO),
                (Some(text(TOPIC)), Uuid::ZERO),
            ])),
        ),
        (
            "a name twice, listed",
            DeleteTopics(listed(vec![text(TOPIC), text(TOPIC)])),
        ),
        (
            "no time",
            DeleteTopics(DeleteTopicsRequest {
                timeout_ms: i32::MIN,
                ..listed(vec![text("none")])
            }),
        ),
    ]
}

pub(super) fn create_partitions() -> Cases {
    let topic = |name: &str, count, assignments: Option<&[&[i32]]>| {
        let assignment = |broker_ids: &&[i32]| growing::CreatePartitionsAssignment {
            broker_ids: broker_ids.to_vec(),
        };
        growing::CreatePartitionsTopic {
            name: text(name),
            count,
            assignments: assignments.map(|all| all.iter().map(assignment).collect()),
        }
    };
    let of = |topics| CreatePartitionsRequest {
        topics,
        timeout_ms: 1000,
        validate_only: false,
    };
    let one = |count, assignments| CreatePartitions(of(vec![topic(TOPIC, count, assignments)]));
    let mut cases: Cases = vec![
        ("nothing", CreatePartitions(of(Vec::new()))),
        (
            "odd topics",
            CreatePartitions(CreatePartitionsRequest {
                validate_only: true,
                ..of(names().iter().map(|name| topic(name, 3, None)).collect())
            }),
        ),
        (
            "a topic twice",
            CreatePartitions(of(vec![topic(TOPIC, 4, None), topic(TOPIC, 5, None)])),
        ),
        (
            "no time",
            CreatePartitions(CreatePartitionsRequest {
                timeout_ms: i32::MIN,
                ..of(vec![topic("none", 3, None)])
            }),
        ),
    ];
    for count in [2, 1, 0, -1, i32::MIN, i32::MAX] {
        cases.push(("a count", one(count, None)));
    }
    let assignments: [&[&[i32]]; 5] = [&[], &[&[7]], &[&[]], &[&[1, 1]], &[&[1], &[1]]];
    for assignment in assignments {
        cases.push(("an assignment", one(3, Some(assignment))));
    }
    cases
}
