//! Two brokers under one set of metadata, and the requests between them, which are carried by hand.

use std::time::Duration;

use bytes::Bytes;
use meta::Record;
use model::ProducerId;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{InitProducerIdRequest, ProduceRequest};
use wire::metadata::register_broker_record::BrokerEndpoint;
use wire::metadata::{PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};
use wire::records::BatchBuilder;
use wire::{Message, Request, Uuid, Writer};

use crate::coordinate::remote::{self, Errand};
use crate::event_loop::bench::{Bench, encoded};
use crate::peers::{Answer, Encodable};

/// The broker that coordinates transactions and leads partition 0 of [`TOPIC`].
pub(super) const FIRST: usize = 0;
/// The one that coordinates groups and leads partition 1.
pub(super) const SECOND: usize = 1;

pub(super) const TOPIC: &str = "t";
pub(super) const ID: &str = "x";
pub(super) const GROUP: &str = "g";

pub(super) const TOPIC_ID: Uuid = Uuid([7; 16]);
const GROUPS_ID: Uuid = Uuid([8; 16]);
const TXNS_ID: Uuid = Uuid([9; 16]);

/// How soon a marker is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// The way of a request to the other broker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Net {
    Works,
    /// Each request fails, before it is there.
    Down,
}

pub(super) struct Pair {
    pub(super) benches: [Bench; 2],
    pub(super) net: Net,
    /// How many requests of each kind were carried: markers, joins.
    pub(super) carried: (usize, usize),
}

pub(super) fn broker_id(at: usize) -> i32 {
    i32::try_from(at).expect("one of two") + 1
}

fn registered(at: usize) -> Record {
    let id = broker_id(at);
    let end_points = vec![BrokerEndpoint {
        name: "PLAINTEXT".to_owned(),
        host: format!("b{id}"),
        port: 9092,
        ..BrokerEndpoint::default()
    }];
    let record = RegisterBrokerRecord {
        broker_id: id,
        broker_epoch: 1000,
        end_points,
        ..RegisterBrokerRecord::default()
    };
    record.into()
}

fn topic(name: &str, topic_id: Uuid, leaders: &[usize]) -> Vec<Record> {
    let name = name.to_owned();
    let mut records = vec![TopicRecord { name, topic_id }.into()];
    for (partition_id, at) in (0..).zip(leaders) {
        let record = PartitionRecord {
            partition_id,
            topic_id,
            isr: vec![broker_id(*at)],
            leader: broker_id(*at),
            leader_epoch: 0,
            directories: vec![Uuid::ZERO; 2],
            replicas: vec![broker_id(FIRST), broker_id(SECOND)],
            ..PartitionRecord::default()
        };
        records.push(record.into());
    }
    records
}

/// A replica on another broker leads, alone in sync, or nobody with -1.
pub(super) fn led_by(topic_id: Uuid, partition_id: i32, leader: i32) -> Record {
    PartitionChangeRecord {
        partition_id,
        topic_id,
        leader,
        isr: Some(vec![leader.max(1)]),
        ..PartitionChangeRecord::default()
    }
    .into()
}

pub(super) fn data_led_by(partition: i32, leader: i32) -> Record {
    led_by(TOPIC_ID, partition, leader)
}

pub(super) fn groups_led_by(leader: i32) -> Record {
    led_by(GROUPS_ID, 0, leader)
}

pub(super) fn txns_led_by(leader: i32) -> Record {
    led_by(TXNS_ID, 0, leader)
}

/// The log of transactions has these replicas in sync, under the same leader.
pub(super) fn txns_in_sync(isr: &[i32]) -> Record {
    PartitionChangeRecord {
        partition_id: 0,
        topic_id: TXNS_ID,
        isr: Some(isr.to_vec()),
        ..PartitionChangeRecord::default()
    }
    .into()
}

pub(super) fn topic_is_deleted() -> Record {
    wire::metadata::RemoveTopicRecord { topic_id: TOPIC_ID }.into()
}

impl Pair {
    pub(super) fn new() -> Pair {
        let benches = [FIRST, SECOND].map(|at| {
            let id = broker_id(at).to_string();
            let mut bench = Bench::with(&[("node.id", &id)]);
            // Its first producer ids, before it knows of metadata that it did not write.
            let init = InitProducerIdRequest {
                transactional_id: None,
                transaction_timeout_ms: 1000,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            };
            bench.put(&encoded(&init, 4));
            let begun = loop {
                bench.commit();
                if let Some(begun) = bench.answer::<InitProducerIdRequest>(4) {
                    break begun;
                }
            };
            assert_eq!(begun.error_code, 0);
            let mut records = vec![registered(1 - at)];
            records.extend(topic(TOPIC, TOPIC_ID, &[FIRST, SECOND]));
            records.extend(topic(meta::name::OFFSETS, GROUPS_ID, &[SECOND]));
            records.extend(topic(meta::name::TRANSACTIONS, TXNS_ID, &[FIRST]));
            bench.publish(&records);
            bench
        });
        Pair {
            benches,
            net: Net::Works,
            carried: (0, 0),
        }
    }

    pub(super) fn publish(&mut self, records: &[Record]) {
        for bench in &mut self.benches {
            bench.publish(records);
        }
    }

    /// Lets both do what they can, until nothing is left to do.
    pub(super) fn run(&mut self) {
        loop {
            let mut is_busy = false;
            for at in [FIRST, SECOND] {
                let bench = &mut self.benches[at];
                bench.turn_coordinators();
                bench.write_decisions();
                is_busy |= 0 < bench.news_count();
                for errand in bench.shard.coordinating().take_errands() {
                    is_busy = true;
                    self.carry(at, errand);
                    self.benches[at].tell();
                }
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Has the other broker answer a request; the one that asked learns of it in its next turn.
    pub(super) fn carry(&mut self, from: usize, errand: Errand) {
        let to = 1 - from;
        assert_eq!(errand.to.0, broker_id(to));
        let answer = match (self.net, errand.request) {
            (Net::Down, _) => None,
            (Net::Works, remote::Request::Marks(request)) => {
                self.carried.0 += 1;
                let (version, body) = (2, self.ask_peer(to, &request, 2));
                Some(Answer { version, body })
            }
            (Net::Works, remote::Request::Joins(request)) => {
                self.carried.1 += 1;
                let (version, body) = (5, self.ask_peer(to, &request, 5));
                Some(Answer { version, body })
            }
            (Net::Works, remote::Request::Question(question)) => {
                let version = question.version_max();
                let version = version.min(question.key().max_version_stable());
                let frame = question.frame(version, 1).expect("it says all of it");
                let bench = &mut self.benches[to];
                bench.put(&frame);
                bench.commit();
                let body = bench.answer_body(question.key(), version);
                let body = body.expect("nothing is waited for");
                Some(Answer { version, body })
            }
        };
        let shard = &mut self.benches[from].shard;
        shard.coordinating().on_replied(errand.key, answer);
    }

    fn ask_peer<R: Request>(&mut self, at: usize, request: &R, version: i16) -> Bytes
    where
        R::Response: Message,
    {
        let bench = &mut self.benches[at];
        bench.put(&encoded(request, version));
        bench.commit();
        let response = bench.answer::<R>(version).expect("nothing is waited for");
        let mut writer = Writer::new();
        response
            .encode(&mut writer, version)
            .expect("it was decoded");
        writer.finish().into_bytes().expect("no files")
    }

    /// Puts a request and runs until both are idle.
    pub(super) fn put<R: Request>(&mut self, at: usize, request: &R, version: i16) {
        self.benches[at].put(&encoded(request, version));
        self.run();
    }

    pub(super) fn answer<R: Request>(&mut self, at: usize, version: i16) -> Option<R::Response> {
        self.benches[at].answer::<R>(version)
    }

    pub(super) fn ask<R: Request>(&mut self, at: usize, request: &R, version: i16) -> R::Response {
        self.put(at, request, version);
        self.answer::<R>(at, version).expect("an answer")
    }

    pub(super) fn pass(&mut self, time: Duration) {
        for bench in &mut self.benches {
            bench.pass(time);
            bench.shard.coordinating().retry_markings();
        }
        self.run();
    }

    /// A producer with a transactional id.
    pub(super) fn init(&mut self) -> i64 {
        let init = InitProducerIdRequest {
            transactional_id: Some(ID.to_owned()),
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let begun = self.ask::<InitProducerIdRequest>(FIRST, &init, 4);
        assert_eq!((begun.error_code, begun.producer_epoch), (0, 0));
        begun.producer_id
    }
}

/// A transactional produce of one record.
pub(super) fn produce(producer: i64, epoch: i16, sequence: i32, index: i32) -> ProduceRequest {
    let mut batch = BatchBuilder::new()
        .producer(
            ProducerId(producer),
            model::ProducerEpoch(epoch),
            model::Sequence(sequence),
        )
        .transactional();
    batch.push(model::Timestamp::NONE, None, Some(b"v"), &[]);
    ProduceRequest {
        transactional_id: Some(ID.to_owned()),
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            topic_id: Uuid::ZERO,
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(batch.build().to_bytes().into()),
            }],
        }],
    }
}
