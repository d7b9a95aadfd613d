//! The connections of a transactional producer: one to the only broker, or those to the coordinator of its id, to that of its group and
//! to the leader of each place.
//!
//! A step waits for the one connection that it needs. A batch waits for its leader while others go on.

use std::collections::{BTreeMap, BTreeSet};

use env::sim::Outside;

use super::{RECONNECT, Transactor, TransactorState, TxnPartition};
use crate::client::keep::Link;
use crate::client::line::Line;
use crate::client::notes::Notes;
use crate::client::requests::{GROUP, TRANSACTION};
use crate::client::way::{Goal, Way};

/// The connections beside that to the coordinator of the transactional id, where brokers share the work.
pub(super) struct Sides {
    group: Link,
    /// To the leader of each place.
    places: BTreeMap<TxnPartition, Link>,
}

impl Transactor {
    /// Goes to the coordinators and leaders of a cluster.
    pub(crate) fn led(mut self, mut way: impl FnMut(Goal) -> Way) -> Transactor {
        let now = self.link.wake;
        let mut link = |goal| {
            let mut link = Link::new(now, RECONNECT);
            link.way = Some(way(goal));
            link
        };
        let coordinator = |key: &str, key_type| Goal::Coordinator {
            key: key.to_owned(),
            key_type,
        };
        self.link = link(coordinator(&self.habits.id, TRANSACTION));
        let group = self.habits.group.as_deref().unwrap_or_default();
        let place = |place: &TxnPartition| {
            let (topic, partition) = place.clone();
            (place.clone(), link(Goal::Leader { topic, partition }))
        };
        self.sides = Some(Sides {
            places: self.habits.places.iter().map(place).collect(),
            group: link(coordinator(group, GROUP)),
        });
        self.state = TransactorState::Out;
        self
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        let sides = self.sides.iter();
        let sides = sides.flat_map(|it| std::iter::once(&it.group).chain(it.places.values()));
        std::iter::once(&self.link).chain(sides)
    }

    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        let sides = self.sides.iter_mut();
        let sides =
            sides.flat_map(|it| std::iter::once(&mut it.group).chain(it.places.values_mut()));
        std::iter::once(&mut self.link).chain(sides)
    }

    /// The connection to the coordinator of the group.
    pub(super) fn group_link(&mut self) -> &mut Link {
        match &mut self.sides {
            Some(sides) => &mut sides.group,
            None => &mut self.link,
        }
    }

    /// The connection to the leader of a place.
    pub(super) fn leader_link(&mut self, place: &TxnPartition) -> &mut Link {
        let sides = self.sides.as_mut();
        let known = sides.and_then(|sides| sides.places.get_mut(place));
        known.unwrap_or(&mut self.link)
    }

    pub(super) fn unanswered(&self) -> usize {
        let lines = self.links().filter_map(|link| link.line.as_ref());
        lines.map(Line::unanswered).sum()
    }

    /// Opens the connection that the next step needs; true if it was open.
    pub(super) fn reach(&mut self, world: &Outside, notes: &mut Notes) -> bool {
        let now = world.now();
        if self.sides.is_some() && self.state == TransactorState::Open {
            self.reach_leaders(world, notes);
            return true;
        }
        let link = match self.state {
            TransactorState::Looking | TransactorState::Committing => self.group_link(),
            _ => &mut self.link,
        };
        if link.line.is_some() {
            return true;
        }
        let is_open = link.open(world, notes);
        if is_open && self.state == TransactorState::Open && !self.gives_up() {
            self.send_again(now, notes);
        }
        false
    }

    /// Batches that wait for their leader go there as soon as it is reached.
    fn reach_leaders(&mut self, world: &Outside, notes: &mut Notes) {
        let Some(txn) = self.txn.as_ref().filter(|_| !self.gives_up()) else {
            return;
        };
        let waiting = txn.batches.iter();
        let waiting = waiting.filter(|it| !it.is_acked && it.correlation.is_none());
        let places: BTreeSet<TxnPartition> = waiting.map(|it| it.place.clone()).collect();
        for place in places {
            let link = self.leader_link(&place);
            if link.line.is_some() || link.open(world, notes) {
                self.send_to(&place, world.now(), notes);
            }
        }
    }
}
