//! Which brokers and directories hold a new partition.
//!
//! Owns the choice: leaders go round over the usable brokers, each replica to the directory of its broker that holds fewest
//! partitions, of those that are not cordoned. Refuses more replicas than there are usable brokers.

use std::collections::BTreeMap;

use model::BrokerId;
use wire::Uuid;

use crate::dir;
use crate::image::{Image, Registration};

pub(crate) struct Placement<'a> {
    usable: Vec<&'a Registration>,
    /// Partitions in each directory.
    load: BTreeMap<Uuid, usize>,
    turn: usize,
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
        let usable: Vec<&Registration> = (image
            .brokers()
            .filter(|broker| !broker.is_fenced && !broker.is_cordoned()))
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
        Placement {
            turn: image.topics_count(),
            usable,
            load,
        }
    }

    /// Replicas of the next partition, the first one leads.
    pub(crate) fn place(&mut self, replicas: i16) -> Result<Vec<BrokerId>, TooFew> {
        let wanted = usize::try_from(replicas).unwrap_or(0);
        let usable = self.usable.len();
        if usable < wanted {
            return Err(TooFew { usable });
        }
        self.turn = self.turn.wrapping_add(1);
        Ok((0..wanted)
            .map(|at| self.usable[self.turn.wrapping_add(at) % usable].id)
            .collect())
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
