//! Transactions of one partition of `__transaction_state` (KIP-98, 360, 664, 890): who may write under a transactional id, which
//! partitions belong to its open transaction, and how that ends.
//!
//! Owns every transactional id that hashes to that partition. Invariants: what `replay` does depends on the record alone; a
//! transaction whose end is decided stays decided, and its markers are asked for until they are written, also after a restart.
//! An epoch is never given out twice. Does not write markers itself and does not know which partitions exist.

mod ask;
mod late;
mod state;

pub use ask::{
    Add, Answer, Ask, Describe, Described, End, Filter, Init, List, Marked, Markers, Producer,
    TxnPartition, Verify,
};
pub use state::TxnState;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::{Instant, ProducerEpoch, ProducerId, Ticket, Timestamp};
use wire::ErrorCode;
use wire::transaction::TransactionRecord;

use crate::{Caller, Moment, Question, Step};
use late::Late;
use state::{NO_EPOCH, Txn, bumped, is_exhausted, is_for_marker};

/// `transaction.version` from which records carry tagged fields, and from which each transaction has an epoch of its own (KIP-890).
const TAGGED_RECORDS: i16 = 1;
pub const EPOCH_PER_TXN: i16 = 2;

/// Records of one check stay below this, so that their batch is within `max.message.bytes` of any sensible setting; what is left
/// over follows with the next check. The first record is taken whatever its size: it fitted before, and no split makes it smaller.
const STEP_BYTES_MAX: usize = 256 << 10;
/// Transactional ids that one check forgets; the next one goes on.
const EXPIRED_PER_CHECK_MAX: usize = 1000;
const CHECK_GOES_ON: Duration = Duration::from_millis(100);
/// Callers that wait for markers, about 200 bytes each. Past it they are told to come again at once, which costs a round trip.
const WAITING_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `transaction.max.timeout.ms`
    pub timeout_ms_max: i32,
    /// `transactional.id.expiration.ms`
    pub expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`
    pub expiration_check: Duration,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    pub abort_check: Duration,
    /// `add.partitions.to.txn.retry.backoff.max.ms`
    pub add_wait_max: Duration,
}

impl Settings {
    /// The requests that no coordinator takes: it need not be asked, nor given a producer id.
    pub fn check_init(&self, id: &str, timeout_ms: i32) -> Result<(), ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if timeout_ms <= 0 || timeout_ms > self.timeout_ms_max {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timeout_ms_max: 900_000,
            expiration_ms: 604_800_000,
            expiration_check: Duration::from_secs(3_600),
            abort_check: Duration::from_secs(10),
            add_wait_max: Duration::from_millis(100),
        }
    }
}

/// The transactions of one partition.
#[derive(Debug, Default)]
pub struct Transactions {
    settings: Settings,
    /// The level of `transaction.version` that the cluster has agreed on.
    level: i16,
    txns: BTreeMap<String, Txn>,
    /// Whom the last decisions recovered from, one for each record: not in it, and remembered only as long as this process lives.
    recovered: Vec<(Producer, ProducerEpoch)>,
    check_at: Option<Instant>,
    /// From when on a check looks for ids to forget too.
    expire_at: Option<Instant>,
    late: Late,
    /// The last check aborted transactions, so that ids to forget have their turn at the next one.
    has_aborted: bool,
    /// Producers that add partitions once markers are written. All wait equally long, so the first ends first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    caller: Caller<Add>,
    ask: Add,
}

/// Gives a producer id that nobody had before, unless there is none at hand.
pub type Fresh<'a> = &'a dyn Fn() -> Option<ProducerId>;

/// The change that one question makes: at most one transaction.
type Decision = Step<TransactionRecord, Answer, Markers>;

impl Transactions {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Transactions {
            settings,
            ..Transactions::default()
        }
    }

    pub fn set_level(&mut self, level: i16) {
        self.level = level;
    }

    /// The version in which the value of `record` is written. At level 0 software that knows no other can take over the log; only
    /// what is said of newer clients, and of producer ids that were used up, does not fit there.
    #[must_use]
    pub fn record_version(&self, record: &TransactionRecord) -> i16 {
        let TransactionRecord::TransactionLog(_, value) = record;
        let fits = value.as_ref().is_none_or(|value| {
            value.client_transaction_version == 0
                && value.previous_producer_id == ProducerId::NONE.0
                && value.next_producer_id == ProducerId::NONE.0
        });
        if self.level < TAGGED_RECORDS && fits {
            0
        } else {
            1
        }
    }

    /// Takes in one record, when it was appended or at load.
    pub fn replay(&mut self, record: &TransactionRecord) {
        let TransactionRecord::TransactionLog(key, value) = record;
        let Some(mut txn) = value.as_ref().and_then(Txn::from_value) else {
            self.txns.remove(&key.transactional_id);
            return;
        };
        if let Some(before) = self.txns.get(&key.transactional_id) {
            txn.seen_open = before.seen_open.filter(|_| txn.goes_on(before));
            let is_of = |(producer, _): &(Producer, ProducerEpoch)| *producer == txn.producer;
            txn.last_epoch = match self.recovered.iter().position(is_of) {
                Some(at) => self.recovered.swap_remove(at).1,
                None if before.producer == txn.producer => before.last_epoch,
                None => NO_EPOCH,
            };
        }
        self.txns.insert(key.transactional_id.clone(), txn);
    }

    /// Every record is in. Returns the markers of what was decided and not completed, which are written again.
    pub fn on_loaded(&mut self, at: Moment) -> Vec<Markers> {
        self.expire_at = Some(at.now.plus(self.settings.expiration_check));
        self.check_at = Some(at.now.plus(self.check_interval()));
        let prepared = self.txns.iter().filter(|(_, txn)| txn.state.is_prepared());
        prepared.map(|(id, txn)| txn.markers(id)).collect()
    }

    /// True if the question should bring an unused producer id.
    #[must_use]
    pub fn needs_producer_id(&self, ask: &Ask) -> bool {
        let epoch_is_used_up = |id: &str| {
            let txn = self.txns.get(id);
            txn.map(|txn| is_exhausted(txn.producer.epoch))
        };
        match ask {
            Ask::Init(init) => epoch_is_used_up(&init.transactional_id).unwrap_or(true),
            Ask::End(end) => epoch_is_used_up(&end.transactional_id).unwrap_or(false),
            _ => false,
        }
    }

    pub fn ask(&mut self, ticket: Ticket, ask: Ask, at: Moment) -> Decision {
        match ask {
            Ask::Init(init) => {
                let decided = self.init(&init, at.wall);
                let caller = Caller::of(&init, ticket);
                self.decide(caller, &init.transactional_id, decided)
            }
            Ask::Add(add) => self.add(Caller::of(&add, ticket), add, at),
            Ask::Verify(verify) => {
                let verified = self.verify(&verify);
                Step::answer(Caller::of(&verify, ticket), verified)
            }
            Ask::End(end) => {
                let decided = self.end(&end, at.wall);
                let caller = Caller::of(&end, ticket);
                self.decide(caller, &end.transactional_id, decided)
            }
            Ask::Marked(marked) => self.complete(Caller::of(&marked, ticket), &marked, at),
            Ask::Describe(describe) => {
                let id = &describe.transactional_id;
                let described = self.txns.get(id).map(|txn| txn.described(id));
                Step::answer(Caller::of(&describe, ticket), described)
            }
            Ask::List(list) => {
                let listed = self.list(&list.filter, at.wall);
                Step::answer(Caller::of(&list, ticket), listed)
            }
        }
    }

    /// Makes a step of what was decided: the record of the changed transaction, its answer, and the markers that follow.
    fn decide<Q: Question<AnyAnswer = Answer>>(
        &mut self,
        caller: Caller<Q>,
        id: &str,
        (changed, answer): (Option<Txn>, Q::Answer),
    ) -> Decision {
        let mut step = Step::answer(caller, answer);
        if let Some(txn) = changed {
            step.records.push(txn.record(id));
            if txn.state.is_prepared() {
                step.effects.push(txn.markers(id));
            }
            self.recovered = vec![(txn.producer, txn.last_epoch)];
        }
        step
    }

    fn init(&self, init: &Init, wall: Timestamp) -> (Option<Txn>, Result<Producer, ErrorCode>) {
        let Init {
            transactional_id: ref id,
            timeout_ms,
            expected,
            fresh,
        } = *init;
        if let Err(code) = self.settings.check_init(id, timeout_ms) {
            return (None, Err(code));
        }
        let Some(txn) = self.txns.get(id) else {
            let Some(fresh) = fresh else {
                return (None, Err(ErrorCode::CoordinatorNotAvailable));
            };
            let mut txn = Txn::new(fresh, timeout_ms);
            txn.updated = wall;
            let producer = txn.producer;
            return (Some(txn), Ok(producer));
        };
        if txn.state.is_prepared() {
            // First of all: who asks may be of the id that takes over when this one completes.
            return (None, Err(ErrorCode::ConcurrentTransactions));
        }
        let is_known = |expected: Producer| {
            expected.id == txn.producer.id
                || (expected.id == txn.previous_id && is_exhausted(expected.epoch))
        };
        if !expected.is_none_or(is_known) {
            return (None, Err(ErrorCode::ProducerFenced));
        }
        if txn.state == TxnState::Ongoing {
            let fenced = fence(txn, fresh, self.level, wall);
            return (Some(fenced), Err(ErrorCode::ConcurrentTransactions));
        }
        match next_incarnation(txn, expected, fresh) {
            Ok(producer) if producer == txn.producer => (None, Ok(producer)),
            Ok(producer) => {
                let is_other = producer.id != txn.producer.id;
                let next = Txn {
                    producer,
                    previous_id: if is_other {
                        txn.producer.id
                    } else {
                        ProducerId::NONE
                    },
                    next_id: ProducerId::NONE,
                    last_epoch: expected.map_or(NO_EPOCH, |expected| expected.epoch),
                    timeout_ms,
                    state: TxnState::Empty,
                    places: Default::default(),
                    start: Timestamp::NONE,
                    updated: wall,
                    version: txn.version,
                    seen_open: None,
                };
                (Some(next), Ok(producer))
            }
            Err(code) => (None, Err(code)),
        }
    }

    fn add(&mut self, caller: Caller<Add>, ask: Add, at: Moment) -> Decision {
        let Add {
            transactional_id: id,
            producer,
            places,
            version,
            may_wait,
        } = &ask;
        let Some(txn) = self.txns.get(id) else {
            let code = if id.is_empty() {
                ErrorCode::InvalidRequest
            } else {
                ErrorCode::InvalidProducerIdMapping
            };
            return Step::answer(caller, Err(code));
        };
        if txn.state.is_prepared() {
            // First of all: the next transaction may be of the id that takes over when this one completes.
            let may_wait = *may_wait && !self.settings.add_wait_max.is_zero();
            if may_wait && self.waiting.len() < WAITING_MAX {
                let until = at.now.plus(self.settings.add_wait_max);
                self.waiting.push_back(Waiting { until, caller, ask });
                return Step::default();
            }
            return come_again(caller);
        }
        if let Err(code) = check(txn, *producer) {
            return Step::answer(caller, Err(code));
        }
        let is_open = txn.state == TxnState::Ongoing;
        if is_open && places.iter().all(|place| txn.places.contains(place)) {
            return Step::answer(caller, Ok(()));
        }
        let mut next = Txn {
            previous_id: ProducerId::NONE,
            state: TxnState::Ongoing,
            start: if is_open { txn.start } else { at.wall },
            updated: at.wall,
            version: *version,
            ..txn.clone()
        };
        next.places.extend(places.iter().cloned());
        let id = id.clone();
        self.decide(caller, &id, (Some(next), Ok(())))
    }

    fn verify(&self, verify: &Verify) -> Vec<Result<(), ErrorCode>> {
        let Verify {
            transactional_id: id,
            producer,
            places,
        } = verify;
        let txn = match self.txns.get(id) {
            _ if id.is_empty() => Err(ErrorCode::InvalidRequest),
            None => Err(ErrorCode::InvalidProducerIdMapping),
            Some(txn) => match check(txn, *producer) {
                Err(code) => Err(code),
                Ok(()) if txn.state.is_prepared() => Err(ErrorCode::ConcurrentTransactions),
                Ok(()) => Ok(txn),
            },
        };
        let verify = |place: &TxnPartition| match &txn {
            Ok(txn) if txn.places.contains(place) => Ok(()),
            Ok(_) => Err(ErrorCode::TransactionAbortable),
            Err(code) => Err(*code),
        };
        places.iter().map(verify).collect()
    }

    fn end(&self, end: &End, wall: Timestamp) -> (Option<Txn>, Result<Producer, ErrorCode>) {
        let id = end.transactional_id.as_str();
        if id.is_empty() {
            return (None, Err(ErrorCode::InvalidRequest));
        }
        let Some(txn) = self.txns.get(id) else {
            return (None, Err(ErrorCode::InvalidProducerIdMapping));
        };
        match end.judge(txn) {
            Ok(Verdict::Repeated) => (None, Ok(txn.producer)),
            Ok(Verdict::New) => match prepared(txn, end, wall) {
                Some(next) => {
                    // With this the producer goes on, once the markers are written.
                    let going_on = completed(&next, wall).producer;
                    (Some(next), Ok(going_on))
                }
                None => (None, Err(ErrorCode::CoordinatorNotAvailable)),
            },
            Err(code) => (None, Err(code)),
        }
    }

    fn complete(&mut self, caller: Caller<Marked>, marked: &Marked, at: Moment) -> Decision {
        let Marked {
            transactional_id: id,
            producer,
        } = marked;
        let mut step = Step::answer(caller, ());
        // Markers that were asked for twice are reported twice; the second time there is nothing to complete.
        let txn = self.txns.get_mut(id);
        let Some(txn) = txn.filter(|txn| txn.state.is_prepared() && txn.producer == *producer)
        else {
            return step;
        };
        let mut next = completed(txn, at.wall);
        // One record may do for both: the first who waited begins the next transaction with it, the others join.
        let before = std::mem::replace(txn, next.clone());
        let (ours, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.ask.transactional_id == *id);
        self.waiting = others;
        let mut answers = Vec::new();
        for Waiting { caller, ask, .. } in ours {
            let begun = self.add(caller, ask, at);
            answers.extend(begun.answers);
            for record in &begun.records {
                let TransactionRecord::TransactionLog(_, value) = record;
                if let Some(value) = value.as_ref().and_then(Txn::from_value) {
                    next = Txn {
                        last_epoch: next.last_epoch,
                        ..value
                    };
                    self.txns.insert(id.to_owned(), next.clone());
                }
            }
        }
        self.txns.insert(id.to_owned(), before);
        self.recovered = vec![(next.producer, next.last_epoch)];
        step.records.push(next.record(id));
        step.answers.extend(answers);
        step
    }

    fn list(&self, filter: &Filter, wall: Timestamp) -> Vec<Described> {
        let passes = |id: &str, txn: &Txn| {
            let Filter {
                states,
                producer_ids,
                duration_ms,
                pattern,
            } = filter;
            (states.is_empty() || states.contains(&txn.state))
                && (producer_ids.is_empty() || producer_ids.contains(&txn.producer.id))
                && duration_ms.is_none_or(|least| wall.0.saturating_sub(txn.start.0) > least)
                && pattern.as_ref().is_none_or(|pattern| pattern.matches(id))
        };
        let all = self.txns.iter().filter(|(id, txn)| passes(id, txn));
        all.map(|(id, txn)| txn.described(id)).collect()
    }

    /// The partition is no longer looked after from here. Everyone who waits is given back, for another answer.
    pub fn abandon(&mut self) -> Vec<Ticket> {
        let waiting = self.waiting.drain(..);
        waiting.map(|waiting| waiting.caller.ticket()).collect()
    }

    /// Does what is due. `fresh` gives unused producer ids, as far as there are any.
    pub fn tick(&mut self, at: Moment, fresh: Fresh<'_>) -> Decision {
        let mut step = Step::default();
        let waited = self
            .waiting
            .partition_point(|waiting| waiting.until <= at.now);
        for Waiting { caller, .. } in self.waiting.drain(..waited) {
            step.extend(come_again(caller));
        }
        if self.check_at.is_none_or(|check_at| check_at <= at.now) {
            step.extend(self.clean_up(at, fresh));
        }
        step
    }

    /// Ends transactions that were open for too long, and forgets ids that nobody used for long. Never both in one step: a batch
    /// of one kind that is refused must not keep the other from being written.
    fn clean_up(&mut self, at: Moment, fresh: Fresh<'_>) -> Decision {
        self.check_at = Some(at.now.plus(self.check_interval()));
        let expires = self.expire_at.is_none_or(|expire_at| expire_at <= at.now);
        if expires && std::mem::take(&mut self.has_aborted) {
            self.check_again_soon(at);
            return self.expire(at);
        }
        let step = self.abort_late(at, fresh);
        self.has_aborted = !step.records.is_empty();
        if expires && !self.has_aborted {
            self.expire(at)
        } else {
            step
        }
    }

    fn check_again_soon(&mut self, at: Moment) {
        let soon = self.check_interval().min(CHECK_GOES_ON);
        self.check_at = Some(at.now.plus(soon));
    }

    fn expire(&mut self, at: Moment) -> Decision {
        let mut step = Step::default();
        let mut bytes = 0;
        for (id, txn) in &self.txns {
            let is_idle = txn.updated.0.saturating_add(self.settings.expiration_ms) <= at.wall.0;
            let is_open = txn.state == TxnState::Ongoing || txn.state.is_prepared();
            if is_open || !is_idle {
                continue;
            }
            bytes += state::gone_size(id);
            if step.records.len() == EXPIRED_PER_CHECK_MAX || STEP_BYTES_MAX < bytes {
                // The rest is left to the next check.
                return step;
            }
            let key = state::key(id);
            step.records
                .push(TransactionRecord::TransactionLog(key, None));
        }
        self.expire_at = Some(at.now.plus(self.settings.expiration_check));
        step
    }

    /// Both kinds of checks are made together, as often as the more frequent one.
    fn check_interval(&self) -> Duration {
        let Settings {
            abort_check,
            expiration_check,
            ..
        } = self.settings;
        abort_check.min(expiration_check)
    }

    /// When `tick` is wanted next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let check_at = self.check_at.filter(|_| !self.txns.is_empty());
        let waited_at = self.waiting.front().map(|waiting| waiting.until);
        check_at.into_iter().chain(waited_at).min()
    }
}

/// The markers of the last transaction are still on their way.
fn come_again(caller: Caller<Add>) -> Decision {
    Step::answer(caller, Err(ErrorCode::ConcurrentTransactions))
}

/// Is it the present incarnation that asks?
fn check(txn: &Txn, producer: Producer) -> Result<(), ErrorCode> {
    if txn.producer.id != producer.id {
        Err(ErrorCode::InvalidProducerIdMapping)
    } else if txn.producer.epoch != producer.epoch || is_for_marker(producer.epoch) {
        Err(ErrorCode::ProducerFenced)
    } else {
        Ok(())
    }
}

/// The incarnation after the present one; the present one itself when it was given to this very producer before (KIP-360).
fn next_incarnation(
    txn: &Txn,
    expected: Option<Producer>,
    fresh: Option<ProducerId>,
) -> Result<Producer, ErrorCode> {
    let epoch = txn.producer.epoch;
    let is_current = expected.is_none_or(|expected| expected.epoch == epoch);
    let is_repeated = expected.is_some_and(|expected| expected.epoch == txn.last_epoch);
    if (is_exhausted(epoch) && is_current) || (is_for_marker(epoch) && is_repeated) {
        return fresh.map_or(Err(ErrorCode::CoordinatorNotAvailable), |id| {
            Ok(Producer {
                id,
                epoch: ProducerEpoch(0),
            })
        });
    }
    match expected {
        Some(_) if is_repeated => Ok(txn.producer),
        Some(_) if !is_current => Err(ErrorCode::ProducerFenced),
        _ => Ok(Producer {
            epoch: bumped(epoch),
            ..txn.producer
        }),
    }
}

/// Aborts the open transaction under an epoch that its producer does not have. The last one but one is followed by that of the
/// marker, and by another id; where none is at hand, `Init` brings it (KAFKA-20090). From `EPOCH_PER_TXN` on that is the one bump of
/// an end, and the producer may recover with it, unless another one came first (KAFKA-19367).
fn fence(txn: &Txn, fresh: Option<ProducerId>, level: i16, wall: Timestamp) -> Txn {
    Txn {
        producer: Producer {
            epoch: bumped(txn.producer.epoch),
            ..txn.producer
        },
        last_epoch: if EPOCH_PER_TXN <= level && !is_for_marker(txn.producer.epoch) {
            txn.producer.epoch
        } else {
            NO_EPOCH
        },
        previous_id: ProducerId::NONE,
        next_id: if is_exhausted(txn.producer.epoch) {
            fresh.unwrap_or(ProducerId::NONE)
        } else {
            ProducerId::NONE
        },
        state: TxnState::PrepareAbort,
        updated: wall,
        ..txn.clone()
    }
}

/// The transaction with its end decided; `None` when it needs a producer id and was brought none.
fn prepared(txn: &Txn, end: &End, wall: Timestamp) -> Option<Txn> {
    let is_bumped = end.version >= EPOCH_PER_TXN;
    let next_id = if is_bumped && is_exhausted(txn.producer.epoch) {
        end.fresh?
    } else {
        ProducerId::NONE
    };
    let (epoch, last_epoch) = if is_bumped {
        (bumped(txn.producer.epoch), txn.producer.epoch)
    } else {
        (txn.producer.epoch, txn.last_epoch)
    };
    Some(Txn {
        producer: Producer {
            epoch,
            ..txn.producer
        },
        previous_id: ProducerId::NONE,
        next_id,
        last_epoch,
        state: if end.committed {
            TxnState::PrepareCommit
        } else {
            TxnState::PrepareAbort
        },
        // An abort without any partition has no beginning of its own.
        start: if txn.state == TxnState::Ongoing {
            txn.start
        } else {
            wall
        },
        updated: wall,
        version: end.version,
        ..txn.clone()
    })
}

/// The transaction after its markers.
fn completed(txn: &Txn, wall: Timestamp) -> Txn {
    let takes_over = txn.next_id != ProducerId::NONE;
    Txn {
        producer: if takes_over {
            Producer {
                id: txn.next_id,
                epoch: ProducerEpoch(0),
            }
        } else {
            txn.producer
        },
        previous_id: if takes_over {
            txn.producer.id
        } else {
            ProducerId::NONE
        },
        next_id: ProducerId::NONE,
        last_epoch: txn.last_epoch,
        timeout_ms: txn.timeout_ms,
        state: match txn.state {
            TxnState::PrepareCommit => TxnState::CompleteCommit,
            _ => TxnState::CompleteAbort,
        },
        places: Default::default(),
        start: txn.start,
        updated: wall,
        version: txn.version,
        seen_open: None,
    }
}

enum Verdict {
    New,
    /// It was done already, and the answer was lost.
    Repeated,
}

impl End {
    fn judge(&self, txn: &Txn) -> Result<Verdict, ErrorCode> {
        if self.version >= EPOCH_PER_TXN {
            self.judge_by_epoch(txn)
        } else {
            self.judge_by_state(txn)
        }
    }

    /// Before each transaction had its epoch: a repeat is told by the state alone.
    fn judge_by_state(&self, txn: &Txn) -> Result<Verdict, ErrorCode> {
        check(txn, self.producer)?;
        match (txn.state, self.committed) {
            (TxnState::Ongoing, _) => Ok(Verdict::New),
            (TxnState::CompleteCommit, true) | (TxnState::CompleteAbort, false) => {
                Ok(Verdict::Repeated)
            }
            (TxnState::PrepareCommit | TxnState::PrepareAbort, _) => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    /// The epoch says which transaction is meant: one that is delayed, or comes twice, never ends a later one (KAFKA-17754).
    fn judge_by_epoch(&self, txn: &Txn) -> Result<Verdict, ErrorCode> {
        if txn.state.is_prepared() {
            // First of all: the producer was told its next epoch, or its next id, when the end was decided, and may be done with the
            // transaction that it began with it before the markers are written (KAFKA-18464).
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let Producer { id, epoch } = self.producer;
        let knows_epochs = txn.version >= EPOCH_PER_TXN;
        let repeats_last_of_id = knows_epochs
            && txn.previous_id == id
            && is_exhausted(epoch)
            && txn.producer.epoch == ProducerEpoch(0);
        let repeats = knows_epochs
            && ((txn.producer.id == id && txn.producer.epoch == bumped(epoch))
                || repeats_last_of_id);
        if txn.producer.id != id && !repeats_last_of_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if is_for_marker(txn.producer.epoch) {
            // It was aborted when no other id was at hand.
            return Err(ErrorCode::ProducerFenced);
        }
        let is_current = txn.producer == self.producer;
        let is_complete = matches!(
            txn.state,
            TxnState::CompleteCommit | TxnState::CompleteAbort
        );
        let is_meant = is_current || (is_complete && repeats);
        if !is_meant {
            return Err(ErrorCode::ProducerFenced);
        }
        match (txn.state, self.committed) {
            (TxnState::Ongoing, _) => Ok(Verdict::New),
            (TxnState::CompleteCommit, true) | (TxnState::CompleteAbort, false) if repeats => {
                Ok(Verdict::Repeated)
            }
            // Nothing was added: the epoch moves all the same, and fences what is still on its way.
            (TxnState::Empty | TxnState::CompleteCommit | TxnState::CompleteAbort, false)
                if !repeats =>
            {
                Ok(Verdict::New)
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }
}

#[cfg(test)]
mod tests;
