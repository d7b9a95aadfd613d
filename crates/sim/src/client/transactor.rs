//! A simulated transactional producer: writes to several partitions, commits or aborts, crashes and comes back.
//!
//! Others may use its transactional id, and then each fences the other. What a transaction became is certain when its end was
//! acknowledged, and when no commit was ever asked for: then nobody may see it. With some requests an old connection is kept and
//! delivers them late, beside or after the same ones sent again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Machine};
use model::Instant;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest,
    InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, TxnOffsetCommitRequest,
};
use wire::{ApiKey, ErrorCode};

use super::line::{Answer, Line, LineError};
use super::notes::Notes;
use super::producer::{Identity, build};
use crate::checker::{Kind, Op, Outcome, Sent};

type Place = (String, i32);

/// How a transactional producer behaves.
#[derive(Clone, Debug)]
pub(crate) struct TxnHabits {
    pub(crate) id: String,
    pub(crate) places: Vec<Place>,
    /// Adds its partitions itself and keeps its epoch, as before KIP-890.
    pub(crate) is_old: bool,
    pub(crate) timeout: Duration,
    pub(crate) batches_max: u64,
    /// Time between two steps when nothing else holds it up.
    pub(crate) pause: Duration,
    /// One in so many ends of a transaction travels on a connection that stalls; 0 for none.
    pub(crate) delays: u64,
    /// Commits every transaction and never crashes.
    pub(crate) is_calm: bool,
    /// Nobody else uses the id and no clock jumps: within the timeout nothing may fence it.
    pub(crate) is_alone: bool,
    /// Each transaction commits its number as an offset of this group, unless it is calm.
    pub(crate) group: Option<String>,
    /// Somebody else uses the id.
    pub(crate) is_shared: bool,
}

const RECONNECT: Duration = Duration::from_millis(300);
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A transaction that could not be ended for so long is given up with its producer.
const GIVE_UP: Duration = Duration::from_secs(90);
/// Longer than any connection stalls: what was sent before has arrived or never will.
const STRAY_MAX: Duration = Duration::from_secs(10);
const IN_FLIGHT_MAX: usize = 5;
const TRANSACTION: i8 = 1;
const GROUP: i8 = 0;
/// Where the offsets of all groups point.
pub(crate) const OFFSET_OF: (&str, i32) = ("load-0", 0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Does not know its coordinator, or that of its group.
    Lost,
    LostGroup,
    /// Has no producer id that counts.
    Out,
    /// Looks which offset of its group is committed.
    Looking,
    Idle,
    /// Asks for its partitions to be added.
    Adding,
    Open,
    /// Asks for its group to be added.
    AddingGroup,
    /// Commits its offset.
    Committing,
    Ending {
        committed: bool,
    },
}

struct Txn {
    op: Op,
    places: Vec<Place>,
    began: Instant,
    /// Batches that are still to be made.
    left: u64,
    batches: Vec<Batch>,
    is_doomed: bool,
    /// Its number, while the offset for it is not committed; and that number.
    owes_offset: bool,
    number: i64,
    /// A commit was sent, and what became of it is not known.
    is_commit_open: bool,
}

struct Batch {
    place: Place,
    records: Bytes,
    sends: Range<usize>,
    /// The request it is under way in.
    correlation: Option<i32>,
    is_acked: bool,
}

pub(crate) struct Transactor {
    habits: TxnHabits,
    process: u32,
    chance: Chance,
    line: Option<Line>,
    /// Old connections with something that may still arrive, and how long they are kept.
    late: Vec<(Instant, Line)>,
    state: State,
    /// Id and epoch.
    producer: Option<(i64, i16)>,
    /// Asks for the next epoch of its own instead of beginning anew.
    recovers: bool,
    sequences: BTreeMap<Place, i32>,
    txn: Option<Txn>,
    /// Since when something is unanswered.
    asked: Option<Instant>,
    patience: Duration,
    /// Until then an earlier request for a producer id may still arrive, and fence us.
    strays_until: Instant,
    wake: Instant,
    pub(crate) is_ending: bool,
    pub(crate) commits: u64,
}

impl Transactor {
    pub(crate) fn new(habits: TxnHabits, chance: Chance, now: Instant, notes: &mut Notes) -> Self {
        Transactor {
            habits,
            process: notes.process(),
            chance,
            line: None,
            late: Vec::new(),
            state: State::Lost,
            producer: None,
            recovers: false,
            sequences: BTreeMap::new(),
            txn: None,
            asked: None,
            patience: ANSWER_MAX,
            strays_until: now.plus(STRAY_MAX),
            wake: now,
            is_ending: false,
            commits: 0,
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.wake
    }

    pub(crate) fn has_news(&self) -> bool {
        let late = self.late.iter().map(|(_, line)| line);
        self.line.iter().chain(late).any(Line::has_news)
    }

    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.txn.is_some()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} {:?} as {:?}, {} commits, {} batches open",
            self.habits.id,
            self.state,
            self.producer,
            self.commits,
            self.txn
                .iter()
                .flat_map(|txn| &txn.batches)
                .filter(|batch| !batch.is_acked)
                .count()
        )
    }

    pub(crate) fn act(&mut self, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        self.late
            .retain_mut(|(until, line)| now < *until && line.poll().is_ok());
        while let Some(line) = &mut self.line {
            let done = match line.poll() {
                Ok(Some(answer)) => self.on_answer(&answer, machine, notes),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                if let LineError::Nonsense(what) = error {
                    notes.violation(format!("{} ({}): {what}", self.habits.id, self.process));
                }
                self.hang_up(machine, notes);
            }
        }
        if machine.now() >= self.wake {
            self.on_wake(machine, notes);
        }
    }

    /// The connection is over: what was under way is sent again.
    fn hang_up(&mut self, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        if self.asked.take().is_some() {
            notes.unanswered += 1;
        }
        if self.state == State::Out {
            self.strays_until = now.plus(STRAY_MAX);
        }
        if let Some(line) = self.line.take()
            && self.patience < ANSWER_MAX
            && self.state != State::Out
        {
            self.late.push((now.plus(STRAY_MAX), line));
        }
        self.patience = ANSWER_MAX;
        if let Some(txn) = &mut self.txn {
            txn.is_commit_open |= self.state == State::Ending { committed: true };
            for batch in &mut txn.batches {
                batch.correlation = None;
            }
        }
        self.wake = now.plus(RECONNECT);
    }

    /// Ends as a process, in the middle of whatever it does; a new one takes its place.
    pub(crate) fn crash(&mut self, machine: &Machine, notes: &mut Notes) {
        self.hang_up(machine, notes);
        self.begin_anew(machine, notes);
    }

    fn begin_anew(&mut self, machine: &Machine, notes: &mut Notes) {
        let outcome = match &self.txn {
            Some(txn) if txn.is_commit_open => Outcome::Info,
            _ => Outcome::Fail,
        };
        self.finish(outcome, machine, notes);
        self.process = notes.process();
        self.state = State::Out;
        self.recovers = false;
        self.wake = machine
            .now()
            .plus(Duration::from_millis(self.chance.between(50, 1_500)));
    }

    fn finish(&mut self, outcome: Outcome, machine: &Machine, notes: &mut Notes) {
        let Some(txn) = self.txn.take() else { return };
        notes.ended(outcome);
        self.commits += u64::from(outcome == Outcome::Ok);
        let mut op = txn.op;
        op.outcome = outcome;
        op.returned = machine.now().0;
        let at = (!op.sends.is_empty()).then_some(notes.history.ops.len());
        if at.is_some() {
            notes.done(op);
        }
        if let Some(group) = self.habits.group.as_ref().filter(|_| txn.number >= 0) {
            notes.numbers(group).end(txn.number, outcome, at);
        }
    }

    fn on_wake(&mut self, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        self.wake = now.plus(self.habits.pause + Duration::from_micros(self.chance.below(2_000)));
        let too_long = |txn: &Txn| now.since(txn.began) > GIVE_UP;
        if self.txn.as_ref().is_some_and(too_long) {
            self.crash(machine, notes);
            return;
        }
        let Some(line) = &self.line else {
            self.line = Line::open(machine).ok();
            if self.line.is_none() {
                self.wake = now.plus(RECONNECT);
            } else if self.state == State::Open {
                self.send_again(now, notes);
            }
            return;
        };
        if self
            .asked
            .is_some_and(|asked| now.since(asked) > self.patience)
        {
            self.hang_up(machine, notes);
            return;
        }
        let unanswered = line.unanswered();
        if unanswered > 0 && self.state != State::Open {
            return;
        }
        match self.state {
            State::Lost | State::LostGroup => self.find_coordinator(now),
            State::Looking => self.look(now),
            State::AddingGroup => self.add_group(now),
            State::Committing => self.commit_offset(now),
            State::Out => self.init(now),
            State::Idle if self.is_ending => {}
            State::Idle if !self.habits.is_calm && self.chance.one_in(60) => {
                self.crash(machine, notes);
            }
            State::Idle => self.begin(now, notes),
            State::Adding => self.add(now),
            State::Open => self.go_on(unanswered, machine, notes),
            State::Ending { .. } if !self.habits.is_calm && self.chance.one_in(8) => {
                self.crash(machine, notes);
            }
            State::Ending { committed } => self.end(committed, now),
        }
    }

    fn asks(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    fn find_coordinator(&mut self, now: Instant) {
        let of_group = self.habits.group.clone();
        let (key, key_type) = match of_group.filter(|_| self.state == State::LostGroup) {
            Some(group) => (group, GROUP),
            None => (self.habits.id.clone(), TRANSACTION),
        };
        let request = FindCoordinatorRequest {
            key,
            key_type,
            ..Default::default()
        };
        if let Some(line) = &mut self.line {
            line.ask(&request, 3, true);
            self.asks(now);
        }
    }

    fn init(&mut self, now: Instant) {
        let (id, epoch) = self.producer.filter(|_| self.recovers).unwrap_or((-1, -1));
        let request = InitProducerIdRequest {
            transactional_id: Some(self.habits.id.clone()),
            transaction_timeout_ms: self.habits.timeout.as_millis() as i32,
            producer_id: id,
            producer_epoch: epoch,
            ..Default::default()
        };
        let lowest = if self.habits.is_old && id < 0 { 0 } else { 3 };
        let version = self.chance.between(lowest, 5) as i16;
        if let Some(line) = &mut self.line {
            line.ask(&request, version, true);
            self.asks(now);
        }
    }

    fn begin(&mut self, now: Instant, notes: &mut Notes) {
        let number = match &self.habits.group {
            Some(group) if !self.habits.is_calm => notes.numbers(group).begin(),
            _ => -1,
        };
        let mut all = self.habits.places.clone();
        let count = match self.habits.is_calm {
            true => all.len(),
            false => self.chance.between(1, all.len() as u64) as usize,
        };
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(all.swap_remove(self.chance.below(all.len() as u64) as usize));
        }
        let left = self.chance.between(1, self.habits.batches_max);
        self.txn = Some(Txn {
            op: Op::new(self.process, Kind::Txn, now.0),
            left: left.max(places.len() as u64),
            places,
            began: now,
            batches: Vec::new(),
            is_doomed: false,
            owes_offset: number >= 0,
            number,
            is_commit_open: false,
        });
        self.state = match self.habits.is_old {
            true => State::Adding,
            false => State::Open,
        };
    }

    /// All partitions of the transaction at once.
    fn add(&mut self, now: Instant) {
        let (Some(txn), Some((id, epoch)), Some(line)) = (&self.txn, self.producer, &mut self.line)
        else {
            return;
        };
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &txn.places {
            topics.entry(topic).or_default().push(*partition);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            let name = name.to_owned();
            AddPartitionsToTxnTopic { name, partitions }
        });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.habits.id.clone(),
            v3_and_below_producer_id: id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: topics.collect(),
            ..Default::default()
        };
        line.ask(&request, self.chance.between(0, 3) as i16, true);
        self.asks(now);
    }

    fn go_on(&mut self, unanswered: usize, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        let is_calm = self.habits.is_calm;
        let Some(txn) = &mut self.txn else { return };
        if !is_calm && self.chance.one_in(150) {
            self.crash(machine, notes);
            return;
        }
        if !is_calm && self.chance.one_in(200) {
            // Asleep, sometimes for longer than a transaction may be open.
            let most = self.habits.timeout.as_millis() as u64 * 2;
            self.wake = now.plus(Duration::from_millis(self.chance.below(most)));
            return;
        }
        txn.is_doomed |= !is_calm && self.chance.one_in(60);
        if txn.is_doomed || txn.left == 0 {
            let is_acked = txn.batches.iter().all(|batch| batch.is_acked);
            if unanswered == 0 && is_acked && txn.owes_offset && !txn.is_doomed {
                self.state = match self.habits.is_old {
                    true => State::AddingGroup,
                    false => State::Committing,
                };
            } else if unanswered == 0 && (is_acked || txn.is_doomed) {
                let committed = !txn.is_doomed && (is_calm || !self.chance.one_in(4));
                self.end(committed, now);
                if !is_calm && self.chance.one_in(40) {
                    // Its last words are still on their way.
                    self.patience = Duration::ZERO;
                    self.crash(machine, notes);
                }
            }
        } else if unanswered < IN_FLIGHT_MAX {
            self.send_new(now, notes);
        }
    }

    fn send_new(&mut self, now: Instant, notes: &mut Notes) {
        let (Some(txn), Some((id, epoch))) = (&mut self.txn, self.producer) else {
            return;
        };
        // Each partition once, then any.
        let next = txn.batches.len();
        let place = match txn.places.get(next) {
            Some(place) => place.clone(),
            None => self.chance.pick(&txn.places).clone(),
        };
        let key = notes.key(&place.0, place.1);
        let from = txn.op.sends.len();
        let values: Vec<u64> = (0..self.chance.between(1, 4))
            .map(|_| notes.value())
            .collect();
        txn.op.sends.extend(values.iter().map(|value| Sent {
            key,
            offset: None,
            value: *value,
        }));
        let sequence = self.sequences.entry(place.clone()).or_default();
        let identity = Identity {
            id,
            epoch,
            sequence: *sequence,
            is_transactional: true,
        };
        *sequence += values.len() as i32;
        let records = build(&values, Some(identity), now, &mut self.chance);
        txn.batches.push(Batch {
            place,
            records,
            sends: from..txn.op.sends.len(),
            correlation: None,
            is_acked: false,
        });
        txn.left -= 1;
        self.send(next, now);
    }

    /// Everything that is not acknowledged, again, in the old order.
    fn send_again(&mut self, now: Instant, notes: &mut Notes) {
        let Some(txn) = &self.txn else { return };
        let open = |at: &usize| !txn.batches[*at].is_acked;
        let open: Vec<usize> = (0..txn.batches.len()).filter(open).collect();
        for at in open {
            notes.resent += 1;
            self.send(at, now);
        }
    }

    fn send(&mut self, at: usize, now: Instant) {
        let version = match self.habits.is_old {
            true => self.chance.between(3, 11),
            false => 12,
        };
        let (Some(txn), Some(line)) = (&mut self.txn, &mut self.line) else {
            return;
        };
        let batch = &mut txn.batches[at];
        let data = PartitionProduceData {
            index: batch.place.1,
            records: Some(batch.records.clone().into()),
        };
        let topic = TopicProduceData {
            name: batch.place.0.clone(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            transactional_id: Some(self.habits.id.clone()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
        };
        batch.correlation = Some(line.ask(&request, version as i16, true));
        self.asks(now);
    }

    fn group_topic(&self) -> (String, String, i32) {
        let group = self.habits.group.clone().unwrap_or_default();
        let (topic, partition) = OFFSET_OF;
        (group, topic.to_owned(), partition)
    }

    fn look(&mut self, now: Instant) {
        let (group_id, name, partition) = self.group_topic();
        let request = OffsetFetchRequest {
            group_id,
            topics: Some(vec![OffsetFetchRequestTopic {
                name,
                partition_indexes: vec![partition],
            }]),
            require_stable: true,
            ..Default::default()
        };
        if let Some(line) = &mut self.line {
            line.ask(&request, 7, true);
            self.asks(now);
        }
    }

    fn add_group(&mut self, now: Instant) {
        let (group_id, ..) = self.group_topic();
        let (Some((producer_id, producer_epoch)), Some(line)) = (self.producer, &mut self.line)
        else {
            return;
        };
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.habits.id.clone(),
            producer_id,
            producer_epoch,
            group_id,
        };
        line.ask(&request, self.chance.between(0, 3) as i16, true);
        self.asks(now);
    }

    fn commit_offset(&mut self, now: Instant) {
        let (group_id, name, partition) = self.group_topic();
        let (Some(txn), Some((producer_id, producer_epoch)), Some(line)) =
            (&self.txn, self.producer, &mut self.line)
        else {
            return;
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.habits.id.clone(),
            group_id,
            producer_id,
            producer_epoch,
            generation_id: -1,
            topics: vec![TxnOffsetCommitRequestTopic {
                name,
                partitions: vec![TxnOffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: txn.number,
                    committed_leader_epoch: -1,
                    committed_metadata: None,
                }],
            }],
            ..Default::default()
        };
        let version = match self.habits.is_old {
            true => self.chance.between(0, 4) as i16,
            false => 5,
        };
        line.ask(&request, version, true);
        self.asks(now);
    }

    fn end(&mut self, committed: bool, now: Instant) {
        let (Some((id, epoch)), Some(line)) = (self.producer, &mut self.line) else {
            return;
        };
        let request = EndTxnRequest {
            transactional_id: self.habits.id.clone(),
            producer_id: id,
            producer_epoch: epoch,
            committed,
        };
        let version = match self.habits.is_old {
            true => self.chance.between(0, 4) as i16,
            false => 5,
        };
        if self.chance.one_in(self.habits.delays) {
            let time = Duration::from_millis(self.chance.between(100, 5_000));
            line.conn().stall_requests(time);
            self.patience = Duration::from_millis(self.chance.between(50, 1_000));
        }
        line.ask(&request, version, true);
        self.state = State::Ending { committed };
        self.asks(now);
    }

    fn on_answer(
        &mut self,
        answer: &Answer,
        machine: &Machine,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let now = machine.now();
        let is_waiting = self.line.as_ref().is_some_and(|line| line.unanswered() > 0);
        self.asked = is_waiting.then_some(now);
        self.patience = ANSWER_MAX;
        match answer.key() {
            ApiKey::FindCoordinator => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                if code(found.error_code)? == ErrorCode::None {
                    self.state = match (self.state, &self.habits.group) {
                        (State::Lost, Some(_)) => State::LostGroup,
                        _ => State::Out,
                    };
                }
            }
            ApiKey::InitProducerId => {
                let response = answer.decode::<InitProducerIdRequest>()?;
                let id = (response.producer_id, response.producer_epoch);
                self.on_id(code(response.error_code)?, id, machine, notes);
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
                    ErrorCode::None => self.state = State::Open,
                    code if is_fencing(code) => self.on_fenced(code, machine, notes),
                    _ => notes.refused += 1,
                }
            }
            ApiKey::Produce => {
                let response = answer.decode::<ProduceRequest>()?;
                let topics = response.responses.iter();
                let mut all = topics.flat_map(|topic| &topic.partition_responses);
                let (Some(only), None) = (all.next(), all.next()) else {
                    return Err(LineError::Nonsense("one partition was asked".to_owned()));
                };
                let code = code(only.error_code)?;
                self.on_produced(answer.correlation(), code, only.base_offset, machine, notes);
            }
            ApiKey::EndTxn => {
                let response = answer.decode::<EndTxnRequest>()?;
                let next = (response.producer_id, response.producer_epoch);
                self.on_ended(code(response.error_code)?, next, machine, notes);
            }
            ApiKey::OffsetFetch => {
                let response = answer.decode::<OffsetFetchRequest>()?;
                let mut all = response.topics.iter().flat_map(|topic| &topic.partitions);
                let (group, ..) = self.group_topic();
                match all.next() {
                    Some(found) if response.error_code == 0 && found.error_code == 0 => {
                        notes.settle(&group, found.committed_offset);
                        self.state = State::Idle;
                    }
                    _ => notes.refused += 1,
                }
            }
            ApiKey::AddOffsetsToTxn => {
                let response = answer.decode::<AddOffsetsToTxnRequest>()?;
                let code = code(response.error_code)?;
                self.on_offset_step(code, State::Committing, machine, notes);
            }
            ApiKey::TxnOffsetCommit => {
                let response = answer.decode::<TxnOffsetCommitRequest>()?;
                let mut all = response.topics.iter().flat_map(|topic| &topic.partitions);
                let told = all.next().map_or(-1, |told| told.error_code);
                self.on_offset_step(code(told)?, State::Open, machine, notes);
            }
            other => {
                return Err(LineError::Nonsense(format!("{other:?} was not asked")));
            }
        }
        Ok(())
    }

    fn on_id(&mut self, code: ErrorCode, id: (i64, i16), machine: &Machine, notes: &mut Notes) {
        match code {
            ErrorCode::None => {
                self.producer = Some(id);
                self.recovers = false;
                self.sequences.clear();
                let is_sole = self.habits.is_calm || !self.habits.is_shared;
                self.state = match self.habits.group {
                    Some(_) if is_sole => State::Looking,
                    _ => State::Idle,
                };
            }
            ErrorCode::NotCoordinator => self.state = State::Lost,
            // Somebody else came between: whoever wants to go on has to begin anew.
            code if is_fencing(code) => {
                self.begin_anew(machine, notes);
            }
            _ => notes.refused += 1,
        }
    }

    fn on_produced(
        &mut self,
        correlation: i32,
        code: ErrorCode,
        base: i64,
        machine: &Machine,
        notes: &mut Notes,
    ) {
        let Some(txn) = &mut self.txn else { return };
        let under_way = |batch: &Batch| batch.correlation == Some(correlation);
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
            code if is_fencing(code) => self.on_fenced(code, machine, notes),
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
                self.hang_up(machine, notes);
            }
            ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable => {
                notes.refused += 1;
                txn.is_doomed = true;
                txn.batches[at].correlation = None;
            }
            // All that is open goes again, in order, on a new connection.
            _ => {
                notes.refused += 1;
                self.hang_up(machine, notes);
            }
        }
    }

    fn on_offset_step(
        &mut self,
        code: ErrorCode,
        next: State,
        machine: &Machine,
        notes: &mut Notes,
    ) {
        let Some(txn) = &mut self.txn else { return };
        match code {
            ErrorCode::None => {
                txn.owes_offset = next != State::Open;
                self.state = next;
            }
            code if is_fencing(code) => self.on_fenced(code, machine, notes),
            ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable => {
                notes.refused += 1;
                txn.is_doomed = true;
                self.state = State::Open;
            }
            // Loaded or written later: asked again.
            _ => notes.refused += 1,
        }
    }

    fn on_ended(
        &mut self,
        code: ErrorCode,
        next: (i64, i16),
        machine: &Machine,
        notes: &mut Notes,
    ) {
        let State::Ending { committed } = self.state else {
            return;
        };
        let Some(txn) = &mut self.txn else { return };
        match code {
            ErrorCode::None => {
                let was_refused = txn.batches.iter().any(|batch| !batch.is_acked);
                self.state = State::Idle;
                if !self.habits.is_old {
                    self.producer = Some(next);
                    self.sequences.clear();
                } else if was_refused {
                    // Its sequences may have a gap now; another epoch begins at zero.
                    self.recovers = true;
                    self.state = State::Out;
                }
                let outcome = match committed {
                    true => Outcome::Ok,
                    false => Outcome::Fail,
                };
                self.finish(outcome, machine, notes);
            }
            code if is_fencing(code) => self.on_fenced(code, machine, notes),
            ErrorCode::InvalidTxnState => self.on_fenced(code, machine, notes),
            // It may have been decided, or not: asked again.
            _ => {
                notes.refused += 1;
                txn.is_commit_open |= committed;
            }
        }
    }

    /// Another incarnation took over, or the coordinator ended the transaction.
    fn on_fenced(&mut self, code: ErrorCode, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        notes.fenced += 1;
        if let Some(txn) = &self.txn
            && self.habits.is_alone
            && now.since(txn.began) < self.habits.timeout
            && self.strays_until < txn.began
        {
            notes.violation(format!(
                "{} ({}): {code:?} in {:?}, although nobody else uses the id and it was open for {:?} only",
                self.habits.id,
                self.process,
                self.state,
                now.since(txn.began)
            ));
        }
        // What is on the connection belongs to the old incarnation.
        self.line = None;
        self.asked = None;
        self.begin_anew(machine, notes);
    }
}

fn is_fencing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
    )
}

fn code(code: i16) -> Result<ErrorCode, LineError> {
    ErrorCode::try_from(code).map_err(|error| LineError::Nonsense(error.to_string()))
}
