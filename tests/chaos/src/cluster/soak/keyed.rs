//! A load of keys on a compacted topic: each key has a number that only rises, and in the end its last one must be there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use client::{
    Consumer, ConsumerOptions, Error, Isolation, OffsetSpec, Producer, ProducerOptions, Record,
};

use super::monitor::Health;
use crate::load::{PARTITIONS, connect};

pub(super) const TOPIC: &str = "compacted";
const KEYS: u64 = 600;
/// Bytes behind each number, so that a segment is full within half a minute.
const PADDING: usize = 256;
const PAUSE: Duration = Duration::from_millis(1);
const BURST: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(40);

/// Writes until the soak is over, and reads everything back; what was there.
pub(super) fn write(bootstrap: &str, health: &Health) -> Result<String, String> {
    let mut next = 0;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let padding = ".".repeat(PADDING);
    let mut write = || -> Result<(), Error> {
        let options = ProducerOptions {
            batch_bytes: 4 << 10,
            linger: Duration::from_millis(1),
            ..ProducerOptions::default()
        };
        let mut producer = Producer::new(connect(bootstrap, PATIENCE)?, options);
        let topic = producer.topic(TOPIC)?;
        while !health.is_over() {
            for _ in 0..BURST {
                // Some keys are written often, most seldom.
                let key = next * next % KEYS;
                let (name, value) = (format!("key-{key}"), format!("{next} {padding}"));
                let record = Record {
                    key: Some(name.as_bytes()),
                    value: Some(value.as_bytes()),
                    ..Record::default()
                };
                producer.send(topic, Some(partition_of(key)), &record)?;
                last.insert(key, next);
                next += 1;
            }
            producer.dispatch()?;
            std::thread::sleep(PAUSE);
        }
        producer.flush()
    };
    write().map_err(|error| format!("{TOPIC}: the producer stopped: {error}"))?;
    let there = read(bootstrap).map_err(|error| format!("{TOPIC}: reading back: {error}"))?;
    let mut latest: BTreeMap<u64, u64> = BTreeMap::new();
    for (partition, key, number) in &there {
        if partition_of(*key) != *partition || *number >= next || number * number % KEYS != *key {
            return Err(format!(
                "{TOPIC}: {number} of key {key} was never sent to {partition}"
            ));
        }
        let before = latest.insert(*key, *number);
        if before.is_some_and(|before| before >= *number) {
            return Err(format!("{TOPIC}: key {key} has {number} behind {before:?}"));
        }
    }
    match last
        .iter()
        .find(|(key, number)| latest.get(*key) != Some(number))
    {
        Some((key, number)) => Err(format!(
            "{TOPIC}: {number} was acknowledged as the last of key {key}, {:?} is there",
            latest.get(key)
        )),
        None => Ok(format!(
            "{TOPIC}: {next} records acknowledged, {} there, the last of each of {} keys among them",
            there.len(),
            last.len()
        )),
    }
}

fn partition_of(key: u64) -> i32 {
    (key % PARTITIONS as u64) as i32
}

/// Partition, key and number of each record, in order.
fn read(bootstrap: &str) -> Result<Vec<(i32, u64, u64)>, Error> {
    let mut client = connect(bootstrap, PATIENCE)?;
    let mut resolve = |place: OffsetSpec| {
        let places: Vec<(i32, OffsetSpec)> = (0..PARTITIONS).map(|at| (at, place)).collect();
        client.resolve(TOPIC, &places, Isolation::ReadUncommitted)
    };
    let (starts, ends) = (resolve(OffsetSpec::Beginning)?, resolve(OffsetSpec::End)?);
    let options = ConsumerOptions {
        wait: Duration::from_millis(100),
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(client, options);
    for (partition, start) in &starts {
        consumer.assign(TOPIC, *partition, *start)?;
    }
    let (begun, mut there) = (Instant::now(), Vec::new());
    let is_behind = |consumer: &Consumer| {
        ends.iter().any(|(partition, end)| {
            let position = consumer.position(TOPIC, *partition);
            position.is_none_or(|position| position < *end)
        })
    };
    while is_behind(&consumer) && begun.elapsed() < PATIENCE {
        for fetched in consumer.poll()? {
            let partition = fetched.partition;
            let _ = fetched.each(|record| {
                // Bytes that nobody sent become a number that nobody sent.
                let key = text(record.key).and_then(|text| text.strip_prefix("key-")?.parse().ok());
                let number =
                    text(record.value).and_then(|text| text.split_once(' ')?.0.parse().ok());
                there.push((
                    partition,
                    key.unwrap_or(0),
                    number.unwrap_or(u64::from(u32::MAX)),
                ));
                ControlFlow::<()>::Continue(())
            })?;
        }
    }
    Ok(there)
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?).ok()
}
