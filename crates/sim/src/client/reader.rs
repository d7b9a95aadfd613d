//! A simulated reader: fetches all partitions of one topic from the start on, and notes every record and every log end.
//!
//! Checks on its own what needs no history: bytes are those that were sent, offsets rise, and a position that was reached
//! stays within the log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::fetch_response::PartitionData;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{FetchRequest, ListOffsetsRequest};
use wire::records::{Batch, Caps, ControlRecord, RecordIter, Source};
use wire::{ApiKey, ErrorCode, Records};

use super::keep::{ANSWER_MAX, Client, Link};
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::{Notes, value_of};
use super::requests::fetch;
use crate::checker::{EndSeen, Isolation, Kind, Op, Polled};

const RECONNECT: Duration = Duration::from_millis(200);
/// How a batch that does not verify is told.
pub(crate) const DAMAGED: &str = "a damaged batch";

pub(crate) struct Reader {
    topic: String,
    isolation: Isolation,
    process: u32,
    chance: Chance,
    link: Link,
    positions: BTreeMap<i32, i64>,
    version: i16,
    /// Log end of each partition, once a fetch came back empty there.
    pub(crate) at_end: BTreeMap<i32, i64>,
    /// Partitions that answered with an error lately, and which.
    pub(crate) errors: BTreeMap<i32, ErrorCode>,
    bytes_max: i32,
    /// Of batches, as they came.
    pub(crate) bytes: BTreeMap<i32, u64>,
    /// A leader that is new may not know yet all that its predecessor had told.
    pub(crate) believes_ends: bool,
    /// Partitions whose start moved beyond our position: their start has to be asked for.
    lost: BTreeSet<i32>,
}

impl Client for Reader {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        format!("reader {}", self.process)
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let asked = self.link.asked.take().unwrap_or(world.now());
        if answer.key() == ApiKey::ListOffsets {
            let told = answer.decode::<ListOffsetsRequest>()?.topics;
            let mut all = told.iter().flat_map(|topic| &topic.partitions);
            if all.any(|found| found.error_code != 0) {
                self.link.leave();
            }
            for topic in told {
                for found in topic
                    .partitions
                    .iter()
                    .filter(|found| found.error_code == 0)
                {
                    let key = notes.key(&self.topic, found.partition_index);
                    notes.starts(key, found.offset);
                    if let Some(position) = self.positions.get_mut(&found.partition_index) {
                        if found.offset <= *position && notes.aging(key).is_some() {
                            notes.violation(format!(
                                "{}: offset {position} was out of range, the log starts at {}",
                                notes.name(key),
                                found.offset
                            ));
                        }
                        *position = found.offset.max(*position);
                    }
                    self.lost.remove(&found.partition_index);
                }
            }
            self.process = notes.process();
            return Ok(());
        }
        let response = answer.decode::<FetchRequest>()?;
        // No session, so an error for the whole answer leaves nothing to do but ask again.
        let topics = response.responses.into_iter();
        let partitions = topics.flat_map(|topic| topic.partitions).collect();
        self.on_fetched(asked, partitions, world, notes)
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let pause = Duration::from_millis(self.chance.between(2, 40));
        if !self.may_ask(pause, ANSWER_MAX, world, notes) {
            return;
        }
        if self.lost.is_empty() {
            self.fetch(world.now())
        } else {
            self.ask_for_start(world.now())
        }
    }
}

impl Reader {
    pub(crate) fn new(
        topic: &str,
        partitions: Range<i32>,
        isolation: Isolation,
        chance: Chance,
        notes: &mut Notes,
    ) -> Reader {
        let mut chance = chance;
        Reader {
            topic: topic.to_owned(),
            isolation,
            process: notes.process(),
            link: Link::new(Instant(0), RECONNECT),
            positions: partitions.map(|partition| (partition, 0)).collect(),
            version: chance.between(4, 12) as i16,
            at_end: BTreeMap::new(),
            errors: BTreeMap::new(),
            bytes_max: *chance.pick(&[1, 2_000, 50_000, 1 << 20]),
            bytes: BTreeMap::new(),
            believes_ends: true,
            lost: BTreeSet::new(),
            chance,
        }
    }

    /// Asks for much at a time.
    pub(crate) fn hurry(&mut self) {
        self.bytes_max = self.bytes_max.max(200_000);
    }

    pub(crate) fn is_of(&self, topic: &str, isolation: Isolation) -> bool {
        self.topic == topic && self.isolation == isolation
    }

    /// Has read everything there was when it last asked.
    pub(crate) fn is_done(&self) -> bool {
        self.positions
            .iter()
            .all(|(partition, position)| self.at_end.get(partition) == Some(position))
    }

    /// Every partition was read to its end or answered with an error.
    pub(crate) fn is_settled(&self) -> bool {
        let settled = |(partition, position): (&i32, &i64)| {
            self.at_end.get(partition) == Some(position) || self.errors.contains_key(partition)
        };
        self.positions.iter().all(settled)
    }

    /// Its topic is not there.
    pub(crate) fn is_unknown(&self) -> bool {
        let mut told = self.positions.keys().map(|at| self.errors.get(at));
        told.all(|code| code == Some(&ErrorCode::UnknownTopicOrPartition))
    }

    /// The errors that came instead of records.
    pub(crate) fn errors(&self) -> impl Iterator<Item = String> {
        let tell =
            |(partition, code): (&i32, &ErrorCode)| format!("{}-{partition}: {code:?}", self.topic);
        self.errors.iter().map(tell)
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} at {:?}, ends {:?}, errors {:?}",
            self.topic, self.positions, self.at_end, self.errors
        )
    }

    fn ask_for_start(&mut self, now: Instant) {
        const EARLIEST: i64 = -2;
        let partitions = self
            .lost
            .iter()
            .map(|partition| ListOffsetsPartition {
                partition_index: *partition,
                timestamp: EARLIEST,
                ..ListOffsetsPartition::default()
            })
            .collect();
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: self.topic.clone(),
                partitions,
            }],
            ..ListOffsetsRequest::default()
        };
        self.link.ask(&request, 4, now);
    }

    fn fetch(&mut self, now: Instant) {
        let positions = self.positions.iter();
        let positions = positions.map(|(partition, position)| (*partition, *position));
        let is_committed = self.isolation == Isolation::Committed;
        let request = FetchRequest {
            max_wait_ms: self.chance.below(200) as i32,
            min_bytes: self.chance.below(3) as i32,
            ..fetch(&self.topic, is_committed, self.bytes_max, positions)
        };
        self.link.ask(&request, self.version, now);
    }

    fn on_fetched(
        &mut self,
        asked: Instant,
        partitions: Vec<PartitionData>,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let mut has_moved = false;
        let mut op = Op::new(self.process, Kind::Poll, asked.0);
        op.returned = world.now().0;
        op.isolation = self.isolation;
        for data in partitions {
            let index = data.partition_index;
            let key = notes.key(&self.topic, index);
            let code = code(data.error_code)?;
            match code {
                ErrorCode::None => drop(self.errors.remove(&index)),
                // So says a replica that follows and has not come so far (KIP-392): the one that led has lost the leadership, or was moved away
                // and is on its way back. A leader that goes on saying it is found when everything is read.
                ErrorCode::OffsetOutOfRange if self.may_ask_followers() => {
                    has_moved = true;
                    self.errors.insert(index, code);
                }
                ErrorCode::OffsetOutOfRange => self.on_out_of_range(&data, notes),
                code => {
                    has_moved = true;
                    self.errors.insert(index, code);
                }
            }
            if code != ErrorCode::None {
                continue;
            }
            notes.end(EndSeen {
                key,
                invoked: op.invoked,
                returned: op.returned,
                log_start: (self.version >= 5).then_some(data.log_start_offset),
                log_end: self.believes_ends.then_some(data.high_watermark),
                stable_end: self.believes_ends.then_some(data.last_stable_offset),
            });
            let fetched = self.records(&data)?;
            *self.bytes.entry(index).or_default() += fetched.bytes;
            match fetched.next {
                Some(next) => {
                    self.positions.insert(index, next);
                    self.at_end.remove(&index);
                }
                None => drop(self.at_end.insert(index, data.high_watermark)),
            }
            if !fetched.records.is_empty() {
                let records = fetched.records;
                op.polls.push(Polled { key, records });
            }
        }
        if !op.polls.is_empty() {
            notes.done(op);
        }
        if has_moved {
            self.link.leave();
        }
        Ok(())
    }

    fn may_ask_followers(&self) -> bool {
        const FROM_VERSION: i16 = 11;
        !self.believes_ends && FROM_VERSION <= self.version
    }

    /// Only records that were deleted on request may be gone from under a reader.
    fn on_out_of_range(&mut self, data: &PartitionData, notes: &mut Notes) {
        let index = data.partition_index;
        let key = notes.key(&self.topic, index);
        let position = self.positions.get(&index).copied().unwrap_or(0);
        let trimmed = notes.history.trimmed.get(&key).copied().unwrap_or(0);
        // Where old records go by themselves the answer to where it starts shows whether they might.
        if position >= trimmed && notes.aging(key).is_none() {
            let name = notes.name(key);
            notes.violation(format!(
                "{name}: offset {position} is out of range, the log is {}..{}, deleted up to {trimmed}",
                data.log_start_offset, data.high_watermark
            ));
        }
        self.lost.insert(index);
    }

    fn records(&self, data: &PartitionData) -> Result<Fetched, LineError> {
        let nonsense = |what: String| {
            let (topic, partition) = (&self.topic, data.partition_index);
            nonsense(format!("fetch of {topic}-{partition}: {what}"))
        };
        let position = self
            .positions
            .get(&data.partition_index)
            .copied()
            .unwrap_or(0);
        let bytes = match &data.records {
            Some(Records::Bytes(bytes)) => bytes.clone(),
            Some(Records::External(_)) => {
                return Err(nonsense("bytes that are not there".to_owned()));
            }
            None => return Ok(Fetched::default()),
        };
        let end = match self.isolation {
            Isolation::Committed => data.last_stable_offset,
            Isolation::Uncommitted => data.high_watermark,
        };
        let mut aborted = Aborted::new(data);
        let mut records: Vec<(i64, u64)> = Vec::new();
        let (mut next, mut size) = (position, 0);
        for batch in Batch::cut(&bytes, Source::Log) {
            let batch = batch.map_err(|error| nonsense(format!("{DAMAGED}: {error}")))?;
            size += batch.size() as u64;
            next = next.max(batch.next_offset().0);
            if next > end {
                return Err(nonsense(format!("offset {} at an end of {end}", next - 1)));
            }
            if aborted.is_hidden(&batch) || batch.attributes().is_control() {
                continue;
            }
            let plain = batch
                .plain(Caps::default())
                .map_err(|error| nonsense(format!("{DAMAGED}: {error}")))?;
            for record in RecordIter::new(&plain, batch.record_count()) {
                let record = record.map_err(|error| nonsense(error.to_string()))?;
                let offset = batch.base_offset().0 + i64::from(record.offset_delta);
                if offset < position {
                    continue;
                }
                let value = record.value.and_then(value_of);
                let value = value.ok_or_else(|| {
                    nonsense(format!("the record at {offset} is not what was sent"))
                })?;
                if records.last().is_some_and(|(last, _)| *last >= offset) {
                    return Err(nonsense(format!("offset {offset} does not rise")));
                }
                records.push((offset, value));
            }
        }
        if next == position && bytes.len() >= 61 && end > position && self.bytes_max > 1_000_000 {
            return Err(nonsense(
                "records, but none at or beyond the position".to_owned(),
            ));
        }
        Ok(Fetched {
            records,
            next: (next > position).then_some(next),
            bytes: size,
        })
    }
}

/// The part of one answer about a partition.
#[derive(Default)]
struct Fetched {
    records: Vec<(i64, u64)>,
    /// Where to go on; `None` when nothing at or beyond the position came.
    next: Option<i64>,
    bytes: u64,
}

/// The aborted transactions among the batches of an answer; none for readers of uncommitted data, who are not told.
pub(super) struct Aborted {
    /// First offset and producer, the last one first.
    to_come: Vec<(i64, i64)>,
    open: BTreeSet<i64>,
}

impl Aborted {
    pub(super) fn new(data: &PartitionData) -> Aborted {
        let told = data.aborted_transactions.iter().flatten();
        let mut to_come: Vec<(i64, i64)> = told
            .map(|txn| (txn.first_offset, txn.producer_id))
            .collect();
        to_come.sort_unstable_by(|left, right| right.cmp(left));
        Aborted {
            to_come,
            open: BTreeSet::new(),
        }
    }

    pub(super) fn is_hidden(&mut self, batch: &Batch) -> bool {
        while let Some((first, producer)) = self.to_come.last().copied() {
            if first > batch.last_offset().0 {
                break;
            }
            self.open.insert(producer);
            self.to_come.pop();
        }
        let producer = batch.producer_id().0;
        if let Some(ControlRecord::EndTxn(end)) = ControlRecord::read(batch) {
            if !end.committed {
                self.open.remove(&producer);
            }
            return false;
        }
        batch.attributes().is_transactional() && self.open.contains(&producer)
    }
}
