//! Assignors: which member gets which partition, decided from subscriptions and what members hold.
//!
//! Pure functions of a [`Spec`], in numbers instead of names: members and topics are places in its lists, so that two thousand of
//! each are a matter of milliseconds. Invariants of every assignor: each partition of a subscribed topic has exactly one member,
//! that member subscribes to the topic, and the same spec gives the same assignment.

mod range;
#[cfg(test)]
mod tests;
mod uniform;

use std::rc::Rc;

use wire::Uuid;

/// The assignors that members may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// As even as can be, moving as little as can be.
    Uniform,
    /// The same numbers of every topic to the same member, as joins of topics want it.
    Range,
}

impl Assignor {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Assignor> {
        [Assignor::Uniform, Assignor::Range]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    pub(super) fn assign(self, spec: &Spec) -> Vec<Vec<SpecPartition>> {
        match self {
            Assignor::Uniform => uniform::assign(spec),
            Assignor::Range => range::assign(spec),
        }
    }
}

/// A partition: the place of its topic in the spec, and its number.
pub(super) type SpecPartition = (u32, i32);

#[derive(Debug, Default)]
pub(super) struct Spec<'a> {
    /// Topics that exist, by id; each with its number of partitions.
    pub(super) topics: Vec<(Uuid, i32)>,
    /// Members in the order of their ids.
    pub(super) members: Vec<MemberSpec<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct MemberSpec<'a> {
    pub(super) id: &'a str,
    pub(super) instance: Option<&'a str>,
    /// Places of the topics that it subscribes to, ascending; shared by members that subscribe to the same.
    pub(super) topics: Rc<[u32]>,
    /// Its partitions by the last target, ascending; may name partitions that it may not have any more.
    pub(super) held: Vec<SpecPartition>,
}

impl Spec<'_> {
    fn partitions(&self, topic: u32) -> i32 {
        self.topics
            .get(topic as usize)
            .map_or(0, |&(_, partitions)| partitions)
    }

    /// Members of each topic, by place.
    fn subscribers(&self) -> Vec<Vec<u32>> {
        let mut subscribers = vec![Vec::new(); self.topics.len()];
        for (member, spec) in (0..).zip(&self.members) {
            for &topic in &*spec.topics {
                subscribers[topic as usize].push(member);
            }
        }
        subscribers
    }
}
