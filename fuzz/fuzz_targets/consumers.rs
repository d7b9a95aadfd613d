//! Messages that consumers of the classic protocol send each other through the coordinator: subscriptions and assignments. The first byte
//! chooses who says it, the next two where the subscription ends and the assignment begins.

#![no_main]

use bytes::Bytes;
use coord::group::ask::{
    ConsumerDescribe, ConsumerHeartbeat, DeleteOffsets, DeleteTopic, Describe, Heartbeat, Join,
    MemberAssignment, Protocol, Sync,
};
use coord::group::{Answer, Ask};
use esker_fuzz::World;
use libfuzzer_sys::fuzz_target;
use model::{PartitionIndex, Ticket};
use wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
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
    world.ask(Ask::DeleteOffsets(DeleteOffsets {
        group_id: GROUP.to_owned(),
        topics: vec![DeleteTopic {
            name: "t".to_owned(),
            partitions: vec![PartitionIndex(0)],
        }],
    }));
    let mut epoch = 0;
    for _ in 0..3 {
        if let Some(Answer::ConsumerHeartbeat(beat)) = world.ask(consumer_beat(epoch)) {
            epoch = beat.map_or(0, |standing| standing.member_epoch.max(0));
        }
        gather(&mut world, &mut members, assignment);
    }
    world.ask(Ask::Describe(Describe {
        group_id: GROUP.to_owned(),
    }));
    world.ask(Ask::ConsumerDescribe(ConsumerDescribe {
        group_id: GROUP.to_owned(),
    }));
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
    let callers: Vec<Ticket> = members
        .iter()
        .map(|(id, metadata)| world.send(join(id, metadata)))
        .collect();
    world.turn();
    for (caller, (member_id, _)) in callers.into_iter().zip(members) {
        let Some(Answer::Join(joined)) = world.told.remove(&caller) else {
            continue;
        };
        // A refused member syncs and beats all the same, with no generation.
        let generation = joined.as_ref().map_or(-1, |joined| joined.generation);
        *member_id = match joined {
            Ok(joined) => joined.member_id,
            Err(refusal) => refusal.member_id,
        };
        world.send(Ask::Sync(Sync {
            group_id: GROUP.to_owned(),
            generation,
            member_id: member_id.clone(),
            assignments: vec![MemberAssignment {
                member_id: member_id.clone(),
                assignment: Bytes::copy_from_slice(assignment),
            }],
            ..Sync::default()
        }));
        world.send(Ask::Heartbeat(Heartbeat {
            group_id: GROUP.to_owned(),
            generation,
            member_id: member_id.clone(),
            ..Heartbeat::default()
        }));
    }
}

fn join(member_id: &str, metadata: &[u8]) -> Ask {
    Ask::Join(Join {
        group_id: GROUP.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: Some(10_000),
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol {
            name: "range".to_owned(),
            metadata: Bytes::copy_from_slice(metadata),
        }],
        may_skip_assignment: true,
        fresh: Uuid([member_id.len() as u8; 16]),
        ..Join::default()
    })
}

fn consumer_beat(epoch: i32) -> Ask {
    Ask::ConsumerHeartbeat(ConsumerHeartbeat {
        group_id: GROUP.to_owned(),
        member_id: "c".to_owned(),
        member_epoch: epoch,
        rebalance_timeout_ms: Some(10_000),
        topic_names: Some(vec!["t".to_owned(), "u".to_owned()]),
        owned: Some(Vec::new()),
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    })
}
