//! The replicas on one broker and how far they have come, for tools that hold several brokers against each other.

use std::sync::Arc;

use model::LeaderEpoch;
use partition::{Bounds, Partition};
use wire::Uuid;

use crate::topics::{Topic, Topics};

/// A replica of a partition.
#[derive(Clone, Debug)]
pub struct Replica {
    pub topic: Uuid,
    pub name: Arc<str>,
    pub partition: i32,
    /// The epoch in which it takes appends of clients, if it does.
    pub leads_in: Option<LeaderEpoch>,
    pub bounds: Bounds,
    /// Appends and trims of clients and coordinators that wait here.
    pub waiting_count: usize,
    /// Neither read nor written.
    pub is_offline: bool,
}

pub(crate) fn replicas(topics: &Topics) -> Vec<Replica> {
    let all = topics.sorted().flat_map(|topic| {
        let numbered = (0..).zip(&topic.sites);
        numbered.filter_map(move |(number, site)| Some((topic, number, site.here.as_ref()?)))
    });
    let stands = |(topic, partition, here): (&Arc<Topic>, i32, &Arc<Partition>)| Replica {
        topic: topic.id,
        name: Arc::clone(&topic.name),
        partition,
        leads_in: here.leads_in(),
        bounds: here.bounds(),
        waiting_count: here.waiting_count(),
        is_offline: here.is_offline(),
    };
    all.map(stands).collect()
}
