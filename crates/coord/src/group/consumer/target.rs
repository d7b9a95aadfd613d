//! The target assignment: what every member is to have in the group's epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::Timestamp;
use wire::Uuid;
use wire::group::GroupRecord;

use super::assignor::{Assignor, MemberSpec, Spec, SpecPartition};
use super::member::Member;
use super::partitions::Target;
use super::records;
use super::settle::Outlook;
use super::{ConsumerGroup, Context, Settings};
use crate::Topics;

/// Where records say when something was assigned.
pub(super) const NEVER: Timestamp = Timestamp(0);

impl ConsumerGroup {
    /// Changes that come close together are assigned together. The first assignment waits for nothing, and a clock that was set
    /// back does not hold one up.
    pub(super) fn may_assign(&self, cx: &Context) -> bool {
        let pause = i64::from(cx.settings.assignment_interval_ms.value);
        let since = cx.at.wall.0 - self.assigned_at.0;
        self.assigned_at == NEVER || !(0 <= since && since < pause)
    }
}

/// The assignor that most members ask for; among equals the one that the broker names first.
pub(super) fn preferred<'a>(
    members: impl Iterator<Item = &'a Member>,
    settings: &Settings,
) -> Assignor {
    let mut votes = vec![0_usize; settings.assignors.len()];
    for vote in members.filter_map(|member| Assignor::named(member.assignor.as_deref()?)) {
        let place = settings.assignors.iter().position(|&it| it == vote);
        if let Some(votes) = place.and_then(|place| votes.get_mut(place)) {
            *votes += 1;
        }
    }
    let most = votes.iter().copied().max().unwrap_or(0);
    (settings.assignors.iter())
        .zip(votes)
        .find(|&(_, votes)| votes == most)
        .map_or_else(|| settings.default_assignor(), |(&assignor, _)| assignor)
}

impl Outlook<'_> {
    /// Makes the target of `epoch`: all of it comes back, what differs from before is written.
    pub(super) fn assign(
        &self,
        epoch: i32,
        cx: &Context,
        records: &mut Vec<GroupRecord>,
    ) -> BTreeMap<String, Target> {
        let members = self.members();
        let assignor = preferred(members.iter().copied(), cx.settings);
        let spec = self.spec(&members, cx.topics);
        let assigned = assignor.assign(&spec);

        let group = &self.group.id;
        let mut targets = BTreeMap::new();
        for (member, places) in members.iter().zip(assigned) {
            let target = target(&spec, &places);
            let before = self.group.target.get(&member.id);
            if before != Some(&target) {
                records.push(records::target(group, &member.id, &target));
            }
            targets.insert(member.id.clone(), target);
        }
        records.push(records::target_epoch(group, epoch, cx.at.wall));
        targets
    }

    fn spec<'b>(&self, members: &[&'b Member], topics: &dyn Topics) -> Spec<'b> {
        let mut known: Vec<(&str, Uuid, i32)> = (self.topic_names().into_iter())
            .filter_map(|name| topics.topic(name).map(|(id, count)| (name, id, count)))
            .collect();
        known.sort_unstable_by_key(|&(_, id, _)| id);
        let by_name: BTreeMap<&str, u32> = (known.iter().zip(0..))
            .map(|(&(name, ..), place)| (name, place))
            .collect();
        let by_id: BTreeMap<Uuid, u32> = (known.iter().zip(0..))
            .map(|(&(_, id, _), place)| (id, place))
            .collect();

        let places = |member: &Member| -> Rc<[u32]> {
            let mut places: Vec<u32> = (member.topic_names.iter())
                .chain(self.resolved(&member.pattern).into_iter().flatten())
                .filter_map(|name| by_name.get(name.as_str()).copied())
                .collect();
            places.sort_unstable();
            places.dedup();
            places.into()
        };
        // Most members subscribe to what others do.
        let mut subscriptions: BTreeMap<(&str, &BTreeSet<String>), Rc<[u32]>> = BTreeMap::new();
        let members = (members.iter())
            .map(|member| {
                let subscription = (member.pattern.as_str(), &member.topic_names);
                let topics = (subscriptions.entry(subscription)).or_insert_with(|| places(member));
                MemberSpec {
                    id: &member.id,
                    instance: member.instance_id.as_deref(),
                    topics: Rc::clone(topics),
                    held: self.held(member, &by_id),
                }
            })
            .collect();
        Spec {
            topics: known.iter().map(|&(_, id, count)| (id, count)).collect(),
            members,
        }
    }

    /// The member's partitions by the last target; one that takes another's place has those of that one.
    fn held(&self, member: &Member, by_id: &BTreeMap<Uuid, u32>) -> Vec<SpecPartition> {
        let instance = member.instance_id.as_deref();
        let target = (self.group.target.get(&member.id)).or_else(|| {
            let holder = self.group.statics.get(instance?)?;
            self.group.target.get(holder)
        });
        (target.into_iter().flatten())
            .filter_map(|(id, partitions)| by_id.get(id).map(|&place| (place, partitions)))
            .flat_map(|(place, partitions)| partitions.iter().map(move |&it| (place, it)))
            .collect()
    }

    /// Changes when a topic that is subscribed to does: its id, its partitions, their racks. Kafka's place for it in the record,
    /// not its function: a group that comes from a Kafka log is assigned anew once.
    pub(super) fn metadata_hash(&self, topics: &dyn Topics) -> i64 {
        let mut hash = Fnv::default();
        let mut is_empty = true;
        for name in self.topic_names() {
            let Some((id, partitions)) = topics.topic(name) else {
                continue;
            };
            is_empty = false;
            hash.text(name);
            hash.bytes(&id.0);
            hash.bytes(&partitions.to_be_bytes());
            for mut racks in topics.racks(name) {
                racks.sort_unstable();
                hash.bytes(&racks.len().to_be_bytes());
                racks.iter().for_each(|rack| hash.text(rack));
            }
        }
        if is_empty { 0 } else { hash.0.cast_signed() }
    }
}

fn target(spec: &Spec, places: &[SpecPartition]) -> Target {
    let mut target = Target::new();
    for &(topic, partition) in places {
        let (id, _) = spec.topics[topic as usize];
        target.entry(id).or_default().insert(partition);
    }
    target
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(&text.len().to_be_bytes());
        self.bytes(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;

    #[test]
    fn members_share_what_they_subscribe_to() {
        let mut world = World::new();
        world.topics.set("t", 1);
        world.topics.set("u", 1);
        let subscribe = |world: &mut World, name: &str, topics: &[&str], pattern: Option<&str>| {
            let client = world.clients.entry(name.to_owned()).or_default();
            client.names = topics.iter().map(|&it| it.to_owned()).collect();
            client.pattern = pattern.map(str::to_owned);
            world.beat(name, |_| {});
        };
        subscribe(&mut world, "a", &["t"], None);
        subscribe(&mut world, "b", &["t"], None);
        subscribe(&mut world, "c", &["t"], Some("u"));
        subscribe(&mut world, "d", &["t"], Some("u"));
        let none = BTreeMap::new();
        let outlook = Outlook {
            group: &world.group,
            gone: &BTreeSet::new(),
            member: None,
            resolved: &none,
        };
        let members = outlook.members();
        let spec = outlook.spec(&members, &world.topics);
        let topics: Vec<_> = spec.members.iter().map(|it| &it.topics).collect();
        assert_eq!((topics[0].len(), topics[2].len()), (1, 2));
        assert!(Rc::ptr_eq(topics[0], topics[1]) && Rc::ptr_eq(topics[2], topics[3]));
    }
}
