//! ListOffsets: the ends of a log, and the record at a time.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use model::WaiterKey;
use model::{LeaderEpoch, Offset, Timestamp};
use partition::{Isolation, Partition, ReadError};
use wire::messages::list_offsets_request::ListOffsetsPartition;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use wire::{ApiKey, ErrorCode};

use super::isolation;
use crate::error;
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::kafka::hall::Hall;
use crate::kafka::parked::Waiting;
use crate::topics::Topics;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// First offset on local disk (KIP-405): all of it, while nothing is tiered.
const EARLIEST_LOCAL: i64 = -4;
/// Last offset in the tier: none, while nothing is tiered.
const LATEST_TIERED: i64 = -5;
/// First offset that still waits for its upload (KIP-1023): the first of all.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// First versions that know the epoch of an answer, and each special time.
const LEADER_EPOCH_VERSION: i16 = 4;
const MAX_TIMESTAMP_VERSION: i16 = 7;
const EARLIEST_LOCAL_VERSION: i16 = 8;
const LATEST_TIERED_VERSION: i16 = 9;
const PENDING_UPLOAD_VERSION: i16 = 11;

const UNKNOWN: i64 = -1;

/// A request, and its answer once somebody has looked.
pub(crate) struct Search {
    topics: Arc<Topics>,
    request: ListOffsetsRequest,
    version: i16,
    answer: OnceLock<ListOffsetsResponse>,
}

/// Times are looked up in indexes and records, perhaps on disk, for which a loop does not wait.
pub(crate) fn on_list_offsets(call: &mut Call<'_>, request: ListOffsetsRequest) -> Outcome {
    let search = Arc::new(Search {
        topics: call.desk.topics(),
        request,
        version: call.version(),
        answer: OnceLock::new(),
    });
    if search.is_for_times() {
        let ticket = call.ticket();
        let pool = &call.desk.shared.prefetcher;
        if pool.search(Arc::clone(&search), ticket) {
            return call.park(Waiting::Search(search));
        }
    }
    call.reply(ApiKey::ListOffsets, search.answer())
}

pub(crate) fn on_found(hall: &mut Hall<'_>, key: WaiterKey) {
    hall.resume(key, |call, waiting| match waiting {
        Waiting::Search(search) => call.reply(ApiKey::ListOffsets, search.answer()),
        _ => Outcome::Waits,
    });
}

impl Search {
    fn is_for_times(&self) -> bool {
        let asked = self
            .request
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions);
        asked
            .into_iter()
            .any(|asked| asked.timestamp == MAX_TIMESTAMP || 0 <= asked.timestamp)
    }

    /// Looks, the first time.
    pub(crate) fn answer(&self) -> &ListOffsetsResponse {
        self.answer.get_or_init(|| self.look())
    }

    fn look(&self) -> ListOffsetsResponse {
        let repeated = repeated(&self.request);
        let isolation = isolation(self.request.isolation_level);
        let answer = |name: &str, asked: &ListOffsetsPartition| {
            let found =
                (self.topics.named(name)).and_then(|topic| topic.partition(asked.partition_index));
            let result = match found {
                _ if repeated.contains(&(name, asked.partition_index)) => {
                    Err(ErrorCode::InvalidRequest)
                }
                Some(partition) => look_up(partition, asked, isolation, self.version),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            };
            let mut response = ListOffsetsPartitionResponse {
                partition_index: asked.partition_index,
                timestamp: UNKNOWN,
                offset: UNKNOWN,
                leader_epoch: LeaderEpoch::NONE.0,
                ..Default::default()
            };
            match result {
                Ok(place) => {
                    response.timestamp = place.timestamp;
                    response.offset = place.offset;
                    if self.version >= LEADER_EPOCH_VERSION {
                        response.leader_epoch = place.epoch;
                    }
                }
                Err(code) => response.error_code = code.code(),
            }
            response
        };
        let topics = self.request.topics.iter();
        ListOffsetsResponse {
            topics: topics
                .map(|topic| ListOffsetsTopicResponse {
                    name: topic.name.clone(),
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|asked| answer(&topic.name, asked))
                        .collect(),
                })
                .collect(),
            ..Default::default()
        }
    }
}

/// Partitions that one request names more than once; an answer could not say which question it is to.
fn repeated(request: &ListOffsetsRequest) -> HashSet<(&str, i32)> {
    let mut seen = HashSet::new();
    let named = request.topics.iter().flat_map(|topic| {
        let asked = topic.partitions.iter();
        asked.map(|asked| (topic.name.as_str(), asked.partition_index))
    });
    named.filter(|place| !seen.insert(*place)).collect()
}

struct Place {
    timestamp: i64,
    offset: i64,
    epoch: i32,
}

fn look_up(
    partition: &Partition,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
    version: i16,
) -> Result<Place, ErrorCode> {
    let failed = |error: ReadError| error::read(&error);
    partition
        .check_epoch(LeaderEpoch(asked.current_leader_epoch))
        .map_err(failed)?;
    let bounds = partition.bounds();
    let edge = |offset: Offset, epoch: LeaderEpoch| Place {
        timestamp: UNKNOWN,
        offset: offset.0,
        epoch: epoch.0,
    };
    let earliest = || edge(bounds.log_start, partition.epoch_at(bounds.log_start));
    // What a record found by its time must lie below.
    let visible = bounds.end(isolation);
    let at = |found: Option<log::RecordTime>| match found.filter(|found| found.offset < visible) {
        Some(found) => Place {
            timestamp: found.timestamp.0,
            offset: found.offset.0,
            epoch: found.leader_epoch.0,
        },
        None => Place {
            timestamp: UNKNOWN,
            offset: UNKNOWN,
            epoch: LeaderEpoch::NONE.0,
        },
    };
    let since = |first: i16| {
        if version >= first {
            Ok(())
        } else {
            Err(ErrorCode::UnsupportedVersion)
        }
    };
    match asked.timestamp {
        LATEST => Ok(edge(visible, bounds.epoch)),
        EARLIEST => Ok(earliest()),
        EARLIEST_LOCAL => since(EARLIEST_LOCAL_VERSION).map(|()| earliest()),
        EARLIEST_PENDING_UPLOAD => since(PENDING_UPLOAD_VERSION).map(|()| at(None)),
        LATEST_TIERED => since(LATEST_TIERED_VERSION).map(|()| at(None)),
        MAX_TIMESTAMP => {
            since(MAX_TIMESTAMP_VERSION)?;
            partition.max_timestamp().map(at).map_err(failed)
        }
        time if time >= 0 => partition
            .find_timestamp(Timestamp(time))
            .map(at)
            .map_err(failed),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::bench::{Bench, encoded};
    use model::BrokerId;
    use partition::Role;
    use wire::messages::list_offsets_request::ListOffsetsTopic;
    use wire::messages::offset_for_leader_epoch_request::{
        OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    use wire::messages::{CreateTopicsRequest, OffsetForLeaderEpochRequest};

    const TOPIC: &str = "t";

    /// Offset and leader epoch of an end of the log.
    fn edge(bench: &mut Bench, timestamp: i64) -> (i64, i32) {
        let asked = ListOffsetsPartition {
            current_leader_epoch: -1,
            timestamp,
            ..Default::default()
        };
        let request = ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: TOPIC.to_owned(),
                partitions: vec![asked],
            }],
            ..Default::default()
        };
        bench.put(&encoded(&request, 10));
        let answer = bench.answer::<ListOffsetsRequest>(10);
        let answer = &answer.expect("at once").topics[0].partitions[0];
        assert_eq!(answer.error_code, 0);
        (answer.offset, answer.leader_epoch)
    }

    /// Epoch and offset that an epoch ended at.
    fn end_of(bench: &mut Bench, leader_epoch: i32) -> (i32, i64) {
        let asked = OffsetForLeaderPartition {
            current_leader_epoch: -1,
            leader_epoch,
            ..Default::default()
        };
        let request = OffsetForLeaderEpochRequest {
            topics: vec![OffsetForLeaderTopic {
                topic: TOPIC.to_owned(),
                partitions: vec![asked],
            }],
            ..Default::default()
        };
        bench.put(&encoded(&request, 4));
        let answer = bench.answer::<OffsetForLeaderEpochRequest>(4);
        let answer = &answer.expect("at once").topics[0].partitions[0];
        assert_eq!(answer.error_code, 0);
        (answer.leader_epoch, answer.end_offset)
    }

    #[test]
    fn an_end_of_the_log_comes_with_an_epoch_that_is_known_later() {
        let mut bench = Bench::new();
        bench.create(TOPIC, 1);
        bench.answer::<CreateTopicsRequest>(4);
        assert_eq!(edge(&mut bench, EARLIEST), (0, 0));
        bench.append(TOPIC, b"of epoch 0");
        for epoch in 1..=2 {
            let role = Role::alone(BrokerId(1));
            let partition = bench.partition(TOPIC, 0);
            partition.set_role(LeaderEpoch(epoch), role, &mut Vec::new());
            assert_eq!(edge(&mut bench, LATEST), (1, epoch));
            assert_eq!(edge(&mut bench, EARLIEST), (0, 0));
            assert_eq!(edge(&mut bench, EARLIEST_LOCAL), (0, 0));
            assert_eq!(end_of(&mut bench, epoch), (epoch, 1));
        }
        assert_eq!(end_of(&mut bench, 1), (0, 1), "nothing was appended in it");
        bench.append(TOPIC, b"of epoch 2");
        assert_eq!(end_of(&mut bench, 1), (0, 1));
        assert_eq!(end_of(&mut bench, 2), (2, 2));
    }
}
