//! Batches for leaders on other brokers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{BrokerId, Offset, Timestamp};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::{ErrorCode, Records};

use super::{Away, Numbers, by_topic, results};
use crate::ops::{Desk, Tickets};
use crate::peers::{Answer, UpTo};

/// The newest version whose clients add partitions to their transactions themselves.
const JOINED_BEFORE: i16 = 11;

#[derive(Default)]
pub(in crate::ops) struct Batches {
    by_leader: BTreeMap<BrokerId, Vec<(Away, Bytes)>>,
}

/// The terms of all batches of an operation.
pub(in crate::ops) struct Terms {
    pub(in crate::ops) transactional_id: Option<String>,
    /// The request adds its partitions to the transaction.
    pub(in crate::ops) adds: bool,
    /// All replicas in sync are to have them, and not the leader alone.
    pub(in crate::ops) all: bool,
    pub(in crate::ops) patience: Duration,
}

/// One call, and the parts of the operation that it is about.
pub(in crate::ops) struct ProduceCall(Vec<Away>);

/// Where a batch came to lie: offset, time of the append where the leader says it, start of the log.
pub(in crate::ops) type Place = (Offset, Timestamp, Offset);

impl Batches {
    pub(in crate::ops) fn put(&mut self, leader: BrokerId, to: Away, records: Bytes) {
        self.by_leader
            .entry(leader)
            .or_default()
            .push((to, records));
    }

    /// Calls the leaders. The answer of each comes under the ticket of the first of its batches.
    pub(in crate::ops) fn send(
        self,
        desk: &Desk,
        terms: &Terms,
        tickets: Tickets<'_>,
    ) -> Vec<ProduceCall> {
        let calls = self.by_leader.into_iter().map(|(leader, batches)| {
            let away: Vec<Away> = batches.iter().map(|(away, _)| away.clone()).collect();
            let ticket = tickets(away.first().map_or(0, |first| first.number));
            let request = request(batches, terms);
            desk.call_leader(ticket, leader, request, terms.patience);
            ProduceCall(away)
        });
        calls.collect()
    }
}

fn request(batches: Vec<(Away, Bytes)>, terms: &Terms) -> UpTo<ProduceRequest> {
    let topics = by_topic(batches).into_iter();
    let topics = topics.map(|(name, batches)| TopicProduceData {
        name: name.as_ref().to_owned(),
        topic_id: batches
            .first()
            .map_or_else(Default::default, |first| first.0.topic_id),
        partition_data: batches
            .into_iter()
            .map(|(away, records)| PartitionProduceData {
                index: away.index,
                records: Some(Records::from(records)),
            })
            .collect(),
    });
    let request = ProduceRequest {
        transactional_id: terms.transactional_id.clone(),
        acks: if terms.all { -1 } else { 1 },
        timeout_ms: i32::try_from(terms.patience.as_millis()).unwrap_or(i32::MAX),
        topic_data: topics.collect(),
    };
    let adds = terms.adds || terms.transactional_id.is_none();
    UpTo(request, if adds { i16::MAX } else { JOINED_BEFORE })
}

impl ProduceCall {
    /// True if its answer comes under the ticket of this part.
    pub(in crate::ops) fn is_under(&self, part: u32) -> bool {
        self.0.first().is_some_and(|first| first.number == part)
    }

    /// The result of each of its parts by their numbers.
    pub(in crate::ops) fn read(
        self,
        answer: Option<Answer>,
    ) -> Vec<(u32, Result<Place, ErrorCode>)> {
        let answer: Option<ProduceResponse> = answer.and_then(Answer::read);
        let numbers = Numbers::new(&self.0);
        let mut known = BTreeMap::new();
        for topic in answer.iter().flat_map(|answer| &answer.responses) {
            for part in &topic.partition_responses {
                let whose = (topic.name.as_str(), topic.topic_id);
                let number = numbers.get(whose, part.index);
                let placed = (
                    Offset(part.base_offset),
                    Timestamp(part.log_append_time_ms),
                    Offset(part.log_start_offset),
                );
                let result = match crate::error::of_code(part.error_code) {
                    ErrorCode::None => Ok(placed),
                    code => Err(code),
                };
                known.extend(number.map(|number| (number, result)));
            }
        }
        results(self.0, known)
    }
}
