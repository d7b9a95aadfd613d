//! A simulated keeper of a table: writes and deletions of a few keys in a compacted topic, and readings of what is left of them.
//!
//! One idempotent producer writes, with one batch under way, and nobody else: the offset of a write is its number. A reading goes
//! from the start to the end. What it saw last of each key must be what was last written to it, whatever compaction took away
//! before or meanwhile (I11 of the invariants), deletions with it while the topic retains them. Readings never stop, so that they
//! meet segments on their way out.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Outside};
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::{FetchRequest, InitProducerIdRequest, ProduceRequest};
use wire::records::{Batch, BatchBuilder, Caps, RecordIter, Source};
use wire::{ApiKey, ErrorCode, Records};

use super::admin::Topic;
use super::aging::stamp;
use super::keep::{ANSWER_MAX, Client, Link};
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::{Notes, payload, value_of};
use super::producer::is_fatal;
use super::reader::DAMAGED;
use super::requests::{fetch, init_producer_id, produce, produced};

pub(crate) const TOPIC: &str = "table";
/// Few, so that most records are soon superseded.
const KEYS: u64 = 12;
const BATCH_RECORDS_MAX: u64 = 8;
const RECONNECT: Duration = Duration::from_millis(250);

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
        node: None,
        replicas: 1,
    }
}

/// True if no deletion may be compacted away while the clock is right.
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
    /// The code that answered the last fetch instead of records.
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
        answer: &RawAnswer,
        _world: &Outside,
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

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let pause = Duration::from_millis(self.chance.between(2, 30));
        if !self.may_ask(pause, ANSWER_MAX, world, notes) {
            return;
        }
        if self.id.is_none() {
            self.link.ask(&init_producer_id(), 4, now);
        } else if self.batch.is_some() {
            notes.resent += 1;
            self.send(now);
        } else if self.is_ending || self.chance.one_in(2) {
            let bytes_max = *self.chance.pick(&[1, 3_000, 1 << 20]);
            let request = fetch(TOPIC, false, bytes_max, [(0, self.reading.next)]);
            self.link.ask(&request, 11, now);
        } else {
            self.write(now);
            self.send(now);
        }
    }
}

impl Keeper {
    pub(crate) fn new(chance: Chance, now: Instant, retains_deletions: bool) -> Keeper {
        Keeper {
            chance,
            link: Link::new(now, RECONNECT),
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

    /// Makes the next batch.
    fn write(&mut self, now: Instant) {
        let Some((id, epoch)) = self.id else { return };
        let first = self.writes.len();
        let sequence = Sequence(first as i32);
        let mut builder =
            BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(epoch), sequence);
        let time = Timestamp(stamp(now.0));
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

    fn send(&mut self, now: Instant) {
        let Some(batch) = &self.batch else { return };
        let request = produce(None, -1, TOPIC, [(0, batch.clone())]);
        self.link.ask(&request, 9, now);
    }

    fn on_produced(&mut self, answer: &RawAnswer, notes: &mut Notes) -> Result<(), LineError> {
        let (_, told) = produced(answer.decode::<ProduceRequest>()?)?;
        match code(told.error_code)? {
            ErrorCode::None if told.base_offset != self.acked as i64 => {
                return Err(nonsense(format!(
                    "write {} stands at {}",
                    self.acked, told.base_offset
                )));
            }
            ErrorCode::None => {
                self.acked = self.writes.len();
                self.batch = None;
            }
            code if is_fatal(code) => return Err(nonsense(format!("refused with {code:?}"))),
            _ => notes.refused += 1,
        }
        Ok(())
    }

    fn on_fetched(&mut self, answer: &RawAnswer, notes: &mut Notes) -> Result<(), LineError> {
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
                let (is, is_no_more) = if write.is_value {
                    (last, deleted)
                } else {
                    (deleted, last)
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
            let (is, is_no_more) = if write.is_value {
                (&mut wanted, &mut unwanted)
            } else {
                (&mut unwanted, &mut wanted)
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
