//! The records that go to one follower: partitions that it follows here, and those of them that have something for it.
//!
//! A feed costs what is new, not what is followed: a partition is looked at when it grows, when the follower names it, or when what it
//! was last told to be committed may have risen. Batches go out before they are synced here, so that the syncs of all replicas
//! overlap; what the follower has synced comes with its requests. Bytes of files are sent once and then waited for; what is in memory
//! goes on behind what was sent. Replicas that are throttled and not in sync are held while the rate is used up.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::lineage::EpochEnd;
use model::{BrokerId, InboxId, Instant, LeaderEpoch, Offset, PartitionIndex, Ticket, WaiterKey};
use partition::{
    FollowerAt, Isolation, Need, News, Partition, Piece, Plan, Read, ReadError, ReadRequest,
    Records, Scope,
};
use wire::Uuid;

use super::Desk;
use crate::topics::{Absent, Topics};

/// Marks the tickets of feeds, whose keys are not those of requests that wait.
const OF_FEED: u32 = 1 << 31;
/// A follower is told so soon that more is committed, where no records go to it.
const WATERMARK_WAIT: Duration = Duration::from_millis(50);
/// Below any committed offset and log start.
const NEVER_TOLD: (Offset, Offset) = (Offset(-1), Offset(-1));

pub(crate) type Key = (Uuid, PartitionIndex);

/// True if the ticket is of a feed and not of a request.
pub(crate) fn is_of_feed(ticket: Ticket) -> bool {
    ticket.part & OF_FEED != 0
}

/// A partition as a request of its follower names it.
pub(crate) struct Listed {
    pub(crate) key: Key,
    pub(crate) epoch: LeaderEpoch,
    /// The end of its log, and the epoch of its last record.
    pub(crate) at: EpochEnd,
    pub(crate) log_start: Offset,
    pub(crate) synced: Offset,
    pub(crate) bytes_max: usize,
    /// It goes on at its end, whatever it was sent before.
    pub(crate) is_restart: bool,
    /// A follower of Kafka, which names its end with each request and nothing else.
    pub(crate) is_plain: bool,
}

/// Why a partition is not fed.
#[derive(Debug)]
pub(crate) enum FeedRefusal {
    Absent(Absent),
    Read(ReadError),
    /// The follower lacks what is below the log start: an epoch and the place where it goes on.
    Behind(EpochEnd),
}

/// The answer about one partition.
pub(crate) enum Fed {
    Records(Read),
    Parts(EpochEnd, Offset),
    Refused(FeedRefusal),
}

/// Bytes of files on their way from the reader pool: at most one piece for a place.
enum Awaited {
    Nothing,
    Piece,
    /// It was planned for a position that the follower has left.
    Void,
    Come(Result<Read, ReadError>),
}

/// The first word on a place that the follower took.
enum Unheard {
    Refused(ReadError),
    /// The logs part there.
    Parts(EpochEnd),
}

struct Slot {
    key: Key,
    /// `None` for one that is not here.
    partition: Result<Arc<Partition>, Absent>,
    epoch: LeaderEpoch,
    at: EpochEnd,
    bytes_max: usize,
    is_watched: bool,
    piece: Awaited,
    /// Sent, and not yet seen to have arrived.
    awaits_arrival: bool,
    /// The committed offset and the log start that it was told last.
    told: (Offset, Offset),
    /// Why its place could not be noted. It is told so, though this broker may lead by the time of the answer: it would have no reason to
    /// name its place once more, and count for one that never asked.
    unheard: Option<Unheard>,
}

/// See the module.
pub(crate) struct Feed {
    pub(crate) broker: BrokerId,
    pub(crate) broker_epoch: i64,
    pub(crate) session: i32,
    /// Of the next request.
    pub(crate) session_epoch: i32,
    /// The request of it that waits.
    pub(crate) waiting: Option<WaiterKey>,
    slots: Vec<Option<Slot>>,
    by_key: HashMap<Key, u32>,
    free: Vec<u32>,
    /// Places without a partition for which a piece is on its way; free when it has come.
    retired: BTreeSet<u32>,
    /// To be looked at, in turn.
    ready: BTreeSet<u32>,
    /// Told less than the log end to be committed.
    behind: BTreeSet<u32>,
    /// Held by the throttle, and until when.
    held: BTreeSet<u32>,
    held_until: Option<Instant>,
    /// Where the last answer ended its turn.
    cursor: u32,
}

impl Feed {
    pub(crate) fn new((broker, broker_epoch): (BrokerId, i64), session: i32) -> Feed {
        Feed {
            broker,
            broker_epoch,
            session,
            session_epoch: 1,
            waiting: None,
            slots: Vec::new(),
            by_key: HashMap::new(),
            free: Vec::new(),
            retired: BTreeSet::new(),
            ready: BTreeSet::new(),
            behind: BTreeSet::new(),
            held: BTreeSet::new(),
            held_until: None,
            cursor: 0,
        }
    }

    fn slot(&mut self, at: u32) -> Option<&mut Slot> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    /// Takes what the follower says of a partition. Returns the partition if the follower may join its ISR.
    pub(crate) fn on_listed(
        &mut self,
        topics: &Topics,
        listed: Listed,
        news: &mut Vec<News>,
    ) -> Option<Arc<Partition>> {
        let Listed {
            key,
            epoch,
            at,
            log_start,
            synced,
            bytes_max,
            is_restart,
            is_plain,
        } = listed;
        let found = match topics.with_id(key.0) {
            Some(topic) => topic.partition(key.1.0).cloned(),
            None => Err(Absent::Unknown),
        };
        let place = match self.by_key.get(&key) {
            Some(place) => *place,
            None => self.add(key, epoch, at),
        };
        let (broker, broker_epoch) = (self.broker, self.broker_epoch);
        let slot = self.slot(place)?;
        let is_new = is_restart || slot.epoch != epoch;
        slot.partition = found;
        slot.epoch = epoch;
        slot.bytes_max = bytes_max;
        // A report that left before the records arrived names the position in front of them.
        if is_new || slot.at.end < at.end {
            slot.at = at;
            slot.awaits_arrival = false;
        }
        if is_new && !is_plain {
            // The answer that told it may have been of the log before.
            slot.told = NEVER_TOLD;
        }
        if is_new {
            slot.piece = match slot.piece {
                Awaited::Nothing | Awaited::Come(_) => Awaited::Nothing,
                Awaited::Piece | Awaited::Void => Awaited::Void,
            };
        }
        let partition = slot.partition.as_ref().ok().cloned();
        if let (LeaderEpoch::NONE, Some(partition)) = (epoch, &partition) {
            // It asks for no check of its own; that this broker leads is checked all the same.
            slot.epoch = partition.bounds().epoch;
        }
        let epoch = slot.epoch;
        self.ready.insert(place);
        let partition = partition?;
        // Logs that part have nothing in common that counts; the follower learns of it by the answer.
        let bounds = partition.bounds();
        let is_within = at.end <= bounds.log_end && (bounds.log_start <= at.end);
        if is_new {
            let unheard = match partition.judge(at, epoch) {
                Ok(told) => told.map(Unheard::Parts),
                Err(why) => Some(Unheard::Refused(why)),
            };
            let is_heard = unheard.is_none();
            self.slot(place)?.unheard = unheard;
            if !is_heard {
                return None;
            }
        }
        if !is_within {
            return None;
        }
        // Told before it had come so far, it could not begin there.
        let is_behind = log_start < bounds.log_start && bounds.log_start <= synced;
        if let (true, Some(slot)) = (is_behind, self.slot(place)) {
            slot.told = NEVER_TOLD;
        }
        let said = FollowerAt {
            epoch,
            broker,
            broker_epoch,
            log_start,
            synced: synced.min(at.end),
        };
        let may_join = partition.on_follower_at(said, news);
        may_join.then_some(partition)
    }

    fn add(&mut self, key: Key, epoch: LeaderEpoch, at: EpochEnd) -> u32 {
        let slot = Slot {
            key,
            partition: Err(Absent::Unknown),
            epoch,
            at,
            bytes_max: 0,
            is_watched: false,
            piece: Awaited::Nothing,
            awaits_arrival: false,
            told: NEVER_TOLD,
            unheard: None,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = Some(slot);
                place
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        };
        self.by_key.insert(key, place);
        place
    }

    /// The follower does not follow a partition any more.
    pub(crate) fn on_unlisted(&mut self, key: Key, (inbox, own): (InboxId, WaiterKey)) {
        let Some(place) = self.by_key.remove(&key) else {
            return;
        };
        self.ready.remove(&place);
        self.behind.remove(&place);
        self.held.remove(&place);
        let Some(slot) = self.slots[place as usize].take() else {
            return;
        };
        if let (true, Ok(partition)) = (slot.is_watched, &slot.partition) {
            partition.unwatch_end(inbox, own);
        }
        // The piece of one partition is never taken for that of another.
        if matches!(slot.piece, Awaited::Piece | Awaited::Void) {
            self.retired.insert(place);
        } else {
            self.free.push(place);
        }
    }

    /// Watches nothing any more.
    pub(crate) fn end(&mut self, inbox: InboxId, own: WaiterKey) {
        for slot in self.slots.iter().flatten() {
            if let (true, Ok(partition)) = (slot.is_watched, &slot.partition) {
                partition.unwatch_end(inbox, own);
            }
        }
    }

    /// A partition has grown.
    pub(crate) fn on_grown(&mut self, part: u32) {
        let place = part & !OF_FEED;
        if let Some(slot) = self.slot(place) {
            slot.is_watched = false;
            self.ready.insert(place);
        }
    }

    /// Bytes of files have come.
    pub(crate) fn on_piece(&mut self, part: u32, piece: Piece) {
        let place = part & !OF_FEED;
        if self.retired.remove(&place) {
            self.free.push(place);
            return;
        }
        let (Some(slot), Piece::Read(read)) = (self.slot(place), piece) else {
            return;
        };
        slot.piece = match slot.piece {
            Awaited::Piece => Awaited::Come(read),
            Awaited::Void | Awaited::Nothing | Awaited::Come(_) => Awaited::Nothing,
        };
        self.ready.insert(place);
    }

    /// When an answer without records goes, at the latest.
    pub(crate) fn deadline(&self, now: Instant, wait_max: Duration) -> Instant {
        let wait = if self.behind.is_empty() {
            wait_max
        } else {
            wait_max.min(WATERMARK_WAIT)
        };
        let held = self.held_until.filter(|_| !self.held.is_empty());
        held.map_or(now.plus(wait), |until| until.min(now.plus(wait)))
    }

    /// Replicas that the throttle held are looked at again.
    pub(crate) fn release(&mut self) {
        self.ready.append(&mut self.held);
        self.held_until = None;
    }

    /// The committed offsets that have risen since the follower was told are told with the next answer.
    pub(crate) fn tell_watermarks(&mut self) {
        let behind = std::mem::take(&mut self.behind);
        for place in behind {
            let Some(slot) = self.slot(place) else {
                continue;
            };
            let Ok(partition) = &slot.partition else {
                continue;
            };
            let bounds = partition.bounds();
            if slot.told.0 < bounds.high_watermark {
                self.ready.insert(place);
            } else if slot.told.0 < bounds.log_end {
                self.behind.insert(place);
            }
        }
    }

    /// Answers about the partitions that are ready, within `bytes_max`. Plans reads; their pieces come as news.
    pub(crate) fn gather(
        &mut self,
        desk: &Desk,
        own: WaiterKey,
        bytes_max: usize,
    ) -> Vec<(Key, Fed)> {
        let mut fed = Vec::new();
        // A reader pool that is full gives its needs back, whose pieces are there at once.
        while self.look_through(desk, own, bytes_max, &mut fed) {}
        let bytes: usize = fed.iter().map(|(_, fed)| bytes_of(fed)).sum();
        desk.meter().on_replicated(bytes);
        fed
    }

    /// When records may go to a partition that is throttled; `None` if they may now.
    fn throttled_until(&self, desk: &Desk, place: u32) -> Option<Instant> {
        let leading = &desk.shared.catalog.throttles.leading;
        let until = leading.opens_at(desk.now)?;
        let slot = self.slots.get(place as usize)?.as_ref()?;
        let is_sent = slot.awaits_arrival || !matches!(slot.piece, Awaited::Nothing);
        let partition = slot.partition.as_ref().ok()?;
        let is_held = !is_sent && leading.has(slot.key) && !partition.has_in_sync(self.broker);
        is_held.then_some(until)
    }

    /// Looks once at each partition that is ready. True if pieces have come meanwhile.
    fn look_through(
        &mut self,
        desk: &Desk,
        own: WaiterKey,
        bytes_max: usize,
        fed: &mut Vec<(Key, Fed)>,
    ) -> bool {
        let mut bytes: usize = fed.iter().map(|(_, fed)| bytes_of(fed)).sum();
        let mut needs: Vec<(Need, Ticket)> = Vec::new();
        let turn: Vec<u32> = (self.ready.range(self.cursor..))
            .chain(self.ready.range(..self.cursor))
            .copied()
            .collect();
        for place in turn {
            if bytes_max <= bytes {
                self.cursor = place;
                break;
            }
            self.ready.remove(&place);
            if let Some(until) = self.throttled_until(desk, place) {
                self.held.insert(place);
                self.held_until = Some(until);
                continue;
            }
            let ticket = desk.ticket(own, place | OF_FEED);
            let Some(slot) = self.slots.get_mut(place as usize).and_then(Option::as_mut) else {
                continue;
            };
            let room = (bytes_max - bytes, bytes == 0);
            let (said, need) = slot.look(ticket, (self.broker, self.broker_epoch), room);
            needs.extend(need.map(|need| (need, ticket)));
            let Some(said) = said else {
                // It did not fit beside what others have. Not at the end, it is not told of growth: nothing else would bring it up again.
                if slot.is_left_behind() {
                    self.ready.insert(place);
                }
                continue;
            };
            if let Fed::Records(read) = &said {
                bytes += read.records.len();
                let leading = &desk.shared.catalog.throttles.leading;
                leading.take(slot.key, read.records.len(), desk.now);
                if slot.told.0 < read.bounds.log_end {
                    self.behind.insert(place);
                }
                // There is more, or it did not fit beside what others have.
                if slot.at.end < read.bounds.log_end && !slot.awaits_arrival {
                    self.ready.insert(place);
                }
            }
            fed.push((slot.key, said));
        }
        if needs.is_empty() {
            return false;
        }
        let Err(refused) = desk.shared.readers.ask(needs) else {
            return false;
        };
        for (need, ticket) in refused {
            self.on_piece(ticket.part, need.execute());
        }
        true
    }
}

/// Bytes of batches in an answer about one partition.
fn bytes_of(fed: &Fed) -> usize {
    match fed {
        Fed::Records(read) => read.records.len(),
        Fed::Parts(..) | Fed::Refused(_) => 0,
    }
}

impl Slot {
    /// True if the log has more than was sent, and nothing is on its way.
    fn is_left_behind(&self) -> bool {
        let is_at_rest = !self.awaits_arrival && matches!(self.piece, Awaited::Nothing);
        let lacks = |partition: &Arc<Partition>| self.at.end < partition.bounds().log_end;
        is_at_rest && !self.is_watched && self.partition.as_ref().is_ok_and(lacks)
    }

    /// The answer about the partition, and what has to be read first.
    fn look(
        &mut self,
        ticket: Ticket,
        follower: (BrokerId, i64),
        (bytes_max, is_first): (usize, bool),
    ) -> (Option<Fed>, Option<Need>) {
        let partition = match &self.partition {
            Ok(partition) => Arc::clone(partition),
            Err(why) => return (Some(Fed::Refused(FeedRefusal::Absent(*why))), None),
        };
        let parts = |told| Some(Fed::Parts(told, partition.bounds().log_start));
        match self.unheard.take() {
            None => {}
            Some(Unheard::Parts(told)) => return (parts(told), None),
            Some(Unheard::Refused(why)) => {
                return (Some(Fed::Refused(FeedRefusal::Read(why))), None);
            }
        }
        if self.awaits_arrival || matches!(self.piece, Awaited::Piece | Awaited::Void) {
            return (None, None);
        }
        if let Awaited::Come(read) = std::mem::replace(&mut self.piece, Awaited::Nothing) {
            // Planned where there was little room, it may have nothing; there may be more by now.
            let has_fitted =
                |read: &Read| !read.records.is_empty() || read.bounds.log_end <= self.at.end;
            if read.as_ref().map_or(true, has_fitted) {
                return (self.say(&partition, read), None);
            }
        }
        match partition.judge_follower(self.at, self.epoch, follower) {
            Ok(None) => {}
            Ok(Some(told)) => return (parts(told), None),
            Err(why) => return (Some(Fed::Refused(FeedRefusal::Read(why))), None),
        }
        let request = ReadRequest {
            from: self.at.end,
            bytes_max: self.bytes_max.min(bytes_max),
            memory_bytes_max: usize::MAX,
            at_least_one: is_first,
            current_epoch: self.epoch,
            scope: Scope::of_leader(Isolation::Log),
        };
        loop {
            let read = match partition.plan_read(request) {
                Ok(Plan::Ready(read)) => Ok(read),
                Ok(Plan::Need(need)) => {
                    self.piece = Awaited::Piece;
                    return (None, Some(need));
                }
                Err(error) => Err(error),
            };
            let is_at_end = read
                .as_ref()
                .is_ok_and(|read| read.bounds.log_end <= self.at.end);
            if is_at_end && !self.is_watched {
                self.is_watched = partition.watch_end(ticket, self.at.end);
                // The log has grown since the look at it, or has another leader.
                if !self.is_watched {
                    continue;
                }
            }
            return (self.say(&partition, read), None);
        }
    }

    fn say(&mut self, partition: &Arc<Partition>, read: Result<Read, ReadError>) -> Option<Fed> {
        let read = match read {
            Ok(read) => read,
            Err(ReadError::OutOfRange { bounds }) if self.at.end < bounds.log_start => {
                let at = EpochEnd {
                    epoch: partition.epoch_at(bounds.log_start),
                    end: bounds.log_start,
                };
                return Some(Fed::Refused(FeedRefusal::Behind(at)));
            }
            Err(error) => return Some(Fed::Refused(FeedRefusal::Read(error))),
        };
        let now = (read.bounds.high_watermark, read.bounds.log_start);
        match &read.records {
            Records::AtEnd => {}
            Records::Memory(batches) => {
                if let Some(last) = batches.last() {
                    self.at = EpochEnd {
                        epoch: last.leader_epoch(),
                        end: last.next_offset(),
                    };
                }
            }
            // How far they go is in the file; the follower says it when it has them.
            Records::File(_) => self.awaits_arrival = true,
        }
        let is_news = !read.records.is_empty() || self.told != now;
        self.told = now;
        is_news.then_some(Fed::Records(read))
    }
}

#[cfg(test)]
mod tests;
