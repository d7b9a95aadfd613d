//! A volume that fills up: producers are refused with an error that asks them to try again, everything else works, and the
//! broker goes on by itself when there is room.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use client::{Client, Error, Producer, ProducerOptions, Record};

use crate::broker::Launch;
use crate::ledger::{Account, Log, Value};
use crate::load::{PARTITIONS, TOPIC, connect, create_topic, read_all};
use crate::place::Place;
use crate::volume::{FileSystem, Volume};
use crate::{Outcome, Plan, Verdict};

const TIMEOUT: Duration = Duration::from_secs(2);
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// A producer that writes one batch at a time and says how it went.
struct Probe<'a> {
    address: &'a str,
    account: Account,
    next: u64,
}

impl Probe<'_> {
    fn write(&mut self, count: u64) -> Result<(), Error> {
        let client: Client = connect(self.address, TIMEOUT)?;
        // Plain: what is refused may have to be given up, which an idempotent producer does not survive.
        let options = ProducerOptions {
            idempotent: false,
            in_flight: 1,
            report: true,
            ..ProducerOptions::default()
        };
        let mut producer = Producer::new(client, options);
        let topic = producer.topic(TOPIC)?;
        let partition = (self.next % PARTITIONS as u64) as i32;
        let first = self.next;
        for number in first..first + count {
            let bytes = Value {
                producer: 0,
                number,
            }
            .bytes();
            self.next += 1;
            producer.send(
                topic,
                Some(partition),
                &Record {
                    value: Some(&bytes),
                    ..Record::default()
                },
            )?;
        }
        let done = producer.flush();
        let sent = self.account.sent.entry(partition).or_default();
        if done.is_ok() {
            sent.extend(first..first + count);
            for delivery in producer.take_deliveries() {
                let acked = self.account.acked.entry(partition).or_default();
                acked.extend(
                    (0..i64::from(delivery.records))
                        .map(|at| delivery.base_offset.map(|base| base + at)),
                );
            }
        }
        done
    }

    fn wait_until_it_works(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            match self.write(10) {
                Ok(()) => return Ok(begun.elapsed()),
                Err(error) if begun.elapsed() > RECOVERY_MAX => {
                    return Err(format!("still refused: {error}"));
                }
                Err(_) => {}
            }
        }
    }

    /// Fills until the broker refuses, and checks how.
    fn wait_until_it_is_refused(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < RECOVERY_MAX {
            let Err(error) = self.write(200) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            return match error.code() {
                Some(code) if code.is_retriable() => Ok(()),
                other => Err(format!(
                    "refused with {other:?} ({error}), which does not ask to try again"
                )),
            };
        }
        Err("a full volume took everything".to_owned())
    }
}

/// Takes all room but `left` bytes away from the broker.
fn fill(mount: &Path, left: u64) -> Result<File, String> {
    let path = mount.join("neighbour");
    let mut file = File::create(&path).map_err(|error| error.to_string())?;
    let chunk = vec![7; 1 << 20];
    // Until the disk says no; then give `left` back.
    while file.write_all(&chunk).is_ok() {}
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    file.set_len(len.saturating_sub(left))
        .map_err(|error| error.to_string())?;
    file.sync_all().map_err(|error| error.to_string())?;
    Ok(file)
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let volume = match Volume::new(place, "full", FileSystem::Ext4, 320) {
        Ok(volume) => volume,
        Err(why) => {
            return Ok(Verdict::Skipped(format!(
                "needs root and loop devices ({why})"
            )));
        }
    };
    let launch = Launch::new(plan, place, &volume.mount.join("data"))?;
    let mut broker = launch.start()?;
    let address = launch.address();
    create_topic(&address, TOPIC)?;
    create_topic(&address, "ballast")?;
    let mut probe = Probe {
        address: &address,
        account: Account::default(),
        next: 0,
    };
    for _ in 0..20 {
        probe
            .write(300)
            .map_err(|error| format!("before it was full: {error}"))?;
    }
    // Once with the broker's reserve left, once with nothing.
    for left in [32 << 20, 0] {
        let neighbour = fill(&volume.mount, left)?;
        probe.wait_until_it_is_refused()?;
        if !broker.is_running() {
            return Err(format!(
                "the broker ended on a full volume: {}",
                launch.last_words()
            ));
        }
        let there = read_all(&address).map_err(|why| format!("with {left} bytes left: {why}"))?;
        let records: usize = there.values().map(|log| log.len()).sum();
        if records < probe.account.acked_count() {
            return Err(format!(
                "{records} records are readable, {} were acknowledged",
                probe.account.acked_count()
            ));
        }
        let deleted =
            connect(&address, TIMEOUT).and_then(|mut client| client.delete_topic("ballast"));
        deleted.map_err(|error| {
            format!("a topic cannot be deleted with {left} bytes left: {error}")
        })?;
        neighbour.set_len(0).map_err(|error| error.to_string())?;
        let waited = probe.wait_until_it_works()?;
        place.say(&format!(
            "refused with {} MiB left, works again {:.1} s after there was room",
            left >> 20,
            waited.as_secs_f64()
        ));
        create_topic(&address, "ballast")?;
    }
    broker.kill();
    let broker = launch.start()?;
    let log = read_all(&address)?;
    broker.kill();
    let counts = judge(&probe, &log)?;
    place.say(&format!("{counts} records acknowledged and there"));
    launch.check_words()?;
    Ok(Verdict::Passed)
}

/// A refused record may be there or not; it was never acknowledged. Everything else has its place.
fn judge(probe: &Probe<'_>, log: &Log) -> Result<usize, String> {
    let mut count = 0;
    for (partition, offsets) in &probe.account.acked {
        for (offset, number) in offsets.iter().zip(&probe.account.sent[partition]) {
            let value = Value {
                producer: 0,
                number: *number,
            };
            let there = offset.and_then(|offset| log.get(partition)?.get(&offset));
            if there != Some(&value) {
                return Err(format!(
                    "{value:?} was acknowledged at {partition}/{offset:?}, there is {there:?}"
                ));
            }
            count += 1;
        }
    }
    let mut values = log.values().flat_map(|log| log.values());
    match values.find(|value| value.producer != 0 || value.number >= probe.next) {
        Some(phantom) => Err(format!("{phantom:?} was never sent")),
        None => Ok(count),
    }
}
