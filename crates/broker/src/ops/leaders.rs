//! Calls to the leaders of partitions: batches, reads and trims that another broker carries out.
//!
//! A leader is called once for all that it leads, with the request of Kafka for it. What the asker may do is decided here, before anything
//! leaves. A broker that is called serves the caller as a client of its Kafka door, and calls nobody itself.

mod fetch;
mod produce;
mod trim;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{BrokerId, Ticket};
use wire::{ErrorCode, Uuid};

use super::Desk;
use crate::mail::calls::{Call, Recipient};
use crate::mail::question::Reach;
use crate::peers::Encodable;
use crate::topics::Topic;

pub(super) use fetch::{FetchCall, Reads, Wish};
pub(super) use produce::{Batches, ProduceCall, Terms};
pub(super) use trim::{TrimCall, Trims};

/// No answer has come, or none that says anything of this part: it may have been carried out.
const UNANSWERED: ErrorCode = ErrorCode::NetworkException;

/// A part of an operation whose partition another broker leads.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// That of the part in its operation.
    pub(super) number: u32,
    topic_id: Uuid,
    topic: Arc<str>,
    index: i32,
}

impl Away {
    pub(super) fn new(number: u32, topic: &Topic, index: i32) -> Away {
        Away {
            number,
            topic_id: topic.id,
            topic: Arc::clone(&topic.name),
            index,
        }
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }
}

/// The numbers of the parts of a call, found by what an answer says of them.
struct Numbers {
    of: BTreeMap<Arc<str>, BTreeMap<i32, u32>>,
    names: BTreeMap<Uuid, Arc<str>>,
}

impl Numbers {
    fn new(parts: &[Away]) -> Numbers {
        let mut numbers = Numbers {
            of: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        for part in parts {
            let name = || Arc::clone(&part.topic);
            let of_topic = numbers.of.entry(name()).or_default();
            of_topic.insert(part.index, part.number);
            numbers.names.entry(part.topic_id).or_insert_with(name);
        }
        numbers
    }

    /// The part that is about this partition. A version names topics by their names or by their ids.
    fn get(&self, (name, id): (&str, Uuid), index: i32) -> Option<u32> {
        let by_id = || self.of.get(self.names.get(&id)?);
        let of_topic = self.of.get(name).or_else(by_id)?;
        of_topic.get(&index).copied()
    }
}

/// The parts of a call by their topics, in the order of the names.
fn by_topic<T>(parts: Vec<(Away, T)>) -> BTreeMap<Arc<str>, Vec<(Away, T)>> {
    let mut topics: BTreeMap<Arc<str>, Vec<(Away, T)>> = BTreeMap::new();
    for (away, part) in parts {
        let topic = Arc::clone(&away.topic);
        topics.entry(topic).or_default().push((away, part));
    }
    topics
}

/// The results of the parts of a call. One that the answer does not mention is [`UNANSWERED`].
fn results<T>(
    away: Vec<Away>,
    mut known: BTreeMap<u32, Result<T, ErrorCode>>,
) -> Vec<(u32, Result<T, ErrorCode>)> {
    let result = |away: Away| {
        let result = known.remove(&away.number).unwrap_or(Err(UNANSWERED));
        (away.number, result)
    };
    away.into_iter().map(result).collect()
}

impl Desk {
    /// The other broker that leads a partition, where operations of this desk go to other brokers.
    pub(super) fn leader_elsewhere(&self, topic: &Topic, index: i32) -> Option<BrokerId> {
        if self.reach == Reach::ThisBroker {
            return None;
        }
        let node = self.shared.catalog.config().broker.node_id;
        let leader = topic.leader(index)?.broker;
        leader.filter(|leader| *leader != node)
    }

    /// Calls a leader. Its answer comes under the ticket.
    fn call_leader(
        &self,
        ticket: Ticket,
        leader: BrokerId,
        request: impl Encodable + 'static,
        patience: Duration,
    ) {
        let whom = (ticket, Recipient::Relay(leader));
        let call = Call::new(whom, request, self.now.plus(patience));
        self.shared.mail.calls.call(call);
    }
}
