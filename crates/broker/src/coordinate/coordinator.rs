//! One coordinator: a machine and the partition that remembers what it decided.
//!
//! Requests within one turn of the shard are written together, as one batch. Invariant: the machine has replayed the log up to
//! its end, and then what is not written yet, in order, and nothing else changed it; what is not written comes before anything else
//! in the log, and is written before anybody hears of it. A log that cannot be read or written makes the coordinator say so to
//! everyone; it never answers from half of its state. It is of one leader epoch: in another one the log is another broker's, or was
//! meanwhile, and its coordinator begins anew.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coord::{Caller, Moment, Step, Topics, txn};
use log::producer::Origin;
use model::{Instant, LeaderEpoch, Offset, Sequence};
use partition::{
    Acks, Isolation, Marker, Partition, ReadError, ReadRequest, Records, Scope, Stamp, Warrant,
};
use wire::ErrorCode;
use wire::records::{Batch, BatchBuilder, Caps, Codec, ControlRecord, RecordIter, Source};

use super::machine::Machine;
use super::marking::append_marker;
use super::question::Basis;
use crate::error;
use crate::settings::Settings;

/// Log bytes read in one piece while loading.
const LOAD_READ_BYTES: usize = 256 << 10;
/// Records that share a batch, where the topic allows so much: enough for a hundred commits, and no reader has to unpack much for
/// one of them.
const TOGETHER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a record in a batch besides key and value, at most.
const RECORD_BYTES: usize = 40;

/// When to look again whether what a load has still to read is durable, unless somebody asks before. It is told to nobody here: on a
/// full disk it may take hours.
const LOAD_PAUSE: Duration = Duration::from_millis(10);

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
    unwritten: Option<Unwritten<M::Answer>>,
    /// The machine's first step when it was loaded, for nobody who asked.
    begun: Option<Step<M::Record, M::Answer>>,
}

/// Records that the machine has replayed already, and what was said since the first of them.
struct Unwritten<A> {
    records: BatchBuilder,
    answers: Vec<(Caller, A)>,
}

impl<A> Unwritten<A> {
    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.records.size_estimate() + bytes <= bytes_max
    }
}

/// One finding of a load.
enum Piece {
    /// Batches, which are replayed.
    Read { next: Offset, bytes: usize },
    /// Batches that nobody may see yet, or that are under repair. No more are appended before they are replayed.
    NotYet,
    /// The end of the log.
    End,
}

/// Key and value.
type EncodedRecord = (Bytes, Option<Bytes>);

/// Answers that may leave when their basis is committed.
pub(super) struct Progress<A> {
    pub(super) answers: Vec<(Caller, Result<A, ErrorCode>)>,
    pub(super) basis: Basis,
}

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
            begun: None,
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
    fn holds_office(&self) -> bool {
        self.log.check_epoch(self.epoch).is_ok() && !self.log.is_deleted()
    }

    /// True if the log is of another epoch by now.
    fn is_succeeded(&self) -> bool {
        let refused = self.log.check_epoch(self.epoch).err();
        refused.is_some_and(|why| !matches!(why, ReadError::Offline))
    }

    /// The outcome of the load.
    pub(super) fn take_begun(&mut self) -> Option<Progress<M::Answer>> {
        let begun = self.begun.take()?;
        assert!(begun.records.is_empty(), "a load decides nothing");
        Some(self.said(all(begun.answers, Ok(()))))
    }

    /// Appends the marker of a transaction with records in this log, and lets the machine know. Nothing may be unwritten.
    pub(super) fn mark(&mut self, marker: Marker, at: Moment) -> Result<(), ErrorCode> {
        assert!(self.unwritten.is_none(), "a marker comes behind it");
        self.load(&mut { LOAD_READ_BYTES }, at);
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
        caller: Caller,
        ask: M::Ask,
        warrant: Warrant,
        at: Moment,
        topics: &dyn Topics,
    ) -> Progress<M::Answer> {
        // The log of a new topic, or one that fits a single read, is there at once.
        self.load(&mut { LOAD_READ_BYTES }, at);
        let refusal = match self.state {
            State::Active if !self.holds_office() => ErrorCode::NotCoordinator,
            State::Active => {
                let step = self.machine.ask(caller, ask, at, topics);
                return self.perform(step, warrant, at);
            }
            State::Loading(_) | State::Waiting(..) => ErrorCode::CoordinatorLoadInProgress,
            State::Failed => ErrorCode::NotCoordinator,
        };
        self.said(vec![(caller, Err(refusal))])
    }

    pub(super) fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
    ) -> Progress<M::Answer> {
        match self.state {
            State::Active => {
                let bytes_max = self.batch_bytes_max();
                let step = self.machine.on_topics_gone(gone, at, topics, bytes_max);
                return self.perform(step, Warrant::None, at);
            }
            State::Loading(_) | State::Waiting(..) => self.machine.on_topics_gone_early(gone, at),
            State::Failed => {}
        }
        self.said(Vec::new())
    }

    /// The partition is no longer looked after from here: whoever waits is told so. Nothing may be unwritten.
    pub(super) fn resign(mut self) -> Progress<M::Answer> {
        assert!(self.unwritten.is_none(), "somebody waits for it");
        let waiting = self.machine.abandon().into_iter();
        let answers = waiting.map(|caller| (caller, Err(ErrorCode::NotCoordinator)));
        self.said(answers.collect())
    }

    pub(super) fn tick(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        fresh: txn::Fresh<'_>,
    ) -> Progress<M::Answer> {
        if let State::Waiting(from, _) = self.state {
            self.state = State::Loading(from);
            return self.said(Vec::new());
        }
        let mut progress = self.said(Vec::new());
        for step in (self.machine).tick(at, topics, fresh, self.batch_bytes_max()) {
            let said = self.perform(step, Warrant::None, at);
            progress.answers.extend(said.answers);
        }
        let is_too_large = |(_, answer): &(Caller, Result<M::Answer, ErrorCode>)| {
            matches!(answer, Err(ErrorCode::MessageTooLarge))
        };
        if progress.answers.iter().any(is_too_large)
            && let Some(complaint) = self.machine.on_too_large()
        {
            tracing::error!(target: env::logs::COORDINATORS, "{}: {complaint}", self.name());
        }
        progress
    }

    fn said(&self, answers: Vec<(Caller, Result<M::Answer, ErrorCode>)>) -> Progress<M::Answer> {
        Progress {
            answers,
            basis: self.basis(),
        }
    }

    fn perform(
        &mut self,
        mut step: Step<M::Record, M::Answer>,
        warrant: Warrant,
        at: Moment,
    ) -> Progress<M::Answer> {
        let mut said = self.answer(std::mem::take(&mut step.anyway));
        said.answers.extend(self.write(step, warrant, at).answers);
        said
    }

    /// Writes what was decided, or has it written with what comes next; the machine learns of it by replay, as it will after a
    /// restart.
    fn write(
        &mut self,
        step: Step<M::Record, M::Answer>,
        warrant: Warrant,
        at: Moment,
    ) -> Progress<M::Answer> {
        if !matches!(self.state, State::Active) {
            // The step before it in the same tick was refused, and what it was decided from forgotten.
            return self.said(all(step.answers, Err(ErrorCode::CoordinatorNotAvailable)));
        }
        if step.records.is_empty() {
            return self.answer(step.answers);
        }
        let records = match self.encode(&step.records) {
            Ok(records) => records,
            Err(code) => return self.said(all(step.answers, Err(code))),
        };
        let bytes = records.iter().map(record_bytes).sum();
        let bytes_max = self.together_bytes_max();
        let is_plain = step.producer.is_none() && warrant == Warrant::None;
        let may_wait = is_plain && bytes <= bytes_max && self.may_wait();
        let mut said = match &self.unwritten {
            Some(unwritten) if may_wait && unwritten.has_room(bytes, bytes_max) => {
                self.said(Vec::new())
            }
            _ => self.flush(at),
        };
        if !matches!(self.state, State::Active) {
            // The records that it was decided from are not in the log.
            let refusal = Err(ErrorCode::CoordinatorNotAvailable);
            said.answers.extend(all(step.answers, refusal));
            return said;
        }
        let mut builder = BatchBuilder::new().compression(self.codec);
        if may_wait {
            let unwritten = self.unwritten.get_or_insert_with(|| Unwritten {
                records: builder,
                answers: Vec::new(),
            });
            push(&mut unwritten.records, &records, at);
            unwritten.answers.extend(step.answers);
            for record in &step.records {
                self.machine.replay(record, None);
            }
            return said;
        }
        if let Some((id, epoch)) = step.producer {
            builder = builder.producer(id, epoch, Sequence(-1)).transactional();
        }
        push(&mut builder, &records, at);
        let written = self.append(builder, warrant, at);
        if written.is_ok() {
            for record in &step.records {
                self.machine.replay(record, step.producer);
            }
        }
        said.answers.extend(all(step.answers, written));
        said
    }

    /// Such answers rest on unwritten records as well.
    fn answer(&mut self, answers: Vec<(Caller, M::Answer)>) -> Progress<M::Answer> {
        match &mut self.unwritten {
            Some(unwritten) => {
                unwritten.answers.extend(answers);
                self.said(Vec::new())
            }
            None => self.said(all(answers, Ok(()))),
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
    /// whoever waits is told so.
    pub(super) fn flush(&mut self, at: Moment) -> Progress<M::Answer> {
        let Some(unwritten) = self.unwritten.take() else {
            return self.said(Vec::new());
        };
        let written = self.append(unwritten.records, Warrant::None, at);
        let written = written.map_err(|code| match code {
            ErrorCode::NotCoordinator => code,
            // Asked again, each of them may be written.
            _ => ErrorCode::CoordinatorNotAvailable,
        });
        let mut answers = all(unwritten.answers, written);
        if written.is_err() {
            let waiting = self.machine.abandon().into_iter();
            answers.extend(waiting.map(|caller| (caller, Err(ErrorCode::NotCoordinator))));
            let gone = self.machine.take_gone_topics();
            self.machine = M::new(&self.settings);
            if !gone.is_empty() {
                self.machine.on_topics_gone_early(&gone, at);
            }
            self.state = State::Loading(self.log.bounds().log_start);
        }
        self.said(answers)
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

    /// Replays at most `budget` bytes; `Active` when the end is reached.
    ///
    /// A batch that was appended before the one that was refused is not durable (1), a load that ended before it would be asked and
    /// decide without it (2), and whoever waits for the batch is told that it counts (3). So a load ends where the log does.
    pub(super) fn load(&mut self, budget: &mut usize, at: Moment) {
        if let State::Waiting(from, _) = self.state {
            self.state = State::Loading(from);
        }
        while let State::Loading(from) = self.state {
            if *budget == 0 {
                return;
            }
            match self.load_piece(from) {
                Ok(Piece::Read { next, bytes }) => {
                    *budget = budget.saturating_sub(bytes);
                    self.state = State::Loading(next);
                }
                Ok(Piece::NotYet) => {
                    self.state = State::Waiting(from, at.now.plus(LOAD_PAUSE));
                }
                Ok(Piece::End) => {
                    let begun = self.machine.on_loaded(at);
                    self.begun = (!begun.answers.is_empty()).then_some(begun);
                    self.state = State::Active;
                }
                // It resigns as soon as this broker acts on the metadata that say so.
                Err(_) if self.is_succeeded() => {
                    self.state = State::Waiting(from, at.now.plus(LOAD_PAUSE));
                }
                Err(reason) => {
                    tracing::error!(target: env::logs::COORDINATORS, "{} cannot be loaded: {reason}", self.name());
                    self.state = State::Failed;
                }
            }
        }
    }

    /// Replays the batches at `from`.
    fn load_piece(&mut self, from: Offset) -> Result<Piece, String> {
        let from = from.max(self.log.bounds().log_start);
        let request = ReadRequest {
            from,
            bytes_max: LOAD_READ_BYTES,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: self.epoch,
            scope: Scope::of_leader(Isolation::Uncommitted),
        };
        let read = match self.log.read(request) {
            // Another replica is asked for it: the load goes on then.
            Err(ReadError::UnderRepair { .. }) => return Ok(Piece::NotYet),
            read => read.map_err(|error| error.to_string())?,
        };
        let batches = match read.records {
            Records::AtEnd => Vec::new(),
            Records::Memory(batches) => batches,
            Records::File(slice) => {
                let bytes = slice.read().map_err(|error| error.to_string())?;
                Batch::cut(&bytes, Source::Log)
                    .take_while(|batch| batch.is_ok())
                    .flatten()
                    .collect()
            }
        };
        let Some(last) = batches.last() else {
            // Compaction may have left nothing up to what is committed, or to the end. A batch that is missing is an error of the read.
            let is_all = read.bounds.high_watermark == read.bounds.log_end;
            return Ok(if is_all { Piece::End } else { Piece::NotYet });
        };
        let next = last.next_offset();
        let bytes = batches.iter().map(|batch| batch.size()).sum();
        for batch in &batches {
            self.replay(batch)?;
        }
        Ok(Piece::Read { next, bytes })
    }

    fn replay(&mut self, batch: &Batch) -> Result<(), String> {
        if batch.attributes().is_control() {
            if let Some(ControlRecord::EndTxn(end)) = ControlRecord::read(batch) {
                self.machine
                    .replay_marker(batch.producer_id(), end.committed);
            }
            return Ok(());
        }
        let producer = batch
            .attributes()
            .is_transactional()
            .then(|| (batch.producer_id(), batch.producer_epoch()));
        let plain = batch
            .plain(Caps::default())
            .map_err(|error| error.to_string())?;
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.map_err(|error| error.to_string())?;
            let (Some(key), value) = (record.key, record.value) else {
                continue;
            };
            match M::decode(
                plain.slice_ref(key),
                value.map(|value| plain.slice_ref(value)),
            ) {
                Ok(record) => self.machine.replay(&record, producer),
                // A newer node wrote something that this one does not know: it keeps it, and goes on without.
                Err(wire::DecodeError::ApiKey { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("coordinator of {}-{}", self.log.topic, self.log.index)
    }
}

/// The same outcome for everyone.
fn all<A>(
    answers: Vec<(Caller, A)>,
    outcome: Result<(), ErrorCode>,
) -> Vec<(Caller, Result<A, ErrorCode>)> {
    let answers = answers.into_iter();
    answers
        .map(|(caller, answer)| (caller, outcome.map(|()| answer)))
        .collect()
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
