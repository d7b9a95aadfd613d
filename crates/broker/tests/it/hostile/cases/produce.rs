//! Requests that bring records.

use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Sequence};
use wire::any::AnyRequest::Produce;
use wire::messages::ProduceRequest;
use wire::messages::produce_request as producing;
use wire::{Records, Uuid};

use super::super::scene::{self, Scene, TXN};
use super::{Cases, TOPIC, names, partitions, text};

fn batch() -> Bytes {
    scene::records(&["x", "y"]).build().to_bytes()
}

fn with_byte(at: usize, value: u8) -> Records {
    let mut bytes = batch().to_vec();
    bytes[at] = value;
    Bytes::from(bytes).into()
}

fn of_producer(id: i64, epoch: i16, sequence: i32) -> Records {
    let builder = scene::records(&["x"]);
    let builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), Sequence(sequence));
    builder.build().to_bytes().into()
}

fn topic(name: &str, records: Vec<(i32, Option<Records>)>) -> producing::TopicProduceData {
    let partition = |(index, records)| producing::PartitionProduceData { index, records };
    producing::TopicProduceData {
        name: text(name),
        topic_id: Uuid::ZERO,
        partition_data: records.into_iter().map(partition).collect(),
    }
}

fn produced(acks: i16, topic_data: Vec<producing::TopicProduceData>) -> ProduceRequest {
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 1000,
        topic_data,
    }
}

pub(super) fn produce(scene: &Scene) -> Cases {
    let good = || Some(Records::from(batch()));
    let to = |records: Records| vec![topic(TOPIC, vec![(0, Some(records))])];
    let by_name = |name: &String| topic(name, vec![(0, good())]);
    let ids = [Uuid::ZERO, Uuid([0xff; 16]), scene.topic_id, scene.topic_id];
    let by_id = |topic_id| producing::TopicProduceData {
        topic_id,
        ..topic(
            "",
            partitions()
                .into_iter()
                .map(|index| (index, good()))
                .collect(),
        )
    };
    let twice = || vec![topic(TOPIC, vec![(0, good()), (0, good())])];
    let mut cases: Cases = vec![
        ("no topics", Produce(produced(-1, Vec::new()))),
        (
            "odd topics",
            Produce(produced(-1, names().iter().map(by_name).collect())),
        ),
        ("odd ids", Produce(produced(-1, ids.map(by_id).to_vec()))),
        (
            "odd partitions",
            Produce(produced(
                1,
                vec![topic(
                    TOPIC,
                    partitions()
                        .into_iter()
                        .map(|index| (index, good()))
                        .collect(),
                )],
            )),
        ),
        ("a partition twice", Produce(produced(1, twice()))),
        ("acks 2", Produce(produced(2, twice()))),
        ("acks -2", Produce(produced(-2, twice()))),
        (
            "acks 0 to an unknown topic",
            Produce(produced(0, vec![topic("none", vec![(0, good())])])),
        ),
        (
            "acks 0 without records",
            Produce(produced(0, vec![topic(TOPIC, vec![(0, None)])])),
        ),
        (
            "no time",
            Produce(ProduceRequest {
                timeout_ms: i32::MIN,
                ..produced(-1, to(batch().into()))
            }),
        ),
        (
            "records that are null",
            Produce(produced(-1, vec![topic(TOPIC, vec![(0, None)])])),
        ),
        (
            "records of no bytes",
            Produce(produced(-1, to(Bytes::new().into()))),
        ),
        (
            "noise for records",
            Produce(produced(-1, to(Bytes::from_static(&[0xff; 100]).into()))),
        ),
        (
            "half a batch",
            Produce(produced(-1, to(batch().slice(..40).into()))),
        ),
        (
            "a batch without its last byte",
            Produce(produced(-1, to(batch().slice(..batch().len() - 1).into()))),
        ),
        (
            "a batch and a half",
            Produce(produced(
                -1,
                to(Bytes::from([&batch()[..], &batch()[..30]].concat()).into()),
            )),
        ),
        (
            "two batches",
            Produce(produced(
                -1,
                to(Bytes::from([&batch()[..], &batch()[..]].concat()).into()),
            )),
        ),
        (
            "a negative length of the batch",
            Produce(produced(-1, to(with_byte(8, 0xff)))),
        ),
        ("magic 1", Produce(produced(-1, to(with_byte(16, 1))))),
        ("magic 9", Produce(produced(-1, to(with_byte(16, 9))))),
        (
            "a wrong checksum",
            Produce(produced(-1, to(with_byte(17, 0x5a)))),
        ),
        (
            "another codec than the checksum knows",
            Produce(produced(-1, to(with_byte(22, 7)))),
        ),
        (
            "a control batch",
            Produce(produced(
                -1,
                to(scene::records(&["x"])
                    .control(ProducerId(1), ProducerEpoch(0))
                    .build()
                    .to_bytes()
                    .into()),
            )),
        ),
        (
            "a sequence that does not begin at 0",
            Produce(produced(-1, to(of_producer(77, 0, 5)))),
        ),
        (
            "a producer's negative epoch",
            Produce(produced(-1, to(of_producer(78, -1, 0)))),
        ),
        (
            "a negative sequence",
            Produce(produced(-1, to(of_producer(79, 0, -5)))),
        ),
        (
            "the highest producer id",
            Produce(produced(-1, to(of_producer(i64::MAX, i16::MAX, 0)))),
        ),
    ];
    let transactional = |id: &str, producer: i64, epoch: i16| {
        let builder = scene::records(&["x"]).producer(
            ProducerId(producer),
            ProducerEpoch(epoch),
            Sequence(0),
        );
        let records = builder.transactional().build().to_bytes();
        Produce(ProduceRequest {
            transactional_id: Some(text(id)),
            ..produced(-1, to(records.into()))
        })
    };
    cases.extend([
        ("a transaction nobody began", transactional("none", 500, 0)),
        (
            "a transaction of an empty name",
            transactional("", scene.producer_id, scene.producer_epoch),
        ),
        (
            "a partition that is not in the transaction",
            transactional(TXN, scene.producer_id, scene.producer_epoch),
        ),
        (
            "a transaction of a future epoch",
            transactional(TXN, scene.producer_id, i16::MAX),
        ),
        (
            "a transactional id without transactional records",
            Produce(ProduceRequest {
                transactional_id: Some(text(TXN)),
                ..produced(-1, to(batch().into()))
            }),
        ),
    ]);
    cases
}
