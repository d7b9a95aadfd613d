//! Fetch: plan all partitions within the byte budget, answer at once or park until there is enough.
//!
//! Record bytes are never copied when they are large: memory goes out as it was received, files by sendfile.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use model::{InboxId, Ticket, WaiterKey};
use model::{Instant, LeaderEpoch, Offset};
use partition::{Isolation, Partition, Plan, ReadError, ReadRequest};
use wire::messages::fetch_request::FetchPartition;
use wire::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use wire::messages::{FetchRequest, FetchResponse};
use wire::records::Batch;
use wire::{ApiKey, ErrorCode, Records};

use super::isolation;
use crate::error;
use crate::event_loop::{Chunk, Outcome};
use crate::kafka::call::Call;
use crate::kafka::hall::Hall;
use crate::kafka::parked::Waiting;
use crate::kafka::session::Context;

/// First version in which topics are named by id.
const TOPIC_ID_VERSION: i16 = 13;
/// A body at least this long goes out from where it lies; a shorter one is copied next to its header.
const SPLICE_BYTES_MIN: usize = 4 << 10;

/// A fetch, parked or not.
pub(crate) struct Fetch {
    context: Context,
    partitions: Vec<Result<Arc<Partition>, ErrorCode>>,
    bytes_min: usize,
    bytes_max: usize,
    isolation: Isolation,
    is_replica: bool,
    pub(crate) deadline: Instant,
    waits_for: WaitsFor,
}

/// What a fetch that is not answered waits for.
enum WaitsFor {
    /// More to read.
    Bytes,
    /// Its bytes to be in memory.
    Memory,
    /// Its bytes to be verified; only then it is seen whether they are enough.
    Verification,
}

/// What an answer may still hold, in all and of bytes that stay in memory until they are sent.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    memory: usize,
}

struct Looked {
    data: PartitionData,
    plan: Plan,
    seen: Offset,
    /// What was asked when bytes have to be verified before they are shown.
    unverified: Option<ReadRequest>,
}

pub(crate) fn on_fetch(call: &mut Call<'_>, request: FetchRequest) -> Outcome {
    let bytes_max = usize::try_from(request.max_bytes)
        .unwrap_or(0)
        .min(call.desk.shared.fetch_bytes_max());
    let wait = std::time::Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let mut fetch = Fetch {
        bytes_min: usize::try_from(request.min_bytes)
            .unwrap_or(0)
            .min(bytes_max),
        bytes_max,
        isolation: isolation(request.isolation_level),
        is_replica: request.replica_id >= 0 || request.replica_state.replica_id >= 0,
        deadline: call.desk.now.plus(wait),
        partitions: Vec::new(),
        waits_for: WaitsFor::Bytes,
        context: match call.door.sessions.open(
            request,
            TOPIC_ID_VERSION <= call.version(),
            call.desk.now,
            call.desk.shared.env.rng.next_u64(),
        ) {
            Ok(context) => context,
            Err(code) => {
                let response = FetchResponse {
                    error_code: code.code(),
                    ..Default::default()
                };
                return call.reply(ApiKey::Fetch, &response);
            }
        },
    };
    fetch.partitions = find_partitions(call, &fetch.context, call.version());
    let memory_max = call.hall().answer_memory_max();
    let mut looked = fetch.look(memory_max, true);
    let unverified = fetch.unverified(&looked);
    if !unverified.is_empty() {
        let ticket = call.ticket();
        if call.desk.shared.prefetcher.verify(unverified, ticket) {
            fetch.waits_for = WaitsFor::Verification;
            return call.park(Waiting::Fetch(fetch));
        }
        looked = fetch.look(memory_max, false);
    }
    begin_fetch(call, fetch, looked, memory_max)
}

/// Answers what was found, or waits for more.
fn begin_fetch(
    call: &mut Call<'_>,
    mut fetch: Fetch,
    looked: Vec<Looked>,
    memory_max: usize,
) -> Outcome {
    let key = call.next_key();
    if fetch.is_satisfied(&looked, memory_max) || fetch.deadline <= call.desk.now {
        if !warm_up(call, key, &looked) {
            return answer_fetch(call, &fetch, looked);
        }
        fetch.waits_for = WaitsFor::Memory;
        return call.park(Waiting::Fetch(fetch));
    }
    if call.desk.is_stopping {
        // Two that wait in turn would keep the broker from ending.
        return Outcome::Close;
    }
    fetch.waits_for = WaitsFor::Bytes;
    let mut moved = Vec::new();
    for (index, (partition, looked)) in fetch.partitions.iter().zip(&looked).enumerate() {
        if let Ok(partition) = partition {
            let ticket = call.desk.ticket(key, index as u32);
            if !partition.watch(ticket, looked.seen, fetch.isolation) {
                moved.push(ticket);
            }
        }
    }
    let deadline = fetch.deadline;
    let parked = call.park(Waiting::Fetch(fetch));
    call.door.timers.set(deadline, key);
    // What has come since is not watched for: each of these is, once it is seen that there is still too little.
    if !moved.is_empty() {
        retry_fetch(&mut call.hall(), key, &moved);
    }
    parked
}

/// Keeps the window of sequential readers full; true when the answer has to wait until its bytes are in memory.
fn warm_up(call: &mut Call<'_>, key: WaiterKey, looked: &[Looked]) -> bool {
    let ticket = call.desk.ticket(key, 0);
    let Some(connection) = call.connections.get_mut(call.address.conn) else {
        return false;
    };
    let prefetcher = &call.desk.shared.prefetcher;
    let mut waits = false;
    for looked in looked {
        if let Plan::File(slice) = &looked.plan {
            let ticket = (!waits).then_some(ticket);
            waits |= connection.readers.on_slice(slice, ticket, prefetcher);
        }
    }
    waits
}

fn find_partitions(
    call: &mut Call<'_>,
    context: &Context,
    version: i16,
) -> Vec<Result<Arc<Partition>, ErrorCode>> {
    let topics = call.desk.topics();
    let unknown = if version >= TOPIC_ID_VERSION {
        ErrorCode::UnknownTopicId
    } else {
        ErrorCode::UnknownTopicOrPartition
    };
    context
        .wanted
        .iter()
        .map(|(place, _)| {
            let topic = topics.find(place.topic_id, &place.topic).ok_or(unknown)?;
            topic
                .partition(place.partition)
                .cloned()
                .ok_or(ErrorCode::UnknownTopicOrPartition)
        })
        .collect()
}

/// A parked fetch may have enough now, with more in these partitions of it, or its time is up.
pub(crate) fn retry_fetch(hall: &mut Hall<'_>, key: WaiterKey, readable: &[Ticket]) {
    let now = hall.desk.now;
    let memory_max = hall.answer_memory_max();
    let Some(Waiting::Fetch(fetch)) = hall.waiting(key) else {
        return;
    };
    if let WaitsFor::Verification = fetch.waits_for {
        return hall.resume(key, |call, waiting| match waiting {
            // Its bytes are verified, or it will be told of the damage.
            Waiting::Fetch(fetch) => {
                let looked = fetch.look(memory_max, false);
                begin_fetch(call, fetch, looked, memory_max)
            }
            _ => Outcome::Waits,
        });
    }
    let waits = matches!(fetch.waits_for, WaitsFor::Bytes);
    let mut looked = fetch.look(memory_max, false);
    let mut unwatched = None;
    while waits && !fetch.is_satisfied(&looked, memory_max) && now < fetch.deadline {
        let unwatched: &mut Vec<Ticket> = unwatched.get_or_insert_with(|| readable.to_vec());
        unwatched.retain(|ticket| !fetch.watch(*ticket, &looked));
        if unwatched.is_empty() {
            return;
        }
        looked = fetch.look(memory_max, false);
    }
    hall.resume(key, |call, waiting| match waiting {
        Waiting::Fetch(fetch) => {
            fetch.unwatch(call.desk.inbox, key);
            answer_fetch(call, &fetch, looked)
        }
        _ => Outcome::Waits,
    });
}

/// The asker is gone.
pub(crate) fn drop_fetch(hall: &mut Hall<'_>, key: WaiterKey) {
    if let Some(parked) = hall.door.take(key)
        && let Waiting::Fetch(fetch) = parked.waiting
    {
        fetch.unwatch(hall.desk.inbox, key);
    }
}

fn answer_fetch(call: &mut Call<'_>, fetch: &Fetch, looked: Vec<Looked>) -> Outcome {
    let mut response = FetchResponse {
        session_id: fetch.context.session_id,
        ..Default::default()
    };
    let mut fillers = Vec::new();
    for ((place, _), looked) in fetch.context.wanted.iter().zip(looked) {
        let Looked { mut data, plan, .. } = looked;
        if fetch.context.session_id != 0 {
            let (has_records, has_error) = (!plan.is_empty(), data.error_code != 0);
            let tell = call.door.sessions.tell(
                fetch.context.session_id,
                place,
                data.high_watermark,
                data.log_start_offset,
                has_records,
                has_error,
            );
            if fetch.context.is_incremental && !tell {
                continue;
            }
        }
        data.records = Some(match plan {
            Plan::AtEnd => Records::Bytes(Bytes::new()),
            plan => {
                let len = plan.len() as u32;
                fillers.push(chunks(plan));
                Records::External(len)
            }
        });
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
    call.reply_with(ApiKey::Fetch, &response, fillers)
}

impl Fetch {
    /// Looks at every partition. At most `memory_max` bytes are to be kept in memory, but for a first batch. With `may_wait`
    /// bytes that have to be verified first are only counted.
    fn look(&self, memory_max: usize, may_wait: bool) -> Vec<Looked> {
        let mut left = Room {
            bytes: self.bytes_max,
            memory: memory_max,
        };
        let mut has_any = false;
        self.context
            .wanted
            .iter()
            .zip(&self.partitions)
            .map(|((_, wanted), partition)| {
                let looked = match partition {
                    // Followers ask on the listener between brokers, and this broker has none to follow it.
                    Ok(_) if self.is_replica => {
                        Looked::refused(wanted, ErrorCode::NotLeaderOrFollower)
                    }
                    Ok(partition) => self.look_at(partition, wanted, left, !has_any, may_wait),
                    Err(code) => Looked::refused(wanted, *code),
                };
                has_any |= !looked.plan.is_empty();
                left.bytes = left.bytes.saturating_sub(looked.plan.len());
                if let Plan::Memory(_) = looked.plan {
                    left.memory = left.memory.saturating_sub(looked.plan.len());
                }
                looked
            })
            .collect()
    }

    /// Reads whose bytes nobody has verified.
    fn unverified(&self, looked: &[Looked]) -> Vec<(Arc<Partition>, ReadRequest)> {
        let looked = looked.iter().zip(&self.partitions);
        let unverified = looked.filter_map(|(looked, partition)| {
            let partition = partition.as_ref().ok()?;
            Some((Arc::clone(partition), looked.unverified?))
        });
        unverified.collect()
    }

    fn look_at(
        &self,
        partition: &Partition,
        wanted: &FetchPartition,
        left: Room,
        at_least_one: bool,
        may_wait: bool,
    ) -> Looked {
        let request = ReadRequest {
            from: Offset(wanted.fetch_offset),
            bytes_max: usize::try_from(wanted.partition_max_bytes)
                .unwrap_or(0)
                .min(left.bytes),
            memory_bytes_max: left.memory,
            at_least_one,
            // Any number below zero says none here, unlike in other requests.
            current_epoch: LeaderEpoch(wanted.current_leader_epoch.max(LeaderEpoch::NONE.0)),
            isolation: self.isolation,
            may_wait,
        };
        match partition.plan_read(request) {
            Ok(read) => {
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
                    aborted_transactions: (self.isolation == Isolation::Committed)
                        .then_some(aborted),
                    preferred_read_replica: -1,
                    ..Default::default()
                };
                let is_unverified = matches!(read.plan, Plan::Unverified(_));
                let unverified = is_unverified.then_some(request);
                Looked {
                    data,
                    plan: read.plan,
                    seen: read.bounds.end(self.isolation),
                    unverified,
                }
            }
            Err(error) => {
                let mut looked = Looked::refused(wanted, error::read(&error));
                if let ReadError::OutOfRange { bounds } = error {
                    looked.data.log_start_offset = bounds.log_start.0;
                    looked.data.high_watermark = bounds.high_watermark.0;
                }
                looked
            }
        }
    }

    fn is_satisfied(&self, looked: &[Looked], memory_max: usize) -> bool {
        let bytes: usize = looked.iter().map(|looked| looked.plan.len()).sum();
        // A bound on memory may not be filled exactly; then something is enough.
        let enough = if memory_max == usize::MAX {
            self.bytes_min
        } else {
            self.bytes_min.min(1)
        };
        bytes >= enough
            || looked.iter().any(|looked| looked.data.error_code != 0)
            || looked.is_empty()
    }

    /// False when there is more in that partition than was seen.
    fn watch(&self, ticket: Ticket, looked: &[Looked]) -> bool {
        let at = ticket.part as usize;
        match (self.partitions.get(at), looked.get(at)) {
            (Some(Ok(partition)), Some(look)) => partition.watch(ticket, look.seen, self.isolation),
            _ => true,
        }
    }

    pub(crate) fn unwatch(&self, inbox: InboxId, key: WaiterKey) {
        for partition in self.partitions.iter().flatten() {
            partition.unwatch(inbox, key);
        }
    }
}

impl Looked {
    fn refused(wanted: &FetchPartition, code: ErrorCode) -> Looked {
        let data = PartitionData {
            partition_index: wanted.partition,
            error_code: code.code(),
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            preferred_read_replica: -1,
            ..Default::default()
        };
        Looked {
            data,
            plan: Plan::AtEnd,
            seen: Offset(i64::MAX),
            unverified: None,
        }
    }
}

/// The pieces to send for a plan: small batches copied together, large ones as they are.
fn chunks(plan: Plan) -> Vec<Chunk> {
    match plan {
        Plan::AtEnd | Plan::Unverified(_) => Vec::new(),
        Plan::File(slice) => vec![Chunk::File(slice)],
        Plan::Memory(batches) => {
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
