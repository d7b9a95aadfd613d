//! Every record is read once and in order, whatever the broker and the network do.

use std::ops::ControlFlow;

use std::time::Duration;

use client::{
    Client, Consumer, ConsumerOptions, Error, Options, Outage, Outages, Producer, ProducerOptions,
    Record, Skipped,
};
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

fn offsets_of(consumer: &mut Consumer, end: i64) -> Vec<i64> {
    let mut offsets = Vec::new();
    while consumer.position(TOPIC, 0).is_some_and(|next| next < end) {
        for fetched in consumer.poll().unwrap() {
            let _: ControlFlow<()> = fetched
                .each(|record| {
                    offsets.push(record.offset);
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
    }
    offsets
}

#[test]
fn rot_stops_a_reader_with_its_place_and_is_passed_over_where_that_is_wanted() {
    static SKIPPED: std::sync::Mutex<Vec<Skipped>> = std::sync::Mutex::new(Vec::new());
    let fake = filled(1, 300);
    let rotten = {
        let mut state = fake.0.lock().unwrap();
        let batches = &state.logs[0].batches;
        assert!(
            batches.len() > 8,
            "the rot is in the middle: {}",
            batches.len()
        );
        let range = |at: usize| batches[at].base_offset().0..batches[at].next_offset().0;
        let rotten = vec![range(2), range(4).start..range(5).end];
        state.rotten.clone_from(&rotten);
        rotten
    };
    let consumer = |options: ConsumerOptions| {
        let bounds = Options {
            timeout: Duration::from_millis(200),
            ..Options::default()
        };
        let client = Client::connect(&fake.env(), "fake:9092", bounds).unwrap();
        let mut consumer = Consumer::new(client, options);
        consumer.assign(TOPIC, 0, 0).unwrap();
        consumer
    };
    let mut stopped = consumer(ConsumerOptions::default());
    let error = loop {
        match stopped.poll() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.damage(), Some((TOPIC, 0, rotten[0].start)));
    let next = stopped.client().next_good(TOPIC, 0, rotten[0].start);
    assert_eq!(next.unwrap(), Some(rotten[0].end));

    let mut passing = consumer(ConsumerOptions {
        skip_damaged: Some(|skipped| SKIPPED.lock().unwrap().push(skipped.clone())),
        ..ConsumerOptions::default()
    });
    let want: Vec<i64> = (0..300)
        .filter(|offset| !rotten.iter().any(|range| range.contains(offset)))
        .collect();
    assert_eq!(offsets_of(&mut passing, 300), want);
    let skipped = SKIPPED.lock().unwrap();
    let ranges: Vec<_> = skipped.iter().map(|it| it.from..it.to).collect();
    assert_eq!(ranges, rotten);
}

#[test]
fn a_reader_that_outlives_outages_goes_on_after_one_longer_than_its_timeout() {
    static NEWS: std::sync::Mutex<Vec<bool>> = std::sync::Mutex::new(Vec::new());
    let bounds = Options {
        timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let fake = filled(1, 30);
    let read = |outages: Outages| -> Result<usize, Error> {
        fake.0.lock().unwrap().unreachable = 0;
        let client = Client::connect(&fake.env(), "fake:9092", bounds.clone()).unwrap();
        let options = ConsumerOptions {
            outages,
            ..ConsumerOptions::default()
        };
        let mut consumer = Consumer::new(client, options);
        consumer.assign(TOPIC, 0, 0).unwrap();
        // Their pauses, each at least half of 50, 100, 200, 400, 800, 1000 and 1000 ms, are far longer than the timeout.
        fake.0.lock().unwrap().unreachable = 7;
        consumer.poll().map(|fetched| fetched.len())
    };
    assert!(matches!(
        read(Outages::Bounded),
        Err(Error::TimedOut { .. })
    ));
    let report = |outage: Outage<'_>| {
        let began = matches!(outage, Outage::Began(_));
        NEWS.lock().unwrap().push(began);
    };
    assert_eq!(read(Outages::Outlived(report)).unwrap(), 1);
    assert_eq!(*NEWS.lock().unwrap(), [true, false]);
}
