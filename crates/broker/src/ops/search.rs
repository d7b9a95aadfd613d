//! Offsets by position or time: what is known is answered at once, times are searched by the reader pool.
//!
//! Times are looked up in indexes and records, perhaps on disk, for which no loop waits.

use log::RecordTime;
use model::{LeaderEpoch, Offset, Timestamp, WaiterKey};
use partition::{Isolation, Need, Partition, Piece, ReadError, Scope, SearchTime};

use super::guard::{Closed, Opened};
use super::{Desk, Refused};
use crate::asker::Asker;
use crate::topics::{Absent, Topics};
use security::authorize::Operation;
use wire::Uuid;

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    LogStart,
    /// The first offset on local disk (KIP-405).
    LocalStart,
    /// Where the reader's view ends.
    End,
    /// An offset that no log has while nothing is tiered.
    InTier,
    Time(SearchTime),
}

/// A question about one partition.
pub(crate) struct Asked<'a> {
    pub(crate) topic: &'a str,
    pub(crate) index: i32,
    pub(crate) current_epoch: LeaderEpoch,
    /// `None` if the asker's door knows no such spot, which is refused after everything else.
    pub(crate) spot: Option<Spot>,
}

#[derive(Debug)]
pub(crate) enum SearchRefusal {
    Absent(Absent),
    NoSuchSpot,
    /// This leader does not know yet how much is committed (KIP-207).
    NotYet,
    Read(ReadError),
}

pub(crate) type SearchResult = Result<Option<FoundOffset>, Refused<SearchRefusal>>;

/// An offset, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    /// Of a record that was found by its time.
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) offset: Offset,
    pub(crate) epoch: LeaderEpoch,
}

enum Part {
    Have(SearchResult),
    /// With the reader pool. What it finds must lie below `visible`; where it does not it may later, if that is so of `otherwise`.
    Awaited {
        visible: Offset,
        otherwise: Otherwise,
    },
}

/// The answer where nothing is found.
#[derive(Clone, Copy)]
enum Otherwise {
    Nothing,
    NotYet,
}

/// A search, parked or not.
pub(crate) struct Searching {
    parts: Vec<Part>,
    awaited: usize,
}

impl Searching {
    /// Answers what is known, and hands the rest to the reader pool. Executes it here when that takes no more. Tickets name `key`.
    pub(crate) fn begin<'a>(
        desk: &mut Desk,
        asker: &Asker,
        asked: impl IntoIterator<Item = Asked<'a>>,
        scope: Scope,
        key: WaiterKey,
    ) -> Searching {
        let topics = desk.topics();
        let mut needs = Vec::new();
        let parts = (0..).zip(asked).map(|(part, asked)| {
            let partition = open(&topics, asker, &asked).and_then(|partition| {
                let is_leader = !scope.leader_only || !desk.shared.state.is_self_fenced();
                let elsewhere = SearchRefusal::Absent(Absent::Elsewhere);
                is_leader
                    .then_some(partition)
                    .ok_or(Refused::Because(elsewhere))
            });
            let planned = partition.and_then(|partition| plan(partition, &asked, scope));
            let (found, need) = planned.unwrap_or_else(|why| (Part::Have(Err(why)), None));
            needs.extend(need.map(|need| (need, desk.ticket(key, part))));
            found
        });
        let parts = parts.collect();
        let mut searching = Searching {
            parts,
            awaited: needs.len(),
        };
        if searching.awaited > 0
            && let Err(needs) = desk.shared.readers.ask(needs)
        {
            for (need, ticket) in needs {
                searching.put(ticket.part, need.execute());
            }
        }
        searching
    }

    /// A piece has come.
    pub(crate) fn put(&mut self, part: u32, piece: Piece) {
        let Some(part) = self.parts.get_mut(part as usize) else {
            return;
        };
        if let (Part::Awaited { visible, otherwise }, Piece::Found(found)) = (&*part, piece) {
            let (visible, otherwise) = (*visible, *otherwise);
            let found = found.map(|found| found.filter(|found| found.offset < visible));
            let found = found.map(|found| found.map(FoundOffset::from));
            *part = Part::Have(match (found, otherwise) {
                (Ok(None), Otherwise::NotYet) => Err(not_yet()),
                (found, _) => found.map_err(refused),
            });
            self.awaited -= 1;
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.awaited == 0
    }

    /// The results of a whole search, in the order in which it was asked for.
    pub(crate) fn into_results(self) -> impl Iterator<Item = SearchResult> {
        self.parts.into_iter().map(|part| match part {
            Part::Have(result) => result,
            Part::Awaited { .. } => unreachable!("the search is whole"),
        })
    }
}

impl From<RecordTime> for FoundOffset {
    fn from(found: RecordTime) -> FoundOffset {
        FoundOffset {
            timestamp: Some(found.timestamp),
            offset: found.offset,
            epoch: found.leader_epoch,
        }
    }
}

fn refused(error: ReadError) -> Refused<SearchRefusal> {
    Refused::Because(SearchRefusal::Read(error))
}

fn not_yet() -> Refused<SearchRefusal> {
    Refused::Because(SearchRefusal::NotYet)
}

fn open<'a>(
    topics: &'a Topics,
    asker: &Asker,
    asked: &Asked<'_>,
) -> Result<Opened<'a, Partition>, Refused<SearchRefusal>> {
    let by_name = (Uuid::ZERO, asked.topic);
    let absent = |why| Refused::Because(SearchRefusal::Absent(why));
    let topic = match Opened::find(topics, asker, Operation::Describe, by_name) {
        Ok(topic) => topic,
        Err(Closed::Unauthorised) => return Err(Refused::Unauthorised),
        Err(Closed::UnknownName | Closed::UnknownId) => return Err(absent(Absent::Unknown)),
    };
    topic.partition(asked.index).map_err(absent)
}

/// The part of one question that is known at once, and what the rest of it needs.
fn plan(
    partition: Opened<'_, Partition>,
    asked: &Asked<'_>,
    scope: Scope,
) -> Result<(Part, Option<Need>), Refused<SearchRefusal>> {
    let partition = partition.get(Operation::Describe);
    partition
        .check_reader(asked.current_epoch, scope.leader_only)
        .map_err(refused)?;
    let spot = asked
        .spot
        .ok_or(Refused::Because(SearchRefusal::NoSuchSpot))?;
    // Those who ask for the log itself are told where that ends.
    let is_behind = scope.isolation != Isolation::Log && partition.is_behind_epoch();
    let bounds = partition.bounds();
    let visible = bounds.end(scope.isolation);
    let edge = |offset, epoch| {
        let place = FoundOffset {
            timestamp: None,
            offset,
            epoch,
        };
        (Part::Have(Ok(Some(place))), None)
    };
    let begins_at = |offset| edge(offset, partition.epoch_at(offset));
    Ok(match spot {
        Spot::LogStart => begins_at(bounds.log_start),
        Spot::LocalStart => begins_at(bounds.local_start),
        Spot::End if is_behind => return Err(not_yet()),
        Spot::End => edge(visible, bounds.epoch),
        Spot::InTier => (Part::Have(Ok(None)), None),
        Spot::Time(time) => {
            let otherwise = if is_behind {
                Otherwise::NotYet
            } else {
                Otherwise::Nothing
            };
            let awaited = Part::Awaited { visible, otherwise };
            (awaited, Some(partition.plan_search(time)))
        }
    })
}
