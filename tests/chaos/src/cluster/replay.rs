//! An idempotent producer that sends every batch again: what was acknowledged is there once, wherever the leader is by now.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use client::{Consumer, ConsumerOptions, Error, OffsetSpec};
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{InitProducerIdRequest, ProduceRequest};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Records};

use crate::cluster::nodes::Nodes;
use crate::load::{PARTITIONS, connect};

const TOPIC: &str = "repeated";
const PARTITION: i32 = 0;
/// A leader remembers so many of each producer, as Kafka does.
const REMEMBERED: usize = 5;
const RECORDS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(50);
/// The last version that names topics.
const NAMED_PRODUCE_VERSION_MAX: i16 = 12;

struct Batch {
    records: Records,
    base: i64,
}

pub(crate) struct Replayer {
    identity: (i64, i16),
    next: i32,
    batches: Vec<Batch>,
}

impl Replayer {
    pub(crate) fn new(nodes: &Nodes) -> Result<Replayer, String> {
        nodes.create(TOPIC)?;
        let init = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: -1,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let begun = Instant::now();
        loop {
            let told = nodes.ask(|client| client.call_any(&init));
            match told {
                Ok(told) if told.error_code == 0 => {
                    return Ok(Replayer {
                        identity: (told.producer_id, told.producer_epoch),
                        next: 0,
                        batches: Vec::new(),
                    });
                }
                told if begun.elapsed() > PATIENCE => {
                    return Err(format!("no producer id: {told:?}"));
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    pub(crate) fn leader(&self, nodes: &Nodes) -> Result<usize, String> {
        let topic = nodes.ask(|client| client.topic(TOPIC))?;
        let leader = topic.leader(PARTITION).map_err(|error| error.to_string())?;
        Ok(leader as usize)
    }

    pub(crate) fn wait_for_other(&self, nodes: &Nodes, than: usize) -> Result<(), String> {
        let begun = Instant::now();
        while self.leader(nodes).is_ok_and(|leader| leader == than) || self.leader(nodes).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("nobody leads {TOPIC} after {than}"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// As many batches as a leader remembers.
    pub(crate) fn write(&mut self, nodes: &Nodes) -> Result<(), String> {
        for _ in 0..REMEMBERED {
            let (id, epoch) = (ProducerId(self.identity.0), ProducerEpoch(self.identity.1));
            let mut builder = BatchBuilder::new().producer(id, epoch, Sequence(self.next));
            for at in 0..RECORDS {
                let value = (self.next + at).to_string();
                builder.push(Timestamp(1), None, Some(value.as_bytes()), &[]);
            }
            let records: Records = builder.build().to_bytes().into();
            let base = send(nodes, &records)?.ok_or("a new batch was known")?;
            self.next += RECORDS;
            self.batches.push(Batch { records, base });
        }
        Ok(())
    }

    /// The last ones again: each is known, at the place it was told of. How many.
    pub(crate) fn repeat(&self, nodes: &Nodes) -> Result<usize, String> {
        let first = self.batches.len() - REMEMBERED;
        for batch in &self.batches[first..] {
            if let Some(base) = send(nodes, &batch.records)?
                && base != batch.base
            {
                return Err(format!(
                    "a batch at {} was taken again at {base}",
                    batch.base
                ));
            }
        }
        Ok(REMEMBERED)
    }

    /// Everything is there, once and in order; how many records.
    pub(crate) fn judge(&self, nodes: &Nodes) -> Result<usize, String> {
        let read = read_all(nodes).map_err(|error| format!("reading {TOPIC}: {error}"))?;
        let wanted: Vec<String> = (0..self.next).map(|number| number.to_string()).collect();
        if read != wanted {
            let same = read.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
            return Err(format!(
                "{TOPIC} has {} records of {}, and another one at {same}",
                read.len(),
                wanted.len()
            ));
        }
        Ok(read.len())
    }
}

/// Sends until it is acknowledged; where it is, `None` if all that is known is that it is there.
fn send(nodes: &Nodes, records: &Records) -> Result<Option<i64>, String> {
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: PARTITION,
                records: Some(records.clone()),
            }],
            ..Default::default()
        }],
    };
    let begun = Instant::now();
    loop {
        let told = nodes.ask(|client| {
            let leader = client.topic(TOPIC)?.leader(PARTITION)?;
            let mut connection = client.open_broker(leader)?;
            connection.send_up_to(&request, NAMED_PRODUCE_VERSION_MAX)?;
            connection.receive_as::<ProduceRequest>()
        });
        let told = told.map(|response| {
            let mut topics = response.responses.iter();
            let partition = topics.find_map(|topic| topic.partition_responses.first());
            partition.map_or((-1, -1), |told| (told.error_code, told.base_offset))
        });
        let code = |code| ErrorCode::try_from(code).unwrap_or(ErrorCode::UnknownServerError);
        match told.map(|(told, base)| (code(told), base)) {
            Ok((ErrorCode::None, base)) => return Ok(Some(base)),
            Ok((ErrorCode::DuplicateSequenceNumber, _)) => return Ok(None),
            Ok((ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId, _)) => {
                return Err("a batch was refused as out of order".to_owned());
            }
            other if begun.elapsed() > PATIENCE => {
                return Err(format!("a batch is not taken: {other:?}"));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

fn read_all(nodes: &Nodes) -> Result<Vec<String>, Error> {
    let bootstrap = nodes.bootstrap();
    let places: Vec<(i32, OffsetSpec)> = (0..PARTITIONS).map(|at| (at, OffsetSpec::End)).collect();
    let isolation = client::Isolation::ReadUncommitted;
    let ends: BTreeMap<i32, i64> =
        connect(&bootstrap, PATIENCE)?.resolve(TOPIC, &places, isolation)?;
    let options = ConsumerOptions {
        wait: Duration::from_millis(100),
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(connect(&bootstrap, PATIENCE)?, options);
    consumer.assign(TOPIC, PARTITION, 0)?;
    let (mut values, begun) = (Vec::new(), Instant::now());
    while consumer.position(TOPIC, PARTITION).unwrap_or(0) < ends[&PARTITION]
        && begun.elapsed() < PATIENCE
    {
        for fetched in consumer.poll()? {
            let _ = fetched.each(|record| {
                let value = record.value.unwrap_or_default();
                values.push(String::from_utf8_lossy(value).into_owned());
                ControlFlow::<()>::Continue(())
            })?;
        }
    }
    Ok(values)
}
