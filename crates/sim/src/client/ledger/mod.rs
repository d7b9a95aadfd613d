//! A simulated keeper of a ledger: transactions over a few keys of a compacted topic, and readings of what is left of them.
//!
//! One transactional producer, and nobody else, writes, commits, aborts, crashes, and leaves transactions open for a while, so that
//! compaction meets their markers and their records and comes to an end before what is open. Readings go from the start to the end,
//! of what is committed and of everything in turn; the book says what they may show.

mod book;

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Outside};
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::fetch_response::PartitionData;
use wire::messages::{
    EndTxnRequest, FetchRequest, FindCoordinatorRequest, InitProducerIdRequest, ProduceRequest,
};
use wire::records::{Batch, BatchBuilder, Caps, Record, RecordIter, Source};
use wire::{ApiKey, ErrorCode, Records};

use super::admin::Topic;
use super::aging::{BORN_OLD_MS, stamp};
use super::keep::{ANSWER_MAX, Client, Link};
use super::keeper;
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::{Notes, payload, value_of};
use super::reader::Aborted;
use super::requests::{TRANSACTION, fetch, find_coordinator, produce, produced};
use super::transactor::is_fencing;
use book::{Book, Fate, KEYS, Reading};

pub(crate) const TOPIC: &str = "ledger";
const ID: &str = "keeper-of-the-ledger";
const BATCH_RECORDS_MAX: u64 = 5;
const RECONNECT: Duration = Duration::from_millis(250);
/// Longer than any run: only its producer ends a transaction.
const TIMEOUT_MS: i32 = 600_000;
/// A slow transaction takes seconds: a run has one or two.
const SLOW_ONE_IN: u64 = 25;
const ABORTED_MIN: usize = 60;
/// The header that numbers a record: a deletion has no value that could.
const NUMBER: &str = "n";

/// The topic as it is created.
pub(crate) fn topic(chance: &mut Chance) -> Topic {
    Topic {
        name: TOPIC.to_owned(),
        ..keeper::topic(chance)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LedgerState {
    /// Does not know its coordinator.
    Lost,
    /// Has no producer id that counts.
    Out,
    Idle,
    Open,
    Ending {
        committed: bool,
    },
}

pub(crate) struct Ledger {
    chance: Chance,
    link: Link,
    state: LedgerState,
    /// Id and epoch.
    producer: (i64, i16),
    sequence: i32,
    /// Batches that the transaction still makes, and the one under way.
    left: u64,
    batch: Option<(Bytes, Range<usize>)>,
    is_doomed: bool,
    /// It rests after each of its batches, so that segments roll, checkpoints and passes of compaction come while it is open.
    is_slow: bool,
    /// Until then an open transaction rests.
    rests_until: Instant,
    book: Book,
    reading: Reading,
    pub(crate) is_ending: bool,
    /// Readings of what is committed, and the log ends that the last one found.
    pub(crate) readings: u64,
    pub(crate) is_stable: bool,
}

impl Client for Ledger {
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
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.link.asked = None;
        match answer.key() {
            ApiKey::FindCoordinator => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                if found.error_code == 0 {
                    self.state = LedgerState::Out;
                }
            }
            ApiKey::InitProducerId => {
                let response = answer.decode::<InitProducerIdRequest>()?;
                match code(response.error_code)? {
                    ErrorCode::None => {
                        self.producer = (response.producer_id, response.producer_epoch);
                        (self.sequence, self.state) = (0, LedgerState::Idle);
                    }
                    ErrorCode::NotCoordinator => self.state = LedgerState::Lost,
                    _ => notes.refused += 1,
                }
            }
            ApiKey::Produce => self.on_produced(answer, world, notes)?,
            ApiKey::EndTxn => self.on_ended(answer, world, notes)?,
            _ => self.on_fetched(answer)?,
        }
        Ok(())
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let pause = Duration::from_millis(self.chance.between(2, 20));
        if !self.may_ask(pause, ANSWER_MAX, world, notes) {
            return;
        }
        if matches!(self.state, LedgerState::Open | LedgerState::Ending { .. })
            && !self.is_ending
            && self.chance.one_in(if self.is_slow { 800 } else { 80 })
        {
            self.crash(world, notes);
            return;
        }
        match self.state {
            LedgerState::Lost => {
                let request = find_coordinator(ID, TRANSACTION);
                self.link.ask(&request, 3, now);
            }
            LedgerState::Out => self.init(now),
            LedgerState::Idle | LedgerState::Open if self.chance.one_in(2) => self.fetch(now),
            LedgerState::Idle if self.is_ending => self.fetch(now),
            LedgerState::Idle => {
                self.begin();
                self.write(now);
            }
            LedgerState::Open if self.batch.is_some() => {
                notes.resent += 1;
                self.send(now);
            }
            LedgerState::Open if now < self.rests_until && !self.is_ending => self.fetch(now),
            LedgerState::Open if self.is_doomed || self.left == 0 => {
                let committed = !self.is_doomed && !self.chance.one_in(3);
                self.end(committed, now);
            }
            LedgerState::Open => self.write(now),
            LedgerState::Ending { committed } => self.end(committed, now),
        }
    }
}

impl Ledger {
    pub(crate) fn new(chance: Chance, now: Instant, retains_deletions: bool) -> Ledger {
        Ledger {
            chance,
            link: Link::new(now, RECONNECT),
            state: LedgerState::Lost,
            producer: (-1, -1),
            sequence: 0,
            left: 0,
            batch: None,
            is_doomed: false,
            is_slow: false,
            rests_until: now,
            book: Book::new(retains_deletions),
            reading: Reading::default(),
            is_ending: false,
            readings: 0,
            is_stable: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, LedgerState::Open | LedgerState::Ending { .. })
    }

    /// Writes of aborted transactions that are gone, and how often something was cleaned before an open transaction.
    pub(crate) fn cleaned(&self) -> (u64, u64) {
        (self.book.cleaned.len() as u64, self.book.met_open)
    }

    /// So much was aborted that compaction must have met it.
    pub(crate) fn is_busy(&self) -> bool {
        self.book.aborted() > ABORTED_MIN
    }

    pub(crate) fn describe(&self) -> String {
        let (state, next) = (self.state, self.reading.next);
        let told = self.book.describe();
        format!("{TOPIC} {state:?}: {told}, read up to {next}")
    }

    fn init(&mut self, now: Instant) {
        let request = InitProducerIdRequest {
            transactional_id: Some(ID.to_owned()),
            transaction_timeout_ms: TIMEOUT_MS,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        self.link.ask(&request, 5, now);
    }

    fn begin(&mut self) {
        self.book.begin();
        (self.state, self.is_doomed) = (LedgerState::Open, false);
        self.is_slow = self.chance.one_in(SLOW_ONE_IN);
        self.left = if self.is_slow {
            self.chance.between(3, 5)
        } else {
            self.chance.between(1, 6)
        };
    }

    /// Makes the next batch of the transaction, and sends it.
    fn write(&mut self, now: Instant) {
        let (id, epoch) = self.producer;
        let sequence = Sequence(self.sequence);
        let mut builder = BatchBuilder::new()
            .producer(ProducerId(id), ProducerEpoch(epoch), sequence)
            .transactional();
        // As the broker stamps its markers: by older times no segment would roll within a transaction.
        let time = Timestamp(stamp(now.0) + BORN_OLD_MS);
        let mut numbers = 0..0;
        for at in 0..self.chance.between(1, BATCH_RECORDS_MAX) {
            let (key, is_value) = match self.book.key_of_its_own() {
                Some(key) => (key, true),
                None => (self.chance.below(KEYS), !self.chance.one_in(6)),
            };
            let number = self.book.write(key, is_value);
            let start = if at == 0 { number } else { numbers.start };
            numbers = start..number + 1;
            let value = is_value.then(|| payload(number as u64));
            let told = (number as u64).to_be_bytes();
            let key = key.to_be_bytes();
            builder.push(time, Some(&key), value.as_deref(), &[(NUMBER, Some(&told))]);
        }
        self.left = self.left.saturating_sub(1);
        self.sequence += numbers.len() as i32;
        self.batch = Some((builder.build().to_bytes(), numbers));
        self.send(now);
        if self.is_slow || self.chance.one_in(15) {
            let rest = Duration::from_millis(self.chance.between(200, 2_500));
            self.rests_until = now.plus(rest);
        }
    }

    fn send(&mut self, now: Instant) {
        if let Some((batch, _)) = &self.batch {
            let request = produce(Some(ID), -1, TOPIC, [(0, batch.clone())]);
            self.link.ask(&request, 12, now);
        }
    }

    fn end(&mut self, committed: bool, now: Instant) {
        let (producer_id, producer_epoch) = self.producer;
        let request = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id,
            producer_epoch,
            committed,
        };
        self.link.ask(&request, 5, now);
        self.state = LedgerState::Ending { committed };
        self.book.ends(if committed {
            Fate::Asked
        } else {
            Fate::Aborted
        });
    }

    /// Ends as a process; a new one takes its place.
    fn crash(&mut self, world: &Outside, notes: &mut Notes) {
        self.hang_up(world, notes);
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.book.gives_up();
        (self.state, self.batch) = (LedgerState::Out, None);
    }

    fn fetch(&mut self, now: Instant) {
        let bytes_max = *self.chance.pick(&[3_000, 60_000, 1 << 20]);
        let is_committed = self.reading.is_committed;
        let request = fetch(TOPIC, is_committed, bytes_max, [(0, self.reading.next)]);
        self.link.ask(&request, 11, now);
    }

    fn on_produced(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let (_, told) = produced(answer.decode::<ProduceRequest>()?)?;
        match code(told.error_code)? {
            ErrorCode::None => {
                if let Some((_, numbers)) = self.batch.take() {
                    let acked = self.book.acked(numbers, told.base_offset);
                    acked.map_err(nonsense)?;
                }
            }
            error @ (ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId) => {
                return Err(nonsense(format!("refused with {error:?}")));
            }
            ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable => {
                notes.refused += 1;
                (self.is_doomed, self.batch) = (true, None);
            }
            error if is_fencing(error) => {
                notes.fenced += 1;
                self.crash(world, notes);
            }
            _ => notes.refused += 1,
        }
        Ok(())
    }

    fn on_ended(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let response = answer.decode::<EndTxnRequest>()?;
        let LedgerState::Ending { committed } = self.state else {
            return Ok(());
        };
        match code(response.error_code)? {
            ErrorCode::None => {
                self.book.ends(if committed {
                    Fate::Committed
                } else {
                    Fate::Aborted
                });
                self.producer = (response.producer_id, response.producer_epoch);
                (self.sequence, self.state) = (0, LedgerState::Idle);
            }
            error if is_fencing(error) || error == ErrorCode::InvalidTxnState => {
                notes.fenced += 1;
                self.crash(world, notes);
            }
            _ => notes.refused += 1,
        }
        Ok(())
    }

    fn on_fetched(&mut self, answer: &RawAnswer) -> Result<(), LineError> {
        let response = answer.decode::<FetchRequest>()?;
        let topics = response.responses.into_iter();
        for data in topics.flat_map(|topic| topic.partitions) {
            if data.error_code == ErrorCode::OffsetOutOfRange.code() {
                return Err(nonsense(format!(
                    "offset {} is out of range, the log is {}..{}",
                    self.reading.next, data.log_start_offset, data.high_watermark
                )));
            }
            if data.error_code == 0 {
                self.read(&data).map_err(nonsense)?;
            }
        }
        Ok(())
    }

    /// Takes in what a fetch brought, and judges the reading when it is whole.
    fn read(&mut self, data: &PartitionData) -> Result<(), String> {
        let (stable, end) = (data.last_stable_offset, data.high_watermark);
        if let Some(open) = self.book.open_from().filter(|open| *open < stable) {
            return Err(format!(
                "stable up to {stable}, and a transaction is open from {open} on"
            ));
        }
        if let Some(Records::Bytes(bytes)) = &data.records {
            let mut aborted = Aborted::new(data);
            for batch in Batch::cut(bytes, Source::Log) {
                let batch = batch.map_err(|error| error.to_string())?;
                let next = self.reading.next.max(batch.next_offset().0);
                let is_hidden = aborted.is_hidden(&batch);
                if !is_hidden && !batch.attributes().is_control() {
                    self.read_batch(&batch)?;
                }
                self.reading.next = next;
            }
        }
        let until = if self.reading.is_committed {
            stable
        } else {
            end
        };
        if self.reading.next >= until {
            let reading = std::mem::take(&mut self.reading);
            self.reading.is_committed = !reading.is_committed;
            self.book.judge(&reading, stable, end)?;
            self.readings += u64::from(reading.is_committed);
            self.is_stable = stable == end;
        }
        Ok(())
    }

    fn read_batch(&mut self, batch: &Batch) -> Result<(), String> {
        let plain = batch.plain(Caps::default());
        let plain = plain.map_err(|error| error.to_string())?;
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.map_err(|error| error.to_string())?;
            let offset = batch.base_offset().0 + i64::from(record.offset_delta);
            if offset < self.reading.next {
                continue;
            }
            let number = self.number_of(&record);
            let number = number
                .ok_or_else(|| format!("the record at {offset} is not one that was written"))?;
            self.book.meets(&mut self.reading, number, offset)?;
        }
        Ok(())
    }

    /// Of the write that is this record.
    fn number_of(&self, record: &Record<'_>) -> Option<usize> {
        let mut headers = record.headers.iter();
        let told = headers.next()?.value?.first_chunk::<8>()?;
        let number = u64::from_be_bytes(*told);
        let write = self.book.written(usize::try_from(number).ok()?)?;
        let is_it = record.key == Some(&write.key.to_be_bytes()[..])
            && match record.value {
                Some(value) => write.is_value && value_of(value) == Some(number),
                None => !write.is_value,
            };
        is_it.then_some(number as usize)
    }
}
