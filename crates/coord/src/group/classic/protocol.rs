//! Which protocol a generation uses, and which topics its members read.

use std::collections::{BTreeMap, BTreeSet};

use wire::messages::ConsumerProtocolSubscription;
use wire::{Message, Reader};

use super::{Classic, ClassicState, Protocol};

/// The protocol type of consumers; their metadata can be read here.
const CONSUMER: &str = "consumer";

impl Classic {
    pub(in crate::group) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// One who joins with these could work with all that are in.
    pub(super) fn supports(&self, kind: &str, protocols: &[Protocol]) -> bool {
        if self.state == ClassicState::Empty {
            return !kind.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(kind)
            && protocols.iter().any(|protocol| {
                self.supporters.get(&protocol.name).copied().unwrap_or(0) == self.members.len()
            })
    }

    /// Every member votes for the first of its protocols that all support; the first name among those with most votes.
    pub(super) fn choose_protocol(&self) -> Option<String> {
        let is_candidate = |name: &str| self.supporters.get(name) == Some(&self.members.len());
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let names = member.protocols.iter().map(|protocol| &*protocol.name);
            if let Some(name) = names.into_iter().find(|name| is_candidate(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().max()?;
        let (name, _) = votes.iter().find(|(_, count)| *count == most)?;
        Some((*name).to_owned())
    }

    /// Offsets of these topics are in use.
    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            // Its subscriptions cannot be read: take it for subscribed to all.
            None => self.is_of_consumers(),
        }
    }

    pub(in crate::group) fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    pub(super) fn read_subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_of_consumers() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let mut r = Reader::new(member.metadata(protocol));
            // Version 0 is what all versions begin with.
            if r.i16().ok()? < 0 {
                return None;
            }
            topics.extend(ConsumerProtocolSubscription::decode(&mut r, 0).ok()?.topics);
        }
        Some(topics)
    }
}
