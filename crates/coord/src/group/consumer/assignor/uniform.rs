//! `uniform`: members get as many partitions as each other, and keep what they have where that allows it.
//!
//! With one subscription for all, members are filled to a quota, which moves exactly the surplus. With several, partitions nobody
//! has go to the least loaded subscriber, and then single moves from more to less loaded subscribers of a topic even things out.
//! Balance goes before stickiness; no partition moves that does not make two loads more even.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Spec, SpecPartition};

/// Passes over the topics. Each move lowers the sum of squares of the loads, so passes end by themselves; long chains of
/// subscriptions could make many of them.
const PASSES_MAX: usize = 64;

pub(super) fn assign(spec: &Spec) -> Vec<Vec<SpecPartition>> {
    let one_subscription = spec
        .members
        .windows(2)
        .all(|pair| pair[0].topics == pair[1].topics);
    if one_subscription {
        fill(spec)
    } else {
        Balance::new(spec).run(spec)
    }
}

/// Keeps for every member what it has, up to its share; hands out the rest in order.
fn fill(spec: &Spec) -> Vec<Vec<SpecPartition>> {
    let Some(first) = spec.members.first() else {
        return Vec::new();
    };
    let total: usize = (first.topics.iter())
        .map(|&topic| spec.partitions(topic).max(0) as usize)
        .sum();
    let quota = total / spec.members.len();
    // That many members have one more than the quota.
    let mut extras = total % spec.members.len();

    let mut taken = Taken::new(spec);
    let mut assigned = Vec::with_capacity(spec.members.len());
    for member in &spec.members {
        let mut kept = Vec::with_capacity(quota + 1);
        for &place in &member.held {
            let room = kept.len() < quota || (kept.len() == quota && extras > 0);
            if room && first.topics.binary_search(&place.0).is_ok() && taken.take(place) {
                extras -= usize::from(kept.len() == quota);
                kept.push(place);
            }
        }
        assigned.push(kept);
    }

    let mut free = (first.topics.iter())
        .flat_map(|&topic| (0..spec.partitions(topic)).map(move |partition| (topic, partition)))
        .filter(|&place| !taken.has(place))
        .collect::<Vec<_>>()
        .into_iter();
    for member in &mut assigned {
        let mut share = quota.saturating_sub(member.len());
        // Members that kept one more than the quota were counted above.
        if extras > 0 && member.len() <= quota {
            extras -= 1;
            share += 1;
        }
        member.extend(free.by_ref().take(share));
    }
    assert!(free.next().is_none(), "shares add up to all partitions");
    assigned
}

/// Which partitions have a member already.
struct Taken(Vec<Vec<bool>>);

impl Taken {
    fn new(spec: &Spec) -> Self {
        Taken(
            spec.topics
                .iter()
                .map(|&(_, partitions)| vec![false; partitions.max(0) as usize])
                .collect(),
        )
    }

    /// False when somebody has it, or there is no such partition.
    fn take(&mut self, (topic, partition): SpecPartition) -> bool {
        let slot = (self.0.get_mut(topic as usize))
            .and_then(|topic| topic.get_mut(usize::try_from(partition).ok()?));
        slot.is_some_and(|taken| !std::mem::replace(taken, true))
    }

    fn has(&self, (topic, partition): SpecPartition) -> bool {
        self.0[topic as usize][partition as usize]
    }
}

/// No member yet.
const NOBODY: u32 = u32::MAX;

/// Loads while partitions move.
struct Balance {
    /// Member of each partition, by topic.
    owners: Vec<Vec<u32>>,
    loads: Vec<usize>,
    subscribers: Vec<Vec<u32>>,
}

impl Balance {
    /// Everybody keeps what they have and may have.
    fn new(spec: &Spec) -> Self {
        let mut balance = Balance {
            owners: (spec.topics.iter())
                .map(|&(_, partitions)| vec![NOBODY; partitions.max(0) as usize])
                .collect(),
            loads: vec![0; spec.members.len()],
            subscribers: spec.subscribers(),
        };
        for (index, member) in (0..).zip(&spec.members) {
            for &(topic, partition) in &member.held {
                if member.topics.binary_search(&topic).is_err() {
                    continue;
                }
                let owner = (balance.owners.get_mut(topic as usize))
                    .and_then(|owners| owners.get_mut(usize::try_from(partition).ok()?));
                if let Some(owner) = owner.filter(|owner| **owner == NOBODY) {
                    *owner = index;
                    balance.loads[index as usize] += 1;
                }
            }
        }
        balance
    }

    fn run(mut self, spec: &Spec) -> Vec<Vec<SpecPartition>> {
        let mut order: Vec<usize> = (0..self.owners.len())
            .filter(|&topic| !self.subscribers[topic].is_empty())
            .collect();
        // Topics with few subscribers have the least choice, so they choose first.
        order.sort_by_key(|&topic| self.subscribers[topic].len());
        for &topic in &order {
            self.hand_out(topic);
            self.even_out(topic);
        }
        for _ in 0..PASSES_MAX {
            let moved: usize = order.iter().map(|&topic| self.even_out(topic)).sum();
            if moved == 0 {
                break;
            }
        }
        let mut assigned = vec![Vec::new(); spec.members.len()];
        for (topic, owners) in (0_u32..).zip(&self.owners) {
            for (partition, &owner) in (0_i32..).zip(owners) {
                if owner != NOBODY {
                    assigned[owner as usize].push((topic, partition));
                }
            }
        }
        assigned
    }

    /// Partitions that nobody has go to the least loaded subscriber, one by one.
    fn hand_out(&mut self, topic: usize) {
        if !self.owners[topic].contains(&NOBODY) {
            return;
        }
        let mut least: BinaryHeap<_> = (self.subscribers[topic].iter())
            .map(|&member| Reverse((self.loads[member as usize], member)))
            .collect();
        for owner in &mut self.owners[topic] {
            if *owner == NOBODY
                && let Some(mut top) = least.peek_mut()
            {
                let Reverse((load, member)) = &mut *top;
                *load += 1;
                *owner = *member;
                self.loads[*member as usize] = *load;
            }
        }
    }

    /// Moves partitions of one topic from its most to its least loaded subscribers, while that makes the two more even.
    fn even_out(&mut self, topic: usize) -> usize {
        let subscribers = &self.subscribers[topic];
        let load = |member: &u32| self.loads[*member as usize];
        let (Some(min), Some(max)) = (
            subscribers.iter().map(load).min(),
            subscribers.iter().map(load).max(),
        ) else {
            return 0;
        };
        if max - min < 2 {
            return 0;
        }
        let mut gives: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
        for (partition, &owner) in (0_i32..).zip(&self.owners[topic]) {
            gives.entry(owner).or_default().push(partition);
        }
        let mut most: BinaryHeap<_> = (gives.keys())
            .map(|&member| (self.loads[member as usize], Reverse(member)))
            .collect();
        let mut least: BinaryHeap<_> = (subscribers.iter())
            .map(|&member| Reverse((self.loads[member as usize], member)))
            .collect();

        let mut moved = 0;
        while let (Some((high, Reverse(giver))), Some(Reverse((low, taker)))) =
            (most.pop(), least.pop())
        {
            let now = (self.loads[giver as usize], self.loads[taker as usize]);
            if now == (high, low) {
                if high < low + 2 {
                    break;
                }
                // The highest number goes first. With none left, somebody else has to give.
                if let Some(partition) = gives.get_mut(&giver).and_then(Vec::pop) {
                    self.owners[topic][partition as usize] = taker;
                    self.loads[giver as usize] -= 1;
                    self.loads[taker as usize] += 1;
                    moved += 1;
                    most.push((high - 1, Reverse(giver)));
                }
            } else {
                // A load has changed since it was put in order.
                most.push((now.0, Reverse(giver)));
            }
            least.push(Reverse((self.loads[taker as usize], taker)));
        }
        moved
    }
}
