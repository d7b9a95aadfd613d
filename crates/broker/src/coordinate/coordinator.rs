//! One coordinator: a machine and the partition that remembers what it decided.
//!
//! Requests within one turn of the shard are written together, as one batch. Invariant: the machine has replayed the log up to
//! its end, and then what is not written yet, in order, and nothing else changed it; what is not written comes before anything else
//! in the log, and is written before anybody hears of it. A log that cannot be read or written makes the coordinator say so to
//! everyone; it never answers from half of its state. It is of one leader epoch: in another one the log is another broker's, or was
//! meanwhile, and its coordinator begins anew.

mod load;

use std::sync::Arc;

use bytes::Bytes;
use coord::{Moment, Reply, Step, Topics, txn};
use log::producer::Origin;
use model::{Instant, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};
use partition::{Acks, Marker, Partition, ReadError, Stamp, Warrant};
use wire::ErrorCode;
use wire::records::{BatchBuilder, Codec};

use super::fleet::{Asked, Output};
use super::machine::Machine;
use super::marking::append_marker;
use crate::error;
use crate::mail::question::Basis;
use crate::settings::Settings;

/// Records that share a batch, where the topic allows so much: enough for a hundred commits, and no reader has to unpack much for
/// one of them.
const TOGETHER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a record in a batch besides key and value, at most.
const RECORD_BYTES: usize = 40;

enum State {
    /// Replayed up to here.
    Loading(Offset),
    /// The same, but what comes next is not durable yet, and looked for again then.
    Waiting(Offset, Instant),
    Active,
    /// The log cannot be read; said once, and to everyone who asks.
    Failed,
}

pub(super) struct Coordinator<M: Machine> {
    pub(super) log: Arc<Partition>,
    /// The leader epoch of the log that it is of.
    epoch: LeaderEpoch,
    machine: M,
    settings: Arc<Settings>,
    codec: Codec,
    state: State,
    unwritten: Option<Unwritten<M>>,
}

/// Records that the machine has replayed already, and the answers and effects since the first of them.
struct Unwritten<M: Machine> {
    records: BatchBuilder,
    results: Results<M>,
}

/// Answers and effects that rest on the same records.
struct Results<M: Machine> {
    answers: Vec<Reply<M::Answer>>,
    effects: Vec<M::Effect>,
}

impl<M: Machine> Default for Results<M> {
    fn default() -> Self {
        Results {
            answers: Vec::new(),
            effects: Vec::new(),
        }
    }
}

impl<M: Machine> Results<M> {
    fn extend(&mut self, others: Results<M>) {
        self.answers.extend(others.answers);
        self.effects.extend(others.effects);
    }

    /// The records are in the log of `basis`.
    fn release(self, basis: &Basis, output: &mut Output) {
        for reply in self.answers {
            output.answer(reply, basis);
        }
        let effects = self.effects.into_iter();
        let effects = effects.map(|effect| (basis.clone(), effect.into()));
        output.effects.extend(effects);
    }

    /// The records are not in the log: nothing has come of what was decided.
    fn refuse(self, code: ErrorCode, output: &mut Output) {
        for (ticket, _) in self.answers.into_iter().map(Reply::into_parts) {
            output.refuse(ticket, code);
        }
    }
}

impl<M: Machine> Unwritten<M> {
    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.records.size_estimate() + bytes <= bytes_max
    }
}

/// Key and value.
type EncodedRecord = (Bytes, Option<Bytes>);

/// The step of a machine.
type StepOf<M> = Step<<M as Machine>::Record, <M as Machine>::Answer, <M as Machine>::Effect>;

impl<M: Machine> Coordinator<M> {
    pub(super) fn new(log: Arc<Partition>, epoch: LeaderEpoch, settings: &Arc<Settings>) -> Self {
        let start = log.bounds().log_start;
        Coordinator {
            log,
            epoch,
            machine: M::new(settings),
            settings: Arc::clone(settings),
            codec: M::codec(settings),
            state: State::Loading(start),
            unwritten: None,
        }
    }

    /// True if it is the coordinator of this log in this leader epoch.
    pub(super) fn is_of(&self, log: &Arc<Partition>, epoch: LeaderEpoch) -> bool {
        Arc::ptr_eq(&self.log, log) && self.epoch == epoch
    }

    fn basis(&self) -> Basis {
        Basis {
            log: Arc::clone(&self.log),
            epoch: self.epoch,
        }
    }

    pub(super) fn set_settings(&mut self, settings: &Arc<Settings>) {
        self.machine.set_settings(settings);
        self.settings = Arc::clone(settings);
    }

    /// True if its log is there and still of its epoch. The metadata may have given it to another broker a moment ago.
    fn holds_leadership(&self) -> bool {
        self.log.check_epoch(self.epoch).is_ok() && !self.log.is_deleted()
    }

    /// True if the log is of another epoch by now.
    fn is_succeeded(&self) -> bool {
        let refused = self.log.check_epoch(self.epoch).err();
        refused.is_some_and(|why| !matches!(why, ReadError::Offline))
    }

    /// Appends the marker of a transaction with records in this log, and lets the machine know. Nothing may be unwritten.
    pub(super) fn mark(
        &mut self,
        marker: Marker,
        at: Moment,
        output: &mut Output,
    ) -> Result<(), ErrorCode> {
        assert!(self.unwritten.is_none(), "a marker comes behind it");
        self.load(&mut { load::READ_BYTES }, at, output);
        match self.state {
            State::Active => {}
            State::Loading(_) | State::Waiting(..) => {
                return Err(ErrorCode::CoordinatorLoadInProgress);
            }
            State::Failed => return Err(ErrorCode::NotCoordinator),
        }
        append_marker(&self.basis(), marker, at)?;
        self.machine
            .replay_marker(marker.producer_id, marker.end.committed);
        Ok(())
    }

    /// The machine, once it has read its log to the end.
    pub(super) fn active(&self) -> Option<&M> {
        matches!(self.state, State::Active).then_some(&self.machine)
    }

    pub(super) fn is_loading(&self) -> bool {
        matches!(self.state, State::Loading(_))
    }

    pub(super) fn has_unwritten(&self) -> bool {
        self.unwritten.is_some()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Active => self.machine.next_deadline(),
            State::Waiting(_, until) => Some(until),
            State::Loading(_) | State::Failed => None,
        }
    }

    pub(super) fn ask(
        &mut self,
        asked: Asked<M>,
        at: Moment,
        topics: &dyn Topics,
        output: &mut Output,
    ) {
        // The log of a new topic, or one that fits a single read, is there at once.
        self.load(&mut { load::READ_BYTES }, at, output);
        let refusal = match self.state {
            State::Active if !self.holds_leadership() => ErrorCode::NotCoordinator,
            State::Active => {
                let step = self.machine.ask(asked.ticket, asked.ask, at, topics);
                // Its answer says what became of it.
                _ = self.perform(step, asked.warrant, at, output);
                return;
            }
            State::Loading(_) | State::Waiting(..) => ErrorCode::CoordinatorLoadInProgress,
            State::Failed => ErrorCode::NotCoordinator,
        };
        output.refuse(asked.ticket, refusal);
    }

    pub(super) fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
        output: &mut Output,
    ) {
        match self.state {
            State::Active => {
                let bytes_max = self.batch_bytes_max();
                let step = self.machine.on_topics_gone(gone, at, topics, bytes_max);
                // The next ticks try again if the log refuses it.
                _ = self.perform(step, Warrant::None, at, output);
            }
            State::Loading(_) | State::Waiting(..) => self.machine.on_topics_gone_early(gone, at),
            State::Failed => {}
        }
    }

    /// The partition is no longer looked after from here: everyone who waits is refused. Nothing may be unwritten.
    pub(super) fn resign(mut self, output: &mut Output) {
        assert!(self.unwritten.is_none(), "somebody waits for it");
        self.abandon(output);
        output.resigned.push(self.basis());
    }

    fn abandon(&mut self, output: &mut Output) {
        for ticket in self.machine.abandon() {
            output.refuse(ticket, ErrorCode::NotCoordinator);
        }
    }

    pub(super) fn tick(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        fresh: txn::Fresh<'_>,
        output: &mut Output,
    ) {
        if let State::Waiting(from, _) = self.state {
            self.state = State::Loading(from);
            return;
        }
        let mut is_too_large = false;
        for step in (self.machine).tick(at, topics, fresh, self.batch_bytes_max()) {
            let is_awaited = !(step.answers.is_empty() && step.effects.is_empty());
            let refused = self.perform(step, Warrant::None, at, output).err();
            is_too_large |= is_awaited && refused == Some(ErrorCode::MessageTooLarge);
        }
        if is_too_large && let Some(complaint) = self.machine.on_too_large() {
            tracing::error!(target: env::logs::COORDINATORS, "{}: {complaint}", self.name());
        }
    }

    fn perform(
        &mut self,
        step: StepOf<M>,
        warrant: Warrant,
        at: Moment,
        output: &mut Output,
    ) -> Result<(), ErrorCode> {
        let anyway = Results {
            answers: step.anyway,
            effects: Vec::new(),
        };
        self.tell(anyway, output);
        let results = Results {
            answers: step.answers,
            effects: step.effects,
        };
        let written = self.write(&step.records, step.producer, warrant, at, output);
        match written {
            Ok(()) => self.tell(results, output),
            Err(code) => results.refuse(code, output),
        }
        written
    }

    /// Writes what was decided, or has it written with what comes next; the machine learns of it by replay, as it will after a
    /// restart.
    fn write(
        &mut self,
        decided: &[M::Record],
        producer: Option<(ProducerId, ProducerEpoch)>,
        warrant: Warrant,
        at: Moment,
        output: &mut Output,
    ) -> Result<(), ErrorCode> {
        if !matches!(self.state, State::Active) {
            // The step before it in the same tick was refused, and what it was decided from forgotten.
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if decided.is_empty() {
            return Ok(());
        }
        let records = self.encode(decided)?;
        let bytes = records.iter().map(record_bytes).sum();
        let bytes_max = self.together_bytes_max();
        let is_plain = producer.is_none() && warrant == Warrant::None;
        let may_wait = is_plain && bytes <= bytes_max && self.may_wait();
        let has_room = |unwritten: &Unwritten<M>| unwritten.has_room(bytes, bytes_max);
        if !(may_wait && self.unwritten.as_ref().is_some_and(has_room)) {
            self.flush(at, output);
        }
        if !matches!(self.state, State::Active) {
            // The records that it was decided from are not in the log.
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let mut builder = BatchBuilder::new().compression(self.codec);
        if may_wait {
            let unwritten = self.unwritten.get_or_insert_with(|| Unwritten {
                records: builder,
                results: Results::default(),
            });
            push(&mut unwritten.records, &records, at);
        } else {
            if let Some((id, epoch)) = producer {
                builder = builder.producer(id, epoch, Sequence(-1)).transactional();
            }
            push(&mut builder, &records, at);
            self.append(builder, warrant, at)?;
        }
        for record in decided {
            self.machine.replay(record, producer);
        }
        Ok(())
    }

    /// Results of decisions that are in the log, or wait to be written. The others rest on unwritten records as well.
    fn tell(&mut self, results: Results<M>, output: &mut Output) {
        match &mut self.unwritten {
            Some(unwritten) => unwritten.results.extend(results),
            None => results.release(&self.basis(), output),
        }
    }

    fn batch_bytes_max(&self) -> usize {
        usize::try_from(self.log.config().max_message_bytes).unwrap_or(usize::MAX)
    }

    /// Records that share a batch may grow a little when they are compressed.
    fn together_bytes_max(&self) -> usize {
        TOGETHER_BYTES_MAX.min(self.batch_bytes_max() / 2)
    }

    /// True if records may be replayed first and written later: the log must take them then.
    fn may_wait(&self) -> bool {
        M::WRITES_TOGETHER && self.log.check_append().is_ok()
    }

    /// Writes what is not written. When that cannot be, the machine knows what is not in the log: it starts anew from there, and
    /// everyone who waits is refused.
    pub(super) fn flush(&mut self, at: Moment, output: &mut Output) {
        let Some(Unwritten { records, results }) = self.unwritten.take() else {
            return;
        };
        let code = match self.append(records, Warrant::None, at) {
            Ok(()) => return results.release(&self.basis(), output),
            Err(ErrorCode::NotCoordinator) => ErrorCode::NotCoordinator,
            // Asked again, each of them may be written.
            Err(_) => ErrorCode::CoordinatorNotAvailable,
        };
        results.refuse(code, output);
        self.abandon(output);
        let gone = self.machine.take_gone_topics();
        self.machine = M::new(&self.settings);
        if !gone.is_empty() {
            self.machine.on_topics_gone_early(&gone, at);
        }
        self.state = State::Loading(self.log.bounds().log_start);
    }

    fn encode(&self, records: &[M::Record]) -> Result<Vec<EncodedRecord>, ErrorCode> {
        let encode = |record| self.machine.encode(record);
        let encoded: Result<_, _> = records.iter().map(encode).collect();
        encoded.map_err(|error| {
            tracing::error!(target: env::logs::COORDINATORS, "{}: record cannot be written: {error}", self.name());
            ErrorCode::UnknownServerError
        })
    }

    fn append(&self, records: BatchBuilder, warrant: Warrant, at: Moment) -> Result<(), ErrorCode> {
        let moment = partition::Moment {
            now: at.now,
            wall: at.wall,
            stamp: &mut Stamp::default(),
        };
        let writer = (Origin::Coordinator, warrant);
        let (batch, acks) = (records.build(), Acks::All(None));
        match self.log.append_in(self.epoch, batch, writer, acks, moment) {
            Ok(_) => Ok(()),
            Err(refused) => Err(match error::append(&refused) {
                // No retry makes it smaller.
                ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
                    ErrorCode::MessageTooLarge
                }
                code @ (ErrorCode::InvalidProducerEpoch | ErrorCode::InvalidTxnState) => code,
                // Another broker looks after it now.
                ErrorCode::NotLeaderOrFollower => ErrorCode::NotCoordinator,
                // Nothing was written: the same request may succeed later.
                _ => ErrorCode::CoordinatorNotAvailable,
            }),
        }
    }

    fn name(&self) -> String {
        format!("coordinator of {}-{}", self.log.topic, self.log.index)
    }
}

fn record_bytes((key, value): &EncodedRecord) -> usize {
    RECORD_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len)
}

fn push(builder: &mut BatchBuilder, records: &[EncodedRecord], at: Moment) {
    for (key, value) in records {
        builder.push(at.wall, Some(key), value.as_deref(), &[]);
    }
}

#[cfg(test)]
mod tests;
