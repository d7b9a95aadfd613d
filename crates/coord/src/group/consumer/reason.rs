//! Why a group last moved on: a sentence for people. Soft: this process alone remembers it.

use super::member::Member;
use super::settle::Entry;
use super::timers::Wait;
use super::{ConsumerGroup, Context};
use crate::group::Rebalance;

impl ConsumerGroup {
    /// Why the group left its last epoch. Records that were refused moved nothing, and say nothing.
    #[must_use]
    pub fn last_rebalance(&self) -> Option<&Rebalance> {
        (self.last_rebalance.as_ref()).filter(|last| last.generation < self.epoch)
    }

    /// The reason from before the group became one of this protocol is remembered too.
    pub(in crate::group) fn goes_on_from(&mut self, last: Option<Rebalance>) {
        self.last_rebalance = last;
    }

    pub(super) fn moves_on(&mut self, reason: String, cx: &Context) {
        self.last_rebalance = Some(Rebalance {
            reason,
            at: cx.at.wall,
            generation: self.epoch,
        });
    }
}

pub(super) const TOPICS_CHANGED: &str = "topics that members subscribe to have changed";

/// Of a member that joined, changed, or came when the topics were not what they had been.
pub(super) fn of_member(entry: &Entry, member: &Member, is_resubscribed: bool) -> String {
    let id = &member.id;
    match &entry.replaced {
        _ if !is_resubscribed => TOPICS_CHANGED.to_owned(),
        Some(before) => format!("member {id} took the place of {before} and subscribes otherwise"),
        None if entry.is_known => format!("member {id} changed its subscription"),
        None => format!("member {id} is new"),
    }
}

pub(super) fn of_leaver(id: &str) -> String {
    format!("member {id} left")
}

/// Of the members whose time was up in one tick: the first and what it was waited for, and how many there were.
pub(super) fn of_late(first: &str, wait: Wait, count: usize) -> String {
    let what = match wait {
        Wait::Session => "was silent for its session timeout",
        Wait::Revocation { .. } => "did not give up its partitions in time",
        Wait::Join => "did not join again in time",
        Wait::Sync => "did not fetch its assignment in time",
    };
    match count {
        1 => format!("member {first} {what}"),
        count => format!("{count} members were late; member {first} {what}"),
    }
}
