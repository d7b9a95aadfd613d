//! Produce: each partition's batch gets its place; the answer waits for the commits it needs.
//!
//! An error of one partition touches no other. With acks=0 nothing is answered, and an error closes the connection, as that
//! is the only way to tell the client.

use bytes::Bytes;
use log::producer::Origin;
use model::{Instant, Ticket, Timestamp, WaiterKey};
use partition::{AppendError, Appended, Moment, Partition, Warrant};
use std::sync::Arc;
use std::time::Duration;
use wire::messages::ProduceRequest;
use wire::messages::ProduceResponse;
use wire::messages::produce_request::PartitionProduceData;
use wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use wire::records::{Batch, BatchError, Breach, Codec, Head, RecordFault, Source};
use wire::{ApiKey, ErrorCode, Records, Uuid};

use super::error;
use super::produce_txn::Warrants;
use crate::shard::{Address, Outcome, Shard, Waiting};

/// A produce request whose commits are under way.
pub(crate) struct Produce {
    response: ProduceResponse,
    /// Topic and partition places in the response, by ticket index; taken out when they are settled.
    tickets: Vec<Option<(u32, u32)>>,
    open: usize,
    /// How long the client wants to wait.
    pub(crate) until: Instant,
}

const INVALID_OFFSET: i64 = -1;
/// Clients below it cannot read zstd (KIP-110).
const ZSTD_VERSION: i16 = 7;

/// On what terms a batch is appended.
struct Terms {
    /// What it may do about a transaction, or why it may not.
    warrant: Result<Warrant, ErrorCode>,
    ticket: Option<Ticket>,
}

impl Produce {
    fn fail(&mut self, (topic, partition): (u32, u32), code: ErrorCode) {
        let topic = &mut self.response.responses[topic as usize];
        let answer = &mut topic.partition_responses[partition as usize];
        answer.error_code = code.code();
        answer.base_offset = INVALID_OFFSET;
    }
}

impl Shard {
    pub(crate) fn on_produce(&mut self, address: &Address, request: ProduceRequest) -> Outcome {
        if !matches!(request.acks, -1..=1) {
            return self.refuse_produce(address, &request, ErrorCode::InvalidRequiredAcks);
        }
        self.warrant(address, request)
    }

    /// Appends what the request brings; of transactional batches it is known whether they may.
    pub(crate) fn produce(
        &mut self,
        address: &Address,
        request: ProduceRequest,
        warrants: Warrants,
    ) -> Outcome {
        let acks = request.acks;
        let key = self.next_waiter();
        let timeout = Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into());
        let mut produce = Produce {
            response: ProduceResponse {
                responses: Vec::with_capacity(request.topic_data.len()),
                ..Default::default()
            },
            tickets: Vec::new(),
            open: 0,
            until: self.now.plus(timeout),
        };
        let mut failed = false;
        for (topic_at, topic) in request.topic_data.into_iter().enumerate() {
            let mut partitions = Vec::with_capacity(topic.partition_data.len());
            for (at, data) in topic.partition_data.into_iter().enumerate() {
                let part = produce.tickets.len() as u32;
                let ticket = (acks != 0).then_some(self.ticket(key, part));
                let answer = self.produce_partition(
                    address,
                    topic.topic_id,
                    &topic.name,
                    &data,
                    Terms {
                        warrant: warrants.of((topic_at, at)),
                        ticket,
                    },
                );
                failed |= answer.error_code != 0;
                let (answer, waits) = answer.split();
                if waits {
                    let topic = produce.response.responses.len() as u32;
                    produce.tickets.push(Some((topic, partitions.len() as u32)));
                    produce.open += 1;
                }
                partitions.push(answer);
            }
            produce.response.responses.push(TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses: partitions,
            });
        }
        warrants.release();
        if acks == 0 {
            return if failed {
                Outcome::Close
            } else {
                Outcome::Silent
            };
        }
        if produce.open == 0 {
            return self.reply(address, ApiKey::Produce, &produce.response);
        }
        self.wait(Waiting::Produce(produce), *address);
        Outcome::Waits
    }

    fn produce_partition(
        &mut self,
        address: &Address,
        topic_id: Uuid,
        name: &str,
        data: &PartitionProduceData,
        terms: Terms,
    ) -> Answer {
        let Terms { warrant, ticket } = terms;
        let topics = self.topics();
        let Some(topic) = topics.find(topic_id, name) else {
            let code = if topic_id == Uuid::ZERO {
                ErrorCode::UnknownTopicOrPartition
            } else {
                ErrorCode::UnknownTopicId
            };
            return Answer::refused(data.index, code, None);
        };
        let Some(partition) = topic.partition(data.index) else {
            return Answer::refused(data.index, ErrorCode::UnknownTopicOrPartition, None);
        };
        if meta::name::is_internal(&topic.name) {
            let message = format!("{} is written by the broker alone", topic.name);
            return Answer::refused(data.index, ErrorCode::InvalidTopicException, Some(message));
        }
        let bytes = match &data.records {
            Some(Records::Bytes(bytes)) => bytes.clone(),
            _ => Bytes::new(),
        };
        let warrant = match warrant {
            Ok(warrant) => warrant,
            Err(code) => return Answer::refused(data.index, code, None),
        };
        match self.append(address, partition, &bytes, warrant, ticket) {
            Ok(appended) => Answer::appended(data.index, &appended),
            Err(error) => {
                let mut answer =
                    Answer::refused(data.index, error::append(&error), Some(error.to_string()));
                if let AppendError::Record(fault) = &error {
                    answer.response.record_errors = record_errors(fault);
                }
                answer
            }
        }
    }

    fn append(
        &mut self,
        address: &Address,
        partition: &Arc<Partition>,
        bytes: &Bytes,
        warrant: Warrant,
        ticket: Option<Ticket>,
    ) -> Result<Appended, AppendError> {
        let mut batches = Batch::cut(bytes, Source::Produce);
        let Some(mut batch) = batches.next().transpose()? else {
            return Err(AppendError::Count { batches: 0 });
        };
        // Since version 3 a produce request carries exactly one batch per partition (KIP-98).
        if !batches.rest().is_empty() {
            return Err(AppendError::Count { batches: 2 });
        }
        let codec = batch.attributes().codec();
        if address.version < ZSTD_VERSION && codec == Some(Codec::Zstd) {
            return Err(BatchError::UnknownCodec {
                id: Codec::Zstd as u8,
            }
            .into());
        }
        let (now, wall) = (self.now, self.wall);
        let dir = self.dir_of(partition);
        let Some(connection) = self.connections.get_mut(&address.conn) else {
            return Err(AppendError::Deleted);
        };
        let bytes = batch.size();
        if !connection.may_keep_in_place(bytes, dir) {
            let body = Bytes::copy_from_slice(batch.body());
            batch = Batch::from_parts(Head::clone(&batch), body)?;
        }
        let appended = partition.append_as(
            batch,
            Origin::Client,
            warrant,
            ticket,
            Moment {
                now,
                wall,
                stamp: &mut connection.stamp,
            },
        )?;
        if !appended.is_duplicate {
            connection.on_kept(bytes, dir);
        }
        Ok(appended)
    }

    /// The place of a partition's directory among all of them.
    fn dir_of(&self, partition: &Partition) -> usize {
        match self.shared.dirs() {
            [_] => 0,
            dirs => {
                let home = partition.dir();
                let at = dirs.iter().position(|dir| Arc::ptr_eq(dir, &home));
                at.unwrap_or_default()
            }
        }
    }

    pub(crate) fn refuse_produce(
        &mut self,
        address: &Address,
        request: &ProduceRequest,
        code: ErrorCode,
    ) -> Outcome {
        if request.acks == 0 {
            return Outcome::Close;
        }
        let responses = request
            .topic_data
            .iter()
            .map(|topic| TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partition_responses: topic
                    .partition_data
                    .iter()
                    .map(|data| Answer::refused(data.index, code, None).response)
                    .collect(),
            })
            .collect();
        self.reply(
            address,
            ApiKey::Produce,
            &ProduceResponse {
                responses,
                ..Default::default()
            },
        )
    }

    /// One partition of a waiting request is committed, or will not be in this process.
    pub(crate) fn on_produce_news(&mut self, ticket: Ticket, code: ErrorCode) {
        let Some((Waiting::Produce(produce), _)) = self.waiting(ticket.key) else {
            return;
        };
        let place = produce.tickets.get_mut(ticket.part as usize);
        if let Some(place) = place.and_then(Option::take) {
            if code != ErrorCode::None {
                produce.fail(place, code);
            }
            produce.open -= 1;
        }
        if produce.open == 0 {
            self.finish_produce(ticket.key);
        }
    }

    /// Its time is up. What it appended may still be committed; a producer that sends it again is then told where it is.
    pub(crate) fn time_out_produce(&mut self, key: WaiterKey) {
        if let Some((Waiting::Produce(produce), _)) = self.waiting(key) {
            for place in std::mem::take(&mut produce.tickets).into_iter().flatten() {
                produce.fail(place, ErrorCode::RequestTimedOut);
            }
            self.finish_produce(key);
        }
    }

    fn finish_produce(&mut self, key: WaiterKey) {
        if let Some((Waiting::Produce(produce), address)) = self.take_waiting(key) {
            let outcome = self.reply(&address, ApiKey::Produce, &produce.response);
            self.settle(&address, outcome);
        }
    }
}

/// What one partition is told, now or when its ticket is redeemed.
struct Answer {
    response: PartitionProduceResponse,
    waits: bool,
}

impl std::ops::Deref for Answer {
    type Target = PartitionProduceResponse;

    fn deref(&self) -> &PartitionProduceResponse {
        &self.response
    }
}

impl Answer {
    fn split(self) -> (PartitionProduceResponse, bool) {
        (self.response, self.waits)
    }

    fn appended(index: i32, appended: &Appended) -> Answer {
        let response = PartitionProduceResponse {
            index,
            base_offset: appended.base_offset.0,
            log_append_time_ms: appended.append_time.0,
            log_start_offset: appended.log_start.0,
            ..Default::default()
        };
        Answer {
            response,
            waits: !appended.is_committed,
        }
    }

    fn refused(index: i32, code: ErrorCode, message: Option<String>) -> Answer {
        let response = PartitionProduceResponse {
            index,
            error_code: code.code(),
            base_offset: INVALID_OFFSET,
            log_append_time_ms: Timestamp::NONE.0,
            log_start_offset: INVALID_OFFSET,
            error_message: message,
            ..Default::default()
        };
        Answer {
            response,
            waits: false,
        }
    }
}

fn record_errors(fault: &RecordFault) -> Vec<BatchIndexAndErrorMessage> {
    let RecordFault::Rules(breaches) = fault else {
        return Vec::new();
    };
    let tell = |breach: &Breach| BatchIndexAndErrorMessage {
        batch_index: breach.index,
        batch_index_error_message: Some(breach.rule.to_string()),
    };
    breaches.iter().map(tell).collect()
}

#[cfg(test)]
mod tests {
    use model::Offset;
    use partition::{Isolation, Plan, ReadRequest};

    use super::*;
    use crate::shard::bench::{Bench, batch, encoded};

    const TOPIC: &str = "t";

    fn produce(parts: Vec<Bytes>) -> Vec<u8> {
        let parts = parts.into_iter().zip(0..);
        let partition_data = parts.map(|(records, index)| PartitionProduceData {
            index,
            records: Some(records.into()),
        });
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 1000,
            topic_data: vec![wire::messages::produce_request::TopicProduceData {
                name: TOPIC.to_owned(),
                partition_data: partition_data.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        encoded(&request, 9)
    }

    /// Where `what` lies in the tail of a partition.
    fn place_in_memory(bench: &mut Bench, index: i32, what: &[u8]) -> usize {
        let plan = bench.partition(TOPIC, index).plan_read(ReadRequest {
            from: Offset::ZERO,
            bytes_max: usize::MAX,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: model::LeaderEpoch::NONE,
            isolation: Isolation::Uncommitted,
            may_wait: false,
        });
        match plan.expect("there is something").plan {
            Plan::Memory(batches) => {
                let body = batches[0].body();
                body.as_ptr() as usize + place(body, what)
            }
            _ => panic!("partition {index} is not in memory"),
        }
    }

    fn place(bytes: &[u8], what: &[u8]) -> usize {
        let at = bytes.windows(what.len()).position(|part| part == what);
        at.expect("it is there")
    }

    /// Whether the batches of the first and the last partition are still neighbours in the frame they came in.
    fn share_their_frame(parts: Vec<Bytes>) -> bool {
        let mut bench = Bench::new();
        bench.create(TOPIC, parts.len() as i32);
        let last = parts.len() as i32 - 1;
        let request = produce(parts);
        bench.put(&request);
        bench.commit();
        let sent = place(&request, b"the last") - place(&request, b"the first");
        let first = place_in_memory(&mut bench, 0, b"the first");
        sent == place_in_memory(&mut bench, last, b"the last").wrapping_sub(first)
    }

    #[test]
    fn small_batches_leave_a_frame_of_which_most_is_refused() {
        let refused = Bytes::from(vec![7; 1 << 20]);
        assert!(!share_their_frame(vec![
            batch(b"the first"),
            refused,
            batch(b"the last"),
        ]));
    }

    #[test]
    fn batches_that_fill_their_frame_are_not_copied() {
        let large = |value: &[u8]| batch(&[value, &vec![7; 300 << 10]].concat());
        assert!(share_their_frame(vec![
            large(b"the first"),
            large(b"between"),
            large(b"the last"),
        ]));
    }
}
