//! Fetch as Kafka's protocol has it: sessions, versions, and the form of the answer.
//!
//! [`ops::fetch`](crate::ops::fetch) decides what is read, and when there is enough of it. Record bytes are never copied when they
//! are large: memory goes out as it was received, files by sendfile.

use bytes::{BufMut, Bytes, BytesMut};
use model::{BrokerId, LeaderEpoch, Offset, Ticket, WaiterKey};
use partition::{Isolation, Piece, Read, Records, Scope};
use wire::messages::fetch_request::FetchPartition;
use wire::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, NodeEndpoint, PartitionData,
};
use wire::messages::{FetchRequest, FetchResponse};
use wire::records::Batch;
use wire::{ApiKey, ErrorCode};

use super::current_leaders::CurrentLeaders;
use super::isolation;
use crate::error;
use crate::kafka::call::Call;
use crate::kafka::hall::Hall;
use crate::kafka::parked::{Fetch, Parked, Waiting};
use crate::kafka::session::{Answered, Content, FollowedPartition};
use crate::net::{Chunk, Outcome};
use crate::ops::Refused;
use crate::ops::fetch::{Client, FetchRefusal, Fetched, Fetching, Kind, Progress, Terms, Wanted};
use crate::peers::Answer;
use crate::topics::Absent;

/// The replica id of one that is no broker.
const CONSUMER: i32 = -1;
/// First version in which consumers say where they are (KIP-392).
const FOLLOWER_VERSION: i16 = 11;
/// First version in which topics are named by id.
const TOPIC_ID_VERSION: i16 = 13;
/// First version that names the leaders of partitions that are led elsewhere (KIP-951).
const LEADER_VERSION: i16 = 16;
/// A body at least this long goes out from where it lies; a shorter one is copied next to its header.
const SPLICE_BYTES_MIN: usize = 4 << 10;

pub(crate) fn on_fetch(call: &mut Call<'_>, request: FetchRequest) -> Outcome {
    let bytes_max = usize::try_from(request.max_bytes)
        .unwrap_or(0)
        .min(call.desk.shared.catalog.settings().fetch_bytes_max);
    let wait = std::time::Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let (kind, scope) = scope(call, &request);
    let terms = Terms {
        kind,
        scope,
        bytes_min: usize::try_from(request.min_bytes)
            .unwrap_or(0)
            .min(bytes_max),
        bytes_max,
        near: near(call, kind, &request.rack_id),
        deadline: call.desk.now.plus(wait),
    };
    let uses_ids = TOPIC_ID_VERSION <= call.version();
    let (now, random) = (call.desk.now, call.desk.shared.env.rng.next_u64());
    let context = match call.door.sessions.open(request, uses_ids, now, random) {
        Ok(context) => context,
        Err(code) => {
            let response = FetchResponse {
                error_code: code.code(),
                ..Default::default()
            };
            return call.reply(ApiKey::Fetch, &response);
        }
    };
    let wanted = context
        .wanted
        .iter()
        .map(|(place, asked)| asks(place, asked));
    let mut fetching = Fetching::new(call.desk, &call.asker, wanted, terms);
    let key = call.next_key();
    let memory_max = call.hall().answer_memory_max();
    let connection = call.connections.get_mut(call.address.conn);
    let client = Client {
        readers: connection.map(|connection| &mut connection.readers),
        memory_max,
    };
    let progress = fetching.advance(call.desk, key, client);
    let fetch = Fetch {
        context,
        fetching,
        kept: 0,
    };
    match progress {
        Progress::Whole => answer(call, fetch),
        Progress::Dropped => Outcome::Close,
        Progress::Gathers | Progress::Watches => {
            let parked = call.park(Waiting::Fetch(fetch));
            on_parked(&mut call.hall(), key, progress);
            parked
        }
    }
}

/// Consumers of [`FOLLOWER_VERSION`] are served by replicas that follow as well (KIP-392). One that names itself as no consumer and no
/// broker either, as Kafka's `DEBUGGING_CONSUMER_ID` (-2), compares replicas, as far as they are committed. A broker that repairs its own
/// replica does so too and names its registration: it is shown the rest as well.
fn scope(call: &Call<'_>, request: &FetchRequest) -> (Kind, Scope) {
    let version = call.version();
    let replica_id = match request.replica_state.replica_id {
        CONSUMER => request.replica_id,
        replica_id => replica_id,
    };
    match replica_id {
        CONSUMER => {
            let scope = Scope {
                isolation: isolation(request.isolation_level),
                leader_only: version < FOLLOWER_VERSION,
                anew: false,
            };
            (Kind::Consumer, scope)
        }
        0.. => (Kind::Replica, Scope::of_leader(Isolation::Log)),
        _ => {
            let (kind, isolation) = if repairs(call, request.replica_state.replica_epoch) {
                (Kind::Repair, Isolation::Log)
            } else {
                (Kind::Comparison, isolation(request.isolation_level))
            };
            (kind, Scope::of_files(isolation))
        }
    }
}

/// True if a broker that lives asks, in this epoch of its registration.
fn repairs(call: &Call<'_>, epoch: i64) -> bool {
    let image = call.desk.shared.catalog.image();
    let mut brokers = image.brokers();
    call.is_of_peer() && brokers.any(|broker| broker.epoch == epoch && !broker.is_fenced)
}

/// Brokers that live in the rack of a consumer and are reached as this one was; none where this one is in it, or nobody is to look.
fn near(call: &Call<'_>, kind: Kind, rack: &str) -> Vec<BrokerId> {
    if kind != Kind::Consumer || rack.is_empty() {
        return Vec::new();
    }
    let scene = call.scene();
    let own = &scene.settings.broker;
    if !own.reads_by_rack || own.rack.as_deref() == Some(rack) {
        return Vec::new();
    }
    let view = scene.view(call.desk.shared.state.cluster_id());
    let there = (view.image.brokers()).filter(|broker| broker.rack.as_deref() == Some(rack));
    let reached = there.filter(|broker| view.live_endpoint(broker.id).is_some());
    reached.map(|broker| broker.id).collect()
}

fn asks<'a>(place: &'a FollowedPartition, asked: &FetchPartition) -> Wanted<'a> {
    Wanted {
        topic_id: place.topic_id,
        topic: &place.topic,
        index: place.partition,
        from: Offset(asked.fetch_offset),
        bytes_max: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
        // Any number below zero says none here, unlike in other requests.
        current_epoch: LeaderEpoch(asked.current_leader_epoch.max(LeaderEpoch::NONE.0)),
    }
}

/// A parked fetch has more to read in these partitions of it.
pub(crate) fn on_readable(hall: &mut Hall<'_>, key: WaiterKey, readable: &[Ticket]) {
    go_on(hall, key, |fetching| {
        fetching.on_readable(readable.iter().map(|ticket| ticket.part));
    });
}

/// The time of a parked fetch is up.
pub(crate) fn on_deadline(hall: &mut Hall<'_>, key: WaiterKey) {
    go_on(hall, key, Fetching::on_deadline);
}

/// A piece of a parked fetch has come.
pub(crate) fn on_piece(hall: &mut Hall<'_>, ticket: Ticket, piece: Piece) {
    go_on(hall, ticket.key, |fetching| {
        fetching.put(ticket.part, piece)
    });
}

/// The leader of partitions of a parked fetch has answered, or has not.
pub(crate) fn on_replied(hall: &mut Hall<'_>, ticket: Ticket, answer: Option<Answer>) {
    go_on(hall, ticket.key, |fetching| {
        fetching.on_replied(ticket, answer);
    });
}

fn go_on(hall: &mut Hall<'_>, key: WaiterKey, change: impl FnOnce(&mut Fetching)) {
    let memory_max = hall.answer_memory_max();
    let Some(parked) = hall.door.parked.get_mut(key) else {
        return;
    };
    let Waiting::Fetch(fetch) = &mut parked.waiting else {
        return;
    };
    // A right that it was parked with may have been taken away since.
    fetch.fetching.ask_again(&parked.asker);
    change(&mut fetch.fetching);
    let connection = hall.connections.get_mut(parked.address.conn);
    let client = Client {
        readers: connection.map(|connection| &mut connection.readers),
        memory_max,
    };
    let progress = fetch.fetching.advance(hall.desk, key, client);
    if let Progress::Gathers | Progress::Watches = progress {
        return on_parked(hall, key, progress);
    }
    let_go(hall, key);
    hall.resume(key, |call, waiting| match waiting {
        Waiting::Fetch(fetch) if progress == Progress::Whole => answer(call, fetch),
        _ => Outcome::Close,
    });
}

fn on_parked(hall: &mut Hall<'_>, key: WaiterKey, progress: Progress) {
    let Some(Waiting::Fetch(fetch)) = hall.waiting(key) else {
        return;
    };
    let before = std::mem::replace(&mut fetch.kept, fetch.fetching.memory());
    let (after, deadline) = (fetch.kept, fetch.deadline());
    hall.connections.on_kept(before, after);
    if progress == Progress::Watches {
        hall.door.timers.set(deadline, key);
    }
}

/// A fetch that is about to be taken watches nothing any more, and what it keeps counts with its answer.
fn let_go(hall: &mut Hall<'_>, key: WaiterKey) {
    let inbox = hall.desk.inbox;
    if let Some(Waiting::Fetch(fetch)) = hall.waiting(key) {
        fetch.fetching.unwatch(inbox, key);
        let kept = std::mem::take(&mut fetch.kept);
        hall.connections.on_kept(kept, 0);
    }
}

/// Takes a fetch that is not to be answered.
pub(crate) fn take(hall: &mut Hall<'_>, key: WaiterKey) -> Option<Parked> {
    let_go(hall, key);
    hall.door.take(key)
}

fn answer(call: &mut Call<'_>, fetch: Fetch) -> Outcome {
    let Fetch {
        context, fetching, ..
    } = fetch;
    let mut response = FetchResponse {
        session_id: context.session_id,
        ..Default::default()
    };
    let isolation = fetching.isolation();
    let mut fillers = Vec::new();
    let mut leaders = None;
    let mut denied = Vec::new();
    for ((place, wanted), fetched) in context.wanted.iter().zip(fetching.into_results()) {
        let Fetched {
            result,
            goes_on,
            nearest,
        } = fetched;
        let is_denied = matches!(result, Err(Refused::Unauthorised));
        let (mut data, records) = match result {
            Ok(read) => found(wanted, read, isolation),
            Err(why) => (refused(wanted, &why, call.version()), Records::AtEnd),
        };
        data.next_good_offset = goes_on.map_or(-1, |next| next.0);
        data.preferred_read_replica = nearest.map_or(-1, |broker| broker.0);
        if LEADER_VERSION <= call.version() && CurrentLeaders::are_wanted(data.error_code) {
            let leaders = leaders.get_or_insert_with(|| CurrentLeaders::new(call));
            let topic = (place.topic_id, &*place.topic);
            if let Some((id, epoch)) = leaders.name(topic, place.partition, data.error_code) {
                data.current_leader.leader_id = id;
                data.current_leader.leader_epoch = epoch;
            }
        }
        let is_new = context.session_id == 0 || {
            let answered = noted(&data, &records);
            let sessions = &mut call.door.sessions;
            sessions.note(context.session_id, place, answered)
        };
        if context.is_incremental && !is_new && nearest.is_none() {
            continue;
        }
        data.records = Some(match records {
            Records::AtEnd => wire::Records::Bytes(Bytes::new()),
            records => {
                let len = records.len() as u32;
                fillers.push(chunks(records));
                wire::Records::External(len)
            }
        });
        if is_denied {
            denied.push((place, data));
        } else {
            put(&mut response, place, data);
        }
    }
    // Behind all others, as in Kafka.
    for (place, data) in denied {
        put(&mut response, place, data);
    }
    if let Some(leaders) = leaders {
        let scene = call.scene();
        let view = scene.view(call.desk.shared.state.cluster_id());
        let nodes = leaders.nodes(&view).into_iter();
        response.node_endpoints = nodes
            .map(|node| NodeEndpoint {
                node_id: node.id,
                host: node.host,
                port: node.port,
                rack: node.rack,
            })
            .collect();
    }
    call.reply_with(ApiKey::Fetch, &response, fillers)
}

/// The part of an answer that its session remembers.
fn noted(data: &PartitionData, records: &Records) -> Answered {
    Answered {
        high_watermark: data.high_watermark,
        log_start: data.log_start_offset,
        content: if data.error_code != 0 {
            Content::Error
        } else if records.is_empty() {
            Content::Nothing
        } else {
            Content::Records
        },
    }
}

fn put(response: &mut FetchResponse, place: &FollowedPartition, data: PartitionData) {
    match response.responses.last_mut() {
        Some(topic) if topic.topic_id == place.topic_id && *topic.topic == *place.topic => {
            topic.partitions.push(data)
        }
        _ => response.responses.push(FetchableTopicResponse {
            topic: place.topic.to_string(),
            topic_id: place.topic_id,
            partitions: vec![data],
        }),
    }
}

fn found(wanted: &FetchPartition, read: Read, isolation: Isolation) -> (PartitionData, Records) {
    let aborted = read.aborted.iter().map(|txn| AbortedTransaction {
        producer_id: txn.producer_id.0,
        first_offset: txn.first_offset.0,
    });
    let aborted = aborted.collect();
    let data = PartitionData {
        partition_index: wanted.partition,
        high_watermark: read.bounds.high_watermark.0,
        last_stable_offset: read.bounds.last_stable.0,
        log_start_offset: read.bounds.log_start.0,
        aborted_transactions: (isolation == Isolation::Committed).then_some(aborted),
        preferred_read_replica: -1,
        ..Default::default()
    };
    (data, read.records)
}

fn refused(wanted: &FetchPartition, why: &Refused<FetchRefusal>, version: i16) -> PartitionData {
    let code = match why {
        Refused::Unauthorised => ErrorCode::TopicAuthorizationFailed,
        Refused::Because(why) => match why {
            FetchRefusal::UnknownTopic if TOPIC_ID_VERSION <= version => ErrorCode::UnknownTopicId,
            FetchRefusal::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            FetchRefusal::Absent(why) => error::absent(*why),
            FetchRefusal::NotLeader => ErrorCode::NotLeaderOrFollower,
            FetchRefusal::Read(error) => error::read(error),
            FetchRefusal::Refused(code) => *code,
        },
    };
    // As Kafka answers: none where the log was asked, an empty list where nobody got that far.
    let is_of_log = match why {
        Refused::Unauthorised => false,
        Refused::Because(FetchRefusal::UnknownTopic) => false,
        Refused::Because(FetchRefusal::Absent(why)) => *why == Absent::Elsewhere,
        Refused::Because(_) => true,
    };
    PartitionData {
        partition_index: wanted.partition,
        error_code: code.code(),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        aborted_transactions: (!is_of_log).then(Vec::new),
        preferred_read_replica: -1,
        ..Default::default()
    }
}

/// The pieces to send for records: small batches copied together, large ones as they are.
pub(super) fn chunks(records: Records) -> Vec<Chunk> {
    match records {
        Records::AtEnd => Vec::new(),
        Records::File(slice) => vec![Chunk::File(slice.into_slice())],
        Records::Memory(batches) => {
            let copied: usize = batches.iter().map(copied_bytes).sum();
            let mut scratch = BytesMut::with_capacity(copied);
            let mut chunks = Vec::new();
            for batch in batches {
                scratch.put_slice(batch.head());
                if batch.body().len() < SPLICE_BYTES_MIN {
                    scratch.put_slice(batch.body());
                } else {
                    chunks.push(Chunk::Bytes(scratch.split().freeze()));
                    chunks.push(Chunk::Bytes(batch.body().clone()));
                }
            }
            if !scratch.is_empty() {
                chunks.push(Chunk::Bytes(scratch.freeze()));
            }
            chunks
        }
    }
}

fn copied_bytes(batch: &Batch) -> usize {
    let body = batch.body().len();
    batch.head().len() + if body < SPLICE_BYTES_MIN { body } else { 0 }
}

#[cfg(test)]
mod tests;
