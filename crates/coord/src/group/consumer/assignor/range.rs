//! `range`: every topic is cut into as many runs as it has subscribers.
//!
//! Members with the same topics get the same numbers of topics with as many partitions. Static members come first, in the order
//! of their instance ids: one that comes back under another member id gets the same run.

use super::{Spec, SpecPartition};

pub(super) fn assign(spec: &Spec) -> Vec<Vec<SpecPartition>> {
    let mut rank: Vec<u32> = (0..).take(spec.members.len()).collect();
    rank.sort_by_key(|&member| {
        let member = &spec.members[member as usize];
        (member.instance.is_none(), member.instance, member.id)
    });
    let mut subscribers = vec![Vec::new(); spec.topics.len()];
    for member in rank {
        for &topic in &*spec.members[member as usize].topics {
            subscribers[topic as usize].push(member);
        }
    }

    let mut assigned = vec![Vec::new(); spec.members.len()];
    for (topic, subscribers) in (0_u32..).zip(&subscribers) {
        if subscribers.is_empty() {
            continue;
        }
        let partitions = spec.partitions(topic).max(0) as usize;
        let (quota, extras) = (
            partitions / subscribers.len(),
            partitions % subscribers.len(),
        );
        let mut next = 0_i32;
        for (i, &member) in subscribers.iter().enumerate() {
            let run = (quota + usize::from(i < extras)) as i32;
            assigned[member as usize]
                .extend((next..next + run).map(|partition| (topic, partition)));
            next += run;
        }
    }
    assigned
}
