//! A client of a small broker that asks one thing at a time, through the Kafka door.

use std::borrow::Borrow;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Machine, SimConn, Step};
use wire::frame::{decode_response, encode_request};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{CreateTopicsRequest, ProduceRequest};
use wire::records::BatchBuilder;
use wire::{Reader, Request};

use crate::small_broker::PORT;

pub(crate) const NONE: i16 = 0;

pub(crate) fn creation(name: &str, num_partitions: i32) -> CreateTopicsRequest {
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 1000,
        validate_only: false,
    }
}

/// `M` is the machine, or a reference to it.
pub(crate) struct Client<M> {
    pub(crate) machine: M,
    conn: SimConn,
}

impl<M: Borrow<Machine>> Client<M> {
    pub(crate) fn of(machine: M) -> Client<M> {
        let conn = machine
            .borrow()
            .connect(PORT)
            .expect("the backlog has room");
        Client { machine, conn }
    }

    pub(crate) fn run(&self, time: Duration) {
        let machine = self.machine.borrow();
        let end = machine.now().plus(time);
        machine.alarm(end);
        while machine.now() < end && machine.step_until(end) != Step::Off {}
    }

    pub(crate) fn send<R: Request>(&self, request: &R, version: i16) {
        let encoded = encode_request(request, version, 1, None).and_then(wire::Encoded::into_bytes);
        let bytes = encoded.expect("can be encoded");
        let mut sent = 0;
        while sent < bytes.len() {
            match self.conn.send(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(_) => self.run(Duration::from_millis(1)),
            }
        }
    }

    /// The answer that comes within so many milliseconds.
    pub(crate) fn answer<R: Request>(&self, version: i16, patience_ms: u32) -> Option<R::Response> {
        let mut inbox = Vec::new();
        for _ in 0..=patience_ms {
            let mut buf = [0; 4096];
            while let Some(Ok(got @ 1..)) =
                self.conn.is_readable().then(|| self.conn.recv(&mut buf))
            {
                inbox.extend(&buf[..got]);
            }
            let whole = inbox.first_chunk::<4>().map(|len| u32::from_be_bytes(*len));
            if whole.is_some_and(|len| inbox.len() == 4 + len as usize) {
                let mut reader = Reader::new(Bytes::copy_from_slice(&inbox[4..]));
                let decoded = decode_response::<R>(&mut reader, version);
                return Some(decoded.expect("an answer").1);
            }
            self.run(Duration::from_millis(1));
        }
        None
    }

    pub(crate) fn ask<R: Request>(&self, request: &R, version: i16) -> R::Response {
        self.send(request, version);
        let answer = self.answer::<R>(version, 10_000);
        answer.expect("an answer in ten seconds")
    }

    pub(crate) fn create(&self, name: &str, num_partitions: i32) {
        assert_eq!(
            self.ask(&creation(name, num_partitions), 5).topics[0].error_code,
            NONE
        );
    }

    /// Error code and offset of a record.
    pub(crate) fn produce(&self, topic: &str, value: &[u8]) -> (i16, i64) {
        let mut builder = BatchBuilder::new();
        let now = self.machine.borrow().env().clock.wall_ms();
        builder.push(now, None, Some(value), &[]);
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![TopicProduceData {
                name: topic.to_owned(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(builder.build().to_bytes().into()),
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.ask(&request, 9);
        let partition = &response.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }
}
