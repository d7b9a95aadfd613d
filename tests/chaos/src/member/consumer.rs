//! The consumer protocol (KIP-848): what a member owns goes with every beat, and what it is to give up it gives up at once.

use client::Error;
use wire::messages::ConsumerGroupHeartbeatRequest;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::{ErrorCode, Uuid};

use super::{Member, REBALANCE_MS, code};
use crate::load::TOPIC;

const LEAVE: i32 = -1;

#[derive(Default)]
pub(super) struct Consumer {
    topic_id: Uuid,
}

impl Consumer {
    pub(super) fn beat(&mut self, member: &mut Member) -> Result<(), Error> {
        let asked = member.clock.now();
        let told = member.call(&self.request(member, member.epoch))?;
        match code(told.error_code) {
            ErrorCode::None => {}
            // The last one: meanwhile the group went back to the classic protocol, until somebody joins by this one.
            ErrorCode::UnknownMemberId
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::GroupIdNotFound => {
                member.end("out");
                return Ok(());
            }
            // The group is being loaded: the same again later.
            _ => return Ok(()),
        }
        member.note_beat(asked);
        member.epoch = told.member_epoch;
        if let Some(assignment) = told.assignment {
            let mut target = Vec::new();
            for topic in assignment.topic_partitions {
                self.topic_id = topic.topic_id;
                target.extend(topic.partitions);
            }
            member.own(&target);
        }
        Ok(())
    }

    pub(super) fn leave(&self, member: &mut Member) -> Result<(), Error> {
        member.call(&self.request(member, LEAVE)).map(drop)
    }

    fn request(&self, member: &Member, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        let partitions: Vec<i32> = member.positions.keys().copied().collect();
        let topic_partitions = if partitions.is_empty() {
            Vec::new()
        } else {
            vec![TopicPartitions {
                topic_id: self.topic_id,
                partitions,
            }]
        };
        ConsumerGroupHeartbeatRequest {
            group_id: member.group.clone(),
            member_id: member.id.clone(),
            member_epoch: epoch,
            rebalance_timeout_ms: REBALANCE_MS,
            subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
            topic_partitions: Some(topic_partitions),
            ..Default::default()
        }
    }
}
