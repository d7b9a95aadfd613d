//! The consumer protocol (KIP-848) as a member plays it: one heartbeat that joins, reports, learns and leaves.
//!
//! A member keeps its epoch and its partitions over a lost connection. It gives a partition up some beats after it was told to, and
//! says so in the beat after that. Invariant: `holds_until` is never later than the coordinator may give the partition away.

use std::collections::BTreeMap;
use std::time::Duration;

use env::sim::Chance;
use model::Instant;
use wire::messages::ConsumerGroupHeartbeatRequest;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::{ApiKey, ErrorCode, Uuid};

use super::{Effect, Held, REBALANCE_MS, SESSION_MS, Wish};
use crate::client::keep::Link;
use crate::client::line::{LineError, RawAnswer, code};

const VERSION: i16 = 1;
const LEAVE: i32 = -1;
/// Of a static member that comes back.
const LEAVE_FOR_A_WHILE: i32 = -2;

pub(super) struct Consumer {
    id: String,
    /// Of a static member.
    instance: Option<String>,
    /// 0 while the member is out.
    epoch: i32,
    topic_id: Uuid,
    /// The next beat says everything: after joining, after a silence, and when what it owns has changed.
    is_full: bool,
    /// Partitions to be given up, and since when the coordinator may count the time.
    giving_up: BTreeMap<i32, Instant>,
    /// When the last beat that was answered was sent, and the first one after it that was not.
    heard: Instant,
    unheard: Option<Instant>,
}

impl Consumer {
    pub(super) fn new(chance: &mut Chance, instance: Option<String>) -> Consumer {
        Consumer {
            id: format!("{:016x}", chance.next_u64()),
            instance,
            epoch: 0,
            topic_id: Uuid::ZERO,
            is_full: true,
            giving_up: BTreeMap::new(),
            heard: Instant(0),
            unheard: None,
        }
    }

    pub(super) fn is_out(&self) -> bool {
        self.epoch == 0
    }

    pub(super) fn credentials(&self) -> (&str, i32) {
        (&self.id, self.epoch)
    }

    /// A member that does not give up in time what it has to is thrown out, with everything.
    pub(super) fn holds_until(&self) -> Instant {
        let session = self.heard.plus(Duration::from_millis(SESSION_MS as u64));
        match self.giving_up.values().min() {
            Some(since) => session.min(since.plus(Duration::from_millis(REBALANCE_MS as u64))),
            None => session,
        }
    }

    pub(super) fn on_silence(&mut self) -> Effect {
        self.is_full = true;
        Effect::Nothing
    }

    /// The process ends without a word, and another one comes for the same instance.
    pub(super) fn restart(&mut self, chance: &mut Chance) {
        self.id = format!("{:016x}", chance.next_u64());
        self.on_thrown_out();
    }

    fn on_thrown_out(&mut self) -> Effect {
        self.epoch = 0;
        self.is_full = true;
        self.giving_up.clear();
        Effect::ThrownOut
    }

    /// Joins where it must; the member asks for what is left.
    pub(super) fn wish(
        &mut self,
        link: &mut Link,
        group: &str,
        topic: &str,
        held: &Held,
        now: Instant,
    ) -> Wish {
        if self.epoch == 0 || self.is_full {
            self.beat(link, group, topic, held, now);
            Wish::Asked
        } else if held.positions.values().any(Option::is_none) {
            Wish::Positions
        } else {
            Wish::Any
        }
    }

    /// Some of the partitions that are to be given up, now.
    pub(super) fn lets_go(&mut self, chance: &mut Chance) -> Vec<i32> {
        let gone: Vec<i32> = self
            .giving_up
            .keys()
            .copied()
            .filter(|_| chance.one_in(2))
            .collect();
        for partition in &gone {
            self.giving_up.remove(partition);
            self.is_full = true;
        }
        gone
    }

    pub(super) fn beat(
        &mut self,
        link: &mut Link,
        group: &str,
        topic: &str,
        held: &Held,
        now: Instant,
    ) {
        let mut request = ConsumerGroupHeartbeatRequest {
            group_id: group.to_owned(),
            member_id: self.id.clone(),
            instance_id: self.instance.clone(),
            member_epoch: self.epoch,
            ..Default::default()
        };
        if self.is_full {
            request.rebalance_timeout_ms = REBALANCE_MS;
            request.subscribed_topic_names = Some(vec![topic.to_owned()]);
            let partitions: Vec<i32> = held.positions.keys().copied().collect();
            request.topic_partitions = Some(if partitions.is_empty() {
                Vec::new()
            } else {
                vec![TopicPartitions {
                    topic_id: self.topic_id,
                    partitions,
                }]
            });
        }
        self.unheard.get_or_insert(now);
        link.ask(&request, VERSION, now);
    }

    /// A static member says that it comes back, and does so under another id.
    pub(super) fn leave(
        &mut self,
        link: &mut Link,
        group: &str,
        now: Instant,
        chance: &mut Chance,
    ) {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: group.to_owned(),
            member_id: self.id.clone(),
            instance_id: self.instance.clone(),
            member_epoch: match self.instance {
                Some(_) => LEAVE_FOR_A_WHILE,
                None => LEAVE,
            },
            ..Default::default()
        };
        link.ask(&request, VERSION, now);
        match self.instance {
            Some(_) => self.restart(chance),
            None => drop(self.on_thrown_out()),
        }
    }

    /// Also the partitions that are new.
    pub(super) fn on_answer(
        &mut self,
        answer: &RawAnswer,
        asked: Instant,
        held: &Held,
    ) -> Result<(Effect, Option<Vec<i32>>), LineError> {
        if answer.key() != ApiKey::ConsumerGroupHeartbeat {
            return Ok((Effect::Nothing, None));
        }
        let response = answer.decode::<ConsumerGroupHeartbeatRequest>()?;
        match code(response.error_code)? {
            ErrorCode::None => {}
            error => return Ok((self.on_error(error), None)),
        }
        let unheard = self.unheard.take();
        if response.member_epoch < 0 {
            return Ok((Effect::Nothing, None));
        }
        self.heard = asked;
        self.epoch = response.member_epoch;
        self.is_full = false;
        let Some(assignment) = response.assignment else {
            return Ok((Effect::Nothing, None));
        };
        let mut assigned = Vec::new();
        for topic in assignment.topic_partitions {
            self.topic_id = topic.topic_id;
            assigned.extend(topic.partitions);
        }
        // The coordinator may have told it in an answer that was lost.
        let since = unheard.unwrap_or(asked).min(asked);
        for partition in held.positions.keys() {
            if assigned.contains(partition) {
                self.giving_up.remove(partition);
            } else {
                self.giving_up.entry(*partition).or_insert(since);
            }
        }
        assigned.retain(|partition| !held.positions.contains_key(partition));
        // The coordinator waits to hear that the member has taken what it got.
        self.is_full = !assigned.is_empty();
        Ok((Effect::Nothing, Some(assigned)))
    }

    pub(super) fn on_error(&mut self, error: ErrorCode) -> Effect {
        match error {
            ErrorCode::NotCoordinator => Effect::Moved,
            ErrorCode::FencedInstanceId => {
                self.on_thrown_out();
                Effect::Fenced
            }
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => self.on_thrown_out(),
            // A commit or a fetch overtook the news of a new epoch, the group is being loaded, or the disk is full: later again.
            _ => Effect::Nothing,
        }
    }
}
