//! Transactional producers, and readers of both levels, that go on through every death of the broker; the history they make.
//!
//! A producer that crashes leaves its transaction open, and the next one of its id fences it; two share an id and fence each
//! other. Whose commit was never asked for must never be shown; whose commit was acknowledged must be there as a whole.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Connection, Consumer, ConsumerOptions, Error, Isolation as Level, Place};
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use parking_lot::Mutex;
use sim::checker::{History, Isolation, Key, Kind, Op, Outcome, Polled, Sent};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
    ProduceRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Records};

use crate::children::{Clock, say};
use crate::kills::Moments;
use crate::ledger::Value;
use crate::load::{PARTITIONS, TOPIC, connect};
use crate::zombies::op_line;

/// The last two share an id.
pub(crate) const IDS: [&str; 5] = ["chaos-0", "chaos-1", "chaos-2", "chaos-3", "chaos-3"];
/// What is left open is aborted so soon.
pub(crate) const TIMEOUT_MS: i32 = 3_000;
/// A broker that stays away longer than this has failed the scenario.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(10);
/// Enough to notice a word and to send a signal.
const LINGER: Duration = Duration::from_millis(30);
const TRANSACTION: i8 = 1;
/// Last version of Produce that names topics.
const NAMED_VERSION_MAX: i16 = 12;
/// Last versions of clients that know of one epoch for all transactions of a producer.
const OLD_PRODUCE_VERSION_MAX: i16 = 11;
const OLD_ADD_VERSION_MAX: i16 = 3;
const OLD_END_VERSION_MAX: i16 = 4;
/// What a producer that is alone speaks.
pub(crate) const OLD: &str = "old";
pub(crate) const NEW: &str = "new";

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) undecided: u64,
    pub(crate) fenced: u64,
    processes: u32,
    open: usize,
}

/// What everybody writes down.
struct Notes {
    clock: Clock,
    all: Mutex<(History, Tally)>,
    stop: AtomicBool,
}

impl Notes {
    fn new() -> Arc<Notes> {
        Arc::new(Notes {
            clock: Clock::new(),
            all: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn process(&self) -> u32 {
        let mut all = self.all.lock();
        all.1.processes += 1;
        all.1.processes
    }

    fn done(&self, mut op: Op) {
        let mut all = self.all.lock();
        op.returned = self.now();
        all.0.ops.push(op);
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

pub(crate) struct TxnLoad {
    address: String,
    notes: Arc<Notes>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl TxnLoad {
    /// A producer for each id, and the readers.
    pub(crate) fn start(address: &str, seed: u64, ids: &[&'static str]) -> TxnLoad {
        let notes = Notes::new();
        let mut threads = Vec::new();
        for (number, id) in (0..).zip(ids.iter().copied()) {
            let (address, notes) = (address.to_owned(), Arc::clone(&notes));
            let moments = Moments(seed ^ (number + 1) << 20);
            threads.push(std::thread::spawn(move || {
                let mut worker = Worker::new(address, id, number as u16, moments, notes);
                worker.work().map_err(|why| format!("{id}: {why}"))
            }));
        }
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            let (address, notes) = (address.to_owned(), Arc::clone(&notes));
            threads.push(std::thread::spawn(move || {
                follow(&address, isolation, &notes)
            }));
        }
        TxnLoad {
            address: address.to_owned(),
            notes,
            threads,
        }
    }

    /// Transactions that are open now.
    pub(crate) fn open(&self) -> usize {
        self.notes.all.lock().1.open
    }

    pub(crate) fn wait_for_commits(&self, more: u64) -> Result<(), String> {
        let committed = || self.notes.all.lock().1.committed;
        let goal = committed() + more;
        let begun = Instant::now();
        while committed() < goal {
            if self.threads.iter().any(JoinHandle::is_finished) {
                return Err("a client stopped; its words follow at the end".to_owned());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{more} transactions were not committed in time"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends the load, and reads everything that is there. `others` were done by others, who have ended.
    pub(crate) fn finish(self, others: Vec<Op>) -> Result<(History, Tally), String> {
        self.notes.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| "a client panicked".to_owned())??;
        }
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            read_all(&self.address, isolation, &self.notes)?;
        }
        let mut all = self.notes.all.lock();
        let (mut history, tally) = std::mem::take(&mut *all);
        history.ops.extend(others);
        history.ops.sort_by_key(|op| op.returned);
        history.read_to_the_end = vec![Isolation::Committed, Isolation::Uncommitted];
        Ok((history, tally))
    }
}

/// One batch of a transaction.
struct Part {
    partition: i32,
    records: Records,
    sends: Range<usize>,
    is_acked: bool,
}

/// Why a transaction goes no further.
enum End {
    /// Another incarnation took over, or the coordinator aborted it.
    Fenced,
    /// What no scenario may bring about.
    Wrong(String),
}

struct Worker {
    address: String,
    id: String,
    number: u16,
    next: u64,
    moments: Moments,
    notes: Arc<Notes>,
    connection: Option<Connection>,
    producer: (i64, i16),
    process: u32,
    /// Leaves a transaction open now and then, and begins anew.
    crashes: bool,
    /// Says when all is written, and waits before it ends the transaction, so that it can be stopped there.
    lingers: bool,
    /// Speaks as clients did before each transaction had an epoch of its own: adds its partitions itself, and keeps its epoch.
    is_old: bool,
    /// The next of each partition, in the present epoch.
    sequences: BTreeMap<i32, i32>,
}

/// A producer that is alone in its process, until it is fenced or told to stop: address, transactional id, protocol, number and seed.
pub(crate) fn alone(words: &[String], stop: &AtomicBool) -> Result<(), String> {
    let [address, id, protocol, number, seed] = words else {
        return Err("a producer needs address, id, protocol, number and seed".to_owned());
    };
    let (Ok(number), Ok(seed)) = (number.parse::<u16>(), seed.parse()) else {
        return Err("no numbers".to_owned());
    };
    let notes = Notes::new();
    let (moments, ours) = (Moments(seed), Arc::clone(&notes));
    let mut worker = Worker::new(address.clone(), id, number, moments, ours);
    (worker.crashes, worker.lingers) = (false, true);
    worker.is_old = protocol == OLD;
    // Beyond those of the readers, who count from 1.
    worker.process = 1_000 + u32::from(number);
    worker.init()?;
    let mut goes_on = true;
    while goes_on && !stop.load(Ordering::Acquire) {
        say("open");
        goes_on = worker.transact()?;
        for op in std::mem::take(&mut notes.all.lock().0.ops) {
            say(&op_line(&op));
        }
    }
    if !goes_on {
        say("fenced");
    }
    Ok(())
}

impl Worker {
    fn new(address: String, id: &str, number: u16, moments: Moments, notes: Arc<Notes>) -> Worker {
        Worker {
            address,
            id: id.to_owned(),
            number,
            next: 0,
            moments,
            notes,
            connection: None,
            producer: (-1, -1),
            process: 0,
            crashes: true,
            lingers: false,
            is_old: false,
            sequences: BTreeMap::new(),
        }
    }

    fn work(&mut self) -> Result<(), String> {
        while !self.notes.is_stopping() {
            self.process = self.notes.process();
            self.init()?;
            // Some crash soon, some live long.
            while !self.notes.is_stopping() && self.transact()? {}
        }
        Ok(())
    }

    /// Calls until there is an answer; whether the first attempt got it.
    fn call<R: wire::Request>(&mut self, request: &R) -> Result<(R::Response, bool), String> {
        self.call_up_to(request, i16::MAX)
    }

    /// The same in a version of at most `limit`.
    fn call_up_to<R: wire::Request>(
        &mut self,
        request: &R,
        limit: i16,
    ) -> Result<(R::Response, bool), String> {
        let begun = Instant::now();
        let mut is_first = true;
        loop {
            let told = self.open().and_then(|connection| {
                connection.send_up_to(request, limit)?;
                connection.receive_as::<R>()
            });
            match told {
                Ok(response) => return Ok((response, is_first)),
                Err(error) => {
                    // A refused connection has carried nothing.
                    is_first &= matches!(error, Error::Connect { .. });
                    self.hang_up(&error, begun)?;
                }
            }
        }
    }

    fn open(&mut self) -> Result<&mut Connection, Error> {
        if self.connection.is_none() {
            let connection = connect(&self.address, PAUSE)?.open(&self.address)?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("opened above"))
    }

    fn hang_up(&mut self, error: &Error, since: Instant) -> Result<(), String> {
        self.connection = None;
        if since.elapsed() > PATIENCE {
            return Err(format!("no answer for {} s: {error}", PATIENCE.as_secs()));
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn init(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let find = FindCoordinatorRequest {
            key_type: TRANSACTION,
            coordinator_keys: vec![self.id.clone()],
            ..Default::default()
        };
        let init = InitProducerIdRequest {
            transactional_id: Some(self.id.clone()),
            transaction_timeout_ms: TIMEOUT_MS,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        self.call(&find)?;
        loop {
            let (told, _) = self.call(&init)?;
            if told.error_code == 0 {
                self.producer = (told.producer_id, told.producer_epoch);
                self.sequences.clear();
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("no producer id: error {}", told.error_code));
            }
            std::thread::sleep(PAUSE);
            self.call(&find)?;
        }
    }

    /// One transaction; false when the producer ends with it.
    fn transact(&mut self) -> Result<bool, String> {
        let mut op = Op::new(self.process, Kind::Txn, self.notes.now());
        let mut parts = self.parts(&mut op);
        self.notes.all.lock().1.open += 1;
        let told = self.write(&mut op, &mut parts);
        let ended = match told {
            Ok(()) if self.crashes && self.moments.next(15) == 0 => Ok(None),
            Ok(()) => {
                if self.lingers {
                    say("ready");
                    std::thread::sleep(LINGER);
                }
                let committed = self.moments.next(4) > 0;
                self.end(committed).map(Some)
            }
            Err(end) => Err(end),
        };
        let (outcome, goes_on) = match ended {
            Ok(Some(outcome)) => (outcome, outcome != Outcome::Info),
            // It crashes, and nobody ever asked for a commit.
            Ok(None) => (Outcome::Fail, false),
            Err(End::Fenced) => (Outcome::Fail, false),
            Err(End::Wrong(why)) => return Err(why),
        };
        {
            let mut all = self.notes.all.lock();
            let tally = &mut all.1;
            tally.open -= 1;
            tally.fenced += u64::from(matches!(ended, Err(End::Fenced)));
            *match outcome {
                Outcome::Ok => &mut tally.committed,
                Outcome::Fail => &mut tally.aborted,
                Outcome::Info => &mut tally.undecided,
            } += 1;
        }
        op.outcome = outcome;
        self.notes.done(op);
        if !goes_on {
            self.connection = None;
            // So that two of one id do not keep each other from everything.
            std::thread::sleep(Duration::from_millis(self.moments.next(400)));
        }
        Ok(goes_on)
    }

    fn parts(&mut self, op: &mut Op) -> Vec<Part> {
        if !self.is_old {
            self.sequences.clear();
        }
        let count = 1 + self.moments.next(8);
        let mut parts = Vec::new();
        for _ in 0..count {
            let partition = self.moments.next(PARTITIONS as u64) as i32;
            let sequence = self.sequences.entry(partition).or_default();
            let (id, epoch) = (ProducerId(self.producer.0), ProducerEpoch(self.producer.1));
            let mut builder = BatchBuilder::new()
                .producer(id, epoch, Sequence(*sequence))
                .transactional();
            let from = op.sends.len();
            for _ in 0..1 + self.moments.next(3) {
                let value = Value {
                    producer: self.number,
                    number: self.next,
                };
                self.next += 1;
                *sequence += 1;
                builder.push(Timestamp(1), None, Some(&value.bytes()), &[]);
                op.sends.push(Sent {
                    key: partition as Key,
                    offset: None,
                    value: number_of(value),
                });
            }
            parts.push(Part {
                partition,
                records: builder.build().to_bytes().into(),
                sends: from..op.sends.len(),
                is_acked: false,
            });
        }
        parts
    }

    /// Writes all parts, each until it is acknowledged.
    fn write(&mut self, op: &mut Op, parts: &mut [Part]) -> Result<(), End> {
        let begun = Instant::now();
        if self.is_old {
            self.add(parts)?;
        }
        while parts.iter().any(|part| !part.is_acked) {
            match self.write_open(op, parts) {
                Ok(None) => {}
                Ok(Some(
                    ErrorCode::InvalidProducerEpoch
                    | ErrorCode::ProducerFenced
                    | ErrorCode::InvalidProducerIdMapping
                    | ErrorCode::InvalidTxnState,
                )) => return Err(End::Fenced),
                Ok(Some(
                    code @ (ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId),
                )) => {
                    let what = format!("refused with {code:?} although it kept order");
                    return Err(End::Wrong(what));
                }
                Ok(Some(code)) if begun.elapsed() > PATIENCE => {
                    return Err(End::Wrong(format!("cannot write: {code:?}")));
                }
                Ok(Some(_)) => {
                    self.connection = None;
                    std::thread::sleep(PAUSE);
                }
                Err(error) => self.hang_up(&error, begun).map_err(End::Wrong)?,
            }
        }
        Ok(())
    }

    /// Tells the coordinator where the transaction is going to write.
    fn add(&mut self, parts: &[Part]) -> Result<(), End> {
        let begun = Instant::now();
        let mut partitions: Vec<i32> = parts.iter().map(|part| part.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: self.producer.0,
            v3_and_below_producer_epoch: self.producer.1,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: TOPIC.to_owned(),
                partitions,
            }],
            ..Default::default()
        };
        loop {
            let (told, _) = self
                .call_up_to(&request, OLD_ADD_VERSION_MAX)
                .map_err(End::Wrong)?;
            let topics = told.results_by_topic_v3_and_below.iter();
            let mut codes = topics
                .flat_map(|topic| &topic.results_by_partition)
                .map(|partition| partition.partition_error_code);
            let Some(code) = codes.find(|code| *code != 0) else {
                return Ok(());
            };
            match ErrorCode::try_from(code).unwrap_or(ErrorCode::UnknownServerError) {
                ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::InvalidTxnState => return Err(End::Fenced),
                code if begun.elapsed() > PATIENCE => {
                    return Err(End::Wrong(format!("cannot add partitions: {code:?}")));
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Sends what is not acknowledged at once, in order; the first refusal.
    fn write_open(&mut self, op: &mut Op, parts: &mut [Part]) -> Result<Option<ErrorCode>, Error> {
        let id = self.id.clone();
        let limit = match self.is_old {
            true => OLD_PRODUCE_VERSION_MAX,
            false => NAMED_VERSION_MAX,
        };
        let connection = self.open()?;
        for part in parts.iter().filter(|part| !part.is_acked) {
            let data = PartitionProduceData {
                index: part.partition,
                records: Some(part.records.clone()),
            };
            let topic = TopicProduceData {
                name: TOPIC.to_owned(),
                partition_data: vec![data],
                ..Default::default()
            };
            let request = ProduceRequest {
                transactional_id: Some(id.clone()),
                acks: -1,
                timeout_ms: 10_000,
                topic_data: vec![topic],
            };
            connection.send_up_to(&request, limit)?;
        }
        for part in parts.iter_mut().filter(|part| !part.is_acked) {
            let response = connection.receive_as::<ProduceRequest>()?;
            let mut told = response.responses.iter();
            let told = told
                .find_map(|topic| topic.partition_responses.first())
                .map_or((-1, -1), |told| (told.error_code, told.base_offset));
            match ErrorCode::try_from(told.0).unwrap_or(ErrorCode::UnknownServerError) {
                ErrorCode::None => {
                    part.is_acked = true;
                    for (at, sent) in (0..).zip(&mut op.sends[part.sends.clone()]) {
                        sent.offset = Some(told.1 + at);
                    }
                }
                ErrorCode::DuplicateSequenceNumber => part.is_acked = true,
                code => return Ok(Some(code)),
            }
        }
        Ok(None)
    }

    fn end(&mut self, committed: bool) -> Result<Outcome, End> {
        let begun = Instant::now();
        let request = EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            committed,
        };
        let mut is_certain = true;
        loop {
            let limit = match self.is_old {
                true => OLD_END_VERSION_MAX,
                false => i16::MAX,
            };
            let (told, is_first) = self.call_up_to(&request, limit).map_err(End::Wrong)?;
            is_certain &= is_first;
            let code =
                ErrorCode::try_from(told.error_code).unwrap_or(ErrorCode::UnknownServerError);
            match code {
                ErrorCode::None => {
                    if !self.is_old {
                        self.producer = (told.producer_id, told.producer_epoch);
                    }
                    let outcome = if committed {
                        Outcome::Ok
                    } else {
                        Outcome::Fail
                    };
                    return Ok(outcome);
                }
                ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::InvalidTxnState => {
                    return match committed && !is_certain {
                        true => Ok(Outcome::Info),
                        false => Err(End::Fenced),
                    };
                }
                code if begun.elapsed() > PATIENCE => {
                    return Err(End::Wrong(format!("cannot end: {code:?}")));
                }
                _ => {
                    is_certain = false;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

fn number_of(value: Value) -> u64 {
    u64::from(value.producer) << 48 | value.number
}

/// Reads as the log grows, at one level; what was shown has to stay.
fn follow(address: &str, isolation: Isolation, notes: &Notes) -> Result<(), String> {
    let process = notes.process();
    let mut next: BTreeMap<i32, i64> = (0..PARTITIONS).map(|at| (at, 0)).collect();
    let mut heard = Instant::now();
    while !notes.is_stopping() {
        let mut go_on = || -> Result<(), Error> {
            let mut consumer = consumer(address, isolation, &next)?;
            while !notes.is_stopping() {
                take(&mut consumer, process, isolation, &mut next, notes)?;
                heard = Instant::now();
            }
            Ok(())
        };
        match go_on() {
            Ok(()) => {}
            Err(error) if error.is_retriable() || matches!(error, Error::TimedOut { .. }) => {
                if heard.elapsed() > PATIENCE {
                    return Err(format!("a reader gave up: {error}"));
                }
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(format!("a reader was told: {error}")),
        }
    }
    Ok(())
}

/// Everything from the start on, up to the ends; nobody writes meanwhile, and what is still open is aborted in time.
fn read_all(address: &str, isolation: Isolation, notes: &Notes) -> Result<(), String> {
    let process = notes.process();
    let read = || -> Result<bool, Error> {
        let places: Vec<(i32, Place)> = (0..PARTITIONS).map(|at| (at, Place::End)).collect();
        let ends = |level| connect(address, PATIENCE)?.resolve(TOPIC, &places, level);
        let mut next: BTreeMap<i32, i64> = (0..PARTITIONS).map(|at| (at, 0)).collect();
        let mut consumer = consumer(address, isolation, &next)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            take(&mut consumer, process, isolation, &mut next, notes)?;
            // Aborts of what was left open add markers.
            if next == ends(Level::ReadUncommitted)? && next == ends(Level::ReadCommitted)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match read() {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("cannot be read to the end as {isolation:?}")),
        Err(error) => Err(format!("reading back: {error}")),
    }
}

fn consumer(
    address: &str,
    isolation: Isolation,
    next: &BTreeMap<i32, i64>,
) -> Result<Consumer, Error> {
    let options = ConsumerOptions {
        wait: Duration::from_millis(100),
        isolation: match isolation {
            Isolation::Committed => Level::ReadCommitted,
            Isolation::Uncommitted => Level::ReadUncommitted,
        },
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(connect(address, PATIENCE)?, options);
    for (partition, next) in next {
        consumer.assign(TOPIC, *partition, *next)?;
    }
    Ok(consumer)
}

fn take(
    consumer: &mut Consumer,
    process: u32,
    isolation: Isolation,
    next: &mut BTreeMap<i32, i64>,
    notes: &Notes,
) -> Result<(), Error> {
    let mut op = Op::new(process, Kind::Poll, notes.now());
    op.isolation = isolation;
    for fetched in consumer.poll()? {
        let mut records = Vec::new();
        let _ = fetched.each(|record| {
            let value = record.value.and_then(Value::of).map(number_of);
            // Bytes that nobody sent become a value that nobody sent.
            records.push((record.offset, value.unwrap_or(u64::MAX)));
            ControlFlow::<()>::Continue(())
        })?;
        if !records.is_empty() {
            let key = fetched.partition as Key;
            op.polls.push(Polled { key, records });
        }
    }
    for (partition, next) in next.iter_mut() {
        *next = consumer.position(TOPIC, *partition).unwrap_or(*next);
    }
    if !op.polls.is_empty() {
        notes.done(op);
    }
    Ok(())
}
