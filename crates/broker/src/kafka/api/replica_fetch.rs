//! Fetch as followers send it: one session for each follower, whose partitions [`ops::feed`](crate::ops::feed) looks after.
//!
//! A request that finds nothing waits; the next one of its session has it answered at once, so that a follower may report what it has
//! synced while another request of it waits for records. Followers of Kafka send one at a time.

use std::time::Duration;

use bytes::Bytes;
use model::lineage::EpochEnd;
use model::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Ticket, WaiterKey};
use partition::{Piece, Records};
use wire::messages::fetch_request::FetchPartition;
use wire::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};
use wire::messages::{FetchRequest, FetchResponse};
use wire::{ApiKey, ErrorCode};

use super::fetch::chunks;
use crate::error;
use crate::kafka::call::Call;
use crate::kafka::hall::Hall;
use crate::kafka::parked::{FeedRequest, Waiting};
use crate::net::Outcome;
use crate::ops::feed::{Fed, Feed, FeedRefusal, Key, Listed};
use crate::topics::Absent;

/// First version with sessions.
const SESSIONS_SINCE: i16 = 7;
/// A follower's request for which there is nothing yet waits no longer, whatever it asks for.
const WAIT_MAX: Duration = Duration::from_secs(5);

pub(crate) fn on_replica_fetch(call: &mut Call<'_>, request: FetchRequest) -> Outcome {
    let FetchRequest {
        session_id: session,
        session_epoch: epoch,
        ..
    } = request;
    let state = &request.replica_state;
    let broker = BrokerId(state.replica_id.max(request.replica_id));
    let broker_epoch = state.replica_epoch;
    let own = if epoch <= 0 {
        begin(call, (broker, broker_epoch))
    } else {
        match find(call, session, epoch) {
            Ok(own) => own,
            Err(code) => {
                let response = FetchResponse {
                    error_code: code.code(),
                    counts_synced: true,
                    ..FetchResponse::default()
                };
                return call.reply(ApiKey::Fetch, &response);
            }
        }
    };
    let replication = &call.desk.shared.mail.followers;
    replication.on_heard(broker, call.desk.now);
    let mut parts = request.topics.iter().flat_map(|topic| &topic.partitions);
    let begins_anew = parts.any(listed_anew);
    if begins_anew {
        // The answer to the request before is of what was before.
        answer_waiting(&mut call.hall(), own, When::Now);
    }
    take_in(call, own, &request);
    // The request before is first in the order of answers, and reports what is committed by now.
    answer_waiting(&mut call.hall(), own, When::Now);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let bytes_max = usize::try_from(request.max_bytes).unwrap_or(0);
    let bytes_max = bytes_max.min(call.desk.shared.catalog.settings().fetch_bytes_max);
    let is_first = epoch <= 0;
    let Some(feed) = call.door.feeds.get_mut(own) else {
        return Outcome::Close;
    };
    let fed = feed.gather(call.desk, own, bytes_max);
    let session = feed.session;
    // The answer to the first request makes the session.
    if !fed.is_empty() || is_first || wait.is_zero() || call.desk.is_stopping {
        return respond(call, session, fed);
    }
    let deadline = feed.deadline(call.desk.now, wait.min(WAIT_MAX));
    park(
        call,
        own,
        FeedRequest {
            feed: own,
            bytes_max,
            deadline,
        },
    )
}

/// A new session, in place of the ones that the follower had on this connection.
fn begin(call: &mut Call<'_>, broker: (BrokerId, i64)) -> WaiterKey {
    let conn = call.address.conn;
    let old = call.door.feed_of.remove(&conn);
    if let Some(old) = old {
        answer_waiting(&mut call.hall(), old, When::Now);
        call.hall().end_feed(old);
    }
    let random = call.desk.shared.env.rng.next_u64();
    // Any number but none at all.
    let session = i32::try_from(random >> 33).unwrap_or(1).max(1);
    let own = call.door.feeds.insert(Feed::new(broker, session));
    call.door.feed_of.insert(conn, own);
    own
}

fn find(call: &mut Call<'_>, session: i32, epoch: i32) -> Result<WaiterKey, ErrorCode> {
    let conn = call.address.conn;
    let own = call.door.feed_of.get(&conn).copied();
    let own = own.ok_or(ErrorCode::FetchSessionIdNotFound)?;
    let feed = call.door.feeds.get_mut(own);
    let feed = feed.filter(|feed| feed.session == session);
    let feed = feed.ok_or(ErrorCode::FetchSessionIdNotFound)?;
    if feed.session_epoch != epoch {
        return Err(ErrorCode::InvalidFetchSessionEpoch);
    }
    feed.session_epoch = epoch.checked_add(1).unwrap_or(1);
    Ok(own)
}

fn take_in(call: &mut Call<'_>, own: WaiterKey, request: &FetchRequest) {
    let topics = call.desk.topics();
    let inbox = call.desk.inbox;
    let Some(feed) = call.door.feeds.get_mut(own) else {
        return;
    };
    for topic in &request.forgotten_topics_data {
        for index in &topic.partitions {
            let key = (topic.topic_id, PartitionIndex(*index));
            feed.on_unlisted(key, (inbox, own));
        }
    }
    for topic in &request.topics {
        for asked in &topic.partitions {
            let key = (topic.topic_id, PartitionIndex(asked.partition));
            let caught_up = feed.on_listed(&topics, listed(key, asked), &mut call.desk.news);
            if let Some(partition) = caught_up {
                call.desk.shared.mail.followers.on_caught_up(partition);
            }
        }
    }
    feed.tell_watermarks();
    feed.release();
}

/// A follower of Kafka says where it is, and that is all it says.
fn listed_anew(asked: &FetchPartition) -> bool {
    asked.synced_offset < 0 || asked.is_restart
}

fn listed(key: Key, asked: &FetchPartition) -> Listed {
    let is_plain = asked.synced_offset < 0;
    let end = Offset(asked.fetch_offset);
    Listed {
        key,
        epoch: LeaderEpoch(asked.current_leader_epoch.max(LeaderEpoch::NONE.0)),
        at: EpochEnd {
            epoch: LeaderEpoch(asked.last_fetched_epoch.max(LeaderEpoch::NONE.0)),
            end,
        },
        log_start: Offset(asked.log_start_offset),
        synced: if is_plain {
            end
        } else {
            Offset(asked.synced_offset)
        },
        bytes_max: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
        is_restart: listed_anew(asked),
        is_plain,
    }
}

fn park(call: &mut Call<'_>, own: WaiterKey, request: FeedRequest) -> Outcome {
    let key = call.next_key();
    call.door.timers.set(request.deadline, key);
    let outcome = call.park(Waiting::Replica(request));
    if let Some(feed) = call.door.feeds.get_mut(own) {
        feed.waiting = Some(key);
    }
    outcome
}

/// When a request that waits is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// Once there is something to say.
    NotEmpty,
}

/// Answers the request of a feed that waits, if one does, with what there is.
fn answer_waiting(hall: &mut Hall<'_>, own: WaiterKey, when: When) {
    let waiting = hall.door.feeds.get_mut(own).and_then(|feed| feed.waiting);
    let Some(key) = waiting else {
        return;
    };
    let Some(Waiting::Replica(request)) = hall.waiting(key) else {
        return;
    };
    let bytes_max = request.bytes_max;
    let Some(feed) = hall.door.feeds.get_mut(own) else {
        return;
    };
    let fed = feed.gather(hall.desk, own, bytes_max);
    if fed.is_empty() && when == When::NotEmpty {
        return;
    }
    feed.waiting = None;
    let session = feed.session;
    hall.resume(key, |call, _| respond(call, session, fed));
}

/// Partitions of feeds have grown: requests that wait are answered with what came.
pub(crate) fn on_grown(hall: &mut Hall<'_>, tickets: &[Ticket]) {
    let Some(own) = tickets.first().map(|ticket| ticket.key) else {
        return;
    };
    let Some(feed) = hall.door.feeds.get_mut(own) else {
        return;
    };
    for ticket in tickets {
        feed.on_grown(ticket.part);
    }
    answer_waiting(hall, own, When::NotEmpty);
}

/// Bytes of files have come for a feed.
pub(crate) fn on_piece(hall: &mut Hall<'_>, ticket: Ticket, piece: Piece) {
    if let Some(feed) = hall.door.feeds.get_mut(ticket.key) {
        feed.on_piece(ticket.part, piece);
        answer_waiting(hall, ticket.key, When::NotEmpty);
    }
}

/// The time of a request that waits is up.
pub(crate) fn on_deadline(hall: &mut Hall<'_>, key: WaiterKey) {
    let Some(Waiting::Replica(request)) = hall.waiting(key) else {
        return;
    };
    let own = request.feed;
    if let Some(feed) = hall.door.feeds.get_mut(own) {
        feed.tell_watermarks();
        feed.release();
    }
    answer_waiting(hall, own, When::Now);
}

impl Hall<'_> {
    /// The follower has gone, or has begun anew.
    pub(crate) fn end_feed(&mut self, own: WaiterKey) {
        let inbox = self.desk.inbox;
        if let Some(mut feed) = self.door.feeds.remove(own) {
            feed.end(inbox, own);
        }
    }
}

fn respond(call: &mut Call<'_>, session: i32, fed: Vec<(Key, Fed)>) -> Outcome {
    let mut response = FetchResponse {
        // Versions before sessions have no place for one.
        session_id: if call.version() < SESSIONS_SINCE {
            0
        } else {
            session
        },
        counts_synced: true,
        ..FetchResponse::default()
    };
    let mut fillers = Vec::new();
    for ((topic, index), fed) in fed {
        let mut data = PartitionData {
            partition_index: index.0,
            preferred_read_replica: -1,
            records: Some(wire::Records::Bytes(Bytes::new())),
            ..PartitionData::default()
        };
        match fed {
            Fed::Records(read) => {
                data.high_watermark = read.bounds.high_watermark.0;
                data.last_stable_offset = read.bounds.last_stable.0;
                data.log_start_offset = read.bounds.log_start.0;
                let len = read.records.len();
                if !matches!(read.records, Records::AtEnd) {
                    fillers.push(chunks(read.records));
                    data.records = Some(wire::Records::External(len as u32));
                }
            }
            Fed::Parts(told, log_start) => {
                data.diverging_epoch = parts_at(told);
                data.high_watermark = -1;
                data.log_start_offset = log_start.0;
            }
            Fed::Refused(why) => {
                let code = match &why {
                    FeedRefusal::Absent(Absent::Unknown) => ErrorCode::UnknownTopicId,
                    FeedRefusal::Absent(why) => error::absent(*why),
                    FeedRefusal::Read(error) => error::read(error),
                    FeedRefusal::Behind(at) => {
                        data.diverging_epoch = parts_at(*at);
                        ErrorCode::OffsetOutOfRange
                    }
                };
                data.error_code = code.code();
                data.high_watermark = -1;
                data.last_stable_offset = -1;
                data.log_start_offset = -1;
            }
        }
        match response.responses.last_mut() {
            Some(known) if known.topic_id == topic => known.partitions.push(data),
            _ => response.responses.push(FetchableTopicResponse {
                topic_id: topic,
                partitions: vec![data],
                ..FetchableTopicResponse::default()
            }),
        }
    }
    call.reply_with(ApiKey::Fetch, &response, fillers)
}

fn parts_at(told: EpochEnd) -> EpochEndOffset {
    EpochEndOffset {
        epoch: told.epoch.0,
        end_offset: told.end.0,
    }
}
