//! The classic protocol: join, sync, beat. The leader deals the partitions out in turn; who hears of a rebalance gives up everything
//! before it joins again.
//!
//! A session counts from a sync or a beat that was answered without an error. Invariant: partitions are taken from a sync alone.

use bytes::Bytes;
use client::Error;
use wire::messages::consumer_protocol_assignment::TopicPartition;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use wire::{ErrorCode, Message, Reader, Writer};

use super::{Member, REBALANCE_MS, code};
use crate::groups::SESSION;
use crate::load::{PARTITIONS, TOPIC};

const TYPE: &str = "consumer";
const ASSIGNOR: &str = "range";
/// Of what members send each other; the first that all consumers know.
const VERSION: i16 = 0;

pub(super) fn beat(member: &mut Member) -> Result<(), Error> {
    if member.epoch == 0 {
        return join(member);
    }
    let asked = member.clock.now();
    let told = member.call(&HeartbeatRequest {
        group_id: member.group.clone(),
        generation_id: member.epoch,
        member_id: member.id.clone(),
        ..Default::default()
    })?;
    match code(told.error_code) {
        ErrorCode::None => member.note_beat(asked),
        ErrorCode::RebalanceInProgress => {
            member.own(&[]);
            member.epoch = 0;
            return join(member);
        }
        error => forget(member, error),
    }
    Ok(())
}

pub(super) fn leave(member: &mut Member) -> Result<(), Error> {
    let identity = MemberIdentity {
        member_id: member.id.clone(),
        ..Default::default()
    };
    let request = LeaveGroupRequest {
        group_id: member.group.clone(),
        members: vec![identity],
        ..Default::default()
    };
    member.call(&request).map(drop)
}

fn join(member: &mut Member) -> Result<(), Error> {
    let subscription = ConsumerProtocolSubscription {
        topics: vec![TOPIC.to_owned()],
        ..Default::default()
    };
    let request = JoinGroupRequest {
        group_id: member.group.clone(),
        session_timeout_ms: SESSION.as_millis() as i32,
        rebalance_timeout_ms: REBALANCE_MS,
        member_id: member.id.clone(),
        protocol_type: TYPE.to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: ASSIGNOR.to_owned(),
            metadata: encode(&subscription),
        }],
        ..Default::default()
    };
    let joined = member.call(&request)?;
    match code(joined.error_code) {
        ErrorCode::None => sync(member, joined),
        ErrorCode::MemberIdRequired => {
            member.id = joined.member_id;
            Ok(())
        }
        error => {
            forget(member, error);
            Ok(())
        }
    }
}

fn sync(member: &mut Member, joined: JoinGroupResponse) -> Result<(), Error> {
    member.id = joined.member_id.clone();
    let asked = member.clock.now();
    let told = member.call(&SyncGroupRequest {
        group_id: member.group.clone(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some(TYPE.to_owned()),
        protocol_name: joined.protocol_name.clone(),
        assignments: deal(&joined),
        ..Default::default()
    })?;
    match code(told.error_code) {
        ErrorCode::None => {
            member.note_beat(asked);
            member.epoch = joined.generation_id;
            member.own(&assigned(told.assignment));
        }
        error => forget(member, error),
    }
    Ok(())
}

/// A member that was thrown out joins again, as a new one where it is not known any more. Anything else is asked again later: the group is
/// being loaded, or went on without an assignment.
fn forget(member: &mut Member, error: ErrorCode) {
    if matches!(
        error,
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration
    ) {
        member.end("out");
    }
    if error == ErrorCode::UnknownMemberId {
        member.id.clear();
    }
}

/// The leader's assignment to each; nothing of others.
fn deal(joined: &JoinGroupResponse) -> Vec<SyncGroupRequestAssignment> {
    let is_leader = joined.leader == joined.member_id && !joined.skip_assignment;
    let led = if is_leader { &joined.members[..] } else { &[] };
    let deal_to = |(place, member): (usize, &JoinGroupResponseMember)| {
        let is_its = |partition: &i32| *partition as usize % led.len() == place;
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: vec![TopicPartition {
                topic: TOPIC.to_owned(),
                partitions: (0..PARTITIONS).filter(is_its).collect(),
            }],
            ..Default::default()
        };
        SyncGroupRequestAssignment {
            member_id: member.member_id.clone(),
            assignment: encode(&assignment),
        }
    };
    led.iter().enumerate().map(deal_to).collect()
}

/// A message that consumers send each other through the coordinator: a version, then the message.
fn encode(message: &impl Message) -> Bytes {
    let mut w = Writer::new();
    w.i16(VERSION);
    message
        .encode(&mut w, VERSION)
        .expect("a message of ours encodes");
    w.finish().into_bytes().expect("in memory")
}

fn assigned(bytes: Bytes) -> Vec<i32> {
    let mut r = Reader::new(bytes);
    // A member without partitions may be told nothing at all. Later versions add fields behind those of the first.
    let decoded = r
        .i16()
        .and_then(|_| ConsumerProtocolAssignment::decode(&mut r, VERSION));
    let topics = decoded.map_or_else(|_| Vec::new(), |told| told.assigned_partitions);
    topics
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .collect()
}
