//! One coordinator: a machine and the partition that remembers what it decided.
//!
//! Invariant: the machine has replayed the log up to its end, in order, and nothing else changed it. A log that cannot be read
//! or written makes the coordinator say so to everyone; it never answers from half of its state.

use std::sync::Arc;

use coord::{Caller, Moment, Step, Topics};
use log::producer::Origin;
use model::{Instant, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};
use partition::{Isolation, Marker, Partition, Plan, ReadRequest, Stamp, Warrant};
use wire::ErrorCode;
use wire::records::{Batch, BatchBuilder, Caps, Codec, ControlRecord, RecordIter, Source};

use super::machine::Machine;
use super::marking::append_marker;
use crate::kafka::api::error;
use crate::settings::Settings;

/// Log bytes read in one piece while loading.
const LOAD_READ_BYTES: usize = 256 << 10;

enum State {
    /// Replayed up to here.
    Loading(Offset),
    Active,
    /// The log cannot be read; said once, and to everyone who asks.
    Failed,
}

pub(super) struct Coordinator<M: Machine> {
    pub(super) log: Arc<Partition>,
    machine: M,
    codec: Codec,
    state: State,
    /// What the machine said when it was loaded, to nobody who asked.
    begun: Option<Step<M::Record, M::Answer>>,
}

/// Answers that may leave when `log` is durable.
pub(super) struct Progress<A> {
    pub(super) answers: Vec<(Caller, Result<A, ErrorCode>)>,
    pub(super) log: Arc<Partition>,
}

impl<M: Machine> Coordinator<M> {
    pub(super) fn new(log: Arc<Partition>, settings: &Settings) -> Self {
        let start = log.bounds().log_start;
        Coordinator {
            log,
            machine: M::new(settings),
            codec: M::codec(settings),
            state: State::Loading(start),
            begun: None,
        }
    }

    pub(super) fn set_settings(&mut self, settings: &Settings) {
        self.machine.set_settings(settings);
    }

    /// What the load led to.
    pub(super) fn take_begun(&mut self) -> Option<Progress<M::Answer>> {
        let begun = self.begun.take()?;
        assert!(begun.records.is_empty(), "a load decides nothing");
        let answers = begun.answers.into_iter();
        Some(Progress {
            answers: answers
                .map(|(caller, answer)| (caller, Ok(answer)))
                .collect(),
            log: Arc::clone(&self.log),
        })
    }

    /// Appends the marker of a transaction with records in this log, and lets the machine know.
    pub(super) fn mark(&mut self, marker: Marker, at: Moment) -> Result<(), ErrorCode> {
        self.load(&mut { LOAD_READ_BYTES }, at);
        match self.state {
            State::Active => {}
            State::Loading(_) => return Err(ErrorCode::CoordinatorLoadInProgress),
            State::Failed => return Err(ErrorCode::NotCoordinator),
        }
        append_marker(&self.log, marker, at)?;
        self.machine
            .replay_marker(marker.producer_id, marker.end.committed);
        Ok(())
    }

    pub(super) fn is_loading(&self) -> bool {
        matches!(self.state, State::Loading(_))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Active => self.machine.next_deadline(),
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
            State::Active if self.log.is_offline() || self.log.is_deleted() => {
                ErrorCode::NotCoordinator
            }
            State::Active => {
                let step = self.machine.ask(caller, ask, at, topics);
                return self.perform(step, warrant, at);
            }
            State::Loading(_) => ErrorCode::CoordinatorLoadInProgress,
            State::Failed => ErrorCode::NotCoordinator,
        };
        Progress {
            answers: vec![(caller, Err(refusal))],
            log: Arc::clone(&self.log),
        }
    }

    pub(super) fn on_topics_gone(&mut self, gone: &[String], at: Moment, topics: &dyn Topics) {
        let step = match self.state {
            State::Active => self.machine.on_topics_gone(gone, at, topics),
            State::Loading(_) => return self.machine.on_topics_gone_early(gone, at),
            State::Failed => return,
        };
        self.perform(step, Warrant::None, at);
    }

    /// The partition is no longer looked after from here: whoever waits is told so.
    pub(super) fn resign(mut self) -> Progress<M::Answer> {
        let waiting = self.machine.abandon().into_iter();
        Progress {
            answers: waiting
                .map(|caller| (caller, Err(ErrorCode::NotCoordinator)))
                .collect(),
            log: self.log,
        }
    }

    pub(super) fn tick(&mut self, at: Moment, topics: &dyn Topics) -> Progress<M::Answer> {
        let step = self.machine.tick(at, topics);
        let progress = self.perform(step, Warrant::None, at);
        let is_too_large = |(_, answer): &(Caller, Result<M::Answer, ErrorCode>)| {
            matches!(answer, Err(ErrorCode::MessageTooLarge))
        };
        if progress.answers.iter().any(is_too_large)
            && let Some(complaint) = self.machine.on_too_large()
        {
            env::tell!("{}: {complaint}", self.name());
        }
        progress
    }

    /// Writes what was decided; the machine learns of it by replay, as it will after a restart.
    fn perform(
        &mut self,
        step: Step<M::Record, M::Answer>,
        warrant: Warrant,
        at: Moment,
    ) -> Progress<M::Answer> {
        let written = if step.records.is_empty() {
            Ok(())
        } else {
            self.write(&step.records, step.producer, warrant, at)
        };
        if written.is_ok() {
            for record in &step.records {
                self.machine.replay(record, step.producer);
            }
        }
        let answers = step
            .answers
            .into_iter()
            .map(|(caller, answer)| (caller, written.map(|()| answer)))
            .collect();
        Progress {
            answers,
            log: Arc::clone(&self.log),
        }
    }

    fn write(
        &self,
        records: &[M::Record],
        producer: Option<(ProducerId, ProducerEpoch)>,
        warrant: Warrant,
        at: Moment,
    ) -> Result<(), ErrorCode> {
        let mut builder = BatchBuilder::new().compression(self.codec);
        if let Some((id, epoch)) = producer {
            builder = builder.producer(id, epoch, Sequence(-1)).transactional();
        }
        for record in records {
            let (key, value) = self.machine.encode(record).map_err(|error| {
                env::tell!("{}: record cannot be written: {error}", self.name());
                ErrorCode::UnknownServerError
            })?;
            builder.push(at.wall, Some(&key), value.as_deref(), &[]);
        }
        let moment = partition::Moment {
            now: at.now,
            wall: at.wall,
            stamp: &mut Stamp::default(),
        };
        let origin = Origin::Coordinator;
        match self
            .log
            .append_as(builder.build(), origin, warrant, None, moment)
        {
            Ok(_) => Ok(()),
            Err(refused) => Err(match error::append(&refused) {
                // No retry makes it smaller.
                ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
                    ErrorCode::MessageTooLarge
                }
                code @ (ErrorCode::InvalidProducerEpoch | ErrorCode::InvalidTxnState) => code,
                // Nothing was written: the same request may succeed later.
                _ => ErrorCode::CoordinatorNotAvailable,
            }),
        }
    }

    /// Replays at most `budget` bytes; `Active` when the end is reached.
    pub(super) fn load(&mut self, budget: &mut usize, at: Moment) {
        while let State::Loading(from) = self.state {
            if *budget == 0 {
                return;
            }
            match self.load_piece(from) {
                Ok(Some((next, bytes))) => {
                    *budget = budget.saturating_sub(bytes);
                    self.state = State::Loading(next);
                }
                Ok(None) => {
                    let begun = self.machine.on_loaded(at);
                    self.begun = (!begun.answers.is_empty()).then_some(begun);
                    self.state = State::Active;
                }
                Err(reason) => {
                    env::tell!("{} cannot be loaded: {reason}", self.name());
                    self.state = State::Failed;
                }
            }
        }
    }

    /// Replays the batches at `from`; where they end and how long they are, `None` at the end of the log.
    fn load_piece(&mut self, from: Offset) -> Result<Option<(Offset, usize)>, String> {
        let from = from.max(self.log.bounds().log_start);
        let request = ReadRequest {
            from,
            bytes_max: LOAD_READ_BYTES,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: LeaderEpoch::NONE,
            isolation: Isolation::Uncommitted,
            may_wait: false,
        };
        let read = self
            .log
            .plan_read(request)
            .map_err(|error| error.to_string())?;
        let batches = match read.plan {
            Plan::AtEnd | Plan::Unverified(_) => Vec::new(),
            Plan::Memory(batches) => batches,
            Plan::File(slice) => {
                let bytes = slice.read().map_err(|error| error.to_string())?;
                Batch::cut(&bytes, Source::Log)
                    .take_while(|batch| batch.is_ok())
                    .flatten()
                    .collect()
            }
        };
        let Some(last) = batches.last() else {
            return if read.bounds.high_watermark == from {
                Ok(None)
            } else {
                Err(format!("no batch at offset {from}"))
            };
        };
        let next = last.next_offset();
        let bytes = batches.iter().map(|batch| batch.size()).sum();
        for batch in &batches {
            self.replay(batch)?;
        }
        Ok(Some((next, bytes)))
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
