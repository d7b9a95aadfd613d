//! Replication that is throttled (KIP-73): which replicas of which topics, and how much of them went.
//!
//! The rates are settings of the broker, the replicas settings of topics; tools set them for the time of a reassignment. As in Kafka
//! replicas in sync are never held, though what they are sent counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use config::Overrides;
use meta::{Image, Resource};
use model::{BrokerId, Instant, PartitionIndex};
use parking_lot::Mutex;
use replica::{Key, Throttle};
use wire::Uuid;

/// The throttles of one broker.
pub(crate) struct Throttles {
    me: BrokerId,
    /// Of bytes that its leaders send.
    pub(crate) leading: Side,
    /// Of bytes that it fetches.
    pub(crate) following: Side,
}

pub(crate) struct Side {
    /// Names of the settings.
    rate: &'static str,
    replicas: &'static str,
    per_second: AtomicU64,
    /// By topic.
    listed: ArcSwap<BTreeMap<Uuid, Listed>>,
    throttle: Mutex<Throttle>,
}

/// Throttled partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listed {
    All,
    Some(BTreeSet<PartitionIndex>),
}

impl Throttles {
    pub(crate) fn new(broker: &config::Broker, image: &Image, now: Instant) -> Throttles {
        let side = |rate, replicas| Side {
            rate,
            replicas,
            per_second: AtomicU64::new(u64::MAX),
            listed: ArcSwap::default(),
            throttle: Mutex::new(Throttle::new(now)),
        };
        let throttles = Throttles {
            me: broker.node_id,
            leading: side(
                "leader.replication.throttled.rate",
                "leader.replication.throttled.replicas",
            ),
            following: side(
                "follower.replication.throttled.rate",
                "follower.replication.throttled.replicas",
            ),
        };
        throttles.set_rates(broker);
        for topic in image.topics() {
            throttles.configure(topic.id, &image.overrides(&Resource::topic(&topic.name)));
        }
        throttles
    }

    /// Takes the settings of the broker.
    pub(crate) fn set_rates(&self, broker: &config::Broker) {
        for side in [&self.leading, &self.following] {
            let rate = broker.number(side.rate).unwrap_or(i64::MAX);
            let rate = u64::try_from(rate).unwrap_or(0);
            side.per_second.store(rate, Ordering::Relaxed);
        }
    }

    /// Takes the settings of a topic.
    pub(crate) fn configure(&self, topic: Uuid, overrides: &Overrides) {
        for side in [&self.leading, &self.following] {
            let text = overrides.get(side.replicas);
            side.list(topic, text.and_then(|text| listed(text, self.me)));
        }
    }

    /// A topic is gone.
    pub(crate) fn forget(&self, topic: Uuid) {
        for side in [&self.leading, &self.following] {
            side.list(topic, None);
        }
    }
}

impl Side {
    fn list(&self, topic: Uuid, listed: Option<Listed>) {
        let known = self.listed.load();
        if known.get(&topic) == listed.as_ref() {
            return;
        }
        let mut all = BTreeMap::clone(&known);
        match listed {
            Some(listed) => drop(all.insert(topic, listed)),
            None => drop(all.remove(&topic)),
        }
        self.listed.store(all.into());
    }

    /// True if the replica of a partition is among those that are throttled.
    pub(crate) fn has(&self, (topic, index): Key) -> bool {
        match self.listed.load().get(&topic) {
            Some(Listed::All) => true,
            Some(Listed::Some(indexes)) => indexes.contains(&index),
            None => false,
        }
    }

    /// Records of a partition went; they count if its replica is throttled.
    pub(crate) fn take(&self, key: Key, bytes: usize, now: Instant) {
        if 0 < bytes && self.has(key) {
            let rate = self.per_second.load(Ordering::Relaxed);
            self.throttle.lock().take(bytes, rate, now);
        }
    }

    /// When more may go of what is throttled; `None` for now.
    pub(crate) fn opens_at(&self, now: Instant) -> Option<Instant> {
        if self.listed.load().is_empty() {
            return None;
        }
        let rate = self.per_second.load(Ordering::Relaxed);
        self.throttle.lock().opens_at(rate, now)
    }
}

/// The partitions that a setting names for this broker; all of them for `*`.
fn listed(text: &str, me: BrokerId) -> Option<Listed> {
    if text.trim() == "*" {
        return Some(Listed::All);
    }
    let pairs = text
        .split(',')
        .filter_map(|pair| pair.trim().split_once(':'));
    let own = pairs.filter(|(_, broker)| broker.parse() == Ok(me.0));
    let own: BTreeSet<PartitionIndex> = own
        .filter_map(|(index, _)| index.parse().ok().map(PartitionIndex))
        .collect();
    (!own.is_empty()).then_some(Listed::Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_partitions_and_brokers() {
        let some = |indexes: &[i32]| {
            let indexes = indexes.iter().map(|index| PartitionIndex(*index));
            Some(Listed::Some(indexes.collect()))
        };
        for (text, expected) in [
            ("*", Some(Listed::All)),
            ("", None),
            ("0:2,1:3", None),
            ("0:1", some(&[0])),
            ("0:1, 0:2, 5:1,5:11", some(&[0, 5])),
        ] {
            assert_eq!(listed(text, BrokerId(1)), expected, "{text}");
        }
    }
}
