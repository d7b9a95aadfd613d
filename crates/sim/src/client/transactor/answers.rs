//! The meaning of answers for a transactional producer: it goes on, asks again, gives its transaction up, or begins anew.

use env::sim::Outside;
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest,
    InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, TxnOffsetCommitRequest,
};
use wire::{ApiKey, ErrorCode};

use super::{Batch, Transactor, TransactorState, TxnPartition};
use crate::checker::Outcome;
use crate::client::keep::{ANSWER_MAX, Client};
use crate::client::line::{LineError, RawAnswer, code, nonsense};
use crate::client::notes::Notes;
use crate::client::requests::produced;

impl Transactor {
    pub(super) fn judge(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let now = world.now();
        for link in self.links_mut() {
            let is_waiting = link.line.as_ref().is_some_and(|line| line.unanswered() > 0);
            link.asked = is_waiting.then_some(now);
        }
        if self.unanswered() == 0 {
            self.patience = ANSWER_MAX;
        }
        match answer.key() {
            ApiKey::FindCoordinator => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                if code(found.error_code)? == ErrorCode::None {
                    self.state = match (self.state, &self.habits.group) {
                        (TransactorState::Lost, Some(_)) => TransactorState::LostGroup,
                        _ => TransactorState::Out,
                    };
                }
            }
            ApiKey::InitProducerId => {
                let response = answer.decode::<InitProducerIdRequest>()?;
                let id = (response.producer_id, response.producer_epoch);
                self.on_id(code(response.error_code)?, id, world, notes);
            }
            ApiKey::AddPartitionsToTxn => {
                let response = answer.decode::<AddPartitionsToTxnRequest>()?;
                let topics = response.results_by_topic_v3_and_below.iter();
                let all = topics.flat_map(|topic| &topic.results_by_partition);
                let mut worst = ErrorCode::None;
                for partition in all {
                    match code(partition.partition_error_code)? {
                        ErrorCode::None | ErrorCode::OperationNotAttempted => {}
                        code => worst = code,
                    }
                }
                match worst {
                    ErrorCode::None => self.state = TransactorState::Open,
                    code if is_fencing(code) => self.on_fenced(code, world, notes),
                    _ => self.on_refused(world, notes),
                }
            }
            ApiKey::Produce => {
                let (topic, only) = produced(answer.decode::<ProduceRequest>()?)?;
                let code = code(only.error_code)?;
                let sent = (answer.correlation(), (topic, only.index));
                self.on_produced(&sent, code, only.base_offset, world, notes);
            }
            ApiKey::EndTxn => {
                let response = answer.decode::<EndTxnRequest>()?;
                let next = (response.producer_id, response.producer_epoch);
                self.on_ended(code(response.error_code)?, next, world, notes);
            }
            ApiKey::OffsetFetch => {
                let response = answer.decode::<OffsetFetchRequest>()?;
                let mut all = response.topics.iter().flat_map(|topic| &topic.partitions);
                let (group, ..) = self.group_topic();
                match all.next() {
                    Some(found) if response.error_code == 0 && found.error_code == 0 => {
                        notes.judge_committed(&group, found.committed_offset);
                        self.state = TransactorState::Idle;
                    }
                    _ => self.on_refused(world, notes),
                }
            }
            ApiKey::AddOffsetsToTxn => {
                let response = answer.decode::<AddOffsetsToTxnRequest>()?;
                let code = code(response.error_code)?;
                self.on_offset_step(code, TransactorState::Committing, world, notes);
            }
            ApiKey::TxnOffsetCommit => {
                let response = answer.decode::<TxnOffsetCommitRequest>()?;
                let mut all = response.topics.iter().flat_map(|topic| &topic.partitions);
                let told = all.next().map_or(-1, |told| told.error_code);
                self.on_offset_step(code(told)?, TransactorState::Open, world, notes);
            }
            other => {
                return Err(nonsense(format!("{other:?} was not asked")));
            }
        }
        Ok(())
    }

    pub(super) fn on_id(
        &mut self,
        code: ErrorCode,
        id: (i64, i16),
        world: &Outside,
        notes: &mut Notes,
    ) {
        match code {
            ErrorCode::None => {
                self.producer = Some(id);
                self.recovers = false;
                self.sequences.clear();
                let is_sole = self.habits.is_calm || !self.habits.is_shared;
                self.state = match self.habits.group {
                    Some(_) if is_sole => TransactorState::Looking,
                    _ => TransactorState::Idle,
                };
            }
            ErrorCode::NotCoordinator if self.sides.is_none() => {
                self.state = TransactorState::Lost;
            }
            // Somebody else came between: whoever wants to go on has to begin anew.
            code if is_fencing(code) => {
                self.begin_anew(world, notes);
            }
            _ => self.on_refused(world, notes),
        }
    }

    /// Asked again; where brokers share the work, perhaps another one.
    fn on_refused(&mut self, world: &Outside, notes: &mut Notes) {
        notes.refused += 1;
        if self.sides.is_some() {
            self.hang_up(world, notes);
        }
    }

    pub(super) fn on_produced(
        &mut self,
        (correlation, place): &(i32, TxnPartition),
        code: ErrorCode,
        base: i64,
        world: &Outside,
        notes: &mut Notes,
    ) {
        let Some(txn) = &mut self.txn else { return };
        let under_way =
            |batch: &Batch| batch.correlation == Some(*correlation) && batch.place == *place;
        let Some(at) = txn.batches.iter().position(under_way) else {
            return;
        };
        match code {
            ErrorCode::None | ErrorCode::DuplicateSequenceNumber => {
                let batch = &mut txn.batches[at];
                (batch.is_acked, batch.correlation) = (true, None);
                if code == ErrorCode::None && base >= 0 {
                    let sends = txn.op.sends[batch.sends.clone()].iter_mut();
                    for (number, sent) in sends.enumerate() {
                        sent.offset = Some(base + number as i64);
                    }
                }
            }
            code if is_fencing(code) => self.on_fenced(code, world, notes),
            ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId => {
                let place = &txn.batches[at].place;
                let before = txn.batches[..at].iter();
                let is_first = before
                    .filter(|batch| batch.place == *place)
                    .all(|batch| batch.is_acked);
                if is_first {
                    notes.violation(format!(
                        "{} ({}): refused with {code:?} although it kept order",
                        self.habits.id, self.process
                    ));
                }
                notes.refused += 1;
                self.hang_up(world, notes);
            }
            ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable => {
                notes.refused += 1;
                txn.is_doomed = true;
                txn.batches[at].correlation = None;
            }
            // All that is open goes again, in order, on a new connection.
            _ => {
                notes.refused += 1;
                self.hang_up(world, notes);
            }
        }
    }

    pub(super) fn on_offset_step(
        &mut self,
        code: ErrorCode,
        next: TransactorState,
        world: &Outside,
        notes: &mut Notes,
    ) {
        let Some(txn) = &mut self.txn else { return };
        match code {
            ErrorCode::None => {
                txn.owes_offset = next != TransactorState::Open;
                self.state = next;
            }
            code if is_fencing(code) => self.on_fenced(code, world, notes),
            ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable => {
                notes.refused += 1;
                txn.is_doomed = true;
                self.state = TransactorState::Open;
            }
            // Loaded or written later: asked again.
            _ => self.on_refused(world, notes),
        }
    }

    pub(super) fn on_ended(
        &mut self,
        code: ErrorCode,
        next: (i64, i16),
        world: &Outside,
        notes: &mut Notes,
    ) {
        let TransactorState::Ending { committed } = self.state else {
            return;
        };
        let Some(txn) = &mut self.txn else { return };
        match code {
            ErrorCode::None => {
                let was_refused = txn.batches.iter().any(|batch| !batch.is_acked);
                self.state = TransactorState::Idle;
                if !self.habits.is_old {
                    self.producer = Some(next);
                    self.sequences.clear();
                } else if was_refused {
                    // Its sequences may have a gap now; another epoch begins at zero.
                    self.recovers = true;
                    self.state = TransactorState::Out;
                }
                let outcome = if committed {
                    Outcome::Ok
                } else {
                    Outcome::Fail
                };
                self.finish(outcome, world, notes);
            }
            code if is_fencing(code) => self.on_fenced(code, world, notes),
            ErrorCode::InvalidTxnState => self.on_fenced(code, world, notes),
            // Asked again; where the code is not definite, it may have been decided.
            code => {
                txn.is_commit_open |= committed && broker::leaves_unknown(code).is_some();
                let is_known = !txn.is_commit_open;
                self.on_refused(world, notes);
                if let Some(txn) = &mut self.txn
                    && is_known
                {
                    // It was answered: nothing is open but what was before.
                    txn.is_commit_open = false;
                }
            }
        }
    }

    /// Another incarnation took over, or the coordinator ended the transaction. A coordinator that was succeeded without hearing of it knows
    /// older epochs alone, and takes a newer one for fenced.
    pub(super) fn on_fenced(&mut self, code: ErrorCode, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        notes.fenced += 1;
        if let Some(txn) = &self.txn
            && self.habits.is_alone
            && now.since(txn.began) < self.habits.timeout
            && self.strays_until < txn.began
            && !notes.may_meet_zombies(now)
        {
            notes.violation(format!(
                "{} ({}): {code:?} in {:?}, although nobody else uses the id and it was open for {:?} only",
                self.habits.id,
                self.process,
                self.state,
                now.since(txn.began)
            ));
        }
        // Answers on the connections belong to the old incarnation.
        for link in self.links_mut() {
            (link.line, link.asked) = (None, None);
        }
        self.begin_anew(world, notes);
    }
}

pub(in crate::client) fn is_fencing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
    )
}
