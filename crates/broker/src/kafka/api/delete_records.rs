//! DeleteRecords: the start of a log moves up, durable before it is told (KIP-107).
//!
//! Refuses topics of the broker itself and those that are compacted and never deleted: their oldest records may be the newest
//! of their keys.

use model::Offset;
use partition::{Partition, Ticket};
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
    tickets: Vec<(u32, u32)>,
    open: usize,
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
        let mut trim = Trim {
            response: DeleteRecordsResponse::default(),
            tickets: Vec::new(),
            open: 0,
        };
        for topic in request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in topic.partitions {
                let found = topics
                    .named(&topic.name)
                    .and_then(|topic| topic.partition(asked.partition_index));
                let ticket = Ticket {
                    waiter: key,
                    index: trim.tickets.len() as u32,
                };
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
                        trim.tickets
                            .push((trim.response.topics.len() as u32, partitions.len() as u32));
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
        let Some((Waiting::Trim(trim), _)) = self.waiting(ticket.waiter) else {
            return;
        };
        if let Some((topic, partition)) = trim.tickets.get(ticket.index as usize) {
            if code != ErrorCode::None {
                let result =
                    &mut trim.response.topics[*topic as usize].partitions[*partition as usize];
                result.error_code = code.code();
                result.low_watermark = NO_WATERMARK;
            }
            trim.open -= 1;
        }
        if trim.open == 0
            && let Some((Waiting::Trim(trim), address)) = self.take_waiting(ticket.waiter)
        {
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
