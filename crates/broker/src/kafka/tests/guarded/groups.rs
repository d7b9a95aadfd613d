//! Groups: members, their offsets, and those who describe, list and delete them.

use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::*;

use super::*;

const GROUP: &str = "g";

type Ask = fn(&mut Bench, &str) -> i16;

fn commit(topics: &[&str]) -> OffsetCommitRequest {
    let topic = |name: &&str| OffsetCommitRequestTopic {
        name: (*name).to_owned(),
        partitions: vec![OffsetCommitRequestPartition::default()],
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

fn committed(topics: Option<&[&str]>) -> OffsetFetchRequest {
    let topic = |name: &&str| OffsetFetchRequestTopic {
        name: (*name).to_owned(),
        partition_indexes: vec![0],
    };
    OffsetFetchRequest {
        group_id: GROUP.to_owned(),
        topics: topics.map(|topics| topics.iter().map(topic).collect()),
        ..Default::default()
    }
}

fn forgotten(topics: &[&str]) -> OffsetDeleteRequest {
    let topic = |name: &&str| OffsetDeleteRequestTopic {
        name: (*name).to_owned(),
        partitions: vec![OffsetDeleteRequestPartition::default()],
    };
    OffsetDeleteRequest {
        group_id: GROUP.to_owned(),
        topics: topics.iter().map(topic).collect(),
    }
}

fn beat(names: &[&str]) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

/// Name, right, whether Describe alone is enough, and the code for the group.
const APIS: &[(&str, &str, bool, Ask)] = &[
    ("FindCoordinator", "Describe", true, |bench, user| {
        let request = FindCoordinatorRequest {
            coordinator_keys: vec![GROUP.to_owned()],
            ..Default::default()
        };
        bench.ask_as(user, &request, 4).coordinators[0].error_code
    }),
    ("JoinGroup", "Read", false, |bench, user| {
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        bench.ask_as(user, &request, 9).error_code
    }),
    ("SyncGroup", "Read", false, |bench, user| {
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            ..Default::default()
        };
        bench.ask_as(user, &request, 3).error_code
    }),
    ("Heartbeat", "Read", false, |bench, user| {
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            ..Default::default()
        };
        bench.ask_as(user, &request, 3).error_code
    }),
    ("LeaveGroup", "Read", false, |bench, user| {
        let request = LeaveGroupRequest {
            group_id: GROUP.to_owned(),
            members: vec![MemberIdentity::default()],
            ..Default::default()
        };
        bench.ask_as(user, &request, 5).error_code
    }),
    ("ConsumerGroupHeartbeat", "Read", false, |bench, user| {
        bench.ask_as(user, &beat(&[]), 1).error_code
    }),
    ("OffsetCommit", "Read", false, |bench, user| {
        let told = bench.ask_as(user, &commit(&[TOPIC]), 8);
        told.topics[0].partitions[0].error_code
    }),
    ("OffsetFetch", "Describe", true, |bench, user| {
        bench.ask_as(user, &committed(None), 7).error_code
    }),
    ("OffsetDelete", "Delete", false, |bench, user| {
        bench.ask_as(user, &forgotten(&[]), 0).error_code
    }),
    ("DescribeGroups", "Describe", true, |bench, user| {
        let request = DescribeGroupsRequest {
            groups: vec![GROUP.to_owned()],
            ..Default::default()
        };
        bench.ask_as(user, &request, 5).groups[0].error_code
    }),
    ("ConsumerGroupDescribe", "Describe", true, |bench, user| {
        let request = ConsumerGroupDescribeRequest {
            group_ids: vec![GROUP.to_owned()],
            ..Default::default()
        };
        bench.ask_as(user, &request, 1).groups[0].error_code
    }),
    ("DeleteGroups", "Delete", false, |bench, user| {
        let request = DeleteGroupsRequest {
            groups_names: vec![GROUP.to_owned()],
        };
        bench.ask_as(user, &request, 2).results[0].error_code
    }),
];

#[test]
fn a_group_is_for_those_who_may() {
    for (api, operation, describe_is_enough, ask) in APIS {
        let right = (*operation, "Group", GROUP);
        let told = outcomes(right, coordinating, |bench, user| {
            ask(bench, user) == GROUP_DENIED
        });
        let want = [false, false, !describe_is_enough, true, true];
        assert_eq!(told, want, "{api}");
    }
}

#[test]
fn offsets_are_asked_about_topic_by_topic() {
    let rules = ["alice allow All Group g", "alice allow Read Topic t"];
    let mut bench = coordinating(&rules);
    let told = bench.ask_as("alice", &commit(&[TOPIC, OTHER, MISSING]), 8);
    let codes: Vec<_> = (told.topics.iter())
        .map(|of| (of.name.as_str(), of.partitions[0].error_code))
        .collect();
    // Refused ones first, as Kafka has them, and a missing topic is refused as a hidden one.
    let want = [(OTHER, TOPIC_DENIED), (MISSING, TOPIC_DENIED), (TOPIC, 0)];
    assert_eq!(codes, want);
    bench.ask_as("boss", &commit(&[OTHER]), 8);

    let names = |told: OffsetFetchResponse| {
        let topics = told.topics.into_iter();
        let told = topics.map(|of| (of.name, of.partitions[0].error_code));
        told.collect::<Vec<_>>()
    };
    let named = |name: &str, code| (name.to_owned(), code);
    let asked = committed(Some(&[OTHER, TOPIC]));
    let told = names(bench.ask_as("alice", &asked, 7));
    assert_eq!(told, [named(TOPIC, 0), named(OTHER, TOPIC_DENIED)]);
    let told = names(bench.ask_as("alice", &committed(None), 7));
    assert_eq!(
        told,
        [named(TOPIC, 0)],
        "of all the hidden ones are left out"
    );

    let told = bench.ask_as("alice", &forgotten(&[TOPIC, OTHER]), 0);
    let codes: Vec<_> = (told.topics.iter())
        .map(|of| (of.name.as_str(), of.partitions[0].error_code))
        .collect();
    assert_eq!(
        (told.error_code, codes),
        (0, vec![(OTHER, TOPIC_DENIED), (TOPIC, 0)])
    );
}

#[test]
fn groups_are_listed_for_those_who_may_see_them() {
    let listed = |rules: &[&str]| {
        let mut bench = coordinating(rules);
        for group in ["g", "h"] {
            let request = OffsetCommitRequest {
                group_id: group.to_owned(),
                ..commit(&[TOPIC])
            };
            bench.ask_as("boss", &request, 8);
        }
        let told = bench.ask_as("alice", &ListGroupsRequest::default(), 4);
        assert_eq!(told.error_code, 0);
        let mut ids: Vec<String> = told.groups.into_iter().map(|of| of.group_id).collect();
        ids.sort();
        ids
    };
    assert!(listed(&[]).is_empty());
    assert_eq!(listed(&["alice allow Describe Group h"]), ["h"]);
    assert_eq!(
        listed(&["alice allow Describe Cluster kafka-cluster"]),
        ["g", "h"]
    );
}

#[test]
fn a_member_names_topics_that_it_may_see_and_a_group_with_a_hidden_one_is_hidden() {
    let rules = ["alice allow All Group g", "alice allow Describe Topic t"];
    let mut bench = coordinating(&rules);
    let told = bench.ask_as("alice", &beat(&[TOPIC, OTHER]), 1);
    assert_eq!(told.error_code, TOPIC_DENIED);
    let told = bench.ask_as("alice", &beat(&[TOPIC]), 1);
    assert_eq!(told.error_code, 0);
    let describe = ConsumerGroupDescribeRequest {
        group_ids: vec!["h".to_owned(), GROUP.to_owned()],
        include_authorized_operations: true,
    };
    let described = |bench: &mut Bench| {
        let groups = bench.ask_as("alice", &describe, 1).groups;
        let told = groups.into_iter().map(|of| {
            let shown = (of.members.len(), of.authorized_operations);
            (of.group_id, of.error_code, shown)
        });
        told.collect::<Vec<_>>()
    };
    let refused = |id: &str, code| (id.to_owned(), code, (0, i32::MIN));
    let all = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;
    let shown = (GROUP.to_owned(), 0, (1, all));
    assert_eq!(described(&mut bench), [refused("h", GROUP_DENIED), shown]);
    bench.add_rule("alice deny Describe Topic t");
    let hidden = refused(GROUP, TOPIC_DENIED);
    assert_eq!(described(&mut bench), [refused("h", GROUP_DENIED), hidden]);
}
