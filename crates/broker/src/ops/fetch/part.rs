//! One partition of a fetch, and the known facts about it.

use std::sync::Arc;

use model::{BrokerId, LeaderEpoch, Offset};
use partition::{Partition, ReadError};
use wire::Uuid;

use super::{FetchRefusal, FetchResult, Wanted};
use crate::asker::Asker;
use crate::asker::access::Resource;
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
    pub(super) fn of(partition: &Arc<Partition>, wanted: &Wanted<'_>) -> Place {
        Place::Here(Source {
            partition: Arc::clone(partition),
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

pub(super) fn find<'a>(
    topics: &'a Topics,
    asker: &Asker,
    wanted: &Wanted<'_>,
) -> Result<&'a Arc<Partition>, Refused<FetchRefusal>> {
    let may_read = |name: &str| {
        if asker.may(Operation::Read, Resource::topic(name)) {
            Ok(())
        } else {
            Err(Refused::Unauthorised)
        }
    };
    if wanted.topic_id == Uuid::ZERO {
        may_read(wanted.topic)?;
    }
    let topic = topics.find(wanted.topic_id, wanted.topic);
    let topic = topic.ok_or(Refused::Because(FetchRefusal::UnknownTopic))?;
    may_read(&topic.name)?;
    let partition = topic.partition(wanted.index);
    partition.map_err(|why| Refused::Because(FetchRefusal::Absent(why)))
}

/// The leader on another broker that is called for a partition, where the asker may read it.
pub(super) fn called(
    desk: &Desk,
    topics: &Topics,
    asker: &Asker,
    (number, wanted): (u32, &Wanted<'_>),
) -> Option<Elsewhere> {
    let topic = topics.find(wanted.topic_id, wanted.topic)?;
    let leader = desk.leader_elsewhere(topic, wanted.index)?;
    let may = asker.may(Operation::Read, Resource::topic(&topic.name));
    may.then(|| Elsewhere {
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
