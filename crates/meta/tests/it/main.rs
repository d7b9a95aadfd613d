//! The promises of the metadata crate: Kafka's records, Kafka's answers, and an image that equals a model of it.

mod answers;
mod changes;
mod controllers;
mod delta;
mod isrs;
mod leaders;
mod members;
mod model;
mod records;
mod replay;
mod snapshot;

use std::collections::BTreeMap;

use ::config::{Broker, Machine, Settings};
use ::model::BrokerId;
use meta::decide::register_broker;
use meta::record::decode;
use meta::{Endpoint, Image, Record, SecurityProtocol};
use wire::Uuid;

/// A broker with the settings of `text`, one `name=value` each line.
fn broker(text: &str) -> Broker {
    let mut settings = Settings::default();
    settings
        .read(text, config::Format::Properties)
        .expect("known settings");
    Broker::new(
        settings,
        Machine {
            cores: 2,
            memory_bytes: 0,
            descriptors: 20_000,
        },
    )
    .expect("usable settings")
}

fn uuids() -> impl FnMut() -> Uuid {
    let mut next: u64 = 0;
    move || {
        next += 1;
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&next.to_be_bytes());
        Uuid(bytes)
    }
}

/// An image with the brokers 1 to `count`, two directories each.
fn image(count: i32) -> Image {
    let mut image = Image::default();
    for id in 1..=count {
        let dir = |n: u8| Uuid([n, id as u8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
        let broker = register_broker::Broker {
            id: BrokerId(id),
            incarnation: Uuid([id as u8; 16]),
            endpoints: vec![Endpoint {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                protocol: SecurityProtocol::PLAINTEXT,
            }],
            rack: None,
            log_dirs: vec![dir(1), dir(2)],
        };
        step(&mut image, |image| {
            register_broker::register_broker(image, &broker)
        });
    }
    image
}

fn replay(image: &mut Image, records: &[Record]) {
    let written = meta::write(image, image.next_place(), records).expect("decided records fit");
    // The record that is replayed is the one that was written.
    let read = |value| decode(value).expect("an encoded record can be decoded");
    let read: Vec<Record> = written.values.into_iter().map(read).collect();
    assert_eq!(read, records);
    image
        .replay(image.next_place(), &read)
        .expect("a decided record fits the image");
    assert_eq!(*image, written.image);
}

/// Decides, and makes it so.
fn step(image: &mut Image, decide: impl FnOnce(&Image) -> Vec<Record>) {
    let records = decide(image);
    replay(image, &records);
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}
