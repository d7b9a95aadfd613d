//! Produce: from the request of a version to batches for partitions, and from what became of them to its answer.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use model::{Ticket, Timestamp};
use partition::AppendError;
use wire::messages::produce_response::{
    BatchIndexAndErrorMessage, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::records::{Breach, RecordFault, Rule};
use wire::{ApiKey, ErrorCode, Records};

use super::current_leaders::CurrentLeaders;
use crate::asker::Origin;
use crate::error;
use crate::kafka::call::Call;
use crate::kafka::parked::Waiting;
use crate::net::Outcome;
use crate::ops::Step;
use crate::ops::asking::QUESTION_BYTES;
use crate::ops::produce::{
    self, Acks, BatchFor, Joining, PartitionProduced, Placed, Produce, ProduceError, Produced,
    Producing, Refusal,
};

const INVALID_OFFSET: i64 = -1;
/// Clients below it cannot read zstd (KIP-110).
const ZSTD_VERSION: i16 = 7;
/// First version that names the leaders of partitions that are led elsewhere (KIP-951).
const LEADER_VERSION: i16 = 10;
/// First version whose clients know TRANSACTION_ABORTABLE, and the first that adds its partitions itself.
const ABORTABLE_VERSION: i16 = 11;
const ADDING_VERSION: i16 = 12;

pub(crate) fn on_produce(call: &mut Call<'_>, request: ProduceRequest) -> Outcome {
    let acks = match request.acks {
        0 => Some(Acks::None),
        1 => Some(Acks::Leader),
        -1 => Some(Acks::All),
        _ => None,
    };
    let asked = typed(request, acks.unwrap_or(Acks::Leader), call.version());
    if acks.is_none() {
        return refuse(call, asked, ErrorCode::InvalidRequiredAcks);
    }
    let first = call.ticket();
    let tickets = |part| Ticket { part, ..first };
    let connection = call.connections.get_mut(call.address.conn);
    let begun = match connection {
        Some(connection) => {
            let origin = connection.origin();
            produce::begin(call.desk, &call.asker, asked, origin, &tickets)
        }
        None => return Outcome::Close,
    };
    match begun {
        Ok(step) => on_step(call, step),
        Err((Refusal::SeveralProducers, asked)) => {
            refuse(call, asked, ErrorCode::InvalidProducerIdMapping)
        }
        Err((Refusal::NoTransactionalId | Refusal::Unauthorised, asked)) => {
            refuse(call, asked, ErrorCode::TransactionalIdAuthorizationFailed)
        }
    }
}

/// The coordinator of its transaction has answered, or everything that it appended is settled.
pub(crate) fn go_on(call: &mut Call<'_>, producing: Producing) -> Outcome {
    if producing.questions() > 0 {
        call.unhold();
    }
    let first = call.ticket();
    let tickets = |part| Ticket { part, ..first };
    let mut stamp = partition::Stamp::default();
    let origin = match call.connections.get_mut(call.address.conn) {
        Some(connection) => connection.origin(),
        // The connection is gone, and its buffer with it.
        None => Origin {
            stamp: &mut stamp,
            source: None,
        },
    };
    let step = producing.go_on(call.desk, &call.asker, origin, &tickets);
    on_step(call, step)
}

fn on_step(call: &mut Call<'_>, step: Step<Producing, Produced>) -> Outcome {
    match step {
        Step::Done(produced) => respond(call, produced),
        Step::Parked(producing) => {
            // The connection is not read while a coordinator is asked: what follows on it must not overtake the batches.
            if producing.questions() > 0 {
                call.charge(producing.questions() * QUESTION_BYTES);
                call.hold();
            }
            call.park(Waiting::Produce(producing))
        }
        Step::Dropped => Outcome::Close,
    }
}

fn typed(request: ProduceRequest, acks: Acks, version: i16) -> Produce {
    let mut asked = Produce {
        acks,
        patience: Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into()),
        transactional_id: request.transactional_id,
        joining: if version >= ADDING_VERSION {
            Joining::Adds
        } else {
            Joining::Verifies
        },
        knows_zstd: version >= ZSTD_VERSION,
        topics: Vec::with_capacity(request.topic_data.len()),
        batches: Vec::with_capacity(request.topic_data.len()),
    };
    for (topic, data) in (0..).zip(request.topic_data) {
        asked.topics.push((data.topic_id, data.name));
        let batches = data.partition_data.into_iter().map(|one| BatchFor {
            topic,
            index: one.index,
            records: match one.records {
                Some(Records::Bytes(bytes)) => bytes,
                _ => Bytes::new(),
            },
        });
        asked.batches.extend(batches);
    }
    asked
}

fn respond(call: &mut Call<'_>, produced: Produced) -> Outcome {
    if produced.acks == Acks::None {
        // A failure can be told in no other way.
        return if produced.has_failed() {
            Outcome::Close
        } else {
            Outcome::Silent
        };
    }
    let version = call.version();
    let mut responses = shape(produced.topics);
    for answer in &produced.answers {
        let topic = &mut responses[answer.topic as usize];
        let one = partition(&named(topic), answer, version);
        topic.partition_responses.push(one);
    }
    let mut response = ProduceResponse {
        responses,
        ..Default::default()
    };
    if LEADER_VERSION <= version {
        name_leaders(call, &mut response);
    }
    call.reply(ApiKey::Produce, &response)
}

/// Adds where the leaders are of partitions that are led elsewhere.
fn name_leaders(call: &mut Call<'_>, response: &mut ProduceResponse) {
    let is_refused = |one: &PartitionProduceResponse| CurrentLeaders::are_wanted(one.error_code);
    let mut topics = response.responses.iter();
    if !topics.any(|topic| topic.partition_responses.iter().any(is_refused)) {
        return;
    }
    let mut leaders = CurrentLeaders::new(call);
    for topic in &mut response.responses {
        let refused = topic.partition_responses.iter_mut();
        for one in refused.filter(|one| is_refused(one)) {
            let named = (topic.topic_id, topic.name.as_str());
            if let Some((id, epoch)) = leaders.name(named, one.index, one.error_code) {
                one.current_leader.leader_id = id;
                one.current_leader.leader_epoch = epoch;
            }
        }
    }
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

fn refuse(call: &mut Call<'_>, asked: Produce, code: ErrorCode) -> Outcome {
    if asked.acks == Acks::None {
        return Outcome::Close;
    }
    let mut responses = shape(asked.topics);
    for batch in &asked.batches {
        let topic = &mut responses[batch.topic as usize];
        topic.partition_responses.push(refused(batch.index, code));
    }
    let response = ProduceResponse {
        responses,
        ..Default::default()
    };
    call.reply(ApiKey::Produce, &response)
}

fn shape(topics: Vec<(wire::Uuid, String)>) -> Vec<TopicProduceResponse> {
    let topics = topics.into_iter();
    topics
        .map(|(topic_id, name)| TopicProduceResponse {
            name,
            topic_id,
            partition_responses: Vec::new(),
        })
        .collect()
}

/// The name of a topic; its id where the request had no name.
fn named(topic: &TopicProduceResponse) -> Cow<'_, str> {
    if topic.name.is_empty() {
        topic.topic_id.to_string().into()
    } else {
        topic.name.as_str().into()
    }
}

fn partition(topic: &str, answer: &PartitionProduced, version: i16) -> PartitionProduceResponse {
    match &answer.result {
        Ok(placed) => appended(answer.index, placed),
        Err(error) => {
            let mut response = refused(answer.index, code(error, version));
            match error {
                ProduceError::Internal { topic } => {
                    response.error_message =
                        Some(format!("{topic} is written by the broker alone"));
                }
                ProduceError::Append(error) => {
                    response.error_message = Some(error.to_string());
                    if let AppendError::Record(fault) = error {
                        response.record_errors = record_errors(topic, answer.index, fault);
                    }
                }
                _ => {}
            }
            response
        }
    }
}

fn code(error: &ProduceError, version: i16) -> ErrorCode {
    match error {
        ProduceError::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
        ProduceError::Absent(why) => error::absent(*why),
        ProduceError::UnknownId => ErrorCode::UnknownTopicId,
        ProduceError::Unauthorised => ErrorCode::TopicAuthorizationFailed,
        ProduceError::Internal { .. } => ErrorCode::InvalidTopicException,
        ProduceError::Unverified(code) => unverified(*code, version),
        ProduceError::Refused(code) | ProduceError::Lost(code) => *code,
        ProduceError::Append(error) => error::append(error),
        ProduceError::TimedOut => ErrorCode::RequestTimedOut,
    }
}

/// The code that a client of this version understands for a coordinator's refusal.
fn unverified(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::ConcurrentTransactions if version >= ADDING_VERSION => code,
        // Nothing was appended: the client tries again.
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        code => code,
    }
}

fn appended(index: i32, placed: &Placed) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset: placed.base_offset.0,
        log_append_time_ms: placed.append_time.0,
        log_start_offset: placed.log_start.0,
        ..Default::default()
    }
}

fn refused(index: i32, code: ErrorCode) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: code.code(),
        base_offset: INVALID_OFFSET,
        log_append_time_ms: Timestamp::NONE.0,
        log_start_offset: INVALID_OFFSET,
        ..Default::default()
    }
}

fn record_errors(
    topic: &str,
    partition: i32,
    fault: &RecordFault,
) -> Vec<BatchIndexAndErrorMessage> {
    let RecordFault::Rules(breaches) = fault else {
        return Vec::new();
    };
    let tell = |breach: &Breach| {
        let text = match breach.rule {
            Rule::Key => format!("{breach} in topic partition {topic}-{partition}"),
            Rule::Timestamp { .. } | Rule::AppendTime => breach.to_string(),
        };
        BatchIndexAndErrorMessage {
            batch_index: breach.index,
            batch_index_error_message: Some(text),
        }
    };
    breaches.iter().map(tell).collect()
}

#[cfg(test)]
mod tests {
    use model::{BrokerId, LeaderEpoch, Offset};
    use partition::{Isolation, ReadRequest, Records, Replicas, Role, Scope};
    use wire::messages::produce_request::PartitionProduceData;

    use super::*;
    use crate::event_loop::bench::{Bench, batch, encoded};

    const TOPIC: &str = "t";

    fn produce(parts: Vec<Bytes>) -> Vec<u8> {
        let parts = parts.into_iter().zip(0..);
        let partition_data = parts.map(|(records, index)| PartitionProduceData {
            index,
            records: Some(records.into()),
        });
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 1000,
            topic_data: vec![wire::messages::produce_request::TopicProduceData {
                name: TOPIC.to_owned(),
                partition_data: partition_data.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        encoded(&request, 9)
    }

    /// Where `what` lies in the tail of a partition.
    fn place_in_memory(bench: &mut Bench, index: i32, what: &[u8]) -> usize {
        let read = bench.partition(TOPIC, index).read(ReadRequest {
            from: Offset::ZERO,
            bytes_max: usize::MAX,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: model::LeaderEpoch::NONE,
            scope: Scope::of_leader(Isolation::Uncommitted),
        });
        match read.expect("there is something").records {
            Records::Memory(batches) => {
                let body = batches[0].body();
                body.as_ptr() as usize + place(body, what)
            }
            _ => panic!("partition {index} is not in memory"),
        }
    }

    fn place(bytes: &[u8], what: &[u8]) -> usize {
        let at = bytes.windows(what.len()).position(|part| part == what);
        at.expect("it is there")
    }

    /// True if the batches of the first and the last partition are still neighbours in the frame they came in.
    fn share_their_frame(parts: Vec<Bytes>) -> bool {
        let mut bench = Bench::new();
        bench.create(TOPIC, parts.len() as i32);
        let last = parts.len() as i32 - 1;
        let request = produce(parts);
        bench.put(&request);
        bench.commit();
        let sent = place(&request, b"the last") - place(&request, b"the first");
        let first = place_in_memory(&mut bench, 0, b"the first");
        sent == place_in_memory(&mut bench, last, b"the last").wrapping_sub(first)
    }

    #[test]
    fn small_batches_leave_a_frame_of_which_most_is_refused() {
        let refused = Bytes::from(vec![7; 1 << 20]);
        assert!(!share_their_frame(vec![
            batch(b"the first"),
            refused,
            batch(b"the last"),
        ]));
    }

    #[test]
    fn batches_that_fill_their_frame_are_not_copied() {
        let large = |value: &[u8]| batch(&[value, &vec![7; 300 << 10]].concat());
        assert!(share_their_frame(vec![
            large(b"the first"),
            large(b"between"),
            large(b"the last"),
        ]));
    }

    /// The partition has a second replica, on a broker of the name 2.
    fn lead(bench: &mut Bench, epoch: i32, in_sync: &[i32]) {
        let role = Role::Leading(Replicas {
            me: BrokerId(1),
            all: vec![BrokerId(1), BrokerId(2)],
            in_sync: in_sync.iter().copied().map(BrokerId).collect(),
            partition_epoch: 1,
        });
        set_role(bench, epoch, role);
    }

    fn set_role(bench: &mut Bench, epoch: i32, role: Role) {
        let partition = bench.partition(TOPIC, 0);
        partition.set_role(LeaderEpoch(epoch), role, &mut bench.shard.desk.news);
        // Nothing is queued that a commit would bring.
        bench.tell();
    }

    /// Sends a record with this many acks.
    fn send(bench: &mut Bench, acks: i16) {
        let request = ProduceRequest {
            acks,
            timeout_ms: 1000,
            topic_data: vec![wire::messages::produce_request::TopicProduceData {
                name: TOPIC.to_owned(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(batch(b"value").into()),
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        bench.put(&encoded(&request, 9));
    }

    fn answer(bench: &mut Bench) -> Option<ErrorCode> {
        let response = bench.answer::<ProduceRequest>(9)?;
        let code = response.responses[0].partition_responses[0].error_code;
        Some(ErrorCode::try_from(code).expect("a known code"))
    }

    /// A topic that wants two replicas in sync.
    fn wanting_two() -> Bench {
        let mut bench = Bench::with(&[("min.insync.replicas", "2")]);
        bench.create(TOPIC, 1);
        bench.answer::<wire::messages::CreateTopicsRequest>(4);
        bench
    }

    #[test]
    fn a_partition_with_fewer_replicas_than_the_minimum_needs_those_it_has() {
        let mut bench = wanting_two();
        for acks in [-1, 1] {
            send(&mut bench, acks);
            assert_eq!(answer(&mut bench), None, "not before it is durable");
            bench.commit();
            assert_eq!(answer(&mut bench), Some(ErrorCode::None), "acks {acks}");
        }
    }

    #[test]
    fn too_few_replicas_in_sync_refuse_acks_of_all_and_no_others() {
        let mut bench = wanting_two();
        lead(&mut bench, 1, &[1]);
        send(&mut bench, -1);
        assert_eq!(answer(&mut bench), Some(ErrorCode::NotEnoughReplicas));
        send(&mut bench, 1);
        bench.commit();
        assert_eq!(answer(&mut bench), Some(ErrorCode::None));
        lead(&mut bench, 1, &[1, 2]);
        send(&mut bench, -1);
        bench.commit();
        assert_eq!(answer(&mut bench), None, "the follower does not have it");
        lead(&mut bench, 1, &[1]);
        let code = ErrorCode::NotEnoughReplicasAfterAppend;
        assert_eq!(answer(&mut bench), Some(code));

        send(&mut bench, 0);
        assert!(!bench.is_cut_off());
        assert_eq!(bench.partition(TOPIC, 0).bounds().log_end, Offset(3));
    }

    #[test]
    fn an_append_under_a_leader_that_is_gone_is_answered_so() {
        let mut bench = wanting_two();
        lead(&mut bench, 1, &[1, 2]);
        send(&mut bench, -1);
        bench.commit();
        assert_eq!(answer(&mut bench), None);
        set_role(&mut bench, 2, Role::NotLeading);
        assert_eq!(answer(&mut bench), Some(ErrorCode::NotLeaderOrFollower));
        for acks in [-1, 1] {
            send(&mut bench, acks);
            assert_eq!(answer(&mut bench), Some(ErrorCode::NotLeaderOrFollower));
        }
    }
}
