//! Which brokers and directories hold a new partition.
//!
//! Owns the choice, by the rules of Kafka's placement in stripes: leaders go round over the racks, and over the brokers of each;
//! followers go to the racks behind the leader's in turn, so no rack has two replicas while another has none. Brokers that are
//! fenced hold replicas where there are no others, and never lead. Each replica goes to the directory of its broker that holds
//! fewest partitions. Brokers that shut down or are cordoned get nothing. Refuses more replicas than there are brokers.

use std::collections::BTreeMap;

use model::BrokerId;
use wire::Uuid;

use crate::dir;
use crate::image::{Image, Registration};

/// Brokers that take their turns.
#[derive(Clone, Debug, Default)]
struct Ring {
    brokers: Vec<BrokerId>,
    offset: usize,
    /// Taken in this round.
    taken: usize,
    round: usize,
}

impl Ring {
    /// The next one that has no replica of the partition that is placed in this round.
    fn next(&mut self, round: usize) -> Option<BrokerId> {
        if self.brokers.is_empty() {
            return None;
        }
        if self.round != round {
            (self.round, self.taken) = (round, 0);
            self.offset = (self.offset + 1) % self.brokers.len();
        }
        if self.taken == self.brokers.len() {
            return None;
        }
        let at = (self.offset + self.taken) % self.brokers.len();
        self.taken += 1;
        self.brokers.get(at).copied()
    }
}

#[derive(Clone, Debug, Default)]
struct Rack {
    open: Ring,
    fenced: Ring,
}

impl Rack {
    fn next(&mut self, round: usize) -> Option<BrokerId> {
        self.open.next(round).or_else(|| self.fenced.next(round))
    }
}

/// Numbers that follow from the image alone, so that a decision is a function of it.
#[derive(Clone, Debug)]
struct Chance(u64);

impl Chance {
    /// Steele, Lea and Flood's splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            let chosen = usize::try_from(self.next() % bound).unwrap_or(0);
            list.swap(last, chosen);
        }
    }
}

pub(crate) struct Placement<'a> {
    usable: Vec<&'a Registration>,
    /// In the order of their turns; brokers without a rack share one.
    racks: Vec<Rack>,
    /// The rack whose turn it is to lead.
    turn: usize,
    round: usize,
    open_count: usize,
    chance: Chance,
    /// Partitions in each directory.
    load: BTreeMap<Uuid, usize>,
}

/// How many brokers can hold a replica, when that is too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFew {
    pub(crate) usable: usize,
}

/// Why so many replicas have no place, in the words of Kafka.
pub(crate) fn no_place(wanted: i16, usable: usize) -> String {
    let why = match usable {
        0 => "All brokers are currently fenced, or have all their log directories cordoned."
            .to_owned(),
        _ => format!(
            "The target replication factor of {wanted} cannot be reached because only {usable} broker(s) are registered or some brokers have all their log directories cordoned."
        ),
    };
    format!("Unable to replicate the partition {wanted} time(s): {why}")
}

impl<'a> Placement<'a> {
    pub(crate) fn new(image: &'a Image) -> Placement<'a> {
        let usable: Vec<&Registration> = (image.brokers())
            .filter(|broker| !broker.is_shutting_down && !broker.is_cordoned())
            .collect();
        let mut load: BTreeMap<Uuid, usize> = usable
            .iter()
            .flat_map(|broker| broker.open_log_dirs())
            .map(|dir| (*dir, 0))
            .collect();
        // One directory takes everything; only several are worth a count.
        if usable.len() < load.len() {
            let all = image
                .topics()
                .flat_map(|topic| &topic.partitions)
                .flat_map(|partition| &partition.directories);
            for dir in all {
                load.entry(*dir).and_modify(|count| *count += 1);
            }
        }
        // Each request goes on where the topics before it left off.
        let begun = image.topics_count();
        let racks = racks(&usable, begun);
        Placement {
            turn: begun.checked_rem(racks.len()).unwrap_or(0),
            racks,
            round: 0,
            open_count: usable.iter().filter(|broker| !broker.is_fenced).count(),
            chance: Chance(u64::try_from(begun).unwrap_or(u64::MAX)),
            usable,
            load,
        }
    }

    /// Brokers that may hold a replica, fenced ones included: they follow once they are back.
    pub(crate) fn usable_count(&self) -> usize {
        self.usable.len()
    }

    /// Replicas of the next partition, the first one leads.
    pub(crate) fn place(&mut self, replicas: i16) -> Result<Vec<BrokerId>, TooFew> {
        let wanted = usize::try_from(replicas).unwrap_or(0);
        if self.open_count == 0 {
            return Err(TooFew { usable: 0 });
        }
        if self.usable.len() < wanted {
            let usable = self.usable.len();
            return Err(TooFew { usable });
        }
        // All have led once: another order keeps the same brokers from meeting again and again.
        if self.round == self.open_count && 1 < self.open_count {
            self.shuffle();
            self.round = 0;
        }
        self.turn %= self.racks.len();
        let mut placed = Vec::with_capacity(wanted);
        let mut led_by = self.turn;
        while placed.is_empty() {
            match self.racks[led_by].open.next(self.round) {
                Some(leader) => placed.push(leader),
                None => led_by = (led_by + 1) % self.racks.len(),
            }
        }
        self.follow(led_by, wanted, &mut placed);
        self.round += 1;
        self.turn += 1;
        Ok(placed)
    }

    fn follow(&mut self, led_by: usize, wanted: usize, placed: &mut Vec<BrokerId>) {
        let mut skipped = Some(led_by);
        let mut at = self.turn;
        while placed.len() < wanted {
            if skipped == Some(at) {
                // Its leader counts as its turn.
                skipped = None;
            } else if let Some(follower) = self.racks[at].next(self.round) {
                placed.push(follower);
            }
            at = (at + 1) % self.racks.len();
        }
    }

    fn shuffle(&mut self) {
        self.chance.shuffle(&mut self.racks);
        for rack in &mut self.racks {
            self.chance.shuffle(&mut rack.open.brokers);
            self.chance.shuffle(&mut rack.fenced.brokers);
        }
    }

    pub(crate) fn directory(&mut self, broker: BrokerId) -> Uuid {
        let broker = self.usable.iter().find(|usable| usable.id == broker);
        let dirs = broker.iter().flat_map(|broker| broker.open_log_dirs());
        let least = dirs.min_by_key(|dir| self.load.get(*dir).copied().unwrap_or(0));
        let Some(least) = least.copied() else {
            return dir::UNASSIGNED;
        };
        *self.load.entry(least).or_default() += 1;
        least
    }
}

/// The usable brokers by rack, each in the order of its number, begun so far in that topics before had their turns.
fn racks(usable: &[&Registration], begun: usize) -> Vec<Rack> {
    let mut racks: BTreeMap<Option<&str>, Rack> = BTreeMap::new();
    for broker in usable {
        let rack = racks.entry(broker.rack.as_deref()).or_default();
        let ring = if broker.is_fenced {
            &mut rack.fenced
        } else {
            &mut rack.open
        };
        ring.brokers.push(broker.id);
    }
    let count = racks.len();
    let mut racks: Vec<Rack> = racks.into_values().collect();
    for rack in &mut racks {
        for ring in [&mut rack.open, &mut rack.fenced] {
            ring.offset = (begun / count).checked_rem(ring.brokers.len()).unwrap_or(0);
        }
    }
    racks
}

#[cfg(test)]
mod tests;
