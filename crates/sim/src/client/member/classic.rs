//! The classic protocol (KIP-62) as a member plays it: join, sync, beat, leave; the leader deals the partitions out in turn.

use std::time::Duration;

use model::Instant;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, consumer_protocol_assignment,
};
use wire::{ApiKey, ErrorCode, Message, Reader, Writer};

use super::{Effect, REBALANCE_MS, SESSION_MS, Wish};

/// Of what members send each other.
const EMBEDDED_VERSION: i16 = 1;
use crate::client::keep::Link;
use crate::client::line::{LineError, RawAnswer, code, nonsense};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Out,
    Joined,
    Synced,
    /// Knows where to go on.
    Active,
}

pub(super) struct Classic {
    state: MemberState,
    /// When the last sync or beat was sent that was answered well.
    heard: Instant,
    id: String,
    /// Of a static member.
    instance: Option<String>,
    /// The static member came back under a new id, and has not heard yet what it owns: the generation it left.
    came_back: Option<i32>,
    generation: i32,
    /// Members to assign to, where this one leads.
    led: Vec<String>,
}

impl Classic {
    pub(super) fn new(instance: Option<String>) -> Classic {
        Classic {
            state: MemberState::Out,
            heard: Instant(0),
            id: String::new(),
            instance,
            came_back: None,
            generation: 0,
            led: Vec::new(),
        }
    }

    /// A member that heard of a rebalance has given up everything; one that did not is waited for until its session ends.
    pub(super) fn holds_until(&self) -> Instant {
        self.heard.plus(Duration::from_millis(SESSION_MS as u64))
    }

    pub(super) fn credentials(&self) -> (&str, i32) {
        (&self.id, self.generation)
    }

    /// A request on its way may have reached the group: only joining again shows it.
    pub(super) fn on_silence(&mut self) -> Effect {
        self.state = MemberState::Out;
        Effect::ThrownOut
    }

    /// The process ends without a word, and another one comes for the same instance.
    pub(super) fn restart(&mut self) {
        self.id.clear();
        self.state = MemberState::Out;
        self.came_back = Some(self.generation);
    }

    /// True if the member has what it had before it came back, without a rebalance. Said once.
    pub(super) fn has_resumed(&mut self) -> bool {
        let generation = self.came_back.take();
        self.state == MemberState::Synced && generation == Some(self.generation)
    }

    pub(super) fn on_positions(&mut self) {
        self.state = MemberState::Active;
    }

    pub(super) fn ask(
        &mut self,
        link: &mut Link,
        group: &str,
        topic: &str,
        partitions: i32,
        now: Instant,
    ) -> Wish {
        match self.state {
            MemberState::Out => {
                let request = JoinGroupRequest {
                    group_id: group.to_owned(),
                    session_timeout_ms: SESSION_MS,
                    rebalance_timeout_ms: REBALANCE_MS,
                    member_id: self.id.clone(),
                    group_instance_id: self.instance.clone(),
                    protocol_type: "consumer".to_owned(),
                    protocols: vec![JoinGroupRequestProtocol {
                        name: "round".to_owned(),
                        metadata: embedded(&ConsumerProtocolSubscription {
                            topics: vec![topic.to_owned()],
                            ..Default::default()
                        }),
                    }],
                    ..Default::default()
                };
                link.ask(&request, 5, now);
                Wish::Asked
            }
            MemberState::Joined => {
                let request = SyncGroupRequest {
                    group_id: group.to_owned(),
                    generation_id: self.generation,
                    member_id: self.id.clone(),
                    group_instance_id: self.instance.clone(),
                    assignments: self.assignments(topic, partitions),
                    ..Default::default()
                };
                link.ask(&request, 3, now);
                Wish::Asked
            }
            MemberState::Synced => Wish::Positions,
            MemberState::Active => Wish::Any,
        }
    }

    fn assignments(&self, topic: &str, partitions: i32) -> Vec<SyncGroupRequestAssignment> {
        let count = self.led.len().max(1);
        self.led
            .iter()
            .enumerate()
            .map(|(place, member)| SyncGroupRequestAssignment {
                member_id: member.clone(),
                assignment: embedded(&ConsumerProtocolAssignment {
                    assigned_partitions: vec![consumer_protocol_assignment::TopicPartition {
                        topic: topic.to_owned(),
                        partitions: (0..partitions)
                            .filter(|partition| *partition as usize % count == place)
                            .collect(),
                    }],
                    user_data: None,
                }),
            })
            .collect()
    }

    pub(super) fn leave(&mut self, link: &mut Link, group: &str, now: Instant) {
        let request = LeaveGroupRequest {
            group_id: group.to_owned(),
            members: vec![MemberIdentity {
                member_id: self.id.clone(),
                group_instance_id: self.instance.clone(),
                ..Default::default()
            }],
            ..Default::default()
        };
        link.ask(&request, 3, now);
    }

    pub(super) fn beat(&mut self, link: &mut Link, group: &str, now: Instant) {
        let request = HeartbeatRequest {
            group_id: group.to_owned(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
        };
        link.ask(&request, 3, now);
    }

    /// Also what the member owns, when the answer says it.
    pub(super) fn on_answer(
        &mut self,
        answer: &RawAnswer,
        asked: Instant,
    ) -> Result<(Effect, Option<Vec<i32>>), LineError> {
        let effect = match answer.key() {
            ApiKey::JoinGroup => self.on_joined(answer.decode::<JoinGroupRequest>()?)?,
            ApiKey::SyncGroup => {
                let response = answer.decode::<SyncGroupRequest>()?;
                match code(response.error_code)? {
                    ErrorCode::None => {
                        self.state = MemberState::Synced;
                        self.heard = asked;
                        return Ok((Effect::Nothing, Some(owned(&response.assignment)?)));
                    }
                    error => self.on_error(error),
                }
            }
            ApiKey::LeaveGroup => {
                answer.decode::<LeaveGroupRequest>()?;
                self.id.clear();
                self.on_silence()
            }
            ApiKey::Heartbeat => match code(answer.decode::<HeartbeatRequest>()?.error_code)? {
                ErrorCode::None => {
                    self.heard = asked;
                    Effect::Nothing
                }
                error => self.on_error(error),
            },
            _ => Effect::Nothing,
        };
        Ok((effect, None))
    }

    fn on_joined(&mut self, response: JoinGroupResponse) -> Result<Effect, LineError> {
        match code(response.error_code)? {
            ErrorCode::None => {
                self.state = MemberState::Joined;
                self.led = if response.leader == response.member_id {
                    response
                        .members
                        .into_iter()
                        .map(|member| member.member_id)
                        .collect()
                } else {
                    Vec::new()
                };
                self.id = response.member_id;
                self.generation = response.generation_id;
                Ok(Effect::Nothing)
            }
            ErrorCode::MemberIdRequired => {
                self.id = response.member_id;
                Ok(Effect::Nothing)
            }
            error => Ok(self.on_error(error)),
        }
    }

    pub(super) fn on_error(&mut self, error: ErrorCode) -> Effect {
        match error {
            // The group is being loaded, or the disk is full: the same again later.
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable => {
                Effect::Nothing
            }
            ErrorCode::FencedInstanceId => {
                self.id.clear();
                self.state = MemberState::Out;
                Effect::Fenced
            }
            ErrorCode::UnknownMemberId => {
                self.id.clear();
                self.on_silence()
            }
            ErrorCode::NotCoordinator => {
                self.state = MemberState::Out;
                Effect::Moved
            }
            _ => self.on_silence(),
        }
    }
}

/// A message that members send each other, as consumers do.
fn embedded<M: Message>(message: &M) -> bytes::Bytes {
    let mut w = Writer::new();
    w.i16(EMBEDDED_VERSION);
    message
        .encode(&mut w, EMBEDDED_VERSION)
        .and_then(|()| w.finish().into_bytes())
        .expect("what a member says can be encoded")
}

/// The partitions of an assignment.
fn owned(assignment: &bytes::Bytes) -> Result<Vec<i32>, LineError> {
    if assignment.is_empty() {
        return Ok(Vec::new());
    }
    let nonsense = |what: String| nonsense(format!("an assignment: {what}"));
    let mut r = Reader::new(assignment.clone());
    let version = r.i16().map_err(|error| nonsense(error.to_string()))?;
    let message = ConsumerProtocolAssignment::decode(&mut r, version)
        .map_err(|error| nonsense(error.to_string()))?;
    let topics = message.assigned_partitions.into_iter();
    Ok(topics.flat_map(|topic| topic.partitions).collect())
}
