//! Sent records are in the log once and in order, whatever the broker and the network do.

use client::{Acks, Client, Delivery, Error, Options, Producer, ProducerOptions, Record};
use wire::records::{Caps, Codec, RecordIter};
use wire::{ApiKey, ErrorCode};

use crate::fake::{Fake, Fault, TOPIC, random};

fn producer(fake: &Fake, options: ProducerOptions) -> Producer {
    let client = Client::connect(&fake.env(), "fake:9092", Options::default()).unwrap();
    Producer::new(client, options)
}

fn small() -> ProducerOptions {
    ProducerOptions {
        batch_bytes: 150,
        report: true,
        ..ProducerOptions::default()
    }
}

/// The values of a partition, in log order.
fn values(fake: &Fake, partition: usize) -> Vec<String> {
    let state = fake.0.lock().unwrap();
    let mut values = Vec::new();
    for batch in &state.logs[partition].batches {
        let plain = batch.plain(Caps::default()).unwrap();
        for record in RecordIter::new(&plain, batch.record_count()) {
            values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
        }
    }
    values
}

fn send(producer: &mut Producer, partition: i32, value: &str) -> Result<(), Error> {
    let topic = producer.topic(TOPIC)?;
    producer.send(
        topic,
        Some(partition),
        &Record {
            value: Some(value.as_bytes()),
            ..Record::default()
        },
    )
}

#[test]
fn every_record_is_written_once_and_in_order_under_any_faults() {
    for seed in 0..15 {
        let deliveries = writes_once_and_in_order(seed, &faulty(seed), small());
        for partition in 0..3 {
            let of_it = deliveries
                .iter()
                .filter(|delivery| delivery.partition == partition);
            let mut told: Vec<(u64, i64)> = of_it
                .filter_map(|delivery| Some((delivery.serial, delivery.base_offset?)))
                .collect();
            told.sort_unstable();
            let is_rising = told.is_sorted_by(|(_, first), (_, next)| first < next);
            assert!(is_rising, "seed {seed}, partition {partition}: {told:?}");
        }
    }
}

#[test]
fn batches_that_are_too_large_become_smaller_ones_with_every_record_once_and_in_order() {
    for seed in 0..15 {
        let fake = faulty(seed);
        fake.0.lock().unwrap().batch_bytes_max = 120;
        let codec = [Codec::None, Codec::Zstd][seed as usize % 2];
        let options = ProducerOptions {
            batch_bytes: 1000,
            compression: codec.into(),
            ..small()
        };
        writes_once_and_in_order(seed, &fake, options);
        let state = fake.0.lock().unwrap();
        let batches = state.logs.iter().flat_map(|log| &log.batches);
        assert!(batches.clone().all(|batch| batch.to_bytes().len() <= 120));
        assert!(batches.count() < 200, "records are still batched");
    }
}

fn faulty(seed: u64) -> Fake {
    let mut chance = random(seed);
    let mut quiet = 0;
    Fake::new(3).with_faults(move |key| {
        // Never twice in a row for long: the test is about exactness, not about deadlines.
        if key != ApiKey::Produce || quiet > 0 {
            quiet -= i32::from(key == ApiKey::Produce);
            return None;
        }
        quiet = chance(12) as i32;
        match chance(6) {
            0 => Some(Fault::LoseRequest),
            1 => Some(Fault::LoseAnswer),
            2 => Some(Fault::Refuse(ErrorCode::NotLeaderOrFollower)),
            3 => Some(Fault::Refuse(ErrorCode::UnknownTopicId)),
            4 => Some(Fault::LoseLead),
            _ => None,
        }
    })
}

fn writes_once_and_in_order(seed: u64, fake: &Fake, options: ProducerOptions) -> Vec<Delivery> {
    let mut producer = producer(fake, options);
    let mut sent = vec![Vec::new(); 3];
    let mut chance = random(seed + 1000);
    for i in 0..200 {
        let partition = chance(3) as usize;
        let value = format!("{partition}-{i}");
        send(&mut producer, partition as i32, &value).unwrap();
        sent[partition].push(value);
    }
    producer.flush().unwrap();
    for (partition, sent) in sent.iter().enumerate() {
        assert_eq!(
            &values(fake, partition),
            sent,
            "seed {seed}, partition {partition}"
        );
    }
    let deliveries = producer.take_deliveries();
    let delivered: i32 = deliveries.iter().map(|delivery| delivery.records).sum();
    assert_eq!(delivered, 200, "seed {seed}");
    deliveries
}

#[test]
fn a_refusal_for_good_stops_the_producer_and_tells_why() {
    let fake = Fake::new(1).with_faults(|key| {
        (key == ApiKey::Produce).then_some(Fault::Refuse(ErrorCode::MessageTooLarge))
    });
    let mut producer = producer(&fake, small());
    send(&mut producer, 0, "a").unwrap();
    let error = producer.flush().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::MessageTooLarge));
    assert!(error.to_string().contains("t-0"), "{error}");
}

#[test]
fn a_broker_that_never_takes_it_ends_in_a_timeout_with_the_reason() {
    let fake = Fake::new(1).with_faults(|key| {
        (key == ApiKey::Produce).then_some(Fault::Refuse(ErrorCode::NotEnoughReplicas))
    });
    let options = Options {
        timeout: std::time::Duration::from_millis(300),
        ..Options::default()
    };
    let client = Client::connect(&fake.env(), "fake:9092", options).unwrap();
    let mut producer = Producer::new(client, small());
    send(&mut producer, 0, "a").unwrap();
    let error = producer.flush().unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(error.code(), Some(ErrorCode::NotEnoughReplicas));
    assert_eq!(values(&fake, 0), Vec::<String>::new());
}

#[test]
fn a_producer_that_was_idle_for_long_has_all_its_time_for_an_outage() {
    let options = Options {
        timeout: std::time::Duration::from_millis(400),
        ..Options::default()
    };
    let fake = Fake::new(1);
    let client = Client::connect(&fake.env(), "fake:9092", options).unwrap();
    let mut producer = Producer::new(client, small());
    send(&mut producer, 0, "a").unwrap();
    producer.flush().unwrap();
    let idle = fake
        .env()
        .clock
        .now()
        .plus(std::time::Duration::from_millis(500));
    fake.env().threads.bell().wait(Some(idle));
    {
        let mut lost = 0;
        let mut state = fake.0.lock().unwrap();
        state.unreachable = 1;
        state.fault = Box::new(move |key| {
            lost += i32::from(key == ApiKey::Produce);
            (key == ApiKey::Produce && lost == 1).then_some(Fault::LoseRequest)
        });
    }
    send(&mut producer, 0, "b").unwrap();
    producer.flush().unwrap();
    assert_eq!(values(&fake, 0), ["a", "b"]);
}

#[test]
fn without_acks_nothing_is_waited_for() {
    let fake = Fake::new(1);
    let mut producer = producer(
        &fake,
        ProducerOptions {
            acks: Acks::None,
            idempotent: false,
            ..small()
        },
    );
    for i in 0..50 {
        send(&mut producer, 0, &i.to_string()).unwrap();
    }
    producer.flush().unwrap();
    assert_eq!(values(&fake, 0).len(), 50);
}

#[test]
fn a_partition_that_does_not_exist_is_refused_at_once() {
    let fake = Fake::new(2);
    let mut producer = producer(&fake, small());
    assert!(matches!(
        send(&mut producer, 2, "a"),
        Err(Error::NoPartition { count: 2, .. })
    ));
}
