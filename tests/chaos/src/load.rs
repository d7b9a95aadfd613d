//! Producers and a reader that go on through every death of the broker, and write down what they were told.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{
    Acks, Client, Consumer, ConsumerOptions, Error, Isolation, NewTopic, OffsetSpec, Options,
    Producer, ProducerOptions, Record,
};
use env::Env;
use parking_lot::Mutex;

use crate::ledger::{Account, Log, Value};

pub(crate) const TOPIC: &str = "chaos";
pub(crate) const PARTITIONS: i32 = 6;
/// A broker that stays away longer than this has failed the scenario.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(1);
/// A producer waits for its answers before a pause of this length.
const FLUSHED_BEFORE: Duration = Duration::from_secs(1);
/// A connection is given up that is silent for so long: longer than any answer may take, shorter than a cut of several nodes lasts.
const SILENCE_MAX: Duration = Duration::from_secs(8);

pub(crate) fn connect(address: &str, timeout: Duration) -> Result<Client, Error> {
    connect_patiently(address, timeout, SILENCE_MAX)
}

/// With another silence after which a connection is given up.
pub(crate) fn connect_patiently(
    address: &str,
    timeout: Duration,
    io_timeout: Duration,
) -> Result<Client, Error> {
    let options = Options {
        timeout,
        io_timeout,
        ..Options::default()
    };
    Client::connect(&Env::real(), address, options)
}

pub(crate) fn create_topic(address: &str, name: &str) -> Result<(), String> {
    create_replicated(address, name, 1, &[])
}

/// With so many replicas, and settings.
pub(crate) fn create_replicated(
    address: &str,
    name: &str,
    factor: i16,
    settings: &[(&str, &str)],
) -> Result<(), String> {
    let configs = settings.iter();
    let configs = configs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let configs = configs.collect();
    let topic = NewTopic {
        name: name.to_owned(),
        partitions: Some(PARTITIONS),
        replication_factor: Some(factor),
        configs,
    };
    let created =
        connect(address, PATIENCE).and_then(|mut client| client.create_topic(&topic, false));
    created.map(|_| ()).map_err(|error| error.to_string())
}

/// The topic of a load, of [`PARTITIONS`] partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) topic: &'static str,
    /// Bytes behind the value of each record.
    pub(crate) padding: usize,
}

pub(crate) const CHAOS: Subject = Subject {
    topic: TOPIC,
    padding: 0,
};

/// How one producer behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) idempotent: bool,
    /// Requests under way; a plain producer keeps its order only with one.
    pub(crate) in_flight: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) linger: Duration,
    /// Records between two pauses.
    pub(crate) burst: u64,
    pub(crate) pause: Duration,
}

impl Manner {
    pub(crate) const PLAIN: Manner = Manner {
        idempotent: false,
        in_flight: 1,
        batch_bytes: 4 << 10,
        linger: Duration::from_millis(2),
        burst: 4,
        pause: PAUSE,
    };
}

pub(crate) const PRODUCERS: usize = 5;
const MANNERS: [Manner; PRODUCERS] = [
    Manner {
        idempotent: true,
        in_flight: 5,
        batch_bytes: 4 << 10,
        burst: 4,
        ..Manner::PLAIN
    },
    Manner {
        idempotent: true,
        in_flight: 5,
        batch_bytes: 32 << 10,
        burst: 12,
        ..Manner::PLAIN
    },
    Manner {
        idempotent: true,
        in_flight: 2,
        batch_bytes: 512,
        burst: 1,
        ..Manner::PLAIN
    },
    Manner::PLAIN,
    Manner {
        batch_bytes: 1 << 10,
        burst: 1,
        ..Manner::PLAIN
    },
];

/// The load of one scenario.
pub(crate) struct Load {
    subject: Subject,
    accounts: Vec<Arc<Mutex<Account>>>,
    shown: Arc<Mutex<Log>>,
    stop: Halt,
    producers: Vec<JoinHandle<()>>,
    reader: JoinHandle<Result<(), String>>,
}

/// Ends the clients of a load when it is dropped, as where a scenario fails: the next one has nodes at the same addresses.
pub(crate) struct Halt(pub(crate) Arc<AtomicBool>);

impl Drop for Halt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A look at a load that goes on.
pub(crate) struct Gauge {
    topic: &'static str,
    accounts: Vec<Arc<Mutex<Account>>>,
    shown: Arc<Mutex<Log>>,
}

impl Gauge {
    /// Of each producer and partition its name, the records sent and those acknowledged.
    pub(crate) fn flows(&self) -> Vec<(String, Progress)> {
        let mut flows = Vec::new();
        for (producer, account) in self.accounts.iter().enumerate() {
            let account = account.lock();
            for (partition, sent) in &account.sent {
                let acked = account.acked.get(partition).map_or(0, Vec::len);
                let progress = Progress {
                    sent: sent.len(),
                    acked,
                };
                let name = format!("{}-{partition} of producer {producer}", self.topic);
                flows.push((name, progress));
            }
        }
        flows
    }

    pub(crate) fn shown(&self) -> usize {
        self.shown.lock().values().map(BTreeMap::len).sum()
    }
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) sent: usize,
    pub(crate) acked: usize,
}

impl Load {
    pub(crate) fn start(address: &str) -> Load {
        Load::of(address, CHAOS, &MANNERS)
    }

    /// Of a topic that is there.
    pub(crate) fn of(address: &str, subject: Subject, manners: &'static [Manner]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut accounts = Vec::new();
        let mut producers = Vec::new();
        for (at, manner) in manners.iter().enumerate() {
            let account = Arc::new(Mutex::new(Account {
                idempotent: manner.idempotent,
                reorders: !manner.idempotent && manner.in_flight > 1,
                ..Account::default()
            }));
            accounts.push(Arc::clone(&account));
            let (address, stop) = (address.to_owned(), Arc::clone(&stop));
            producers.push(std::thread::spawn(move || {
                if let Err(error) = produce(&address, subject, at as u16, manner, &account, &stop) {
                    account.lock().failure = Some(error.to_string());
                }
            }));
        }
        let shown = Arc::new(Mutex::new(Log::new()));
        let reader = {
            let (address, stop, shown) =
                (address.to_owned(), Arc::clone(&stop), Arc::clone(&shown));
            std::thread::spawn(move || follow(&address, subject, &shown, &stop))
        };
        Load {
            subject,
            accounts,
            shown,
            stop: Halt(stop),
            producers,
            reader,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for account in &self.accounts {
            let account = account.lock();
            progress.sent += account.sent_count();
            progress.acked += account.acked_count();
        }
        progress
    }

    /// Records acknowledged so far, by partition.
    pub(crate) fn acked_by_partition(&self) -> BTreeMap<i32, usize> {
        let mut acked: BTreeMap<i32, usize> = (0..PARTITIONS).map(|at| (at, 0)).collect();
        for account in &self.accounts {
            for (partition, told) in &account.lock().acked {
                *acked.entry(*partition).or_default() += told.len();
            }
        }
        acked
    }

    /// A view of the load for another thread.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge {
            topic: self.subject.topic,
            accounts: self.accounts.clone(),
            shown: Arc::clone(&self.shown),
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.accounts
            .iter()
            .find_map(|account| account.lock().failure.clone())
    }

    /// Waits until `more` records were acknowledged from now on.
    pub(crate) fn wait_for_acks(&self, more: usize) -> Result<(), String> {
        let goal = self.progress().acked + more;
        let begun = Instant::now();
        while self.progress().acked < goal {
            if let Some(failure) = self.failure() {
                return Err(format!("a producer stopped: {failure}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!(
                    "{more} records were not acknowledged within {} s",
                    PATIENCE.as_secs()
                ));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Lets the producers finish what they sent, and gives what everyone was told.
    pub(crate) fn finish(self) -> Result<(Vec<Account>, Log), String> {
        drop(self.stop);
        for producer in self.producers {
            producer
                .join()
                .map_err(|_| "a producer panicked".to_owned())?;
        }
        self.reader
            .join()
            .map_err(|_| "the reader panicked".to_owned())??;
        let accounts: Vec<Account> = self
            .accounts
            .iter()
            .map(|account| account.lock().clone())
            .collect();
        for (at, account) in accounts.iter().enumerate() {
            if account.failure.is_none() && account.sent_count() != account.acked_count() {
                return Err(format!(
                    "producer {at} flushed, yet not everything is acknowledged"
                ));
            }
        }
        Ok((accounts, std::mem::take(&mut *self.shown.lock())))
    }
}

fn produce(
    address: &str,
    subject: Subject,
    number: u16,
    manner: &Manner,
    account: &Mutex<Account>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let options = ProducerOptions {
        acks: Acks::All,
        batch_bytes: manner.batch_bytes,
        linger: manner.linger,
        in_flight: manner.in_flight,
        idempotent: manner.idempotent,
        report: true,
        ..ProducerOptions::default()
    };
    let mut producer = Producer::new(connect(address, PATIENCE)?, options);
    let topic = producer.topic(subject.topic)?;
    let mut serials = BTreeMap::new();
    let mut next = 0;
    while !stop.load(Ordering::Acquire) {
        for _ in 0..manner.burst {
            let value = Value {
                producer: number,
                number: next,
            };
            let partition = (next as i32 * 7 + i32::from(number)).rem_euclid(PARTITIONS);
            // Noted before it is sent: what nobody noted must not be in the log.
            account.lock().sent.entry(partition).or_default().push(next);
            next += 1;
            let bytes = value.padded_bytes(subject.padding);
            let record = Record {
                value: Some(&bytes),
                ..Record::default()
            };
            producer.send(topic, Some(partition), &record)?;
        }
        if manner.pause < FLUSHED_BEFORE {
            producer.dispatch()?;
        } else {
            // Nobody takes the answers during so long a pause.
            producer.flush()?;
        }
        note(&mut producer, account, &mut serials);
        let begun = Instant::now();
        while begun.elapsed() < manner.pause && !stop.load(Ordering::Acquire) {
            std::thread::sleep(manner.pause.min(50 * PAUSE));
        }
    }
    producer.flush()?;
    note(&mut producer, account, &mut serials);
    Ok(())
}

/// Puts each batch in its place among those of its partition; `serials` has one entry for each record that was noted. In the end, when
/// everything is acknowledged, each record stands where it was sent.
fn note(producer: &mut Producer, account: &Mutex<Account>, serials: &mut BTreeMap<i32, Vec<u64>>) {
    let deliveries = producer.take_deliveries();
    let mut account = account.lock();
    for delivery in deliveries {
        let acked = account.acked.entry(delivery.partition).or_default();
        let serials = serials.entry(delivery.partition).or_default();
        let at = serials.partition_point(|serial| *serial < delivery.serial);
        let records = delivery.records as usize;
        serials.splice(at..at, std::iter::repeat_n(delivery.serial, records));
        let offsets = (0..i64::from(delivery.records))
            .map(|place| delivery.base_offset.map(|base| base + place));
        acked.splice(at..at, offsets);
    }
}

/// Reads the topic as it grows; what was shown has to stay.
fn follow(
    address: &str,
    subject: Subject,
    shown: &Mutex<Log>,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut next: BTreeMap<i32, i64> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    let mut away: Option<Instant> = None;
    while !stop.load(Ordering::Acquire) {
        match follow_on(address, subject, &mut next, shown, stop) {
            Ok(()) => away = None,
            Err(error) if error.is_retriable() || matches!(error, Error::TimedOut { .. }) => {
                let since = *away.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(format!("the reader gave up: {error}"));
                }
                std::thread::sleep(10 * PAUSE);
            }
            // Removed before it was read.
            Err(Error::OutOfRange {
                partition,
                asked,
                log_start,
                ..
            }) if asked < log_start => {
                next.insert(partition, log_start);
            }
            Err(error) => return Err(format!("the reader was told: {error}")),
        }
    }
    Ok(())
}

fn follow_on(
    address: &str,
    subject: Subject,
    next: &mut BTreeMap<i32, i64>,
    shown: &Mutex<Log>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut consumer = consumer(address, subject, next)?;
    while !stop.load(Ordering::Acquire) {
        take(&mut consumer, subject, next, &mut shown.lock())?;
    }
    Ok(())
}

fn consumer(address: &str, subject: Subject, next: &BTreeMap<i32, i64>) -> Result<Consumer, Error> {
    let options = ConsumerOptions {
        wait: Duration::from_millis(100),
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(connect(address, PATIENCE)?, options);
    for (partition, next) in next {
        consumer.assign(subject.topic, *partition, *next)?;
    }
    Ok(consumer)
}

fn take(
    consumer: &mut Consumer,
    subject: Subject,
    next: &mut BTreeMap<i32, i64>,
    log: &mut Log,
) -> Result<(), Error> {
    for fetched in consumer.poll()? {
        let partition = fetched.partition;
        let log = log.entry(partition).or_default();
        let _ = fetched.each(|record| {
            let value = record
                .value
                .and_then(|value| Value::of_padded(value, subject.padding));
            // Bytes that nobody sent become a value that nobody sent.
            let unknown = Value {
                producer: u16::MAX,
                number: record.offset as u64,
            };
            log.insert(record.offset, value.unwrap_or(unknown));
            next.insert(partition, record.offset + 1);
            ControlFlow::<()>::Continue(())
        })?;
    }
    Ok(())
}

/// Everything that is there, up to the ends of the partitions; nobody writes meanwhile.
pub(crate) fn read_all(address: &str) -> Result<Log, String> {
    read_from(address, CHAOS).map(|(log, _)| log)
}

/// Everything that is there, and where the partitions begin.
pub(crate) fn read_from(
    address: &str,
    subject: Subject,
) -> Result<(Log, BTreeMap<i32, i64>), String> {
    let read = || -> Result<(Log, BTreeMap<i32, i64>), Error> {
        let resolve = |place: OffsetSpec| {
            let places: Vec<(i32, OffsetSpec)> = (0..PARTITIONS).map(|at| (at, place)).collect();
            let mut client = connect(address, PATIENCE)?;
            client.resolve(subject.topic, &places, Isolation::ReadUncommitted)
        };
        let (starts, ends) = (resolve(OffsetSpec::Beginning)?, resolve(OffsetSpec::End)?);
        let mut next = starts.clone();
        let mut consumer = consumer(address, subject, &next)?;
        let mut log = Log::new();
        let begun = Instant::now();
        // An answer without records says nothing: on a busy machine the broker may only have been late.
        while next.iter().any(|(at, next)| *next < ends[at]) && begun.elapsed() < PATIENCE {
            take(&mut consumer, subject, &mut next, &mut log)?;
        }
        Ok((log, starts))
    };
    let begun = Instant::now();
    loop {
        match read() {
            // The oldest records were removed meanwhile.
            Err(Error::OutOfRange { .. }) if begun.elapsed() < PATIENCE => {}
            read => return read.map_err(|error| format!("reading back: {error}")),
        }
    }
}
