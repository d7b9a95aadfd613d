//! Consume, transform, produce: copiers write what they read, and commit how far they read in the same transaction, while the broker
//! dies and copiers crash, abort and fence each other. Every input is in the committed output once, and the committed offsets are
//! all that was read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Acks, Error, Producer, ProducerOptions, Record};
use parking_lot::Mutex;
use sim::checker::Outcome as Told;

use crate::kills::Moments;
use crate::ledger::Value;
use crate::load::{PARTITIONS, connect, create_topic};
use crate::place::Place;
use crate::reading::{Reading, Taken};
use crate::site::Site;
use crate::txn::{PATIENCE, PAUSE, Tally, TxnProducer};
use crate::{Outcome, Plan, Verdict};

const INPUT: &str = "eos-in";
const OUTPUT: &str = "eos-out";
const GROUP: &str = "eos-copiers";
/// Transactional id, its protocol, and the partitions that go with it. Two share each id but the first, and fence each other.
const COPIERS: [(&str, bool, [i32; 2]); 5] = [
    ("eos-0", false, [0, 1]),
    ("eos-1", false, [2, 3]),
    ("eos-1", false, [2, 3]),
    ("eos-2", true, [4, 5]),
    ("eos-2", true, [4, 5]),
];
/// Records of one transaction.
const TAKE_MAX: u64 = 100;
/// Transactions between two deaths.
const COMMITS: u64 = 10;

struct Notes {
    tally: Mutex<Tally>,
    stop: AtomicBool,
}

impl Notes {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

struct Copier {
    address: String,
    partitions: [i32; 2],
    producer: TxnProducer,
    moments: Moments,
    notes: Arc<Notes>,
    reading: Reading,
    /// Read, and in no transaction yet.
    taken: VecDeque<Taken>,
}

impl Copier {
    fn work(&mut self) -> Result<(), String> {
        while !self.notes.is_stopping() {
            // From here on whatever another of this id began is aborted, and its offsets are nobody's.
            self.producer.init()?;
            self.rewind()?;
            while !self.notes.is_stopping() && self.copy()? {}
        }
        Ok(())
    }

    /// To what is committed: what was read beyond that is read again.
    fn rewind(&mut self) -> Result<(), String> {
        let from = self.producer.committed(GROUP, INPUT, &self.partitions)?;
        self.reading = Reading::new(&self.address, INPUT, from);
        self.taken.clear();
        Ok(())
    }

    /// One transaction, if there is anything to copy; false when this copier ends with it.
    fn copy(&mut self) -> Result<bool, String> {
        if self.taken.is_empty() {
            self.taken.extend(self.reading.poll()?);
        }
        let count = (1 + self.moments.next(TAKE_MAX)).min(self.taken.len() as u64);
        let mut offsets = BTreeMap::new();
        let mut values: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
        for taken in self.taken.drain(..count as usize) {
            offsets.insert(taken.partition, taken.offset + 1);
            let target = (taken.partition + taken.offset as i32).rem_euclid(PARTITIONS);
            values.entry(target).or_default().push(taken.value);
        }
        if offsets.is_empty() {
            return Ok(true);
        }
        self.notes.tally.lock().open += 1;
        self.producer.begin();
        let parts = values.iter();
        let mut parts: Vec<_> = parts
            .map(|(target, values)| self.producer.part(*target, values))
            .collect();
        let written = match self.moments.next(2) {
            0 => self
                .producer
                .commit_offsets(GROUP, INPUT, &offsets)
                .and_then(|()| self.producer.write(&mut parts)),
            _ => self
                .producer
                .write(&mut parts)
                .and_then(|()| self.producer.commit_offsets(GROUP, INPUT, &offsets)),
        };
        let ended = match written {
            Ok(()) if self.moments.next(15) == 0 => Ok(None),
            Ok(()) => {
                if self.moments.next(20) == 0 {
                    // Long enough that another of the id may take over meanwhile.
                    std::thread::sleep(Duration::from_millis(self.moments.next(300)));
                }
                let committed = self.moments.next(5) > 0;
                self.producer.end(committed).map(Some)
            }
            Err(end) => Err(end),
        };
        let (outcome, goes_on) = self.notes.tally.lock().settle(ended)?;
        if !goes_on {
            self.producer.drop_connection();
            // So that two of one id do not keep each other from everything.
            std::thread::sleep(Duration::from_millis(self.moments.next(400)));
        } else if outcome == Told::Fail {
            self.rewind()?;
        }
        Ok(goes_on)
    }
}

/// Writes inputs until it is told to stop; how many.
pub(crate) fn feed(
    address: &str,
    topic: &str,
    pause: Duration,
    stop: &AtomicBool,
) -> Result<u64, Error> {
    let options = ProducerOptions {
        acks: Acks::All,
        linger: Duration::from_millis(2),
        idempotent: true,
        ..ProducerOptions::default()
    };
    let mut producer = Producer::new(connect(address, PATIENCE)?, options);
    let topic = producer.topic(topic)?;
    let mut next = 0;
    while !stop.load(Ordering::Acquire) {
        let bytes = input(next).bytes();
        let record = Record {
            value: Some(&bytes),
            ..Record::default()
        };
        producer.send(topic, Some(next as i32 % PARTITIONS), &record)?;
        producer.dispatch()?;
        next += 1;
        std::thread::sleep(pause);
    }
    producer.flush()?;
    Ok(next)
}

fn input(number: u64) -> Value {
    Value {
        producer: 0,
        number,
    }
}

struct Copying {
    address: String,
    notes: Arc<Notes>,
    stop_feeding: Arc<AtomicBool>,
    feeder: JoinHandle<Result<u64, Error>>,
    copiers: Vec<JoinHandle<Result<(), String>>>,
}

impl Copying {
    fn start(address: &str, seed: u64) -> Copying {
        let notes = Arc::new(Notes {
            tally: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let stop_feeding = Arc::new(AtomicBool::new(false));
        let feeder = {
            let (address, stop) = (address.to_owned(), Arc::clone(&stop_feeding));
            std::thread::spawn(move || feed(&address, INPUT, PAUSE / 10, &stop))
        };
        let copiers = (1..)
            .zip(COPIERS)
            .map(|(number, (id, is_old, partitions))| {
                let mut producer = TxnProducer::new(address, id, OUTPUT);
                producer.is_old = is_old;
                let mut copier = Copier {
                    address: address.to_owned(),
                    partitions,
                    producer,
                    moments: Moments(seed ^ number << 20),
                    notes: Arc::clone(&notes),
                    reading: Reading::new(address, INPUT, BTreeMap::new()),
                    taken: VecDeque::new(),
                };
                std::thread::spawn(move || copier.work().map_err(|why| format!("{id}: {why}")))
            });
        Copying {
            address: address.to_owned(),
            copiers: copiers.collect(),
            notes,
            stop_feeding,
            feeder,
        }
    }

    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
        let begun = Instant::now();
        while !done() {
            if self.copiers.iter().any(JoinHandle::is_finished) {
                return Err("a copier stopped; its words follow at the end".to_owned());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{what} in time"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn wait_for_commits(&self, more: u64) -> Result<(), String> {
        let committed = || self.notes.tally.lock().committed;
        let goal = committed() + more;
        self.wait("too few copies were committed", || committed() >= goal)
    }

    /// Lets the copiers come to the end of the input; how many inputs there are, and how far the group is.
    fn finish(self) -> Result<(u64, BTreeMap<i32, i64>, Tally), String> {
        self.stop_feeding.store(true, Ordering::Release);
        while !self.feeder.is_finished() {
            std::thread::sleep(PAUSE);
        }
        let mut offsets = BTreeMap::new();
        // They go on beyond the moment at which nothing is left to do: what they then still do must not add to it.
        let fed = |address: &str| -> Result<BTreeMap<i32, i64>, String> {
            let committed = connect(address, PATIENCE)
                .and_then(|mut client| client.committed(GROUP))
                .map_err(|error| error.to_string())?;
            let parts = committed.into_iter();
            Ok(parts
                .map(|((_, partition), committed)| (partition, committed.offset))
                .collect())
        };
        let mut inputs = None;
        let Copying { address, notes, .. } = &self;
        let reached = self.wait("the input was not copied to its end", || {
            let goal = *inputs.get_or_insert_with(|| count_inputs(address).unwrap_or(i64::MAX));
            offsets = fed(address).unwrap_or_default();
            offsets.values().sum::<i64>() >= goal
        });
        notes.stop.store(true, Ordering::Release);
        for copier in self.copiers {
            copier
                .join()
                .map_err(|_| "a copier panicked".to_owned())??;
        }
        let sent = self
            .feeder
            .join()
            .map_err(|_| "the feeder panicked".to_owned())?
            .map_err(|error| format!("the feeder was told: {error}"))?;
        reached?;
        let tally = *self.notes.tally.lock();
        Ok((sent, offsets, tally))
    }
}

fn count_inputs(address: &str) -> Result<i64, String> {
    let mut count = 0;
    read(address, INPUT, |_| count += 1)?;
    Ok(count)
}

pub(crate) fn read(
    address: &str,
    topic: &'static str,
    mut each: impl FnMut(Taken),
) -> Result<(), String> {
    let start = (0..PARTITIONS).map(|at| (at, 0)).collect();
    Reading::new(address, topic, start).read_to_end(|taken| {
        each(taken);
        Ok(())
    })
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    judged(plan, place, Site::of_kills(plan, place)?, plan.kills)
}

pub(crate) fn cuts(plan: &Plan, place: &Place) -> Outcome {
    Site::with_power(plan, place, |site| judged(plan, place, site, plan.cuts))
}

fn judged(plan: &Plan, place: &Place, mut site: Site, deaths: usize) -> Outcome {
    let address = site.launch.address();
    let mut moments = Moments(plan.seed);
    let mut broker = site.launch.start()?;
    create_topic(&address, INPUT)?;
    create_topic(&address, OUTPUT)?;
    let copying = Copying::start(&address, plan.seed);
    for _ in 0..deaths {
        copying.wait_for_commits(COMMITS)?;
        std::thread::sleep(Duration::from_millis(moments.next(600)));
        broker = site.strike(broker, &mut moments, || copying.notes.tally.lock().open > 0)?;
    }
    copying.wait_for_commits(COMMITS)?;
    let (sent, offsets, tally) = copying.finish()?;
    let (mut inputs, mut outputs) = (BTreeMap::new(), Vec::new());
    read(&address, INPUT, |taken| {
        inputs.insert((taken.partition, taken.offset), taken.value);
    })?;
    read(&address, OUTPUT, |taken| outputs.push(taken.value))?;
    broker.kill();
    place.say(&site.describe());
    place.say(&format!(
        "{sent} inputs, {} outputs; {tally}",
        outputs.len()
    ));
    judge(sent, &inputs, outputs, &offsets)?;
    site.launch.check_words()?;
    site.check_hits()?;
    tally.check()?;
    Ok(Verdict::Passed)
}

/// Every input that was acknowledged is there, in the output exactly once, and behind the committed offset of its partition.
pub(crate) fn judge(
    sent: u64,
    inputs: &BTreeMap<(i32, i64), Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    offsets: &BTreeMap<i32, i64>,
) -> Result<(), String> {
    let mut left: BTreeMap<&[u8], (i32, i64)> = BTreeMap::new();
    for (at, value) in inputs {
        left.insert(value, *at);
    }
    if left.len() != inputs.len() || left.len() as u64 != sent {
        return Err(format!(
            "{sent} inputs were acknowledged, {} different ones are in {} records",
            left.len(),
            inputs.len()
        ));
    }
    for output in &outputs {
        if left.remove(output.as_slice()).is_none() {
            return Err(match Value::of(output) {
                Some(value) => format!("{value:?} is in the output twice, or never was an input"),
                None => "the output has what nobody sent".to_owned(),
            });
        }
    }
    if let Some(at) = left.values().next() {
        return Err(format!(
            "the input at {at:?} and {} others are not in the output",
            left.len() - 1
        ));
    }
    for partition in 0..PARTITIONS {
        let end = inputs.range((partition, 0)..(partition + 1, 0));
        let end = end.last().map_or(0, |((_, offset), _)| offset + 1);
        let committed = offsets.get(&partition).copied().unwrap_or(0);
        if committed != end {
            return Err(format!(
                "{committed} is committed of partition {partition}, which ends at {end}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_in_the_output_once_or_it_is_said() {
        let bytes = |number| input(number).bytes();
        let inputs: BTreeMap<(i32, i64), Vec<u8>> = (0..4_u64)
            .map(|number| ((number as i32 % 2, number as i64 / 2), bytes(number)))
            .collect();
        let offsets = BTreeMap::from([(0, 2), (1, 2)]);
        let judge = |sent, outputs: &[u64], offsets: &BTreeMap<i32, i64>| {
            let outputs = outputs.iter().map(|number| bytes(*number)).collect();
            super::judge(sent, &inputs, outputs, offsets)
        };
        assert_eq!(judge(4, &[2, 1, 0, 3], &offsets), Ok(()));
        for (sent, outputs) in [
            (4, &[2, 1, 0][..]),
            (4, &[2, 1, 0, 3, 2]),
            (4, &[2, 1, 0, 3, 9]),
            (5, &[2, 1, 0, 3]),
        ] {
            assert!(judge(sent, outputs, &offsets).is_err(), "{outputs:?}");
        }
        let behind = BTreeMap::from([(0, 2), (1, 1)]);
        assert!(judge(4, &[2, 1, 0, 3], &behind).is_err());
    }
}
