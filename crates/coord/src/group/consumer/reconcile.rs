//! One member's next step from what it has to what it is to have.
//!
//! A member first gives up, then moves to the epoch of the target, then is given what is free; the rest comes as others give up.
//! Partitions that it is asked to give up stay its own until it reports that it has no such partition.

use std::collections::{BTreeMap, BTreeSet};

use wire::{ErrorCode, Uuid};

use super::member::{Member, Progress};
use super::partitions::{Owned, Target, owns, reports_any};
use crate::group::Refusal;
use crate::group::ask::TopicPartitions;

/// Where a member is to get, and what can be known on the way.
pub(super) struct Goal<'a> {
    pub(super) epoch: i32,
    pub(super) target: &'a Target,
    /// Its subscription has just changed: topics that it no longer wants go at once, whatever the epoch.
    pub(super) is_resubscribed: bool,
    pub(super) is_subscribed: &'a dyn Fn(Uuid) -> bool,
    /// Nobody else has the partition.
    pub(super) is_free: &'a dyn Fn(Uuid, i32) -> bool,
    /// The partitions that the member reports; nothing reported is nothing known.
    pub(super) reported: Option<&'a [TopicPartitions]>,
}

pub(super) fn advance(member: &Member, goal: &Goal) -> Result<Member, Refusal> {
    match member.progress {
        Progress::Stable if member.epoch != goal.epoch => Ok(next(member, goal)),
        Progress::Unrevoked if !reports_any(goal.reported, &member.revoking) => {
            Ok(next(member, goal))
        }
        Progress::Stable | Progress::Unrevoked if goal.is_resubscribed => {
            Ok(drop_unsubscribed(member, goal))
        }
        Progress::Stable | Progress::Unrevoked => Ok(member.clone()),
        Progress::Unreleased => Ok(next(member, goal)),
        Progress::Unknown if goal.reported.is_some_and(<[_]>::is_empty) => Ok(next(member, goal)),
        Progress::Unknown => Err(Refusal::new(
            ErrorCode::FencedMemberEpoch,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )),
    }
}

fn next(member: &Member, goal: &Goal) -> Member {
    let mut kept = Owned::new();
    let mut revoking = Owned::new();
    for (&topic, partitions) in &member.assigned {
        let target = goal
            .target
            .get(&topic)
            .filter(|_| (goal.is_subscribed)(topic));
        for (&partition, &epoch) in partitions {
            let stays = target.is_some_and(|target| target.contains(&partition));
            let side = if stays { &mut kept } else { &mut revoking };
            side.entry(topic).or_default().insert(partition, epoch);
        }
    }
    if !revoking.is_empty() && reports_any(goal.reported, &revoking) {
        return step(member, member.epoch, Progress::Unrevoked, kept, revoking);
    }

    let mut waits = false;
    for (&topic, partitions) in goal.target {
        if !(goal.is_subscribed)(topic) {
            continue;
        }
        for &partition in partitions {
            if owns(&kept, topic, partition) {
                continue;
            }
            if (goal.is_free)(topic, partition) {
                let topic = kept.entry(topic).or_default();
                topic.insert(partition, goal.epoch);
            } else {
                waits = true;
            }
        }
    }
    let progress = if waits {
        Progress::Unreleased
    } else {
        Progress::Stable
    };
    step(member, goal.epoch, progress, kept, BTreeMap::new())
}

/// Topics that the member no longer subscribes to are given up, in the epoch that it is in.
fn drop_unsubscribed(member: &Member, goal: &Goal) -> Member {
    let unwanted: BTreeSet<Uuid> = (member.assigned.keys().copied())
        .filter(|&topic| !(goal.is_subscribed)(topic))
        .collect();
    if unwanted.is_empty() {
        return member.clone();
    }
    let mut kept = member.assigned.clone();
    let mut revoking = member.revoking.clone();
    for topic in unwanted {
        if let Some(partitions) = kept.remove(&topic) {
            revoking.entry(topic).or_default().extend(partitions);
        }
    }
    if reports_any(goal.reported, &revoking) {
        step(member, member.epoch, Progress::Unrevoked, kept, revoking)
    } else {
        // It has given them up before it was asked.
        step(
            member,
            member.epoch,
            member.progress,
            kept,
            member.revoking.clone(),
        )
    }
}

fn step(
    member: &Member,
    epoch: i32,
    progress: Progress,
    assigned: Owned,
    revoking: Owned,
) -> Member {
    let mut member = member.clone();
    member.move_to_epoch(epoch);
    member.progress = progress;
    member.assigned = assigned;
    member.revoking = revoking;
    member
}
