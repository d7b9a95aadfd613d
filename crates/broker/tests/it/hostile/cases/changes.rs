//! Requests about settings and about where partitions are.

use wire::any::AnyRequest::{
    AlterConfigs, AlterPartitionReassignments, AlterReplicaLogDirs, DescribeConfigs,
    DescribeLogDirs, ElectLeaders, IncrementalAlterConfigs, ListConfigResources,
    ListPartitionReassignments,
};
use wire::messages::*;
use wire::messages::{
    alter_configs_request as setting, alter_partition_reassignments_request as reassigning,
    alter_replica_log_dirs_request as moving, describe_configs_request as describing,
    describe_log_dirs_request as locating, elect_leaders_request as electing,
    incremental_alter_configs_request as changing, list_partition_reassignments_request as listing,
};

use super::super::scene::CLASSIC;
use super::{Cases, TOPIC, names, partitions, text};

/// Kinds and names of resources that are odd together.
fn resources() -> Vec<(i8, String)> {
    let mut all: Vec<(i8, String)> = names().into_iter().map(|name| (2, name)).collect();
    let kinds = [i8::MIN, -1, 0, 1, 3, 5, 64, i8::MAX];
    all.extend(kinds.map(|kind| (kind, text("1"))));
    let brokers = ["2", "-1", "x", "99999999999", " 1", "1"];
    all.extend(brokers.map(|broker| (4, text(broker))));
    all.extend([
        (8, text("1")),
        (8, text("x")),
        (16, text("none")),
        (32, text(CLASSIC)),
        (32, text("")),
    ]);
    all
}

pub(super) fn describe_configs() -> Cases {
    let of = |resources: Vec<(i8, String)>, keys: Option<&[&str]>, is_full| {
        let resource = |(resource_type, resource_name)| describing::DescribeConfigsResource {
            resource_type,
            resource_name,
            configuration_keys: keys.map(|keys| keys.iter().map(|key| text(key)).collect()),
        };
        DescribeConfigs(DescribeConfigsRequest {
            resources: resources.into_iter().map(resource).collect(),
            include_synonyms: is_full,
            include_documentation: is_full,
        })
    };
    vec![
        ("nothing", of(Vec::new(), None, false)),
        (
            "odd resources",
            of(resources(), Some(&["retention.ms"]), false),
        ),
        (
            "no keys",
            of(vec![(2, text(TOPIC)), (4, text("1"))], Some(&[]), true),
        ),
        (
            "odd keys",
            of(
                vec![(2, text(TOPIC)), (4, text("1"))],
                Some(&[
                    "",
                    "none",
                    "\0",
                    "retention.ms",
                    "retention.ms",
                    "ssl.keystore.password",
                ]),
                true,
            ),
        ),
    ]
}

type Pairs = Vec<(&'static str, Option<&'static str>)>;

/// Settings with odd names and values, by the resources they are meant for.
fn odd_pairs() -> Vec<(i8, &'static str, Pairs)> {
    vec![
        (2, TOPIC, vec![("none", Some("1"))]),
        (2, TOPIC, vec![("", None)]),
        (2, TOPIC, vec![("retention.ms", None)]),
        (2, TOPIC, vec![("retention.ms", Some("soon"))]),
        (2, TOPIC, vec![("retention.ms", Some("-9"))]),
        (
            2,
            TOPIC,
            vec![("segment.bytes", Some("99999999999999999999"))],
        ),
        (
            2,
            TOPIC,
            vec![("retention.ms", Some("1")), ("retention.ms", Some("2"))],
        ),
        (2, TOPIC, vec![("cleanup.policy", Some("burn,delete"))]),
        (4, "1", vec![("node.id", Some("2"))]),
        (4, "1", vec![("log.dirs", Some("/etc"))]),
        (4, "1", vec![("none", Some("1"))]),
        (4, "", vec![("log.retention.ms", Some("x"))]),
        (4, "2", vec![("log.retention.ms", Some("1"))]),
        (8, "1", vec![("none", Some("INFO"))]),
        (8, "1", vec![("root", Some("LOUD"))]),
        (16, "s", vec![("interval.ms", Some("1"))]),
        (16, "s", vec![("match", Some("none=(("))]),
        (
            32,
            CLASSIC,
            vec![("consumer.session.timeout.ms", Some("-1"))],
        ),
        (32, "", vec![("none", Some(""))]),
    ]
}

pub(super) fn alter_configs() -> Cases {
    let resource =
        |resource_type, name: &str, pairs: &[(&str, Option<&str>)]| setting::AlterConfigsResource {
            resource_type,
            resource_name: text(name),
            configs: pairs
                .iter()
                .map(|(name, value)| setting::AlterableConfig {
                    name: text(name),
                    value: value.map(text),
                })
                .collect(),
        };
    let of = |resources, validate_only| {
        AlterConfigs(AlterConfigsRequest {
            resources,
            validate_only,
        })
    };
    let odd = resources()
        .into_iter()
        .map(|(kind, name)| resource(kind, &name, &[("none", Some("1"))]));
    let mut cases = vec![
        ("nothing", of(Vec::new(), false)),
        ("odd resources", of(odd.collect(), true)),
        (
            "a resource twice",
            of(
                vec![
                    resource(2, TOPIC, &[]),
                    resource(2, TOPIC, &[("none", None)]),
                ],
                true,
            ),
        ),
    ];
    for (kind, name, pairs) in odd_pairs() {
        cases.push((
            "odd settings",
            of(vec![resource(kind, name, &pairs)], false),
        ));
    }
    cases
}

pub(super) fn incremental_alter_configs() -> Cases {
    let resource = |resource_type, name: &str, pairs: &[(&str, i8, Option<&str>)]| {
        changing::AlterConfigsResource {
            resource_type,
            resource_name: text(name),
            configs: pairs
                .iter()
                .map(
                    |(name, config_operation, value)| changing::AlterableConfig {
                        name: text(name),
                        config_operation: *config_operation,
                        value: value.map(text),
                    },
                )
                .collect(),
        }
    };
    let of = |resources, validate_only| {
        IncrementalAlterConfigs(IncrementalAlterConfigsRequest {
            resources,
            validate_only,
        })
    };
    let odd = resources()
        .into_iter()
        .map(|(kind, name)| resource(kind, &name, &[("none", 0, Some("1"))]));
    let mut cases = vec![
        ("nothing", of(Vec::new(), false)),
        ("odd resources", of(odd.collect(), true)),
        (
            "a resource twice",
            of(
                vec![
                    resource(2, TOPIC, &[]),
                    resource(2, TOPIC, &[("none", 0, None)]),
                ],
                true,
            ),
        ),
        (
            "a setting twice",
            of(
                vec![resource(
                    2,
                    TOPIC,
                    &[("retention.ms", 0, Some("5")), ("retention.ms", 1, None)],
                )],
                false,
            ),
        ),
    ];
    for operation in [-1, 4, i8::MAX] {
        cases.push((
            "an operation",
            of(
                vec![resource(
                    2,
                    TOPIC,
                    &[("retention.ms", operation, Some("5"))],
                )],
                false,
            ),
        ));
    }
    for operation in [2, 3] {
        cases.push((
            "a list of what is none",
            of(
                vec![resource(
                    2,
                    TOPIC,
                    &[("retention.ms", operation, Some("5"))],
                )],
                false,
            ),
        ));
        cases.push((
            "an odd list",
            of(
                vec![resource(
                    2,
                    TOPIC,
                    &[("cleanup.policy", operation, Some(",burn,,"))],
                )],
                false,
            ),
        ));
        cases.push((
            "a list that is null",
            of(
                vec![resource(2, TOPIC, &[("cleanup.policy", operation, None)])],
                false,
            ),
        ));
    }
    for (kind, name, pairs) in odd_pairs() {
        let pairs: Vec<_> = pairs
            .into_iter()
            .map(|(name, value)| (name, 0, value))
            .collect();
        cases.push((
            "odd settings",
            of(vec![resource(kind, name, &pairs)], false),
        ));
    }
    cases
}

pub(super) fn list_config_resources() -> Cases {
    let of = |resource_types| ListConfigResources(ListConfigResourcesRequest { resource_types });
    vec![
        ("all", of(Vec::new())),
        ("topics twice", of(vec![2, 2])),
        ("odd kinds", of(vec![0, 1, 99, i8::MIN, i8::MAX])),
        ("an odd kind among others", of(vec![2, -1])),
    ]
}

pub(super) fn alter_replica_log_dirs() -> Cases {
    let topic = |name: &str, partitions| moving::AlterReplicaLogDirTopic {
        name: text(name),
        partitions,
    };
    let dir = |path: &str, topics| moving::AlterReplicaLogDir {
        path: text(path),
        topics,
    };
    let of = |dirs| AlterReplicaLogDirs(AlterReplicaLogDirsRequest { dirs });
    let odd = || {
        names()
            .iter()
            .map(|name| topic(name, partitions()))
            .collect::<Vec<_>>()
    };
    let one = || vec![topic(TOPIC, vec![0])];
    vec![
        ("nothing", of(Vec::new())),
        ("where they are", of(vec![dir("/data", odd())])),
        ("nowhere", of(vec![dir("/none", odd())])),
        (
            "odd paths",
            of(vec![
                dir("", one()),
                dir("data", one()),
                dir("/data/../etc", one()),
                dir("/\0", one()),
            ]),
        ),
        (
            "two places at once",
            of(vec![
                dir("/data", one()),
                dir("/data/", one()),
                dir("/data", one()),
            ]),
        ),
    ]
}

pub(super) fn describe_log_dirs() -> Cases {
    let topic = |name: &str| locating::DescribableLogDirTopic {
        topic: text(name),
        partitions: partitions(),
    };
    let of = |topics| DescribeLogDirs(DescribeLogDirsRequest { topics });
    vec![
        ("nothing", of(Some(Vec::new()))),
        (
            "odd topics",
            of(Some(names().iter().map(|name| topic(name)).collect())),
        ),
    ]
}

pub(super) fn alter_partition_reassignments() -> Cases {
    let topic = |name: &str, partitions: &[(i32, Option<&[i32]>)]| reassigning::ReassignableTopic {
        name: text(name),
        partitions: partitions
            .iter()
            .map(
                |(partition_index, replicas)| reassigning::ReassignablePartition {
                    partition_index: *partition_index,
                    replicas: replicas.map(<[i32]>::to_vec),
                },
            )
            .collect(),
    };
    let of = |topics| AlterPartitionReassignmentsRequest {
        timeout_ms: 1000,
        topics,
        ..Default::default()
    };
    let replicas: [Option<&[i32]>; 7] = [
        None,
        Some(&[]),
        Some(&[7]),
        Some(&[-1]),
        Some(&[1, 1]),
        Some(&[1, 2]),
        Some(&[1]),
    ];
    let each = replicas.map(|replicas| topic(TOPIC, &[(0, replicas)]));
    let indexes: Vec<(i32, Option<&[i32]>)> = partitions()
        .into_iter()
        .map(|index| (index, None))
        .collect();
    let mut cases: Cases = vec![
        ("nothing", AlterPartitionReassignments(of(Vec::new()))),
        (
            "odd topics",
            AlterPartitionReassignments(of(names()
                .iter()
                .map(|name| topic(name, &[(0, Some(&[1]))]))
                .collect())),
        ),
        (
            "odd partitions",
            AlterPartitionReassignments(of(vec![topic(TOPIC, &indexes)])),
        ),
        (
            "no time",
            AlterPartitionReassignments(AlterPartitionReassignmentsRequest {
                timeout_ms: i32::MIN,
                ..of(vec![topic(TOPIC, &[(0, None)])])
            }),
        ),
        (
            "another factor",
            AlterPartitionReassignments(AlterPartitionReassignmentsRequest {
                allow_replication_factor_change: false,
                ..of(vec![topic(TOPIC, &[(0, Some(&[1, 2]))])])
            }),
        ),
    ];
    cases.extend(each.map(|topic| ("replicas", AlterPartitionReassignments(of(vec![topic])))));
    cases
}

pub(super) fn list_partition_reassignments() -> Cases {
    let topic = |name: &str| listing::ListPartitionReassignmentsTopics {
        name: text(name),
        partition_indexes: partitions(),
    };
    let of = |timeout_ms, topics| {
        ListPartitionReassignments(ListPartitionReassignmentsRequest { timeout_ms, topics })
    };
    vec![
        ("all", of(1000, None)),
        ("nothing", of(i32::MIN, Some(Vec::new()))),
        (
            "odd topics",
            of(1000, Some(names().iter().map(|name| topic(name)).collect())),
        ),
    ]
}

pub(super) fn elect_leaders() -> Cases {
    let topic = |name: &str| electing::TopicPartitions {
        topic: text(name),
        partitions: partitions(),
    };
    let of = |election_type, topics: Option<Vec<electing::TopicPartitions>>, timeout_ms| {
        ElectLeaders(ElectLeadersRequest {
            election_type,
            topic_partitions: topics,
            timeout_ms,
        })
    };
    let odd = || Some(names().iter().map(|name| topic(name)).collect::<Vec<_>>());
    let mut cases = vec![
        ("all", of(0, None, 1000)),
        ("nothing", of(0, Some(Vec::new()), 1000)),
        ("odd topics", of(0, odd(), 1000)),
        ("odd topics, unclean", of(1, odd(), i32::MIN)),
    ];
    cases.extend([-1, 2, i8::MAX].map(|kind| ("a kind", of(kind, odd(), 1000))));
    cases
}
