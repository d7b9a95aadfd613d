//! A simulated keeper of a table: writes and deletions of a few keys in a compacted topic, and readings of what is left of them.
//!
//! One idempotent producer writes, with one batch under way, and nobody else: the offset of a write is its number. A reading goes
//! from the start to the end. What it saw last of each key must be what was last written to it, whatever compaction took away
//! before or meanwhile (I11 of the invariants), deletions with it while the topic retains them. Readings never stop, so that they
//! meet segments on their way out.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Machine};
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{FetchRequest, InitProducerIdRequest, ProduceRequest};
use wire::records::{Batch, BatchBuilder, Caps, RecordIter, Source};
use wire::{ApiKey, ErrorCode, Records};

use super::admin::Topic;
use super::keep::{Client, Link, Turn};
use super::line::{Answer, LineError};
use super::notes::{Notes, payload, value_of};
use super::reader::DAMAGED;

pub(crate) const TOPIC: &str = "table";
/// Few, so that most records are soon superseded.
const KEYS: u64 = 12;
const BATCH_RECORDS_MAX: u64 = 8;
const RECONNECT: Duration = Duration::from_millis(250);
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Of deletions, longer than any run.
const DAY_MS: u64 = 86_400_000;
const RETENTION: &str = "delete.retention.ms";

/// The topic as it is created.
pub(crate) fn topic(chance: &mut Chance) -> Topic {
    Topic {
        name: TOPIC.to_owned(),
        partitions: 1,
        configs: vec![
            ("cleanup.policy", "compact".to_owned()),
            ("segment.bytes", (1 << 20).to_string()),
            ("segment.ms", chance.between(300, 1_500).to_string()),
            ("min.cleanable.dirty.ratio", "0.01".to_owned()),
            (
                RETENTION,
                chance.pick(&[0, 1_000, DAY_MS, DAY_MS]).to_string(),
            ),
            ("file.delete.delay.ms", "100".to_owned()),
            ("message.timestamp.after.max.ms", i64::MAX.to_string()),
        ],
    }
}

/// Whether no deletion may be compacted away while the clock is right.
pub(crate) fn retains_deletions(table: &Topic) -> bool {
    let day = DAY_MS.to_string();
    let mut configs = table.configs.iter();
    configs.any(|(name, value)| *name == RETENTION && *value == day)
}

/// One write; its number is its offset.
#[derive(Clone, Copy)]
struct Write {
    key: u64,
    /// False deletes the key.
    is_value: bool,
}

/// A reading from the start on.
#[derive(Default)]
struct Reading {
    next: i64,
    /// Offset of the last value of each key, unless a deletion came after it.
    last: BTreeMap<u64, i64>,
    /// Offset of the last deletion of each key, unless a value came after it.
    deleted: BTreeMap<u64, i64>,
    records: i64,
}

pub(crate) struct Keeper {
    chance: Chance,
    link: Link,
    id: Option<(i64, i16)>,
    writes: Vec<Write>,
    /// Writes that are acknowledged; the others are in `batch`.
    acked: usize,
    batch: Option<Bytes>,
    reading: Reading,
    /// Values that the reading before found although their key is deleted. It may have met them on their way out.
    stale: BTreeMap<u64, i64>,
    retains_deletions: bool,
    /// What the last fetch was answered with instead of records.
    pub(crate) refused: Option<ErrorCode>,
    pub(crate) is_ending: bool,
    pub(crate) readings: u64,
    /// Readings that found less than was written.
    pub(crate) compacted: u64,
}

impl Client for Keeper {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        TOPIC.to_owned()
    }

    fn on_answer(
        &mut self,
        answer: &Answer,
        _machine: &Machine,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.link.asked = None;
        match answer.key() {
            ApiKey::InitProducerId => {
                let response = answer.decode::<InitProducerIdRequest>()?;
                if response.error_code == 0 {
                    self.id = Some((response.producer_id, response.producer_epoch));
                }
                Ok(())
            }
            ApiKey::Produce => self.on_produced(answer, notes),
            _ => self.on_fetched(answer, notes),
        }
    }

    fn hang_up(&mut self, machine: &Machine, notes: &mut Notes) {
        self.link.lose(machine, RECONNECT, notes);
    }

    fn on_wake(&mut self, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        self.link.wake = now.plus(Duration::from_millis(self.chance.between(2, 30)));
        match self.link.turn(machine, RECONNECT, ANSWER_MAX) {
            Turn::Ask => {}
            Turn::Wait => return,
            Turn::HangUp => return self.hang_up(machine, notes),
        }
        if self.id.is_none() {
            self.ask_for_id();
        } else if self.batch.is_some() {
            notes.resent += 1;
            self.send();
        } else if self.is_ending || self.chance.one_in(2) {
            self.fetch();
        } else {
            self.write(now);
            self.send();
        }
        self.link.asked = Some(now);
    }
}

impl Keeper {
    pub(crate) fn new(chance: Chance, now: Instant, retains_deletions: bool) -> Keeper {
        Keeper {
            chance,
            link: Link::new(now),
            id: None,
            writes: Vec::new(),
            acked: 0,
            batch: None,
            reading: Reading::default(),
            stale: BTreeMap::new(),
            retains_deletions,
            refused: None,
            is_ending: false,
            readings: 0,
            compacted: 0,
        }
    }

    /// Another one that only reads, what this one wrote.
    pub(crate) fn reader(&self, chance: Chance, now: Instant) -> Keeper {
        Keeper {
            id: self.id.or(Some((0, 0))),
            writes: self.writes.clone(),
            acked: self.acked,
            is_ending: true,
            ..Keeper::new(chance, now, self.retains_deletions)
        }
    }

    pub(crate) fn has_unanswered(&self) -> bool {
        self.batch.is_some()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{TOPIC}: {} of {} writes acknowledged, read up to {}",
            self.acked,
            self.writes.len(),
            self.reading.next
        )
    }

    fn ask_for_id(&mut self) {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        if let Some(line) = &mut self.link.line {
            line.ask(&request, 4, true);
        }
    }

    /// Makes the next batch.
    fn write(&mut self, now: Instant) {
        let Some((id, epoch)) = self.id else { return };
        let first = self.writes.len();
        let sequence = Sequence(first as i32);
        let mut builder =
            BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch), sequence);
        // As other producers here: times of its own, which run, so that segments roll.
        let time = Timestamp(1_700_000_000_000 - 3 * 3_600_000 + (now.0 / 1_000_000) as i64);
        for number in 0..self.chance.between(1, BATCH_RECORDS_MAX) {
            let write = Write {
                key: self.chance.below(KEYS),
                is_value: !self.chance.one_in(6),
            };
            let value = write.is_value.then(|| payload(first as u64 + number));
            builder.push(time, Some(&write.key.to_be_bytes()), value.as_deref(), &[]);
            self.writes.push(write);
        }
        self.batch = Some(builder.build().to_bytes());
    }

    fn send(&mut self) {
        let (Some(line), Some(batch)) = (&mut self.link.line, &self.batch) else {
            return;
        };
        let request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![TopicProduceData {
                name: TOPIC.to_owned(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(batch.clone().into()),
                }],
                ..Default::default()
            }],
        };
        line.ask(&request, 9, true);
    }

    fn fetch(&mut self) {
        let request = FetchRequest {
            max_wait_ms: 0,
            max_bytes: 4 << 20,
            topics: vec![FetchTopic {
                topic: TOPIC.to_owned(),
                partitions: vec![FetchPartition {
                    partition: 0,
                    fetch_offset: self.reading.next,
                    partition_max_bytes: *self.chance.pick(&[1, 3_000, 1 << 20]),
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        if let Some(line) = &mut self.link.line {
            line.ask(&request, 11, true);
        }
    }

    fn on_produced(&mut self, answer: &Answer, notes: &mut Notes) -> Result<(), LineError> {
        let response = answer.decode::<ProduceRequest>()?;
        let partitions = response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        for partition in partitions {
            match ErrorCode::try_from(partition.error_code) {
                Ok(ErrorCode::None) => {
                    if partition.base_offset != self.acked as i64 {
                        return Err(nonsense(format!(
                            "write {} stands at {}",
                            self.acked, partition.base_offset
                        )));
                    }
                    self.acked = self.writes.len();
                    self.batch = None;
                }
                Ok(
                    code @ (ErrorCode::OutOfOrderSequenceNumber
                    | ErrorCode::UnknownProducerId
                    | ErrorCode::InvalidProducerEpoch),
                ) => return Err(nonsense(format!("refused with {code:?}"))),
                Ok(_) => notes.refused += 1,
                Err(error) => return Err(nonsense(error.to_string())),
            }
        }
        Ok(())
    }

    fn on_fetched(&mut self, answer: &Answer, notes: &mut Notes) -> Result<(), LineError> {
        let response = answer.decode::<FetchRequest>()?;
        let topics = response.responses.into_iter();
        for data in topics.flat_map(|topic| topic.partitions) {
            if data.error_code == ErrorCode::OffsetOutOfRange.code() {
                return Err(nonsense(format!(
                    "offset {} is out of range, the log is {}..{}",
                    self.reading.next, data.log_start_offset, data.high_watermark
                )));
            }
            if data.error_code != 0 {
                self.refused = ErrorCode::try_from(data.error_code).ok();
                continue;
            }
            if let Some(Records::Bytes(bytes)) = &data.records {
                self.read(bytes)?;
            }
            if self.reading.next >= data.high_watermark {
                self.judge(data.high_watermark, notes);
            }
        }
        Ok(())
    }

    /// Takes in what a fetch brought: each record must be the write of its offset.
    fn read(&mut self, bytes: &Bytes) -> Result<(), LineError> {
        for batch in Batch::cut(bytes, Source::Log) {
            let damaged = |error: &dyn std::fmt::Display| nonsense(format!("{DAMAGED}: {error}"));
            let batch = batch.map_err(|error| damaged(&error))?;
            let plain = batch.plain(Caps::default());
            let plain = plain.map_err(|error| damaged(&error))?;
            for record in RecordIter::new(&plain, batch.record_count()) {
                let record = record.map_err(|error| nonsense(error.to_string()))?;
                let offset = batch.base_offset().0 + i64::from(record.offset_delta);
                if offset < self.reading.next {
                    continue;
                }
                let write = usize::try_from(offset).ok();
                let write = write.and_then(|at| self.writes.get(at)).copied();
                let is_it = write.is_some_and(|write| {
                    record.key == Some(&write.key.to_be_bytes()[..])
                        && match record.value {
                            Some(value) => write.is_value && value_of(value) == Some(offset as u64),
                            None => !write.is_value,
                        }
                });
                let Some(write) = write.filter(|_| is_it) else {
                    return Err(nonsense(format!(
                        "the record at {offset} was never written"
                    )));
                };
                let Reading { last, deleted, .. } = &mut self.reading;
                let (is, is_no_more) = match write.is_value {
                    true => (last, deleted),
                    false => (deleted, last),
                };
                is.insert(write.key, offset);
                is_no_more.remove(&write.key);
                self.reading.records += 1;
            }
            self.reading.next = self.reading.next.max(batch.next_offset().0);
        }
        Ok(())
    }

    /// Compares a whole reading with what was written up to `end`.
    fn judge(&mut self, end: i64, notes: &mut Notes) {
        let Reading {
            last,
            deleted,
            records,
            ..
        } = std::mem::take(&mut self.reading);
        let end = usize::try_from(end).unwrap_or(0);
        if end > self.writes.len() || end < self.acked {
            let (acked, all) = (self.acked, self.writes.len());
            notes.violation(format!(
                "{TOPIC} ends at {end}, {all} were written and {acked} acknowledged"
            ));
            return;
        }
        let (mut wanted, mut unwanted) = (BTreeMap::new(), BTreeMap::new());
        for (offset, write) in self.writes[..end].iter().enumerate() {
            let (is, is_no_more) = match write.is_value {
                true => (&mut wanted, &mut unwanted),
                false => (&mut unwanted, &mut wanted),
            };
            is.insert(write.key, offset as i64);
            is_no_more.remove(&write.key);
        }
        if self.retains_deletions && deleted != unwanted {
            notes.violation(format!(
                "{TOPIC}: the last deletions are {unwanted:?}, a reading found {deleted:?}"
            ));
        }
        for (key, offset) in &wanted {
            if last.get(key) != Some(offset) {
                notes.violation(format!(
                    "{TOPIC} key {key}: the write at {offset} is its last, a reading found {:?}",
                    last.get(key)
                ));
            }
        }
        // A reader may pass a value (1) that goes together with its deletion (2) before the reader gets to that (3). The next
        // one must not find the value.
        let stale: BTreeMap<u64, i64> = last
            .into_iter()
            .filter(|(key, _)| !wanted.contains_key(key))
            .collect();
        for (key, offset) in &stale {
            if self.stale.get(key) == Some(offset) {
                notes.violation(format!(
                    "{TOPIC} key {key} was deleted, and the write at {offset} is back"
                ));
            }
        }
        self.stale = stale;
        self.readings += 1;
        self.compacted += u64::from(records < end as i64);
    }
}

fn nonsense(what: String) -> LineError {
    LineError::Nonsense(what)
}
