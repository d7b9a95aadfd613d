//! DeleteRecords: the start of a log moves up, durable before it is told (KIP-107).
//!
//! Refuses topics of the broker itself and those that are compacted and never deleted: their oldest records may be the newest
//! of their keys.

use std::time::Duration;

use model::{Instant, Offset, Ticket, WaiterKey};
use partition::Partition;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use wire::{ApiKey, ErrorCode};

use super::error;
use crate::shard::{Address, Outcome, Shard, Waiting};

/// A trim whose commits are under way.
pub(crate) struct Trim {
    response: DeleteRecordsResponse,
    /// Topic and partition places in the response, by ticket index; taken out when they are settled.
    tickets: Vec<Option<(u32, u32)>>,
    open: usize,
    /// How long the client wants to wait.
    pub(crate) until: Instant,
}

impl Trim {
    fn fail(&mut self, (topic, partition): (u32, u32), code: ErrorCode) {
        let topic = &mut self.response.topics[topic as usize];
        let result = &mut topic.partitions[partition as usize];
        result.error_code = code.code();
        result.low_watermark = NO_WATERMARK;
    }
}

/// "Up to the high watermark."
const HIGH_WATERMARK: i64 = -1;
const NO_WATERMARK: i64 = -1;

impl Shard {
    pub(crate) fn on_delete_records(
        &mut self,
        address: &Address,
        request: DeleteRecordsRequest,
    ) -> Outcome {
        let topics = self.topics();
        let key = self.next_waiter();
        let timeout = Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into());
        let mut trim = Trim {
            response: DeleteRecordsResponse::default(),
            tickets: Vec::new(),
            open: 0,
            until: self.now.plus(timeout),
        };
        for topic in request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in topic.partitions {
                let found = topics
                    .named(&topic.name)
                    .and_then(|topic| topic.partition(asked.partition_index));
                let ticket = self.ticket(key, trim.tickets.len() as u32);
                let to = (asked.offset != HIGH_WATERMARK).then_some(Offset(asked.offset));
                let result = match found {
                    Some(partition) => may_delete(&topic.name, partition).and_then(|()| {
                        partition
                            .trim(to, ticket)
                            .map_err(|error| error::trim(&error))
                    }),
                    None => Err(ErrorCode::UnknownTopicOrPartition),
                };
                let (low_watermark, code) = match result {
                    Ok(start) => {
                        let place = (trim.response.topics.len() as u32, partitions.len() as u32);
                        trim.tickets.push(Some(place));
                        trim.open += 1;
                        (start.0, ErrorCode::None)
                    }
                    Err(code) => (NO_WATERMARK, code),
                };
                partitions.push(DeleteRecordsPartitionResult {
                    partition_index: asked.partition_index,
                    low_watermark,
                    error_code: code.code(),
                });
            }
            trim.response.topics.push(DeleteRecordsTopicResult {
                name: topic.name,
                partitions,
            });
        }
        if trim.open == 0 {
            return self.reply(address, ApiKey::DeleteRecords, &trim.response);
        }
        self.wait(Waiting::Trim(trim), *address);
        Outcome::Waits
    }

    pub(crate) fn on_trim_news(&mut self, ticket: Ticket, code: ErrorCode) {
        let Some((Waiting::Trim(trim), _)) = self.waiting(ticket.key) else {
            return;
        };
        let place = trim.tickets.get_mut(ticket.part as usize);
        if let Some(place) = place.and_then(Option::take) {
            if code != ErrorCode::None {
                trim.fail(place, code);
            }
            trim.open -= 1;
        }
        if trim.open == 0 {
            self.finish_trim(ticket.key);
        }
    }

    /// Its time is up. What it trimmed may still be committed, and is gone then.
    pub(crate) fn time_out_trim(&mut self, key: WaiterKey) {
        if let Some((Waiting::Trim(trim), _)) = self.waiting(key) {
            for place in std::mem::take(&mut trim.tickets).into_iter().flatten() {
                trim.fail(place, ErrorCode::RequestTimedOut);
            }
            self.finish_trim(key);
        }
    }

    fn finish_trim(&mut self, key: WaiterKey) {
        if let Some((Waiting::Trim(trim), address)) = self.take_waiting(key) {
            let outcome = self.reply(&address, ApiKey::DeleteRecords, &trim.response);
            self.settle(&address, outcome);
        }
    }
}

/// Of what is there, in the order of Kafka. A policy of neither keeps everything and lets its owner delete.
fn may_delete(topic: &str, partition: &Partition) -> Result<(), ErrorCode> {
    if meta::name::is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let policy = partition.config().cleanup_policy;
    if policy.compact && !policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    Ok(())
}
