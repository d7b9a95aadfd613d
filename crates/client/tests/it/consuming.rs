//! Every record is read once and in order, whatever the broker and the network do.

use std::ops::ControlFlow;

use client::{Client, Consumer, ConsumerOptions, Options, Producer, ProducerOptions, Record};
use wire::{ApiKey, ErrorCode};

use crate::fake::{Fake, Fault, TOPIC, random};

fn filled(partitions: i32, records: usize) -> Fake {
    let fake = Fake::new(partitions as usize);
    let client = Client::connect(&fake.env(), "fake:9092", Options::default()).unwrap();
    let mut producer = Producer::new(
        client,
        ProducerOptions {
            batch_bytes: 200,
            ..ProducerOptions::default()
        },
    );
    let topic = producer.topic(TOPIC).unwrap();
    for i in 0..records {
        let value = i.to_string();
        let record = Record {
            value: Some(value.as_bytes()),
            ..Record::default()
        };
        producer
            .send(topic, Some(i as i32 % partitions), &record)
            .unwrap();
    }
    producer.flush().unwrap();
    fake
}

fn read(fake: &Fake, partitions: i32, from: i64, records: usize) -> Vec<Vec<(i64, usize)>> {
    let client = Client::connect(&fake.env(), "fake:9092", Options::default()).unwrap();
    let mut consumer = Consumer::new(client, ConsumerOptions::default());
    for partition in 0..partitions {
        consumer.assign(TOPIC, partition, from).unwrap();
    }
    let mut seen = vec![Vec::new(); partitions as usize];
    while seen.iter().map(Vec::len).sum::<usize>() < records {
        for fetched in consumer.poll().unwrap() {
            let _: ControlFlow<()> = fetched
                .each(|record| {
                    let value = std::str::from_utf8(record.value.unwrap())
                        .unwrap()
                        .parse()
                        .unwrap();
                    seen[fetched.partition as usize].push((record.offset, value));
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
    }
    seen
}

#[test]
fn every_record_is_read_once_and_in_order_under_any_faults() {
    for seed in 0..8 {
        let mut chance = random(seed);
        let fake = filled(3, 300).with_faults(move |key| match (key, chance(8)) {
            (ApiKey::Fetch, 0) => Some(Fault::LoseRequest),
            (ApiKey::Fetch, 1) => Some(Fault::LoseAnswer),
            (ApiKey::Fetch, 2) => Some(Fault::Refuse(ErrorCode::NotLeaderOrFollower)),
            _ => None,
        });
        // Less than three batches, so that answers end inside of one.
        fake.0.lock().unwrap().fetch_bytes = 500;
        for (partition, seen) in read(&fake, 3, 0, 300).iter().enumerate() {
            let want: Vec<(i64, usize)> = (0..100).map(|i| (i as i64, 3 * i + partition)).collect();
            assert_eq!(*seen, want, "seed {seed}, partition {partition}");
        }
    }
}

#[test]
fn reading_begins_inside_a_batch() {
    let fake = filled(1, 40);
    let seen = read(&fake, 1, 33, 7);
    assert_eq!(
        seen[0],
        (33..40).map(|i| (i, i as usize)).collect::<Vec<_>>()
    );
}
