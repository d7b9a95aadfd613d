//! Assignors by example and by chance: balanced, sticky, and every partition once.

use std::collections::BTreeMap;

use wire::Uuid;

use super::*;

/// `check(uniform, "t:4 u:2 | a t,u = t0 t1; b t,u", "a t0 t1 u0; b t2 t3 u1")`: topics, members with their subscriptions and what
/// they have, and what they get.
fn check(assignor: Assignor, case: &str, want: &str) {
    let parsed = Case::parse(case);
    assert_eq!(parsed.show(&parsed.run(assignor)), want, "{case}");
}

/// Id, instance id, subscription, and what it has.
type CaseMember = (String, Option<String>, Vec<u32>, Vec<SpecPartition>);

struct Case {
    topics: Vec<(String, i32)>,
    members: Vec<CaseMember>,
}

impl Case {
    fn parse(case: &str) -> Case {
        let (topics, members) = case.split_once(" | ").expect("topics | members");
        let topics: Vec<(String, i32)> = (topics.split_whitespace())
            .map(|topic| topic.split_once(':').expect("topic:partitions"))
            .map(|(name, count)| (name.to_owned(), count.parse().expect("a number")))
            .collect();
        let place = |name: &str| {
            topics
                .iter()
                .position(|(it, _)| it == name)
                .map(|it| it as u32)
        };
        let members = (members.split("; "))
            .map(|member| {
                let (who, held) = member.split_once(" = ").unwrap_or((member, ""));
                let (who, names) = who.split_once(' ').unwrap_or((who, ""));
                let (id, instance) = who
                    .split_once('/')
                    .map_or((who, None), |it| (it.0, Some(it.1)));
                let mut subscribed: Vec<u32> = names.split(',').filter_map(place).collect();
                subscribed.sort_unstable();
                let held = (held.split_whitespace())
                    .filter_map(|it| Some((place(it.get(..1)?)?, it[1..].parse().ok()?)))
                    .collect();
                (id.to_owned(), instance.map(str::to_owned), subscribed, held)
            })
            .collect();
        Case { topics, members }
    }

    fn run(&self, assignor: Assignor) -> Vec<Vec<SpecPartition>> {
        assignor.assign(&Spec {
            topics: (self.topics.iter().zip(1_u8..))
                .map(|((_, count), id)| (Uuid([id; 16]), *count))
                .collect(),
            members: (self.members.iter())
                .map(|(id, instance, topics, held)| MemberSpec {
                    id,
                    instance: instance.as_deref(),
                    topics: topics.as_slice().into(),
                    held: held.clone(),
                })
                .collect(),
        })
    }

    fn show(&self, assigned: &[Vec<SpecPartition>]) -> String {
        let members = self.members.iter().zip(assigned).map(|((id, ..), places)| {
            let mut places = places.clone();
            places.sort_unstable();
            places.iter().fold(id.clone(), |text, &(topic, partition)| {
                format!("{text} {}{partition}", self.topics[topic as usize].0)
            })
        });
        members.collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn uniform_shares_evenly() {
    let uniform = Assignor::Uniform;
    check(uniform, "t:4 | a t; b t", "a t0 t1; b t2 t3");
    check(uniform, "t:3 u:2 | a t,u; b t,u", "a t0 t1 t2; b u0 u1");
    check(uniform, "t:2 | a t; b t; c t", "a t0; b t1; c");
    check(uniform, "t:2 | a", "a");
}

#[test]
fn uniform_moves_only_the_surplus() {
    let uniform = Assignor::Uniform;
    check(
        uniform,
        "t:6 | a t = t0 t1 t2 t3 t4 t5; b t",
        "a t0 t1 t2; b t3 t4 t5",
    );
    check(
        uniform,
        "t:5 | a t = t0 t1; b t = t2 t3 t4",
        "a t0 t1; b t2 t3 t4",
    );
    check(
        uniform,
        "t:6 | a t = t0 t1; c t = t4 t5",
        "a t0 t1 t2; c t3 t4 t5",
    );
    // One more partition: nobody gives anything up for it.
    check(
        uniform,
        "t:5 | a t = t0 t2; b t = t1 t3",
        "a t0 t2 t4; b t1 t3",
    );
}

#[test]
fn uniform_forgets_what_is_gone_or_given_twice() {
    check(
        Assignor::Uniform,
        "t:2 u:2 | a t = t0 u0 t7; b t = t0 t1",
        "a t0; b t1",
    );
    check(
        Assignor::Uniform,
        "t:2 u:2 | a t,u = t0 u0 t7; b t = t0 t1",
        "a u0 u1; b t0 t1",
    );
}

#[test]
fn uniform_balances_different_subscriptions() {
    let uniform = Assignor::Uniform;
    check(uniform, "t:2 u:2 | a t; b t,u", "a t0 t1; b u0 u1");
    check(
        uniform,
        "t:4 u:2 | a t = t0 t1 t2 t3; b t,u; c u",
        "a t0 t1; b t2 t3; c u0 u1",
    );
    // b cannot have less without a having more than may be.
    check(uniform, "t:1 u:5 | a t = t0; b u", "a t0; b u0 u1 u2 u3 u4");
}

#[test]
fn range_gives_the_same_numbers_of_every_topic() {
    let range = Assignor::Range;
    check(range, "t:3 u:3 | a t,u; b t,u", "a t0 t1 u0 u1; b t2 u2");
    check(range, "t:4 u:2 | a t; b t,u", "a t0 t1; b t2 t3 u0 u1");
    check(range, "t:1 | a t; b t", "a t0; b");
}

#[test]
fn range_keeps_to_instance_ids() {
    let range = Assignor::Range;
    check(range, "t:2 | a/2 t; b/1 t", "a t1; b t0");
    check(range, "t:2 | c/2 t; z/1 t", "c t1; z t0");
    check(range, "t:3 | a t; b/1 t", "a t2; b t0 t1");
}

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

fn random_case(dice: &mut Dice, same: bool) -> Case {
    let topics: Vec<(String, i32)> = (0..1 + dice.below(6))
        .map(|i| (format!("{i}"), dice.below(9) as i32))
        .collect();
    let all: Vec<u32> = (0..topics.len() as u32).collect();
    let members = (0..1 + dice.below(7))
        .map(|i| {
            let subscribed = if same {
                all.clone()
            } else {
                all.iter().copied().filter(|_| dice.below(3) > 0).collect()
            };
            let held = (0..dice.below(8))
                .map(|_| (dice.below(topics.len()) as u32, dice.below(10) as i32))
                .collect::<std::collections::BTreeSet<_>>();
            (
                format!("m{i}"),
                None,
                subscribed,
                held.into_iter().collect(),
            )
        })
        .collect();
    Case { topics, members }
}

/// Every partition of a subscribed topic has one member, which subscribes to the topic.
fn assert_complete(case: &Case, assigned: &[Vec<SpecPartition>]) -> BTreeMap<SpecPartition, usize> {
    let mut owners = BTreeMap::new();
    for (member, places) in assigned.iter().enumerate() {
        for &place in places {
            assert!(case.members[member].2.contains(&place.0));
            assert!(owners.insert(place, member).is_none(), "{place:?} twice");
        }
    }
    for (topic, (_, count)) in (0_u32..).zip(&case.topics) {
        let is_subscribed = case.members.iter().any(|it| it.2.contains(&topic));
        for partition in 0..*count {
            assert_eq!(owners.contains_key(&(topic, partition)), is_subscribed);
        }
    }
    owners
}

#[test]
fn every_partition_has_one_subscriber_and_none_is_far_behind() {
    let mut dice = Dice(1);
    for round in 0..3000 {
        let case = random_case(&mut dice, round % 2 == 0);
        assert_complete(&case, &case.run(Assignor::Range));
        let assigned = case.run(Assignor::Uniform);
        let owners = assert_complete(&case, &assigned);
        for (&(topic, _), &owner) in &owners {
            for (other, member) in case.members.iter().enumerate() {
                if member.2.contains(&topic) {
                    let (has, could) = (assigned[owner].len(), assigned[other].len());
                    assert!(has <= could + 1, "{has} {could} {}", case.show(&assigned));
                }
            }
        }
    }
}

#[test]
fn what_was_assigned_stays_when_nothing_changed() {
    let mut dice = Dice(2);
    for round in 0..1000 {
        let mut case = random_case(&mut dice, round % 2 == 0);
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let assigned = case.run(assignor);
            for (member, places) in case.members.iter_mut().zip(&assigned) {
                member.3.clone_from(places);
                member.3.sort_unstable();
            }
            assert_eq!(case.show(&case.run(assignor)), case.show(&assigned));
        }
    }
}

#[test]
fn a_member_more_moves_no_more_than_its_share() {
    for (partitions, members) in [(12, 3), (100, 7), (5, 9), (64, 63)] {
        let mut case = Case {
            topics: vec![("t".into(), partitions)],
            members: (0..members)
                .map(|i| (format!("m{i:02}"), None, vec![0], Vec::new()))
                .collect(),
        };
        let before = case.run(Assignor::Uniform);
        for (member, places) in case.members.iter_mut().zip(&before) {
            member.3.clone_from(places);
        }
        case.members.push(("z".into(), None, vec![0], Vec::new()));
        let after = case.run(Assignor::Uniform);
        let moved = (after.iter().zip(&before))
            .map(|(after, before)| before.iter().filter(|it| !after.contains(it)).count())
            .sum::<usize>();
        assert_eq!(moved, after.last().map_or(0, Vec::len));
        assert_eq!(moved, partitions as usize / (members + 1));
    }
}
