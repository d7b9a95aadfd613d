//! DeleteRecords: from the request of a version to trims of partitions, and from what became of them to its answer.

use std::time::Duration;

use model::Offset;
use model::Ticket;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use wire::{ApiKey, ErrorCode};

use crate::error;
use crate::kafka::call::Call;
use crate::kafka::parked::Waiting;
use crate::net::Outcome;
use crate::ops::Step;
use crate::ops::trim::{self, Target, Trim, TrimRefusal, Trimming};

/// "Up to the high watermark."
const HIGH_WATERMARK: i64 = -1;
const NO_WATERMARK: i64 = -1;

pub(crate) fn on_delete_records(call: &mut Call<'_>, request: DeleteRecordsRequest) -> Outcome {
    let mut asked = Trim {
        topics: Vec::with_capacity(request.topics.len()),
        targets: Vec::with_capacity(request.topics.len()),
        patience: Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into()),
    };
    for (number, topic) in (0..).zip(request.topics) {
        asked.topics.push(topic.name);
        let targets = topic.partitions.into_iter().map(|one| Target {
            topic: number,
            index: one.partition_index,
            to: (one.offset != HIGH_WATERMARK).then_some(Offset(one.offset)),
        });
        asked.targets.extend(targets);
    }
    let first = call.ticket();
    let begun = trim::begin(call.desk, &call.asker, asked, |part| Ticket {
        part,
        ..first
    });
    match begun {
        Step::Done(trimming) => respond(call, trimming),
        Step::Parked(trimming) => call.park(Waiting::Trim(trimming)),
        Step::Dropped => Outcome::Close,
    }
}

pub(crate) fn respond(call: &mut Call<'_>, trimming: Trimming) -> Outcome {
    let topics = trimming.topics.into_iter();
    let mut topics: Vec<DeleteRecordsTopicResult> = topics
        .map(|name| DeleteRecordsTopicResult {
            name,
            partitions: Vec::new(),
        })
        .collect();
    for one in &trimming.trimmed {
        let (low_watermark, code) = match &one.result {
            Ok(start) => (start.0, ErrorCode::None),
            Err(refusal) => (NO_WATERMARK, code(refusal)),
        };
        let topic = &mut topics[one.topic as usize];
        topic.partitions.push(DeleteRecordsPartitionResult {
            partition_index: one.index,
            low_watermark,
            error_code: code.code(),
        });
    }
    let response = DeleteRecordsResponse {
        topics,
        ..Default::default()
    };
    call.reply(ApiKey::DeleteRecords, &response)
}

fn code(refusal: &TrimRefusal) -> ErrorCode {
    match refusal {
        TrimRefusal::Absent(why) => error::absent(*why),
        TrimRefusal::Unauthorised => ErrorCode::TopicAuthorizationFailed,
        TrimRefusal::Internal => ErrorCode::InvalidTopicException,
        TrimRefusal::Compacted => ErrorCode::PolicyViolation,
        TrimRefusal::Trim(error) => error::trim(error),
        TrimRefusal::Refused(code) | TrimRefusal::Lost(code) => *code,
        TrimRefusal::TimedOut => ErrorCode::RequestTimedOut,
    }
}
