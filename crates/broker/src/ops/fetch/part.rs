//! One partition of a fetch, and the known facts about it.

use std::sync::Arc;

use model::{BrokerId, LeaderEpoch, Offset};
use partition::{Partition, ReadError};

use super::{FetchRefusal, FetchResult, Kind, Wanted};
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::ops::guard::{Closed, Opened};
use crate::ops::leaders::{Away, Wish};
use crate::ops::{Desk, Refused};
use crate::topics::Topics;
use security::authorize::Operation;

/// The known facts about one partition.
pub(super) enum Found {
    /// To be planned.
    Nothing,
    /// With the reader pool, or with its leader, which is called.
    Awaited {
        bytes: usize,
        memory: usize,
    },
    Have(FetchResult),
}

/// A partition that is here, and what is asked of it.
pub(super) struct Source {
    pub(super) partition: Arc<Partition>,
    pub(super) from: Offset,
    pub(super) bytes_max: usize,
    pub(super) current_epoch: LeaderEpoch,
}

impl Source {
    /// Where a reader can go on that is refused for damage; `None` where that is not known.
    pub(super) fn goes_on(&self, why: &Refused<FetchRefusal>) -> Option<Offset> {
        match why {
            Refused::Because(FetchRefusal::Read(ReadError::Damaged { hole })) => Some(hole.to),
            Refused::Because(FetchRefusal::Read(ReadError::Store(_))) => {
                self.partition.goes_on_behind(self.from)
            }
            _ => None,
        }
    }
}

/// A partition that another broker leads, and what is asked of it.
pub(super) struct Elsewhere {
    pub(super) leader: BrokerId,
    pub(super) away: Away,
    pub(super) wish: Wish,
}

/// Where the records of a part come from.
pub(super) enum Place {
    Here(Source),
    /// `None` for a part that was refused from the start.
    NotHere(Option<Box<Elsewhere>>),
}

impl Place {
    pub(super) fn of(partition: Opened<'_, Partition>, wanted: &Wanted<'_>) -> Place {
        Place::Here(Source {
            partition: Arc::clone(partition.get(Operation::Read)),
            from: wanted.from,
            bytes_max: wanted.bytes_max,
            current_epoch: wanted.current_epoch,
        })
    }

    pub(super) fn here(&self) -> Option<&Source> {
        match self {
            Place::Here(source) => Some(source),
            Place::NotHere(_) => None,
        }
    }

    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        match self {
            Place::Here(_) => None,
            Place::NotHere(elsewhere) => elsewhere.as_deref(),
        }
    }

    /// True for a part that was refused from the start.
    pub(super) fn is_nowhere(&self) -> bool {
        matches!(self, Place::NotHere(None))
    }
}

pub(super) struct Part {
    pub(super) place: Place,
    pub(super) found: Found,
    /// The replica that the client is sent to instead of being given records.
    pub(super) nearest: Option<BrokerId>,
    pub(super) is_watched: bool,
}

impl Part {
    pub(super) fn new(place: Place, found: Found) -> Part {
        Part {
            place,
            found,
            nearest: None,
            is_watched: false,
        }
    }

    /// True for one that the asker may not read.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.found, Found::Have(Err(Refused::Unauthorised)))
    }

    /// True if the asker may read it still, or if it was refused before.
    pub(super) fn is_allowed(&self, asker: &Asker, kind: Kind) -> bool {
        let topic = match &self.place {
            Place::Here(source) => &*source.partition.topic,
            Place::NotHere(Some(elsewhere)) => elsewhere.away.topic(),
            Place::NotHere(None) => return true,
        };
        let granted = match kind {
            Kind::Consumer | Kind::Comparison => {
                asker.grant(Operation::Read, Resource::topic(topic))
            }
            Kind::Replica | Kind::Repair => {
                asker.grant(Operation::ClusterAction, Resource::CLUSTER)
            }
        };
        granted.is_ok()
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.found {
            Found::Nothing | Found::Have(Err(_)) => 0,
            Found::Awaited { bytes, .. } => *bytes,
            Found::Have(Ok(read)) => read.records.len(),
        }
    }

    pub(super) fn memory(&self) -> usize {
        match &self.found {
            Found::Nothing | Found::Have(Err(_)) => 0,
            Found::Awaited { memory, .. } => *memory,
            Found::Have(Ok(read)) => read.records.memory(),
        }
    }

    /// True if the answer has to leave whatever else there is.
    pub(super) fn is_urgent(&self) -> bool {
        matches!(self.found, Found::Have(Err(_))) || self.nearest.is_some()
    }
}

/// The partition, for those who may read it. A node may that acts for the cluster.
pub(super) fn find<'a>(
    topics: &'a Topics,
    asker: &Asker,
    kind: Kind,
    wanted: &Wanted<'_>,
) -> Result<Opened<'a, Partition>, Refused<FetchRefusal>> {
    let place = (wanted.topic_id, wanted.topic);
    let topic = match kind {
        Kind::Consumer | Kind::Comparison => Opened::find(topics, asker, Operation::Read, place)?,
        Kind::Replica | Kind::Repair => {
            let granted = asker.grant(Operation::ClusterAction, Resource::CLUSTER);
            let granted = granted.map_err(|_| Refused::Unauthorised)?;
            let topic = topics.find(wanted.topic_id, wanted.topic);
            let topic = topic.ok_or(Refused::Because(FetchRefusal::UnknownTopic))?;
            Opened::for_node(granted, topic)
        }
    };
    let partition = topic.partition(wanted.index);
    partition.map_err(|why| Refused::Because(FetchRefusal::Absent(why)))
}

impl From<Closed> for Refused<FetchRefusal> {
    fn from(closed: Closed) -> Refused<FetchRefusal> {
        match closed {
            Closed::Unauthorised => Refused::Unauthorised,
            Closed::UnknownName | Closed::UnknownId => Refused::Because(FetchRefusal::UnknownTopic),
        }
    }
}

/// The leader on another broker that is called for a partition, where the asker may read it.
pub(super) fn called(
    desk: &Desk,
    topics: &Topics,
    asker: &Asker,
    (number, wanted): (u32, &Wanted<'_>),
) -> Option<Elsewhere> {
    let place = (wanted.topic_id, wanted.topic);
    let topic = Opened::find(topics, asker, Operation::Read, place).ok()?;
    let topic = topic.get(Operation::Read);
    let leader = desk.leader_elsewhere(topic, wanted.index)?;
    Some(Elsewhere {
        leader,
        away: Away::new(number, topic, wanted.index),
        wish: Wish {
            from: wanted.from,
            bytes_max: wanted.bytes_max,
            current_epoch: wanted.current_epoch,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A consumer may ask about thousands of partitions at once.
    #[test]
    fn a_partition_elsewhere_makes_those_that_are_here_no_larger() {
        assert_eq!(size_of::<Place>(), size_of::<Option<Source>>());
    }
}
