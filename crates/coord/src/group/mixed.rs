//! Requests of the classic protocol that meet a consumer group: their members are guests in it while the group migrates.

use std::sync::Arc;

use super::classic::Join;
use super::consumer::{ConsumerGroup, Context};
use super::entry::{Entry, Group};
use super::{Groups, Out};
use crate::{Moment, Topics};

impl Groups {
    pub(super) fn guest_join(&mut self, join: &Join<'_>, topics: &dyn Topics) -> Out {
        let ask = |group: &mut ConsumerGroup, cx: &Context<'_>| {
            group.classic_join(join.caller, join.ask, cx)
        };
        let out = self.of_guest(&join.ask.group_id, join.at, topics, ask);
        out.unwrap_or_default()
    }

    /// The answer of the group, if it is a consumer group.
    pub(super) fn of_guest<T>(
        &mut self,
        id: &str,
        at: Moment,
        topics: &dyn Topics,
        ask: impl FnOnce(&mut ConsumerGroup, &Context<'_>) -> T,
    ) -> Option<T> {
        let settings = Arc::clone(&self.settings);
        let Some(Entry {
            group: Group::Consumer(consumer),
            ..
        }) = self.groups.get_mut(id)
        else {
            return None;
        };
        let cx = Context {
            at,
            topics,
            settings: settings.consumer_of(id),
        };
        let said = ask(consumer, &cx);
        self.index(id);
        Some(said)
    }
}
