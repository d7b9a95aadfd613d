//! ListOffsets as Kafka's protocol has it: special times, versions, and the form of the answer.

use std::collections::HashSet;

use model::{LeaderEpoch, Ticket, Timestamp};
use partition::{Isolation, Piece, Scope, SearchTime};
use wire::messages::list_offsets_request::ListOffsetsPartition;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use wire::{ApiKey, ErrorCode};

use super::isolation;
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::error;
use crate::kafka::call::Call;
use crate::kafka::hall::Hall;
use crate::kafka::parked::{Search, Waiting};
use crate::net::Outcome;
use crate::ops::Refused;
use crate::ops::search::{Asked, SearchRefusal, SearchResult, Searching, Spot};
use security::authorize::Operation;

/// The replica id of one that compares replicas.
const COMPARISON: i32 = -2;

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
/// First version whose clients know that a leader may not know yet (KIP-207).
const NOT_AVAILABLE_VERSION: i16 = 5;
const MAX_TIMESTAMP_VERSION: i16 = 7;
const EARLIEST_LOCAL_VERSION: i16 = 8;
const LATEST_TIERED_VERSION: i16 = 9;
const PENDING_UPLOAD_VERSION: i16 = 11;

const UNKNOWN: i64 = -1;

pub(crate) fn on_list_offsets(call: &mut Call<'_>, request: ListOffsetsRequest) -> Outcome {
    let key = call.next_key();
    let version = call.version();
    let repeated = repeated(&request);
    let hidden = hidden(&request, &call.asker);
    let asked = partitions(&request)
        .filter(|(topic, _)| !hidden.contains(*topic))
        .filter(|(topic, asked)| !repeated.contains(&(*topic, asked.partition_index)))
        .map(|(topic, asked)| Asked {
            topic,
            index: asked.partition_index,
            current_epoch: LeaderEpoch(asked.current_leader_epoch),
            spot: spot(asked.timestamp, version),
        });
    // Other brokers are told of the log itself. One that compares replicas is answered by each of them.
    let scope = Scope {
        isolation: match request.replica_id {
            0.. if call.is_of_peer() => Isolation::Log,
            _ => isolation(request.isolation_level),
        },
        leader_only: request.replica_id != COMPARISON,
        anew: false,
    };
    let searching = Searching::begin(call.desk, &call.asker, asked, scope, key);
    let search = Search {
        request,
        hidden,
        searching,
    };
    if search.searching.is_whole() {
        answer(call, search)
    } else {
        call.park(Waiting::Search(search))
    }
}

/// A record was looked up.
pub(crate) fn on_piece(hall: &mut Hall<'_>, ticket: Ticket, piece: Piece) {
    let Some(Waiting::Search(search)) = hall.waiting(ticket.key) else {
        return;
    };
    search.searching.put(ticket.part, piece);
    if search.searching.is_whole() {
        hall.resume(ticket.key, |call, waiting| match waiting {
            Waiting::Search(search) => answer(call, search),
            _ => Outcome::Waits,
        });
    }
}

fn answer(call: &mut Call<'_>, search: Search) -> Outcome {
    let Search {
        request,
        hidden,
        searching,
    } = search;
    let repeated = repeated(&request);
    let mut results = searching.into_results();
    let mut answer = |topic: &str, asked: &ListOffsetsPartition| {
        let mut response = ListOffsetsPartitionResponse {
            partition_index: asked.partition_index,
            timestamp: UNKNOWN,
            offset: UNKNOWN,
            leader_epoch: LeaderEpoch::NONE.0,
            ..Default::default()
        };
        if hidden.contains(topic) {
            response.error_code = ErrorCode::TopicAuthorizationFailed.code();
        } else if repeated.contains(&(topic, asked.partition_index)) {
            response.error_code = ErrorCode::InvalidRequest.code();
        } else if let Some(result) = results.next() {
            tell(&mut response, result, call.version());
        }
        response
    };
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| answer(&topic.name, asked))
            .collect(),
    });
    let mut topics: Vec<ListOffsetsTopicResponse> = topics.collect();
    topics.sort_by_key(|topic| hidden.contains(&topic.name));
    let response = ListOffsetsResponse {
        topics,
        ..Default::default()
    };
    call.reply(ApiKey::ListOffsets, &response)
}

/// Topics that the asker may not see. They come behind all others, and nothing of them is looked at.
fn hidden(request: &ListOffsetsRequest, asker: &Asker) -> HashSet<String> {
    let names = request.topics.iter().map(|topic| &topic.name);
    let is_hidden = |name: &&String| {
        let topic = Resource::topic(name);
        asker.grant(Operation::Describe, topic).is_err()
    };
    names.filter(is_hidden).cloned().collect()
}

fn tell(response: &mut ListOffsetsPartitionResponse, result: SearchResult, version: i16) {
    match result {
        Ok(Some(place)) => {
            response.timestamp = place.timestamp.map_or(UNKNOWN, |at| at.0);
            response.offset = place.offset.0;
            if version >= LEADER_EPOCH_VERSION {
                response.leader_epoch = place.epoch.0;
            }
        }
        Ok(None) => {}
        Err(why) => {
            let code = match &why {
                Refused::Unauthorised => ErrorCode::TopicAuthorizationFailed,
                Refused::Because(SearchRefusal::Absent(why)) => error::absent(*why),
                Refused::Because(SearchRefusal::NoSuchSpot) => ErrorCode::UnsupportedVersion,
                Refused::Because(SearchRefusal::NotYet) if NOT_AVAILABLE_VERSION <= version => {
                    ErrorCode::OffsetNotAvailable
                }
                Refused::Because(SearchRefusal::NotYet) => ErrorCode::LeaderNotAvailable,
                Refused::Because(SearchRefusal::Read(error)) => error::read(error),
            };
            response.error_code = code.code();
        }
    }
}

/// The partitions that a request asks about, with the name of the topic.
fn partitions(request: &ListOffsetsRequest) -> impl Iterator<Item = (&str, &ListOffsetsPartition)> {
    request.topics.iter().flat_map(|topic| {
        let asked = topic.partitions.iter();
        asked.map(|asked| (topic.name.as_str(), asked))
    })
}

/// Partitions that one request names more than once; an answer could not say which question it is to.
fn repeated(request: &ListOffsetsRequest) -> HashSet<(&str, i32)> {
    let mut seen = HashSet::new();
    partitions(request)
        .map(|(topic, asked)| (topic, asked.partition_index))
        .filter(|place| !seen.insert(*place))
        .collect()
}

/// `None` for a special time that this version does not know.
fn spot(timestamp: i64, version: i16) -> Option<Spot> {
    let (spot, since) = match timestamp {
        LATEST => (Spot::End, 0),
        EARLIEST => (Spot::LogStart, 0),
        EARLIEST_LOCAL => (Spot::LocalStart, EARLIEST_LOCAL_VERSION),
        EARLIEST_PENDING_UPLOAD => (Spot::InTier, PENDING_UPLOAD_VERSION),
        LATEST_TIERED => (Spot::InTier, LATEST_TIERED_VERSION),
        MAX_TIMESTAMP => (Spot::Time(SearchTime::Largest), MAX_TIMESTAMP_VERSION),
        time if time >= 0 => (Spot::Time(SearchTime::From(Timestamp(time))), 0),
        _ => return None,
    };
    (since <= version).then_some(spot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::bench::{Bench, encoded};
    use model::{BrokerId, Offset};
    use partition::{FollowerAt, Replicas, Role};
    use wire::messages::list_offsets_request::ListOffsetsTopic;
    use wire::messages::offset_for_leader_epoch_request::{
        OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    use wire::messages::{CreateTopicsRequest, OffsetForLeaderEpochRequest};

    const TOPIC: &str = "t";
    const CONSUMER: i32 = -1;
    const FOLLOWER: i32 = 2;

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

    #[test]
    fn times_are_looked_up_by_the_reader_pool_and_the_rest_is_known() {
        let mut bench = Bench::new();
        bench.create(TOPIC, 2);
        bench.answer::<CreateTopicsRequest>(4);
        bench.append(TOPIC, b"of some time");
        let asked = |(partition_index, timestamp)| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp,
        };
        let partitions = [(0, MAX_TIMESTAMP), (1, LATEST), (7, LATEST)];
        let request = ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: TOPIC.to_owned(),
                partitions: Vec::from(partitions.map(asked)),
            }],
            ..Default::default()
        };
        bench.put(&encoded(&request, 10));
        assert_eq!(bench.answer::<ListOffsetsRequest>(10), None);
        assert_eq!(bench.execute_needs(), 1, "one is for a time");
        let answer = bench.answer::<ListOffsetsRequest>(10).expect("it is whole");
        let answers = answer.topics[0].partitions.iter();
        let answers = answers.map(|answer| (answer.error_code, answer.offset, answer.leader_epoch));
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let expected = [(0, 0, 0), (0, 0, 0), (unknown, -1, -1)];
        assert_eq!(answers.collect::<Vec<_>>(), expected);
    }

    /// The code of the answer to a question of a client, or of one who asks for the log itself.
    fn asked(
        bench: &mut Bench,
        (replica_id, timestamp): (i32, i64),
        version: i16,
    ) -> (ErrorCode, i64) {
        let request = ListOffsetsRequest {
            replica_id,
            topics: vec![ListOffsetsTopic {
                name: TOPIC.to_owned(),
                partitions: vec![ListOffsetsPartition {
                    current_leader_epoch: -1,
                    timestamp,
                    ..Default::default()
                }],
            }],
            ..Default::default()
        };
        bench.put(&encoded(&request, version));
        bench.execute_needs();
        let answer = bench.answer::<ListOffsetsRequest>(version);
        let answer = &answer.expect("it is whole").topics[0].partitions[0];
        let code = ErrorCode::try_from(answer.error_code).expect("a code");
        (code, answer.offset)
    }

    #[test]
    fn a_new_leader_says_no_end_before_it_has_committed_what_it_found() {
        let mut bench = Bench::new();
        bench.create(TOPIC, 1);
        bench.answer::<CreateTopicsRequest>(4);
        bench.append(TOPIC, b"committed");
        let partition = bench.partition(TOPIC, 0);
        let replicas = Replicas {
            me: BrokerId(1),
            all: vec![BrokerId(1), BrokerId(2)],
            in_sync: vec![BrokerId(1), BrokerId(2)],
            partition_epoch: 7,
        };
        let lead = |epoch| {
            let role = Role::Leading(replicas.clone());
            partition.set_role(LeaderEpoch(epoch), role, &mut Vec::new());
        };
        lead(1);
        assert_eq!(
            asked(&mut bench, (CONSUMER, LATEST), 5),
            (ErrorCode::None, 1)
        );
        bench.append_undurably(TOPIC, b"found by the next one");
        bench.commit();
        assert_eq!(
            asked(&mut bench, (CONSUMER, LATEST), 5),
            (ErrorCode::None, 1)
        );
        lead(2);
        let not_yet = (ErrorCode::OffsetNotAvailable, UNKNOWN);
        for timestamp in [LATEST, 1 << 60] {
            assert_eq!(asked(&mut bench, (CONSUMER, timestamp), 5), not_yet);
            let (code, _) = asked(&mut bench, (CONSUMER, timestamp), 4);
            assert_eq!(code, ErrorCode::LeaderNotAvailable);
        }
        // Offsets known to be committed are answered, and a broker is told of the log.
        assert_eq!(
            asked(&mut bench, (CONSUMER, EARLIEST), 5),
            (ErrorCode::None, 0)
        );
        assert_eq!(asked(&mut bench, (COMPARISON, LATEST), 5), not_yet);
        bench.become_node(3);
        assert_eq!(
            asked(&mut bench, (FOLLOWER, LATEST), 5),
            (ErrorCode::None, 2)
        );
        let said = FollowerAt {
            epoch: LeaderEpoch(2),
            broker: BrokerId(2),
            broker_epoch: 1,
            log_start: Offset::ZERO,
            synced: Offset(2),
        };
        partition.on_follower_at(said, &mut Vec::new());
        assert_eq!(
            asked(&mut bench, (CONSUMER, LATEST), 5),
            (ErrorCode::None, 2)
        );
        let beyond = asked(&mut bench, (CONSUMER, 1 << 60), 5);
        assert_eq!(beyond, (ErrorCode::None, UNKNOWN));
    }
}
