//! Reads of partitions whose leaders are on other brokers.
//!
//! A leader is asked for what it has now, and waits for nothing: one connection leads to it, and what waits there holds up the next.

use std::collections::BTreeMap;

use log::AbortedTxn;
use model::{BrokerId, LeaderEpoch, Offset, ProducerId, Ticket};
use partition::{Bounds, Isolation, Read, Records};
use wire::ErrorCode;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::fetch_response::PartitionData;
use wire::messages::{FetchRequest, FetchResponse};
use wire::records::{Batch, Source};

use super::{Away, Numbers, by_topic, results};
use crate::ops::Desk;
use crate::peers::Answer;

/// No session: each call stands alone.
const NO_SESSION: i32 = -1;
/// A client, and no replica.
const NO_REPLICA: i32 = -1;

/// The wish of a reader about a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Wish {
    pub(in crate::ops) from: Offset,
    pub(in crate::ops) bytes_max: usize,
    pub(in crate::ops) current_epoch: LeaderEpoch,
}

#[derive(Default)]
pub(in crate::ops) struct Reads {
    by_leader: BTreeMap<BrokerId, Vec<(Away, Wish)>>,
}

/// One call, and the parts of the operation that it is about.
pub(in crate::ops) struct FetchCall(Vec<Away>);

impl Reads {
    pub(in crate::ops) fn put(&mut self, leader: BrokerId, of: Away, wish: Wish) {
        self.by_leader.entry(leader).or_default().push((of, wish));
    }

    /// Calls the leaders. The answer of each comes under the ticket of the first of its partitions.
    pub(in crate::ops) fn send(
        self,
        desk: &Desk,
        (isolation, bytes_max): (Isolation, usize),
        ticket: impl Fn(u32) -> Ticket,
    ) -> Vec<FetchCall> {
        let patience = desk.shared.catalog.config().request_wait_max;
        let calls = self.by_leader.into_iter().map(|(leader, wishes)| {
            let away: Vec<Away> = wishes.iter().map(|(away, _)| away.clone()).collect();
            let ticket = ticket(away.first().map_or(0, |first| first.number));
            let request = request(wishes, isolation, bytes_max);
            desk.call_leader(ticket, leader, request, patience);
            FetchCall(away)
        });
        calls.collect()
    }
}

fn number(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn request(wishes: Vec<(Away, Wish)>, isolation: Isolation, bytes_max: usize) -> FetchRequest {
    let partition = |(away, wish): (Away, Wish)| FetchPartition {
        partition: away.index,
        current_leader_epoch: wish.current_epoch.0,
        fetch_offset: wish.from.0,
        partition_max_bytes: number(wish.bytes_max),
        ..FetchPartition::default()
    };
    let topics = by_topic(wishes).into_iter();
    let topics = topics.map(|(name, wishes)| FetchTopic {
        topic: name.as_ref().to_owned(),
        topic_id: wishes
            .first()
            .map_or_else(Default::default, |first| first.0.topic_id),
        partitions: wishes.into_iter().map(partition).collect(),
    });
    FetchRequest {
        replica_id: NO_REPLICA,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: number(bytes_max),
        isolation_level: match isolation {
            Isolation::Uncommitted | Isolation::Log => 0,
            Isolation::Committed => 1,
        },
        session_id: 0,
        session_epoch: NO_SESSION,
        topics: topics.collect(),
        ..FetchRequest::default()
    }
}

impl FetchCall {
    /// True if its answer comes under the ticket of this part.
    pub(in crate::ops) fn is_under(&self, part: u32) -> bool {
        self.0.first().is_some_and(|first| first.number == part)
    }

    /// The read of each of its parts by their numbers.
    pub(in crate::ops) fn read(
        self,
        answer: Option<Answer>,
    ) -> Vec<(u32, Result<Read, ErrorCode>)> {
        let answer: Option<FetchResponse> = answer.and_then(Answer::read);
        let numbers = Numbers::new(&self.0);
        let mut known = BTreeMap::new();
        for topic in answer.into_iter().flat_map(|answer| answer.responses) {
            let whose = (topic.topic.as_str(), topic.topic_id);
            for part in topic.partitions {
                let number = numbers.get(whose, part.partition_index);
                known.extend(number.map(|number| (number, read(part))));
            }
        }
        results(self.0, known)
    }
}

fn read(part: PartitionData) -> Result<Read, ErrorCode> {
    match crate::error::of_code(part.error_code) {
        ErrorCode::None => {}
        code => return Err(code),
    }
    let high_watermark = Offset(part.high_watermark);
    let last_stable = Some(Offset(part.last_stable_offset)).filter(|end| Offset::ZERO <= *end);
    let log_start = Offset(part.log_start_offset.max(0));
    let bounds = Bounds {
        log_start,
        local_start: log_start,
        restart_point: Offset::ZERO,
        high_watermark,
        last_stable: last_stable.unwrap_or(high_watermark),
        // Its leader alone knows of more.
        durable: high_watermark,
        log_end: high_watermark,
        epoch: LeaderEpoch(part.current_leader.leader_epoch),
    };
    let bytes = match part.records {
        Some(wire::Records::Bytes(bytes)) => bytes,
        Some(wire::Records::External(_)) | None => bytes::Bytes::new(),
    };
    let batches: Result<Vec<Batch>, _> = Batch::cut(&bytes, Source::Log).collect();
    let batches = batches.map_err(|_| ErrorCode::CorruptMessage)?;
    let aborted = part.aborted_transactions.into_iter().flatten();
    let aborted = aborted.map(|of| AbortedTxn {
        producer_id: ProducerId(of.producer_id),
        first_offset: Offset(of.first_offset),
        // The protocol says no more of it: the marker is among the records.
        last_offset: bounds.last_stable,
        last_stable_offset: bounds.last_stable,
    });
    Ok(Read {
        records: if batches.is_empty() {
            Records::AtEnd
        } else {
            Records::Memory(batches)
        },
        aborted: aborted.collect(),
        bounds,
    })
}
