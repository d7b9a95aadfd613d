//! A simulated producer: batches with known values to the partitions of one topic, several under way at a time.
//!
//! Idempotent ones send again, in order, whatever was not answered, and must never be told that they are out of order. Others
//! send once and note what the answer means. Impatient ones send again while the original is on its way to the disk. A producer that cannot know its own state any more ends as a process and a new
//! one takes its place.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Outside};
use model::{Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::{InitProducerIdRequest, ProduceRequest};
use wire::records::{BatchBuilder, Codec};
use wire::{ApiKey, ErrorCode};

use super::aging::stamp;
use super::keep::{Client, Link};
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::{Notes, payload};
use super::requests::{able_to_bring, init_producer_id, produce};
use crate::checker::{self, Attempt, Kind, Meaning, Op, Outcome, Request, Sent, classify};

/// How a producer behaves.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) topic: String,
    pub(crate) partitions: Range<i32>,
    pub(crate) acks: i16,
    pub(crate) idempotent: bool,
    pub(crate) in_flight_max: usize,
    pub(crate) records_max: u64,
    /// Time between two batches when nothing else holds it up.
    pub(crate) pause: Duration,
    /// An answer that takes longer is not waited for: what is open goes again, on a new connection.
    pub(crate) patience: Duration,
}

/// An idempotent producer stops trying after this.
const GIVE_UP: Duration = Duration::from_secs(120);
const RECONNECT: Duration = Duration::from_millis(300);

struct Batch {
    partition: i32,
    values: Vec<u64>,
    records: Bytes,
    invoked: u64,
    attempt: Attempt,
    /// The request it is under way in.
    correlation: Option<i32>,
}

pub(crate) struct Producer {
    habits: Habits,
    process: u32,
    chance: Chance,
    link: Link,
    /// Id and epoch, for an idempotent producer.
    id: Option<(i64, i16)>,
    sequences: BTreeMap<i32, i32>,
    /// Not answered yet, in the order of sending.
    batches: VecDeque<Batch>,
    /// When the last progress was, for giving up.
    progress: Instant,
    /// When the present connection was.
    opened: Instant,
    pub(crate) is_ending: bool,
    /// Turns with a connection, while it was to send and to hear of it.
    pub(crate) turns: u64,
    /// Partitions that took a batch since the last call of `forget_acked`.
    pub(crate) acked: std::collections::BTreeSet<i32>,
}

impl Client for Producer {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        format!("producer {}", self.process)
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        if answer.key() == ApiKey::InitProducerId {
            let response = answer.decode::<InitProducerIdRequest>()?;
            self.link.asked = None;
            if response.error_code == 0 {
                self.id = Some((response.producer_id, response.producer_epoch));
                self.progress = world.now();
            }
            return Ok(());
        }
        let response = answer.decode::<ProduceRequest>()?;
        for topic in &response.responses {
            for partition in &topic.partition_responses {
                let is_it = |batch: &Batch| {
                    batch.correlation == Some(answer.correlation())
                        && batch.partition == partition.index
                };
                let Some(at) = self.batches.iter().position(is_it) else {
                    let what = format!(
                        "an answer for partition {} that was not asked",
                        partition.index
                    );
                    return Err(nonsense(what));
                };
                let answer = match code(partition.error_code)? {
                    ErrorCode::None => checker::Answer::Offset(partition.base_offset),
                    code => checker::Answer::Code(code),
                };
                self.take_answer(at, answer, world, notes);
                if self.link.line.is_none() {
                    return Ok(());
                }
            }
        }
        if self
            .batches
            .iter()
            .any(|batch| batch.correlation == Some(answer.correlation()))
        {
            return Err(nonsense("a partition without an answer"));
        }
        Ok(())
    }

    /// The connection is over: what was under way is sent again or stays unknown.
    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        self.link.lose(world.now(), notes);
        for batch in &mut self.batches {
            if batch.correlation.take().is_some() {
                batch.attempt = Attempt::AfterUnanswered;
                notes.unanswered += 1;
            }
        }
        if !self.habits.idempotent {
            self.give_up(world, notes);
        }
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        self.link.wake =
            now.plus(self.habits.pause + Duration::from_micros(self.chance.below(2_000)));
        if now.since(self.progress) > GIVE_UP && !self.batches.is_empty() {
            self.give_up(world, notes);
        }
        let Some(line) = &self.link.line else {
            if !self.link.open(world, notes) {
                return;
            }
            self.opened = now;
            if self.habits.idempotent {
                self.send_again(notes);
            }
            return;
        };
        self.turns += u64::from(self.habits.acks != 0 && !self.is_ending);
        let under_way = self
            .batches
            .iter()
            .filter(|batch| batch.correlation.is_some());
        let oldest = under_way.map(|batch| Instant(batch.invoked)).min();
        let heard = self.progress.max(self.opened);
        if oldest.is_some_and(|oldest| now.since(oldest.max(heard)) > self.habits.patience) {
            self.hang_up(world, notes);
            if self.habits.patience < RECONNECT {
                self.link.wake = now;
            }
            return;
        }
        if self.habits.idempotent && self.id.is_none() {
            if self.link.asked.is_none() {
                self.link.ask(&init_producer_id(), 4, now);
            }
            return;
        }
        if line.unanswered() < self.habits.in_flight_max && !self.is_ending && !self.has_waiting() {
            self.send_new(world, notes);
        }
    }
}

impl Producer {
    pub(crate) fn new(habits: Habits, chance: Chance, now: Instant, notes: &mut Notes) -> Producer {
        Producer {
            habits,
            process: notes.process(),
            chance,
            link: Link::new(now, RECONNECT),
            id: None,
            sequences: BTreeMap::new(),
            batches: VecDeque::new(),
            progress: now,
            opened: now,
            is_ending: false,
            turns: 0,
            acked: std::collections::BTreeSet::new(),
        }
    }

    pub(crate) fn topic(&self) -> &str {
        &self.habits.topic
    }

    pub(crate) fn partitions(&self) -> Range<i32> {
        self.habits.partitions.clone()
    }

    /// Something was answered on the present connection, and something else is under way there.
    pub(crate) fn is_served(&self) -> bool {
        let line = self.link.line.as_ref();
        self.progress > self.opened && line.is_some_and(|line| line.unanswered() > 0)
    }

    /// How long nothing that is under way was answered.
    pub(crate) fn silent_for(&self, now: Instant) -> Option<Duration> {
        let oldest = self.batches.iter().map(|batch| batch.invoked).min()?;
        let heard = self.progress.max(self.opened).max(Instant(oldest));
        Some(now.since(heard))
    }

    pub(crate) fn has_unanswered(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Ends this process: nothing it has not heard of will be asked again.
    pub(crate) fn give_up(&mut self, world: &Outside, notes: &mut Notes) {
        for batch in std::mem::take(&mut self.batches) {
            self.note(&batch, Outcome::Info, None, world, notes);
        }
        (self.link.line, self.link.asked) = (None, None);
        self.id = None;
        self.sequences.clear();
        self.process = notes.process();
        self.progress = world.now();
    }

    fn has_waiting(&self) -> bool {
        self.batches.iter().any(|batch| batch.correlation.is_none())
    }

    fn send_new(&mut self, world: &Outside, notes: &mut Notes) {
        let mut partitions: Vec<i32> = self.habits.partitions.clone().collect();
        let count = if self.chance.one_in(4) { 2 } else { 1 };
        let mut new = Vec::new();
        for _ in 0..count {
            if partitions.is_empty() {
                break;
            }
            let partition =
                partitions.swap_remove(self.chance.below(partitions.len() as u64) as usize);
            new.push(self.batch(partition, world, notes));
        }
        self.send(new, notes);
    }

    fn batch(&mut self, partition: i32, world: &Outside, notes: &mut Notes) -> Batch {
        let values: Vec<u64> = (0..self.chance.between(1, self.habits.records_max))
            .map(|_| notes.value())
            .collect();
        let sequence = self.sequences.entry(partition).or_default();
        let identity = self.id.map(|(id, epoch)| Identity {
            id,
            epoch,
            sequence: *sequence,
            is_transactional: false,
        });
        let now = world.now();
        let records = build(&values, identity, now, &mut self.chance);
        let batch = Batch {
            partition,
            records,
            invoked: now.0,
            attempt: Attempt::First,
            correlation: None,
            values,
        };
        *sequence += batch.values.len() as i32;
        batch
    }

    /// Everything that is not answered, again, one request per batch and in the old order.
    fn send_again(&mut self, notes: &mut Notes) {
        for batch in std::mem::take(&mut self.batches) {
            notes.resent += 1;
            self.send(vec![batch], notes);
        }
    }

    fn send(&mut self, batches: Vec<Batch>, notes: &mut Notes) {
        let Some(line) = &mut self.link.line else {
            self.batches.extend(batches);
            return;
        };
        let sent = batches.iter();
        let sent = sent.map(|batch| (batch.partition, batch.records.clone()));
        let request = produce(None, self.habits.acks, &self.habits.topic, sent);
        let records: Vec<&Bytes> = batches.iter().map(|batch| &batch.records).collect();
        let version = able_to_bring(&records, self.chance.between(3, 12));
        let correlation = line.ask(&request, version, self.habits.acks != 0);
        for mut batch in batches {
            if self.habits.acks == 0 {
                // Nobody will ever know.
                let op = op(
                    &self.habits.topic,
                    self.process,
                    &batch,
                    Outcome::Info,
                    None,
                    notes,
                );
                notes.done(op);
                continue;
            }
            batch.correlation = Some(correlation);
            self.batches.push_back(batch);
        }
    }

    fn take_answer(
        &mut self,
        at: usize,
        answer: checker::Answer,
        world: &Outside,
        notes: &mut Notes,
    ) {
        let outcome = match classify(Request::Produce, self.batches[at].attempt, answer) {
            Meaning::Known(outcome) => outcome,
            Meaning::Invalid => {
                notes.violation(format!(
                    "producer {}: success without an offset",
                    self.process
                ));
                Outcome::Info
            }
        };
        if outcome == Outcome::Ok {
            self.progress = world.now();
            let Some(batch) = self.batches.remove(at) else {
                return;
            };
            self.acked.insert(batch.partition);
            let offset = match answer {
                checker::Answer::Offset(offset) => Some(offset),
                _ => None,
            };
            self.note(&batch, outcome, offset, world, notes);
            return;
        }
        notes.refused += 1;
        if !self.habits.idempotent {
            if let Some(batch) = self.batches.remove(at) {
                self.note(&batch, outcome, None, world, notes);
            }
            // Later batches that are under way may come through all the same; order is no longer promised.
            self.process = notes.process();
            return;
        }
        let partition = self.batches[at].partition;
        let is_first = !self
            .batches
            .iter()
            .take(at)
            .any(|batch| batch.partition == partition);
        if let checker::Answer::Code(code) = answer
            && is_first
            && is_fatal(code)
            && !notes.may_meet_zombies(world.now())
        {
            notes.violation(format!(
                "producer {}: refused with {code:?} although it kept order",
                self.process
            ));
            self.give_up(world, notes);
            return;
        }
        // All that is open goes again, in order, on a new connection.
        self.hang_up(world, notes);
    }

    fn note(
        &self,
        batch: &Batch,
        outcome: Outcome,
        base: Option<i64>,
        world: &Outside,
        notes: &mut Notes,
    ) {
        let mut op = op(
            &self.habits.topic,
            self.process,
            batch,
            outcome,
            base,
            notes,
        );
        op.returned = world.now().0;
        notes.done(op);
    }
}

/// The owner of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
    pub(crate) is_transactional: bool,
}

/// The bytes of a batch with these values.
pub(crate) fn build(
    values: &[u64],
    identity: Option<Identity>,
    now: Instant,
    chance: &mut Chance,
) -> Bytes {
    let codec = *chance.pick(&[
        Codec::None,
        Codec::None,
        Codec::Lz4,
        Codec::Zstd,
        Codec::Snappy,
    ]);
    let mut builder = BatchBuilder::new().compression(codec);
    if let Some(identity) = identity {
        let Identity {
            id,
            epoch,
            sequence,
            is_transactional,
        } = identity;
        builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), Sequence(sequence));
        if is_transactional {
            builder = builder.transactional();
        }
    }
    let time = Timestamp(stamp(now.0));
    for value in values {
        builder.push(
            time,
            Some(&value.to_be_bytes()),
            Some(&payload(*value)),
            &[],
        );
    }
    builder.build().to_bytes()
}

/// No producer that keeps order is told so.
pub(super) fn is_fatal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
    )
}

fn op(
    topic: &str,
    process: u32,
    batch: &Batch,
    outcome: Outcome,
    base: Option<i64>,
    notes: &mut Notes,
) -> Op {
    let key = notes.key(topic, batch.partition);
    let mut op = Op::new(process, Kind::Send, batch.invoked);
    op.outcome = outcome;
    let sent = |(at, value): (usize, &u64)| Sent {
        key,
        offset: base.map(|base| base + at as i64),
        value: *value,
    };
    op.sends = batch.values.iter().enumerate().map(sent).collect();
    op
}
