//! Requests of members to their groups.

use bytes::Bytes;
use wire::Uuid;
use wire::any::AnyRequest::{ConsumerGroupHeartbeat, Heartbeat, JoinGroup, LeaveGroup, SyncGroup};
use wire::messages::*;
use wire::messages::{
    consumer_group_heartbeat_request as beating, join_group_request as joining,
    leave_group_request as leaving, sync_group_request as syncing,
};

use super::super::scene::{CLASSIC, CONSUMER, CONSUMER_MEMBER, SIMPLE, Scene};
use super::{Cases, TOPIC, names, partitions, text};

pub(super) fn join_group(scene: &Scene) -> Cases {
    let protocol = |name: &str| joining::JoinGroupRequestProtocol {
        name: text(name),
        metadata: Bytes::from_static(&[0xff; 7]),
    };
    let of = |group_id: &str, member_id: &str| JoinGroupRequest {
        group_id: text(group_id),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        member_id: text(member_id),
        protocol_type: text("consumer"),
        protocols: vec![protocol("range")],
        ..Default::default()
    };
    let mut cases: Cases = vec![
        (
            "a session of no time",
            JoinGroup(JoinGroupRequest {
                session_timeout_ms: 0,
                ..of("j", "")
            }),
        ),
        (
            "a negative session",
            JoinGroup(JoinGroupRequest {
                session_timeout_ms: i32::MIN,
                ..of("j", "")
            }),
        ),
        (
            "an endless session",
            JoinGroup(JoinGroupRequest {
                session_timeout_ms: i32::MAX,
                ..of("j", "")
            }),
        ),
        (
            "a negative rebalance",
            JoinGroup(JoinGroupRequest {
                rebalance_timeout_ms: i32::MIN,
                ..of("j0", "")
            }),
        ),
        ("a member nobody knows", JoinGroup(of("j1", "nobody"))),
        (
            "a member nobody knows, of a group that is there",
            JoinGroup(of(CLASSIC, "nobody")),
        ),
        (
            "no protocols",
            JoinGroup(JoinGroupRequest {
                protocols: Vec::new(),
                ..of("j2", "")
            }),
        ),
        (
            "no protocol type",
            JoinGroup(JoinGroupRequest {
                protocol_type: String::new(),
                ..of("j3", "")
            }),
        ),
        (
            "another protocol type",
            JoinGroup(JoinGroupRequest {
                protocol_type: text("other"),
                ..of(CLASSIC, &scene.member_id)
            }),
        ),
        (
            "another protocol",
            JoinGroup(JoinGroupRequest {
                protocols: vec![protocol("other")],
                ..of(CLASSIC, &scene.member_id)
            }),
        ),
        (
            "a protocol twice",
            JoinGroup(JoinGroupRequest {
                protocols: vec![protocol("a"), protocol("a")],
                ..of("j4", "")
            }),
        ),
        (
            "an empty instance",
            JoinGroup(JoinGroupRequest {
                group_instance_id: Some(String::new()),
                ..of("j5", "")
            }),
        ),
        (
            "an odd instance",
            JoinGroup(JoinGroupRequest {
                group_instance_id: Some(text("a/\0")),
                ..of("j6", "")
            }),
        ),
        (
            "a long instance",
            JoinGroup(JoinGroupRequest {
                group_instance_id: Some("i".repeat(300)),
                ..of("j7", "")
            }),
        ),
        (
            "an instance of a member that has none",
            JoinGroup(JoinGroupRequest {
                group_instance_id: Some(text("i")),
                ..of(CLASSIC, &scene.member_id)
            }),
        ),
        ("a group of the other protocol", JoinGroup(of(CONSUMER, ""))),
        (
            "a member of the other protocol",
            JoinGroup(of(CONSUMER, CONSUMER_MEMBER)),
        ),
        (
            "the group of a simple consumer",
            JoinGroup(JoinGroupRequest {
                protocol_type: text("other"),
                ..of(SIMPLE, "nobody")
            }),
        ),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", JoinGroup(of(name, "nobody")))),
    );
    cases
}

pub(super) fn sync_group(scene: &Scene) -> Cases {
    let of = |group_id: &str, member_id: &str, generation_id| SyncGroupRequest {
        group_id: text(group_id),
        generation_id,
        member_id: text(member_id),
        protocol_type: Some(text("consumer")),
        protocol_name: Some(text("range")),
        ..Default::default()
    };
    let assignment = |member_id: &str| syncing::SyncGroupRequestAssignment {
        member_id: text(member_id),
        assignment: Bytes::from_static(&[0xff; 5]),
    };
    let mut cases: Cases = vec![
        (
            "a member nobody knows",
            SyncGroup(of(CLASSIC, "nobody", scene.generation_id)),
        ),
        (
            "a member of no name",
            SyncGroup(of(CLASSIC, "", scene.generation_id)),
        ),
        (
            "an old generation",
            SyncGroup(of(CLASSIC, &scene.member_id, 0)),
        ),
        (
            "a future generation",
            SyncGroup(of(CLASSIC, &scene.member_id, i32::MAX)),
        ),
        (
            "a negative generation",
            SyncGroup(of(CLASSIC, &scene.member_id, -1)),
        ),
        (
            "another protocol type",
            SyncGroup(SyncGroupRequest {
                protocol_type: Some(text("other")),
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "another protocol",
            SyncGroup(SyncGroupRequest {
                protocol_name: Some(text("other")),
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "no protocol",
            SyncGroup(SyncGroupRequest {
                protocol_name: None,
                protocol_type: None,
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "an instance nobody knows",
            SyncGroup(SyncGroupRequest {
                group_instance_id: Some(text("i")),
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "assignments for nobody",
            SyncGroup(SyncGroupRequest {
                assignments: vec![assignment("nobody"), assignment("")],
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "a group of the other protocol",
            SyncGroup(of(CONSUMER, CONSUMER_MEMBER, 1)),
        ),
        (
            "the group of a simple consumer",
            SyncGroup(of(SIMPLE, "nobody", -1)),
        ),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", SyncGroup(of(name, "nobody", 1)))),
    );
    cases
}

pub(super) fn heartbeat(scene: &Scene) -> Cases {
    let of = |group_id: &str, member_id: &str, generation_id| HeartbeatRequest {
        group_id: text(group_id),
        generation_id,
        member_id: text(member_id),
        group_instance_id: None,
    };
    let mut cases: Cases = vec![
        (
            "a member nobody knows",
            Heartbeat(of(CLASSIC, "nobody", scene.generation_id)),
        ),
        (
            "a member of no name",
            Heartbeat(of(CLASSIC, "", scene.generation_id)),
        ),
        (
            "an old generation",
            Heartbeat(of(CLASSIC, &scene.member_id, 0)),
        ),
        (
            "a future generation",
            Heartbeat(of(CLASSIC, &scene.member_id, i32::MAX)),
        ),
        (
            "a negative generation",
            Heartbeat(of(CLASSIC, &scene.member_id, i32::MIN)),
        ),
        (
            "an instance nobody knows",
            Heartbeat(HeartbeatRequest {
                group_instance_id: Some(text("i")),
                ..of(CLASSIC, &scene.member_id, scene.generation_id)
            }),
        ),
        (
            "a group of the other protocol",
            Heartbeat(of(CONSUMER, CONSUMER_MEMBER, 1)),
        ),
        (
            "the group of a simple consumer",
            Heartbeat(of(SIMPLE, "", -1)),
        ),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", Heartbeat(of(name, "nobody", 1)))),
    );
    cases
}

pub(super) fn leave_group() -> Cases {
    let member = |member_id: &str, instance: Option<&str>| leaving::MemberIdentity {
        member_id: text(member_id),
        group_instance_id: instance.map(text),
        reason: None,
    };
    let of = |group_id: &str, member_id: &str| LeaveGroupRequest {
        group_id: text(group_id),
        member_id: text(member_id),
        members: Vec::new(),
    };
    let many = |group_id: &str| LeaveGroupRequest {
        members: vec![
            member("", None),
            member("nobody", None),
            member("nobody", None),
            member("", Some("i")),
            member("nobody", Some("")),
            member(&"m".repeat(300), Some("a/\0")),
        ],
        ..of(group_id, "")
    };
    let mut cases: Cases = vec![
        ("no members", LeaveGroup(of(CLASSIC, ""))),
        ("a member nobody knows", LeaveGroup(of(CLASSIC, "nobody"))),
        ("odd members", LeaveGroup(many(CLASSIC))),
        (
            "odd members of the other protocol",
            LeaveGroup(many(CONSUMER)),
        ),
        ("odd members of a simple consumer", LeaveGroup(many(SIMPLE))),
        ("odd members of an unknown group", LeaveGroup(many("none"))),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", LeaveGroup(of(name, "nobody")))),
    );
    cases
}

pub(super) fn consumer_group_heartbeat() -> Cases {
    let of = |group_id: &str, member_id: &str, member_epoch| ConsumerGroupHeartbeatRequest {
        group_id: text(group_id),
        member_id: text(member_id),
        member_epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    };
    let join = |group_id: &str| ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec![text(TOPIC)]),
        topic_partitions: Some(Vec::new()),
        ..of(group_id, "new", 0)
    };
    let owned = |topic_id| beating::TopicPartitions {
        topic_id,
        partitions: partitions(),
    };
    let mut cases: Cases = vec![
        (
            "a member of no name",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                member_id: String::new(),
                ..join("h0")
            }),
        ),
        (
            "a member of a long name",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                member_id: "m".repeat(300),
                ..join("h1")
            }),
        ),
        (
            "a member nobody knows",
            ConsumerGroupHeartbeat(of(CONSUMER, "nobody", 1)),
        ),
        (
            "a member nobody knows leaves",
            ConsumerGroupHeartbeat(of(CONSUMER, "nobody", -1)),
        ),
        (
            "an instance nobody knows leaves",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                instance_id: Some(text("i")),
                ..of(CONSUMER, "nobody", -2)
            }),
        ),
        (
            "no instance leaves for a while",
            ConsumerGroupHeartbeat(of(CONSUMER, CONSUMER_MEMBER, -2)),
        ),
        (
            "a negative epoch",
            ConsumerGroupHeartbeat(of(CONSUMER, CONSUMER_MEMBER, -3)),
        ),
        (
            "a future epoch",
            ConsumerGroupHeartbeat(of(CONSUMER, CONSUMER_MEMBER, i32::MAX)),
        ),
        (
            "joins without a rebalance time",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                rebalance_timeout_ms: -1,
                ..join("h2")
            }),
        ),
        (
            "joins without topics",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                subscribed_topic_names: None,
                ..join("h3")
            }),
        ),
        (
            "joins with partitions",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                topic_partitions: Some(vec![owned(Uuid([0xff; 16]))]),
                ..join("h4")
            }),
        ),
        (
            "joins with no list of partitions",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                topic_partitions: None,
                ..join("h5")
            }),
        ),
        (
            "claims partitions",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                topic_partitions: Some(vec![owned(Uuid::ZERO), owned(Uuid([0xff; 16]))]),
                ..of(CONSUMER, CONSUMER_MEMBER, 1)
            }),
        ),
        (
            "an unknown assignor",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                server_assignor: Some(text("none")),
                ..join("h6")
            }),
        ),
        (
            "an empty rack",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                rack_id: Some(String::new()),
                ..join("h7")
            }),
        ),
        (
            "an empty instance",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                instance_id: Some(String::new()),
                ..join("h8")
            }),
        ),
        (
            "a broken pattern",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                subscribed_topic_regex: Some(text("(((")),
                ..join("h9")
            }),
        ),
        (
            "a pattern of great length",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                subscribed_topic_regex: Some("(a{1000}){1000}".repeat(50)),
                ..join("h10")
            }),
        ),
        (
            "odd topics",
            ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                subscribed_topic_names: Some(names()),
                ..join("h11")
            }),
        ),
        (
            "a group of the other protocol",
            ConsumerGroupHeartbeat(join(CLASSIC)),
        ),
        (
            "the group of a simple consumer",
            ConsumerGroupHeartbeat(of(SIMPLE, "nobody", 4)),
        ),
    ];
    cases.extend(
        names()
            .iter()
            .map(|name| ("a group", ConsumerGroupHeartbeat(of(name, "nobody", 1)))),
    );
    cases
}
