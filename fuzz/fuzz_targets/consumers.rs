//! What consumers of the classic protocol tell each other through the coordinator: subscriptions and assignments. The first byte
//! chooses who says it, the next two where the subscription ends and the assignment begins.

#![no_main]

use bytes::Bytes;
use coord::Caller;
use coord::group::{Answer, Ask, Client};
use esker_fuzz::World;
use libfuzzer_sys::fuzz_target;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerProtocolAssignment, ConsumerProtocolSubscription,
    HeartbeatRequest, JoinGroupRequest, OffsetDeleteRequest, SyncGroupRequest,
};
use wire::{Message, Reader, Schema, Uuid, Writer};

const GROUP: &str = "g";

/// Reads topic `t`, has nothing.
const PLAIN: &[u8] = &[
    0, 1, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];

fuzz_target!(|data: &[u8]| {
    let [how, high, low, rest @ ..] = data else {
        return;
    };
    let cut = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
    let (subscription, assignment) = rest.split_at(cut);
    recode::<ConsumerProtocolSubscription>(subscription);
    recode::<ConsumerProtocolAssignment>(assignment);
    meet(*how, subscription, assignment);
});

fn recode<M: Message + Schema + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let mut r = Reader::new(Bytes::copy_from_slice(bytes));
    let Ok(version) = r.i16() else { return };
    let version = version.min(M::MAX_VERSION);
    if version < 0 {
        return;
    }
    let Ok(message) = M::decode(&mut r, version) else {
        return;
    };
    let mut w = Writer::new();
    message
        .encode(&mut w, version)
        .expect("what decodes encodes");
    let bytes = w.finish().into_bytes().expect("in memory");
    assert_eq!(M::decode(&mut Reader::new(bytes), version), Ok(message));
}

/// Two members of the classic protocol, then one of the consumer protocol, which makes the coordinator read what they said; then all
/// fall silent.
fn meet(how: u8, subscription: &[u8], assignment: &[u8]) {
    let mut world = World::load(Vec::new()).expect("an empty log");
    let said = |is_ours: bool| if is_ours { subscription } else { PLAIN };
    let (one, other) = (said(how & 1 == 0), said(how & 2 == 0));
    let mut members = vec![(String::new(), one), (String::new(), other)];
    gather(&mut world, &mut members[..1], assignment);
    gather(&mut world, &mut members, assignment);
    world.ask(Ask::DeleteOffsets(OffsetDeleteRequest {
        group_id: GROUP.to_owned(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "t".to_owned(),
            partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
        }],
    }));
    let mut epoch = 0;
    for _ in 0..3 {
        if let Some(Answer::ConsumerHeartbeat(beat)) = world.ask(consumer_beat(epoch)) {
            epoch = beat.member_epoch.max(0);
        }
        gather(&mut world, &mut members, assignment);
    }
    world.ask(Ask::Describe {
        group_id: GROUP.to_owned(),
        is_strict: false,
    });
    world.ask(Ask::ConsumerDescribe {
        group_id: GROUP.to_owned(),
    });
    if how & 4 != 0 {
        world.ask(consumer_beat(-1));
        gather(&mut world, &mut members, assignment);
    }
    for _ in 0..6 {
        world.turn();
    }
    world.check_restart(&[GROUP.to_owned()]);
}

/// All join, sync and beat. Members without id are given one.
fn gather(world: &mut World, members: &mut [(String, &[u8])], assignment: &[u8]) {
    let callers: Vec<Caller> = members
        .iter()
        .map(|(id, metadata)| world.send(join(id, metadata)))
        .collect();
    world.turn();
    for (caller, (member_id, _)) in callers.into_iter().zip(members) {
        let Some(Answer::Join(joined)) = world.told.remove(&caller) else {
            continue;
        };
        *member_id = joined.member_id;
        world.send(Ask::Sync(SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: joined.generation_id,
            member_id: member_id.clone(),
            assignments: vec![SyncGroupRequestAssignment {
                member_id: member_id.clone(),
                assignment: Bytes::copy_from_slice(assignment),
            }],
            ..SyncGroupRequest::default()
        }));
        world.send(Ask::Heartbeat(HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: joined.generation_id,
            member_id: member_id.clone(),
            ..HeartbeatRequest::default()
        }));
    }
}

fn join(member_id: &str, metadata: &[u8]) -> Ask {
    Ask::Join {
        request: JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            member_id: member_id.to_owned(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".to_owned(),
                metadata: Bytes::copy_from_slice(metadata),
            }],
            ..JoinGroupRequest::default()
        },
        client: Client::default(),
        needs_member_id: false,
        may_skip_assignment: true,
        fresh: Uuid([member_id.len() as u8; 16]),
    }
}

fn consumer_beat(epoch: i32) -> Ask {
    Ask::ConsumerHeartbeat {
        request: ConsumerGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: "c".to_owned(),
            member_epoch: epoch,
            rebalance_timeout_ms: 10_000,
            subscribed_topic_names: Some(vec!["t".to_owned(), "u".to_owned()]),
            topic_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeatRequest::default()
        },
        client: Client::default(),
        brings_member_id: true,
        fresh: Uuid::ZERO,
    }
}
