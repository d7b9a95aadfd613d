//! Transactional producers, and readers of both levels, that go on through every death of the broker; the history they make.
//!
//! A producer that crashes leaves its transaction open, and the next one of its id fences it; two share an id and fence each
//! other. Whose commit was never asked for must never be shown; whose commit was acknowledged must be there as a whole.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Consumer, ConsumerOptions, Error, Isolation as Level, OffsetSpec};
use parking_lot::Mutex;
use sim::checker::{History, Isolation, Key, Kind, Op, Polled, Sent};

use crate::children::{Clock, say};
use crate::kills::Moments;
use crate::ledger::Value;
use crate::load::{Halt, PARTITIONS, connect};
use crate::stock::{self, Records};
use crate::txn::{PATIENCE, PAUSE, Part, Tally, TxnProducer};
use crate::zombies::op_line;

/// Not that of the plain load, so that both can run at once.
pub(crate) const TOPIC: &str = "transfers";
const OPEN_PATIENCE: Duration = Duration::from_millis(500);
/// The last two share an id.
pub(crate) const IDS: [&str; 5] = ["chaos-0", "chaos-1", "chaos-2", "chaos-3", "chaos-3"];
/// Enough to notice a word and to send a signal.
const LINGER: Duration = Duration::from_millis(30);
/// The protocol that a producer speaks that is alone.
pub(crate) const OLD: &str = "old";
pub(crate) const NEW: &str = "new";

/// The notes of all clients.
struct Notes {
    clock: Clock,
    /// And how many processes there were.
    all: Mutex<(History, Tally, u32)>,
    /// Why a client stopped.
    failure: Mutex<Option<String>>,
    stop: Arc<AtomicBool>,
}

impl Notes {
    fn new() -> Arc<Notes> {
        Arc::new(Notes {
            clock: Clock::new(),
            all: Mutex::default(),
            failure: Mutex::default(),
            stop: Arc::default(),
        })
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn process(&self) -> u32 {
        let mut all = self.all.lock();
        all.2 += 1;
        all.2
    }

    fn done(&self, mut op: Op) {
        let mut all = self.all.lock();
        op.returned = self.now();
        all.0.ops.push(op);
    }

    fn noted(&self, ended: Result<(), String>) -> Result<(), String> {
        if let Err(why) = &ended {
            self.failure.lock().get_or_insert_with(|| why.clone());
        }
        ended
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

pub(crate) struct TxnLoad {
    address: String,
    notes: Arc<Notes>,
    halt: Halt,
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
                let ours = Arc::clone(&notes);
                let mut worker = Worker::new(&address, id, number as u16, moments, notes);
                let worked = worker.work().map_err(|why| format!("{id}: {why}"));
                ours.noted(worked)
            }));
        }
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            let (address, notes) = (address.to_owned(), Arc::clone(&notes));
            threads.push(std::thread::spawn(move || {
                let followed = follow(&address, isolation, &notes);
                notes.noted(followed)
            }));
        }
        TxnLoad {
            address: address.to_owned(),
            halt: Halt(Arc::clone(&notes.stop)),
            notes,
            threads,
        }
    }

    /// Transactions that are open now.
    pub(crate) fn open(&self) -> usize {
        self.notes.all.lock().1.open
    }

    /// Until a transaction is open, so that a death meets one; on a fast disk most of the time none is. The check of hits reports when none
    /// came in time.
    pub(crate) fn wait_for_open(&self) {
        let begun = Instant::now();
        while self.open() == 0 && begun.elapsed() < OPEN_PATIENCE {
            std::thread::yield_now();
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.notes.failure.lock().clone()
    }

    pub(crate) fn wait_for_commits(&self, more: u64) -> Result<(), String> {
        let committed = || self.notes.all.lock().1.committed;
        let goal = committed() + more;
        let begun = Instant::now();
        while committed() < goal {
            if let Some(why) = self.failure() {
                return Err(format!("a client stopped: {why}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{more} transactions were not committed in time"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends the load, and reads everything that is there, with a stock client as well. `others` were done by others, who have ended.
    pub(crate) fn finish(self, others: Vec<Op>) -> Result<(History, Tally), String> {
        drop(self.halt);
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| "a client panicked".to_owned())??;
        }
        for isolation in [Isolation::Committed, Isolation::Uncommitted] {
            let read = read_all(&self.address, isolation, &self.notes)?;
            let value = |bytes: &[u8]| Value::of(bytes).map_or(NOBODYS, number_of);
            stock::check(&self.address, TOPIC, level(isolation), &read, value)?;
        }
        let mut all = self.notes.all.lock();
        let (mut history, tally, _) = std::mem::take(&mut *all);
        history.ops.extend(others);
        history.ops.sort_by_key(|op| op.returned);
        history.read_to_the_end = vec![Isolation::Committed, Isolation::Uncommitted];
        Ok((history, tally))
    }
}

struct Worker {
    producer: TxnProducer,
    number: u16,
    next: u64,
    moments: Moments,
    notes: Arc<Notes>,
    process: u32,
    /// Leaves a transaction open now and then, and begins anew.
    crashes: bool,
    /// Says when all is written, and waits before it ends the transaction, so that it can be stopped there.
    lingers: bool,
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
    let mut worker = Worker::new(address, id, number, moments, ours);
    (worker.crashes, worker.lingers) = (false, true);
    worker.producer.is_old = protocol == OLD;
    // Beyond those of the readers, who count from 1.
    worker.process = 1_000 + u32::from(number);
    worker.producer.init()?;
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
    fn new(address: &str, id: &str, number: u16, moments: Moments, notes: Arc<Notes>) -> Worker {
        Worker {
            producer: TxnProducer::new(address, id, TOPIC),
            number,
            next: 0,
            moments,
            notes,
            process: 0,
            crashes: true,
            lingers: false,
        }
    }

    fn work(&mut self) -> Result<(), String> {
        while !self.notes.is_stopping() {
            self.process = self.notes.process();
            self.producer.init()?;
            // Some crash soon, some live long.
            while !self.notes.is_stopping() && self.transact()? {}
        }
        Ok(())
    }

    /// One transaction; false when the producer ends with it.
    fn transact(&mut self) -> Result<bool, String> {
        let mut op = Op::new(self.process, Kind::Txn, self.notes.now());
        let mut parts = self.parts(&mut op);
        self.notes.all.lock().1.open += 1;
        let told = self.producer.write(&mut parts);
        let mut sends = op.sends.iter_mut();
        for part in &parts {
            for (at, sent) in (0..).zip(sends.by_ref().take(part.count)) {
                sent.offset = part.base.map(|base| base + at);
            }
        }
        let ended = match told {
            Ok(()) if self.crashes && self.moments.next(15) == 0 => Ok(None),
            Ok(()) => {
                if self.lingers {
                    say("ready");
                    std::thread::sleep(LINGER);
                }
                let committed = self.moments.next(4) > 0;
                self.producer.end(committed).map(Some)
            }
            Err(end) => Err(end),
        };
        let (outcome, goes_on) = self.notes.all.lock().1.settle(ended)?;
        op.outcome = outcome;
        self.notes.done(op);
        if !goes_on {
            self.producer.drop_connection();
            // So that two of one id do not keep each other from everything.
            std::thread::sleep(Duration::from_millis(self.moments.next(400)));
        }
        Ok(goes_on)
    }

    fn parts(&mut self, op: &mut Op) -> Vec<Part> {
        self.producer.begin();
        let count = 1 + self.moments.next(8);
        let mut parts = Vec::new();
        for _ in 0..count {
            let partition = self.moments.next(PARTITIONS as u64) as i32;
            let mut values = Vec::new();
            for _ in 0..1 + self.moments.next(3) {
                let value = Value {
                    producer: self.number,
                    number: self.next,
                };
                self.next += 1;
                values.push(value.bytes());
                op.sends.push(Sent {
                    key: partition as Key,
                    offset: None,
                    value: number_of(value),
                });
            }
            parts.push(self.producer.part(partition, &values));
        }
        parts
    }
}

/// Bytes that nobody sent become a value that nobody sent.
const NOBODYS: u64 = u64::MAX;

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
fn read_all(address: &str, isolation: Isolation, notes: &Notes) -> Result<Records<u64>, String> {
    let process = notes.process();
    let read = || -> Result<bool, Error> {
        let places: Vec<(i32, OffsetSpec)> =
            (0..PARTITIONS).map(|at| (at, OffsetSpec::End)).collect();
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
        Ok(true) => Ok(read_by(process, notes)),
        Ok(false) => Err(format!("cannot be read to the end as {isolation:?}")),
        Err(error) => Err(format!("reading back: {error}")),
    }
}

fn read_by(process: u32, notes: &Notes) -> Records<u64> {
    let all = notes.all.lock();
    let ops = all.0.ops.iter().filter(|op| op.process == process);
    let polls = ops.flat_map(|op| &op.polls);
    let records = polls.flat_map(|polled| {
        let key = polled.key as i32;
        polled
            .records
            .iter()
            .map(move |(offset, value)| ((key, *offset), *value))
    });
    records.collect()
}

fn level(isolation: Isolation) -> Level {
    match isolation {
        Isolation::Committed => Level::ReadCommitted,
        Isolation::Uncommitted => Level::ReadUncommitted,
    }
}

fn consumer(
    address: &str,
    isolation: Isolation,
    next: &BTreeMap<i32, i64>,
) -> Result<Consumer, Error> {
    let options = ConsumerOptions {
        wait: Duration::from_millis(100),
        isolation: level(isolation),
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
            records.push((record.offset, value.unwrap_or(NOBODYS)));
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
