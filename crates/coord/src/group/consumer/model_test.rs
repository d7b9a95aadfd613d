//! Many members of both protocols, at random: joins, pauses, lost answers, leaves, topics that come and go, restarts. One seed is one run.

use std::collections::{BTreeMap, BTreeSet};

use wire::ErrorCode;

use super::world::{TestPartition, World};
use super::{ConsumerState, Migration};

const NAMES: [&str; 5] = ["t", "ta", "tb", "ua", "ub"];
/// Of the classic protocol; they read `t`.
const GUESTS: [&str; 2] = ["g0", "g1"];
const MEMBERS: [&str; 6] = ["m0", "m1", "m2", "m3", "m4", "m5"];

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    fn names(&mut self) -> Vec<String> {
        (NAMES.iter())
            .filter(|_| self.below(2) == 0)
            .map(|name| (*name).to_owned())
            .collect()
    }
}

/// The model that the run is checked against from step to step.
#[derive(Default)]
struct Seen {
    group_epoch: i32,
    member_epochs: BTreeMap<String, i32>,
}

impl World {
    fn random_step(&mut self, dice: &mut Dice) {
        let name = MEMBERS[dice.below(MEMBERS.len())];
        let is_in = self
            .clients
            .get(name)
            .is_some_and(|client| client.epoch > 0);
        match dice.below(22) {
            0 => {
                let topic = NAMES[dice.below(NAMES.len())];
                let now = self.topics.topics.get(topic).map_or(0, |it| it.1);
                let next = if dice.below(4) == 0 {
                    0
                } else {
                    now + dice.below(4) as i32
                };
                if next != now {
                    self.topics.set(topic, next);
                }
            }
            1 => self.pass(dice.below(50_000) as i64),
            2 => self.restart(),
            3 if is_in => {
                self.beat(name, |beat| {
                    beat.member_epoch = -1;
                    beat.owned = None;
                });
            }
            4 if is_in && self.clients[name].instance.is_some() => {
                self.beat(name, |beat| {
                    beat.member_epoch = -2;
                    beat.owned = None;
                });
                // It comes back as another member.
                let id = format!("{name}-{}", dice.0 % 1000);
                self.clients.get_mut(name).expect("a client").id = id;
            }
            5 if is_in => {
                let names = dice.names();
                self.clients
                    .get_mut(name)
                    .expect("a client")
                    .names
                    .clone_from(&names);
                self.beat(name, |beat| beat.topic_names = Some(names));
            }
            6 if is_in => {
                // The answer is lost; what the client has stays as it was, and the next request is a full one.
                let before = self.clients[name].clone();
                self.beat(name, |_| {});
                self.clients.insert(name.to_owned(), before);
                self.full(name);
            }
            7 if is_in => {
                self.beat(name, |beat| beat.owned = None);
            }
            8 if is_in => {
                // The process is gone, and another one comes up.
                self.clients.get_mut(name).expect("a client").drop_all();
            }
            9 => self.tick(),
            20.. => self.guest(GUESTS[dice.below(GUESTS.len())]),
            _ if is_in => {
                self.beat(name, |_| {});
            }
            _ if dice.below(3) == 0 => {
                let client = self.clients.entry(name.to_owned()).or_default();
                client.names = dice.names();
                client.pattern = (dice.below(4) == 0).then(|| "t.*".to_owned());
                client.instance = (name < "m2").then(|| format!("i-{name}"));
                self.beat(name, |_| {});
            }
            _ => {}
        }
    }

    /// A heartbeat of a guest and what follows from it. One that joined has its assignment at once, and is not sent to join again.
    fn guest(&mut self, name: &str) {
        let client = self.clients.entry(name.to_owned()).or_default();
        client.id = name.to_owned();
        if client.epoch > 0 {
            let generation = client.epoch;
            match self.classic_beat(name, generation) {
                None => return,
                Some(ErrorCode::RebalanceInProgress) => {}
                Some(ErrorCode::UnknownMemberId) => {
                    return self.clients.get_mut(name).expect("a client").drop_all();
                }
                other => panic!("{other:?}"),
            }
        }
        let has: Vec<i32> = self.clients[name].has.iter().map(|it| it.1).collect();
        let generation = (self.classic_join(name, "range", &has)).expect("a generation");
        let told = self.classic_sync(name, generation).expect("an assignment");
        let topic = self.topics.topics.get("t").map(|it| it.0);
        let client = self.clients.get_mut(name).expect("a client");
        client.epoch = generation;
        client.has = (told.into_iter())
            .filter_map(|partition| Some((topic?, partition)))
            .collect();
    }

    fn full(&mut self, name: &str) {
        let has = super::world::report(&self.clients[name].has);
        let names = self.clients[name].names.clone();
        self.beat(name, |beat| {
            beat.owned = Some(has);
            beat.rebalance_timeout_ms = Some(super::world::REBALANCE_MS);
            beat.topic_names = Some(names);
        });
    }

    fn assert_sound(&self, seen: &mut Seen) {
        let group = &self.group;
        assert!(
            seen.group_epoch <= group.epoch,
            "the group's epoch went back"
        );
        seen.group_epoch = group.epoch;
        assert!(group.assignment_epoch <= group.epoch);
        seen.member_epochs
            .retain(|id, _| group.members.contains_key(id));
        for member in group.members.values().filter(|it| it.epoch > 0) {
            let before = seen.member_epochs.insert(member.id.clone(), member.epoch);
            assert!(
                before.unwrap_or(0) <= member.epoch,
                "a member's epoch went back"
            );
        }

        // As the group believes it.
        let mut owners: BTreeMap<TestPartition, &str> = BTreeMap::new();
        for member in group.members.values() {
            for (&topic, partitions) in member.assigned.iter().chain(&member.revoking) {
                for &partition in partitions.keys() {
                    let other = owners.insert((topic, partition), &member.id);
                    assert_eq!(other, None, "{partition} of {}", member.id);
                }
            }
        }
        // As the members believe it that are in the group.
        let mut holders: BTreeMap<TestPartition, &str> = BTreeMap::new();
        for client in self.clients.values() {
            let member = group.members.get(&client.id);
            if member.is_none_or(|member| member.epoch < client.epoch || client.epoch <= 0) {
                continue;
            }
            for &place in &client.has {
                let other = holders.insert(place, &client.id);
                assert_eq!(other, None, "{place:?} of {}", client.id);
                assert_eq!(owners.get(&place).copied(), Some(client.id.as_str()));
            }
        }
    }

    /// Heartbeats alone, until nothing changes.
    fn quieten(&mut self) {
        for _ in 0..40 {
            for name in MEMBERS {
                if self
                    .clients
                    .get(name)
                    .is_some_and(|client| client.epoch > 0)
                {
                    self.beat(name, |_| {});
                }
            }
            for name in GUESTS {
                if self.clients.get(name).is_some_and(|it| it.epoch > 0) {
                    self.guest(name);
                }
            }
            self.pass(5_000);
            self.tick();
        }
    }

    fn assert_converged(&self) {
        let group = &self.group;
        if group.members.is_empty() {
            return;
        }
        assert_eq!(group.state(), ConsumerState::Stable);
        let mut owned: BTreeSet<TestPartition> = BTreeSet::new();
        for client in self.clients.values().filter(|client| client.epoch > 0) {
            let member = &group.members[&client.id];
            // A member that subscribes to nothing changes nothing, and has no target of its own.
            let target = group.target_of(&client.id);
            let places = |it: &BTreeMap<_, _>| it.keys().copied().collect::<BTreeSet<i32>>();
            let has: BTreeMap<_, _> = (member.assigned.iter())
                .map(|(&topic, it)| (topic, places(it)))
                .collect();
            assert_eq!(has, target);
            assert_eq!(client.epoch, group.assignment_epoch);
            owned.extend(&client.has);
        }
        for (name, &(id, partitions)) in &self.topics.topics {
            for partition in 0..partitions {
                let is_owned = owned.contains(&(id, partition));
                assert_eq!(is_owned, group.subscribes_to(name), "{name} {partition}");
            }
        }
    }
}

#[test]
fn random_runs_keep_every_promise() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let mut world = World::new();
        world.settings.assignment_interval_ms.value = [0, 1_000][dice.below(2)];
        world.settings.migration = Migration::Upgrade;
        let mut seen = Seen::default();
        for _ in 0..4 {
            for _ in 0..80 {
                world.random_step(&mut dice);
                world.assert_sound(&mut seen);
            }
            world.quieten();
            world.assert_sound(&mut seen);
            world.assert_converged();
        }
    }
}

#[test]
fn partitions_that_need_not_move_are_never_taken_away() {
    let mut world = World::new();
    world.topics.set("ta", 12);
    for name in &MEMBERS[..3] {
        world.clients.entry((*name).to_owned()).or_default().names = vec!["ta".to_owned()];
        world.beat(name, |_| {});
    }
    world.quieten();
    let before: Vec<_> = MEMBERS[..3]
        .iter()
        .map(|name| world.clients[*name].has.clone())
        .collect();

    world.clients.entry("m3".to_owned()).or_default().names = vec!["ta".to_owned()];
    world.beat("m3", |_| {});
    let mut kept = before.clone();
    for _ in 0..10 {
        for (name, kept) in MEMBERS[..3].iter().zip(&mut kept) {
            world.beat(name, |_| {});
            let has = &world.clients[*name].has;
            assert!(has.is_subset(kept), "nothing is given to those who give");
            kept.retain(|it| has.contains(it));
        }
        world.beat("m3", |_| {});
        world.pass(1_000);
    }
    // Four had 4 each; one of each moved.
    assert!(kept.iter().all(|kept| kept.len() == 3), "{kept:?}");
    assert_eq!(world.clients["m3"].has.len(), 3);

    // The one that came last goes: the others get back one each and give up nothing.
    world.beat("m3", |beat| {
        beat.member_epoch = -1;
        beat.owned = None;
    });
    for _ in 0..10 {
        for (name, kept) in MEMBERS[..3].iter().zip(&kept) {
            world.beat(name, |_| {});
            assert!(world.clients[*name].has.is_superset(kept));
        }
        world.pass(1_000);
    }
    world.assert_converged();
}
