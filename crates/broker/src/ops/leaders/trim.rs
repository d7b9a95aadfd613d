//! Trims of partitions whose leaders are on other brokers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{BrokerId, Offset, Ticket};
use wire::ErrorCode;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::{Away, Numbers, by_topic, results};
use crate::ops::Desk;
use crate::peers::Answer;

/// "Up to the high watermark."
const HIGH_WATERMARK: Offset = Offset(-1);

#[derive(Default)]
pub(in crate::ops) struct Trims {
    by_leader: BTreeMap<BrokerId, Vec<(Away, Offset)>>,
}

/// One call, and the parts of the operation that it is about.
pub(in crate::ops) struct TrimCall(Vec<Away>);

impl Trims {
    pub(in crate::ops) fn put(&mut self, leader: BrokerId, of: Away, to: Option<Offset>) {
        let to = to.unwrap_or(HIGH_WATERMARK);
        self.by_leader.entry(leader).or_default().push((of, to));
    }

    /// Calls the leaders. The answer of each comes under the ticket of the first of its partitions.
    pub(in crate::ops) fn send(
        self,
        desk: &Desk,
        patience: Duration,
        ticket: impl Fn(u32) -> Ticket,
    ) -> Vec<TrimCall> {
        let calls = self.by_leader.into_iter().map(|(leader, trims)| {
            let away: Vec<Away> = trims.iter().map(|(away, _)| away.clone()).collect();
            let ticket = ticket(away.first().map_or(0, |first| first.number));
            desk.call_leader(ticket, leader, request(trims, patience), patience);
            TrimCall(away)
        });
        calls.collect()
    }
}

fn request(trims: Vec<(Away, Offset)>, patience: Duration) -> DeleteRecordsRequest {
    let topics = by_topic(trims).into_iter();
    let topics = topics.map(|(name, trims)| DeleteRecordsTopic {
        name: name.as_ref().to_owned(),
        partitions: trims
            .into_iter()
            .map(|(away, to)| DeleteRecordsPartition {
                partition_index: away.index,
                offset: to.0,
            })
            .collect(),
    });
    DeleteRecordsRequest {
        topics: topics.collect(),
        timeout_ms: i32::try_from(patience.as_millis()).unwrap_or(i32::MAX),
    }
}

impl TrimCall {
    /// True if its answer comes under the ticket of this part.
    pub(in crate::ops) fn is_under(&self, part: u32) -> bool {
        self.0.first().is_some_and(|first| first.number == part)
    }

    /// The new start of the log of each of its parts by their numbers.
    pub(in crate::ops) fn read(
        self,
        answer: Option<Answer>,
    ) -> Vec<(u32, Result<Offset, ErrorCode>)> {
        let answer: Option<DeleteRecordsResponse> = answer.and_then(Answer::read);
        let numbers = Numbers::new(&self.0);
        let mut known = BTreeMap::new();
        for topic in answer.iter().flat_map(|answer| &answer.topics) {
            for part in &topic.partitions {
                let whose = (topic.name.as_str(), wire::Uuid::ZERO);
                let number = numbers.get(whose, part.partition_index);
                let result = match crate::error::of_code(part.error_code) {
                    ErrorCode::None => Ok(Offset(part.low_watermark)),
                    code => Err(code),
                };
                known.extend(number.map(|number| (number, result)));
            }
        }
        results(self.0, known)
    }
}
